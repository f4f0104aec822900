"""The calls of the whole server, as data: databases, users, snapshots; and what a connection is made with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union
from urllib.parse import urlsplit

import grpc

from ..information import Damage
from ._calls import Call
from ._messages import new
from ._requests import DatabaseSettings, settings_message, settings_of
from ._values import as_bytes, point_of

if TYPE_CHECKING:
    from .._types import BytesLike

PORT = 7480

# A broken connection is noticed within a minute, and tried again at once, then at most every second. An attempt has the
# time of min_reconnect_backoff_ms, which has to suffice for TCP, TLS and the first words of HTTP/2: several round trips.
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
)

PathLike = Union[str, Path]


@dataclass(frozen=True)
class Tls:
    """How a connection is encrypted: files in PEM.

        connect("icecore://db.example:7480", tls=Tls(authority="ca.pem", certificate="me.pem", key="me.key"))
    """

    authority: PathLike | None = None  #: who signed the server's certificate; None: the system's authorities
    certificate: PathLike | None = None  #: the client's, if the server asks for one: its common name is the user
    key: PathLike | None = None  #: of the client's certificate


@dataclass(frozen=True)
class Permission:
    """What a role allows: rights to a range of keys of a database."""

    database: str  #: a name, or a prefix followed by "*"
    start: bytes | None = None
    stop: bytes | None = None
    read: bool = False
    write: bool = False
    administer: bool = False


@dataclass(frozen=True)
class User:
    name: str
    roles: list[str]
    may_log_in: bool  #: False: known by a certificate alone


@dataclass(frozen=True)
class ServerStatus:
    identity: str  #: 32 hexadecimal digits
    name: str
    version: str  #: of the program
    group: str  #: empty: the server is alone
    index: int
    size: int
    not_ready: dict[str, str]  #: databases that are not served, and why
    dependent: bool = False  #: any server of the group answers for all keys


@dataclass(frozen=True)
class SnapshotPart:
    """A database in a snapshot of the server."""

    database: str
    version: int
    bytes: int


@dataclass(frozen=True)
class VerifyResult:
    """What a check of a database found."""

    damages: list[Damage]
    damaged: int  #: places, those that are not listed, too
    records: int
    bytes: int

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return self.damaged == 0


def target_of(address: str) -> str:
    """``"icecore://host:port"``, or without the scheme or the port, as gRPC names it."""
    parts = urlsplit(address if "//" in address else f"icecore://{address}")
    if parts.scheme != "icecore" or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise ValueError(f"{address!r} is no address of a server: icecore://host:port")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or PORT}"


def credentials_of(tls: Tls | bool | None) -> Any:
    """Channel credentials; None: no encryption."""
    if tls is None or tls is False:
        return None
    files = Tls() if tls is True else tls
    if (files.certificate is None) != (files.key is None):
        raise ValueError("a client's certificate needs its key, and a key its certificate")

    def read(path: PathLike | None) -> bytes | None:
        return None if path is None else Path(path).read_bytes()

    return grpc.ssl_channel_credentials(read(files.authority), read(files.key), read(files.certificate))


def metadata_of(token: str | None, request_id: str | None) -> list[tuple[str, str]]:
    metadata = []
    if token:
        metadata.append(("authorization", f"Bearer {token}"))
    if request_id:
        metadata.append(("x-request-id", request_id))
    return metadata


def _done(response: Any) -> None:
    return None


class ServerCalls:
    """The calls of a server."""

    @staticmethod
    def status() -> Call[ServerStatus]:
        def read(r: Any) -> ServerStatus:
            sick = {one.database: one.why for one in r.not_ready}
            g = r.group
            return ServerStatus(r.identity, r.name, r.version, g.name, g.index, g.size, sick, g.dependent)

        return Call("Server.Status", new("StatusRequest"), read)

    @staticmethod
    def log_in(user: str, password: str) -> Call[str]:
        return Call("Users.LogIn", new("LogInRequest", user=user, password=password), lambda r: str(r.token))

    @staticmethod
    def log_out() -> Call[None]:
        return Call("Users.LogOut", new("LogOutRequest"), _done)

    # ---- Databases ----

    @staticmethod
    def create(settings: DatabaseSettings) -> Call[DatabaseSettings]:
        request = new("CreateDatabaseRequest", settings=settings_message(settings))
        return Call("Databases.Create", request, lambda r: settings_of(r.settings), repeatable=False)

    @staticmethod
    def copy(source: str, settings: DatabaseSettings, at: Any) -> Call[DatabaseSettings]:
        request = new("CopyDatabaseRequest", settings=settings_message(settings), at=point_of(at), **{"from": source})
        return Call("Databases.Copy", request, lambda r: settings_of(r.settings), repeatable=False)

    @staticmethod
    def drop(name: str) -> Call[None]:
        return Call("Databases.Drop", new("DropDatabaseRequest", database=name), _done, repeatable=False)

    @staticmethod
    def databases() -> Call[list[DatabaseSettings]]:
        return Call("Databases.List", new("ListDatabasesRequest"), lambda r: [settings_of(d) for d in r.databases])

    @staticmethod
    def snapshot(to: str) -> Call[list[SnapshotPart]]:
        def read(r: Any) -> list[SnapshotPart]:
            return [SnapshotPart(part.database, part.version, part.bytes) for part in r.parts]

        return Call("Server.Snapshot", new("SnapshotRequest", to=to), read, repeatable=False)

    @staticmethod
    def verify(name: str) -> Call[VerifyResult]:
        def read(r: Any) -> VerifyResult:
            found = [Damage(d.offset, d.structure, d.what, None, None, d.file) for d in r.damages]
            return VerifyResult(found, r.damaged, r.records, r.bytes)

        return Call("Server.Verify", new("VerifyRequest", database=name), read)

    # ---- Users ----

    @staticmethod
    def add_user(name: str, password: str | None) -> Call[None]:
        return Call("Users.AddUser", new("AddUserRequest", name=name, password=password), _done, repeatable=False)

    @staticmethod
    def remove_user(name: str) -> Call[None]:
        return Call("Users.RemoveUser", new("UserRequest", name=name), _done, repeatable=False)

    @staticmethod
    def set_password(name: str, password: str) -> Call[None]:
        return Call("Users.SetPassword", new("SetPasswordRequest", name=name, password=password), _done)

    @staticmethod
    def grant(user: str, role: str) -> Call[None]:
        return Call("Users.Grant", new("GrantRoleRequest", user=user, role=role), _done)

    @staticmethod
    def withdraw(user: str, role: str) -> Call[None]:
        return Call("Users.Withdraw", new("GrantRoleRequest", user=user, role=role), _done)

    @staticmethod
    def set_role(name: str, permissions: Iterable[Permission]) -> Call[None]:
        messages = [
            new(
                "Permission",
                database=p.database,
                keys=new("Bounds", **{"from": _optional(p.start)}, to=_optional(p.stop)),
                read=p.read,
                write=p.write,
                administer=p.administer,
            )
            for p in permissions
        ]
        return Call("Users.SetRole", new("Role", name=name, permissions=messages), _done)

    @staticmethod
    def remove_role(name: str) -> Call[None]:
        return Call("Users.RemoveRole", new("RoleRequest", name=name), _done, repeatable=False)

    @staticmethod
    def users() -> Call[list[User]]:
        def read(r: Any) -> list[User]:
            return [User(u.name, list(u.roles), u.may_log_in) for u in r.users]

        return Call("Users.List", new("ListUsersRequest"), read)

    @staticmethod
    def roles() -> Call[dict[str, list[Permission]]]:
        def read(r: Any) -> dict[str, list[Permission]]:
            return {role.name: [_permission(p) for p in role.permissions] for role in r.roles}

        return Call("Users.List", new("ListUsersRequest"), read)


def _optional(key: BytesLike | None) -> bytes | None:
    return None if key is None else as_bytes(key)


def _permission(p: Any) -> Permission:
    start = getattr(p.keys, "from") if p.keys.HasField("from") else None
    stop = p.keys.to if p.keys.HasField("to") else None
    return Permission(p.database, start, stop, p.read, p.write, p.administer)


