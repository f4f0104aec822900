"""The messages and methods of icecore.v1, made from the description that is in the package.

The description (``icecore_v1.binpb``) is what protoc makes of ``icecore.proto`` when the package is built. Classes are
made from it here rather than by generated code, which only some versions of the protobuf package accept.
"""

from __future__ import annotations

from importlib import resources
from typing import Any, NamedTuple

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError as e:  # pragma: no cover - depends on the installation
    raise ImportError("icecore.remote needs grpcio and protobuf: pip install 'icecore[remote]'") from e

_PACKAGE = "icecore.v1"


class Method(NamedTuple):
    """One RPC."""

    path: str
    request: Any
    response: Any
    streams_requests: bool
    streams_responses: bool


def _description() -> Any:
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(resources.files(__package__).joinpath("icecore_v1.binpb").read_bytes())
    except FileNotFoundError as e:
        raise ImportError(
            "this build of icecore is without icecore.remote: build it where protoc or grpcio-tools is installed"
        ) from e
    return files.file[0]


def _build() -> tuple[dict[str, Any], dict[str, Method]]:
    pool = descriptor_pool.DescriptorPool()
    file = _description()
    pool.Add(file)

    def message(name: str) -> Any:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    messages = {m.name: message(f"{_PACKAGE}.{m.name}") for m in file.message_type}
    methods = {}
    for service in file.service:
        for m in service.method:
            methods[f"{service.name}.{m.name}"] = Method(
                f"/{_PACKAGE}.{service.name}/{m.name}",
                message(m.input_type.lstrip(".")),
                message(m.output_type.lstrip(".")),
                m.client_streaming,
                m.server_streaming,
            )
    return messages, methods


MESSAGES, METHODS = _build()
"""Classes by the name of their message; methods by ``"Service.Method"``."""


def new(name: str, /, **fields: Any) -> Any:
    """A message. Fields that are None are left out."""
    return MESSAGES[name](**{field: value for field, value in fields.items() if value is not None})
