"""The calls of a database, as data: what each asks, how its answer is read, whether it may be repeated."""

from __future__ import annotations

import time as _time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import Error, NoSuchLeaseError
from ..information import Tag, Tags
from ..versions import nanoseconds
from ._calls import Call
from ._messages import new
from ._values import as_bytes, as_value, column_cells, point_of, tag_of
from .operations import Condition, Operation, Outcome, outcome_of

if TYPE_CHECKING:
    from datetime import datetime

    from .._types import BytesLike, VersionLike

RULES = ("", "write", "every", "tag")
DURABILITIES = ("", "best_available", "none", "tag", "operation")
INDEXES = ("", "btree", "skip_list", "persistent", "list", "hash")
COMPRESSIONS = ("", "none", "zstd")

LOAD_MESSAGE_BYTES = 4 << 20
"""Rows are loaded in requests of at most so many bytes, each of which can be repeated by itself."""
LOAD_HEAD_BYTES = 64
"""What a load request has beside its rows and its database's name, at most."""
LOAD_ROW_BYTES = 10
"""What a row of a load request has beside its key and value, at most: where each ends, in the message."""


@dataclass(frozen=True)
class DatabaseSettings:
    """What a database was made with. Empty or 0 where the server's default is meant."""

    name: str
    owner: str = ""
    rule: str = ""  #: "write" (each transaction is a version), "every" (a timer closes versions) or "tag"
    interval_ms: int = 0  #: of the rule "every"
    durability: str = ""  #: "operation", "tag", "none" or "best_available"
    index: str = ""
    compression: str = ""  #: of values: "none" or "zstd"
    quota_bytes: int = 0  #: 0: none


@dataclass(frozen=True)
class DatabaseStatus:
    """A database as it is now."""

    settings: DatabaseSettings
    newest: int  #: what a read of the present shows at least
    durable: int  #: the newest version that a power cut would keep
    compacted: int  #: older versions are given up
    keys: int
    records: int
    tags: int
    used_bytes: int
    file_bytes: int
    leases: int
    watches: int
    waiting: int  #: transactions that wait
    medium: str
    sick: str  #: why it is not served, or only read; empty: all is well


@dataclass(frozen=True)
class Lease:
    """Keys that were put with a lease end with it, unless it is kept alive."""

    number: int
    granted: float  #: seconds
    left: float  #: seconds
    keys: list[bytes]  #: if they were asked for


def _number(names: Sequence[str], name: str, what: str) -> int:
    if name not in names:
        raise ValueError(f"{what} {name!r} is not one of {', '.join(names[1:])}")
    return names.index(name)


def settings_message(settings: DatabaseSettings) -> Any:
    return new(
        "DatabaseSettings",
        name=settings.name,
        owner=settings.owner,
        rule=_number(RULES, settings.rule, "rule"),
        interval_ms=settings.interval_ms,
        durability=_number(DURABILITIES, settings.durability, "durability"),
        index=_number(INDEXES, settings.index, "index"),
        compression=_number(COMPRESSIONS, settings.compression, "compression"),
        quota_bytes=settings.quota_bytes,
    )


def settings_of(message: Any) -> DatabaseSettings:
    return DatabaseSettings(
        message.name,
        message.owner,
        RULES[message.rule],
        message.interval_ms,
        DURABILITIES[message.durability],
        INDEXES[message.index],
        COMPRESSIONS[message.compression],
        message.quota_bytes,
    )


def _lease_of(message: Any) -> Lease:
    return Lease(message.number, message.granted_ms / 1000, message.left_ms / 1000, list(message.keys))


def _milliseconds(seconds: float, what: str) -> int:
    if seconds < 0:
        raise ValueError(f"{what} must not be negative, but is {seconds:g} seconds")
    return round(seconds * 1000)


