"""icecore.remote: stores of an icecore-server, from another process or machine.

    import icecore.remote

    with icecore.remote.connect("icecore://localhost:7480") as server:
        store = server.create("weights", rule="write")
        store[b"layer1/bias"] = b"0.5"
        store.tag("epoch-1")
        store[b"layer1/bias"] = b"0.7"
        store.at(tag="epoch-1")[b"layer1/bias"]     # b"0.5", and it always will be

``connect_group`` makes one client of several independent servers (``icecore.remote.group``).
``icecore.remote.aio`` has the same for asyncio. They need grpcio and protobuf: ``pip install
'icecore[remote]'``. Errors are those of ``icecore``.
"""

from ._requests import DatabaseSettings, DatabaseStatus, Lease
from ._server_calls import Permission, ServerStatus, SnapshotPart, Tls, User, VerifyResult
from ._batch import Batch
from ._streams import KeyChange, VersionChanges
from .client import Client, connect
from ._group import ServerChanges, owner_of
from .group import GroupClient, GroupSnapshot, GroupStore, connect_group
from .operations import (
    Condition,
    Operation,
    Outcome,
    Result,
    Row,
    absent,
    append,
    get,
    get_range,
    increment,
    present,
    put,
    remove,
    remove_range,
    update,
    value_above,
    value_below,
    value_is,
    value_is_not,
    version_above,
    version_below,
    version_is,
    version_is_not,
)
from .store import Snapshot, Store

__all__ = [
    "Batch",
    "Client",
    "Condition",
    "DatabaseSettings",
    "DatabaseStatus",
    "GroupClient",
    "GroupSnapshot",
    "GroupStore",
    "KeyChange",
    "Lease",
    "Operation",
    "Outcome",
    "Permission",
    "Result",
    "Row",
    "ServerChanges",
    "ServerStatus",
    "Snapshot",
    "SnapshotPart",
    "Store",
    "Tls",
    "User",
    "VerifyResult",
    "VersionChanges",
    "absent",
    "append",
    "connect",
    "connect_group",
    "get",
    "get_range",
    "increment",
    "owner_of",
    "present",
    "put",
    "remove",
    "remove_range",
    "update",
    "value_above",
    "value_below",
    "value_is",
    "value_is_not",
    "version_above",
    "version_below",
    "version_is",
    "version_is_not",
]