class DatabaseCalls:
    """The calls of one database."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    # ---- Keys ----

    def find(self, key: BytesLike, at: Any) -> Call[bytes | None]:
        request = new("GetRequest", database=self.name, key=as_bytes(key), at=at)
        return Call("Store.Get", request, lambda r: r.value if r.found else None)

    def find_many(self, keys: Iterable[BytesLike], at: Any, default: Any) -> Call[list[Any]]:
        request = new("GetManyRequest", database=self.name, keys=[as_bytes(key) for key in keys], at=at)
        return Call("Store.GetMany", request, lambda r: [v.value if v.found else default for v in r.values])

    def put(self, key: BytesLike, value: BytesLike, lease: int) -> Call[int]:
        request = new("PutRequest", database=self.name, key=as_bytes(key), value=as_value(value), lease=lease)
        return Call("Store.Put", request, lambda r: int(r.version))

    def insert_new(self, key: BytesLike, value: BytesLike, lease: int) -> Call[int | None]:
        request = new("PutRequest", database=self.name, key=as_bytes(key), value=as_value(value), lease=lease, only_new=True)
        return Call("Store.Put", request, lambda r: int(r.version) if r.written else None, repeatable=False)

    def remove(self, key: BytesLike) -> Call[int | None]:
        request = new("RemoveRequest", database=self.name, key=as_bytes(key))
        return Call("Store.Remove", request, lambda r: int(r.version) if r.removed else None)

    def remove_range(self, start: BytesLike, stop: BytesLike | None) -> Call[int]:
        end = b"" if stop is None else as_bytes(stop)
        request = new("RemoveRequest", database=self.name, key=as_bytes(start), end=end)
        return Call("Store.Remove", request, lambda r: int(r.removed))

    def transaction(
        self, conditions: Iterable[Condition], then: Iterable[Operation], otherwise: Iterable[Operation]
    ) -> Call[Outcome]:
        then, otherwise, conditions = list(then), list(otherwise), list(conditions)
        request = new(
            "WriteRequest",
            database=self.name,
            conditions=[c._message for c in conditions],
            then=[o._message for o in then],
            otherwise=[o._message for o in otherwise],
        )
        # With conditions, what an earlier attempt wrote could change what this one finds.
        repeatable = not conditions and all(o._repeatable for o in then)
        return Call("Store.Write", request, outcome_of, repeatable=repeatable)

    def count(self, bounds: Any, at: Any) -> Call[int]:
        request = new("CountRequest", database=self.name, bounds=bounds, at=at)
        return Call("Store.Count", request, lambda r: int(r.count))

    # ---- Versions ----

    def resolve(self, at: Any) -> Call[int]:
        return Call("Versions.Resolve", new("ResolveRequest", database=self.name, at=at), lambda r: int(r.version))

    def tag(self, name: str | None, note: str, time: datetime | int | None) -> Call[int]:
        # The client chooses the time, so that a repeated call knows its own tag again.
        time_ns = _time.time_ns() if time is None and name else None if time is None else nanoseconds(time)
        request = new("TagRequest", database=self.name, name=name or "", note=note, time_ns=time_ns)
        return Call("Versions.Tag", request, lambda r: int(r.version), repeatable=bool(name))

    @staticmethod
    def is_own_tag(request: Any, found: Tag | None) -> bool:
        """Whether a tag that is there is what this request made."""
        return found is not None and (found.name, found.note, found.time_ns) == (
            request.name,
            request.note,
            request.time_ns,
        )

    def tags(self) -> Call[Tags]:
        request = new("ListTagsRequest", database=self.name)
        return Call("Versions.List", request, lambda r: Tags(tag_of(t) for t in r.tags))

    def find_tag(self, at: VersionLike) -> Call[Tag | None]:
        request = new("FindTagRequest", database=self.name, at=point_of(at))
        return Call("Versions.Find", request, lambda r: tag_of(r.tag) if r.HasField("tag") else None)

    def sync(self) -> Call[None]:
        return Call("Versions.Sync", new("SyncRequest", database=self.name), lambda r: None)

    def compact(self, oldest_kept: int) -> Call[None]:
        request = new("CompactRequest", database=self.name, oldest_kept=oldest_kept)
        return Call("Versions.Compact", request, lambda r: None)

    # ---- Leases ----

    def grant(self, seconds: float, number: int) -> Call[Lease]:
        request = new("GrantRequest", database=self.name, time_ms=_milliseconds(seconds, "a lease"), number=number)
        return Call("Leases.Grant", request, _lease_of, repeatable=False)

    def lease(self, number: int, keys: bool) -> Call[Lease]:
        return Call("Leases.Get", new("LeaseRequest", database=self.name, number=number, keys=keys), _lease_of)

    def revoke(self, number: int) -> Call[int]:
        def settles(error: Error) -> int | None:
            return 0 if isinstance(error, NoSuchLeaseError) else None

        request = new("LeaseRequest", database=self.name, number=number)
        return Call("Leases.Revoke", request, lambda r: int(r.removed), settles=settles)

    def leases(self) -> Call[list[int]]:
        return Call("Leases.List", new("ListLeasesRequest", database=self.name), lambda r: list(r.numbers))

    def lease_request(self, number: int) -> Any:
        return new("LeaseRequest", database=self.name, number=number)

    # ---- The database ----

    def describe(self) -> Call[DatabaseStatus]:
        def read(r: Any) -> DatabaseStatus:
            names = [f for f in DatabaseStatus.__dataclass_fields__ if f != "settings"]
            return DatabaseStatus(settings_of(r.settings), **{name: getattr(r, name) for name in names})

        return Call("Databases.Describe", new("DescribeDatabaseRequest", database=self.name), read)

    def alter(
        self, rule: str | None, interval_ms: int | None, quota_bytes: int | None, owner: str | None
    ) -> Call[DatabaseSettings]:
        request = new(
            "AlterDatabaseRequest",
            database=self.name,
            rule=None if rule is None else _number(RULES, rule, "rule"),
            interval_ms=interval_ms,
            quota_bytes=quota_bytes,
            owner=owner,
        )
        return Call("Databases.Alter", request, lambda r: settings_of(r.settings))

    def load_requests(self, keys: Any, values: Any, keep: bool, message_bytes: int) -> Iterator[Any]:
        """``LoadRequest``s of two columns, or, if ``values`` is None, of pairs or a mapping. No request is longer than
        ``message_bytes``, unless one row is."""
        if message_bytes < 1:
            raise ValueError(f"message_bytes is {message_bytes}: it must be at least 1")
        if values is not None:
            key_cells, value_cells = column_cells(keys, "keys"), column_cells(values, "values")
            if len(key_cells) != len(value_cells):
                raise ValueError(f"{len(key_cells)} keys need as many values, not {len(value_cells)}")
            pairs: Iterable[tuple[bytes, bytes]] = zip(key_cells, value_cells)
        else:
            given = keys.items() if hasattr(keys, "items") else keys
            pairs = ((as_bytes(key), as_value(value)) for key, value in given)
        key_parts: list[bytes] = []
        value_parts: list[bytes] = []
        size = LOAD_HEAD_BYTES + len(self.name)
        for key, value in pairs:
            row = len(key) + len(value) + LOAD_ROW_BYTES
            if key_parts and size + row > message_bytes:
                yield self._load_request(key_parts, value_parts, keep)
                key_parts, value_parts, size = [], [], LOAD_HEAD_BYTES + len(self.name)
            key_parts.append(key)
            value_parts.append(value)
            size += row
        if key_parts:
            yield self._load_request(key_parts, value_parts, keep)

    def _load_request(self, keys: list[bytes], values: list[bytes], keep: bool) -> Any:
        rows = new("Rows", keys=_column(keys), values=_column(values))
        return new("LoadRequest", database=self.name, keep=keep, rows=rows)


def _column(parts: list[bytes]) -> Any:
    ends = []
    end = 0
    for part in parts:
        end += len(part)
        ends.append(end)
    return new("ByteColumn", bytes=b"".join(parts), ends=ends)

