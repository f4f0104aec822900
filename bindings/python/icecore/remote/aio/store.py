"""A database of a server, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .. import store as blocking
from ..._types import Change, Difference
from ...errors import TagExistsError
from ...information import Tag, Tags
from ...metrics import note_with
from ...versions import HasVersion, number_of, require_one
from .._awaiting import Connection
from .._batch import Batch
from .._leases import kept_awaiting
from .._requests import LOAD_MESSAGE_BYTES, DatabaseCalls, DatabaseSettings, DatabaseStatus, Lease
from .._streams import NO_LIMIT, ChangesStream, DiffStream, HistoryStream, KeyChange, Scan, VersionChanges, WatchStream
from .._values import Bounds, as_bytes, point_of
from ..operations import Condition, Operation, Outcome, Result, append, increment, put, update, version_is
from ..store import checked
from ._documented import documented_as

if TYPE_CHECKING:
    from ..._types import BytesLike, VersionLike

_KEY, _VALUE, _BOTH = 0, 1, 2


class _Reader:
    """What stores and snapshots read."""

    __slots__ = ("_calls", "_connection", "_point")

    def __init__(self, connection: Connection, calls: DatabaseCalls, point: Any) -> None:
        self._connection = connection
        self._calls = calls
        self._point = point

    @property
    def name(self) -> str:
        """The database's name at the server."""
        return self._calls.name

    async def find(self, key: BytesLike, *, timeout: float | None = None) -> bytes | None:
        """The value, or None."""
        found: bytes | None = await self._connection.call(self._calls.find(key, self._point), timeout)
        return found

    async def get(self, key: BytesLike, default: Any = None, *, timeout: float | None = None) -> Any:
        """The value, or ``default``."""
        found = await self.find(key, timeout=timeout)
        return default if found is None else found

    async def find_many(self, keys: Iterable[BytesLike], *, default: Any = None, timeout: float | None = None) -> list[Any]:
        """The values of many keys, at most 65,536, all of one version; ``default`` for those that are not there."""
        return await self._connection.call(self._calls.find_many(keys, self._point, default), timeout)

    async def count(
        self, start: BytesLike | None = None, stop: BytesLike | None = None, prefix: BytesLike | None = None
    ) -> int:
        """The number of keys. O(keys), at the server."""
        return await self._connection.call(self._calls.count(Bounds(start, stop, prefix).message(), self._point))

    def keys(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[bytes]:
        """The keys from ``start`` to before ``stop`` that begin with ``prefix``, at most ``limit`` of them, in order or
        in reverse: of one version."""
        return self._run(_KEY, Bounds(start, stop, prefix), reverse, limit)

    def values(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[bytes]:
        """The values of ``keys(...)``, in the same order."""
        return self._run(_VALUE, Bounds(start, stop, prefix), reverse, limit)

    def items(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """The (key, value) pairs of ``keys(...)``, in the same order."""
        return self._run(_BOTH, Bounds(start, stop, prefix), reverse, limit)

    def history(self, key: BytesLike) -> AsyncIterator[Change]:
        """The key's records, newest first; the value of a removal is None."""
        return self._connection.stream(HistoryStream(self._calls.name, as_bytes(key), self._point))

    def _run(self, part: int, bounds: Bounds, reverse: bool, limit: int | None) -> AsyncIterator[Any]:
        most = NO_LIMIT if limit is None else limit
        return self._connection.stream(Scan(self._calls.name, part, bounds, self._point, reverse, most))


@documented_as(blocking.Snapshot)
class Snapshot(_Reader, HasVersion):
    """One version of a database; it never changes."""

    __slots__ = ("_version",)

    def __init__(self, connection: Connection, calls: DatabaseCalls, version: int) -> None:
        super().__init__(connection, calls, point_of(version))
        self._version = version

    @property
    def version(self) -> int:
        """The version's number."""
        return self._version

    def __repr__(self) -> str:
        return f"<icecore.remote.aio.Snapshot version {self.version} of {self.name!r}>"


@documented_as(blocking.Store)
class Store(_Reader):
    """A database. ``icecore.remote.Store`` says what each function does."""

    __slots__ = ()

    def __init__(self, connection: Connection, name: str) -> None:
        super().__init__(connection, DatabaseCalls(name), None)

    # ---- Reading -----------------------------------------------------------------------------------------------------

    async def find(
        self, key: BytesLike, at: VersionLike | None = None, *, timeout: float | None = None
    ) -> bytes | None:
        found: bytes | None = await self._connection.call(self._calls.find(key, point_of(at)), timeout)
        return found

    async def get(
        self, key: BytesLike, default: Any = None, *, at: VersionLike | None = None, timeout: float | None = None
    ) -> Any:
        found = await self.find(key, at, timeout=timeout)
        return default if found is None else found

    async def find_many(
        self,
        keys: Iterable[BytesLike],
        *,
        at: VersionLike | None = None,
        default: Any = None,
        timeout: float | None = None,
    ) -> list[Any]:
        return await self._connection.call(self._calls.find_many(keys, point_of(at), default), timeout)

    # ---- Writing -----------------------------------------------------------------------------------------------------

    async def put(self, key: BytesLike, value: BytesLike, *, lease: int = 0, timeout: float | None = None) -> int:
        return await self._connection.call(self._calls.put(key, value, lease), timeout)

    async def insert_new(
        self, key: BytesLike, value: BytesLike, *, lease: int = 0, timeout: float | None = None
    ) -> int | None:
        return await self._connection.call(self._calls.insert_new(key, value, lease), timeout)

    async def replace(
        self, key: BytesLike, value: BytesLike, expected_version: int, *, timeout: float | None = None
    ) -> int | None:
        outcome = await self.transaction([version_is(key, expected_version)], [put(key, value)], timeout=timeout)
        return outcome.version if outcome.succeeded else None

    async def remove(self, key: BytesLike, *, timeout: float | None = None) -> int | None:
        return await self._connection.call(self._calls.remove(key), timeout)

    async def remove_range(
        self, start: BytesLike, stop: BytesLike | None = None, *, timeout: float | None = None
    ) -> int:
        return await self._connection.call(self._calls.remove_range(start, stop), timeout)

    async def append(self, key: BytesLike, part: BytesLike, *, timeout: float | None = None) -> int:
        return (await self._one(append(key, part), timeout)).size

    async def update_part(
        self,
        key: BytesLike,
        offset: int,
        part: BytesLike,
        *,
        rule: str = "in_place",
        or_put: bool = False,
        timeout: float | None = None,
    ) -> int:
        result = await self._one(update(key, offset, part, rule=rule, or_put=or_put), timeout)
        return checked(result, key).size

    async def increment(self, key: BytesLike, by: int = 1, *, timeout: float | None = None) -> int:
        return checked(await self._one(increment(key, by), timeout), key).number

    async def transaction(
        self,
        conditions: Iterable[Condition] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        timeout: float | None = None,
    ) -> Outcome:
        return await self._connection.call(self._calls.transaction(conditions, then, otherwise), timeout)

    @asynccontextmanager
    async def batch(self, *, timeout: float | None = None) -> AsyncIterator[Batch]:
        collected = Batch()
        yield collected
        if len(collected) > 0:
            operations = collected._operations.values()
            collected._outcome = await self.transaction(collected._conditions, operations, timeout=timeout)

    async def load(
        self,
        keys: Any,
        values: Any = None,
        *,
        keep: bool = False,
        message_bytes: int = LOAD_MESSAGE_BYTES,
        timeout: float | None = None,
    ) -> int:
        written = 0
        for request in self._calls.load_requests(keys, values, keep, message_bytes):
            written += (await self._connection.exchange("Store.Load", request, timeout)).written
        return written

    async def _one(self, operation: Operation, timeout: float | None) -> Result:
        return (await self.transaction((), [operation], timeout=timeout)).results[0]

    # ---- Versions ----------------------------------------------------------------------------------------------------

    async def tag(
        self,
        name: str | None = None,
        note: str = "",
        time: datetime | int | None = None,
        *,
        metrics: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> int:
        call = self._calls.tag(name, note_with(note, metrics), time)
        try:
            return await self._connection.call(call, timeout)
        except TagExistsError:
            found = await self.find_tag(name) if name else None
            if found is not None and self._calls.is_own_tag(call.request, found):
                return found.version  # an attempt whose answer was lost has made it
            raise

    async def tags(self, *, timeout: float | None = None) -> Tags:
        return await self._connection.call(self._calls.tags(), timeout)

    async def find_tag(self, at: VersionLike, *, timeout: float | None = None) -> Tag | None:
        return await self._connection.call(self._calls.find_tag(at), timeout)

    async def latest(self, *, timeout: float | None = None) -> Snapshot:
        return await self._at(None, timeout)

    async def at(
        self,
        version: VersionLike | None = None,
        /,
        *,
        tag: str | None = None,
        time: datetime | int | None = None,
        timeout: float | None = None,
    ) -> Snapshot:
        require_one(version, tag, time)
        return await self._at(point_of(version, tag, time), timeout)

    async def _at(self, point: Any, timeout: float | None) -> Snapshot:
        version = await self._connection.call(self._calls.resolve(point), timeout)
        return Snapshot(self._connection, self._calls, version)

    async def diff(
        self,
        before: Any,
        after: Any = None,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
    ) -> AsyncIterator[Difference]:
        bounds = Bounds(start, stop, prefix)
        stream = DiffStream(self._calls.name, await self._number(before), point_of(after), bounds)
        async for one in self._connection.stream(stream):
            yield one

    async def changes(
        self,
        after: Any,
        up_to: Any = None,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        *,
        before: bool = False,
    ) -> AsyncIterator[KeyChange]:
        bounds = Bounds(start, stop, prefix)
        stream = ChangesStream(self._calls.name, await self._number(after), point_of(up_to), bounds, before)
        async for one in self._connection.stream(stream):
            yield one

    async def watch(
        self,
        after: Any = None,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        *,
        before: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[VersionChanges]:
        """Without ``after`` it begins when it is first awaited: give ``(await store.latest()).version`` to begin now."""
        version = (await self.latest()).version if after is None else await self._number(after)
        stream = WatchStream(self._calls.name, version, Bounds(start, stop, prefix), before)
        async for one in self._connection.stream(stream, timeout):
            yield one

    async def compact(self, oldest_kept: Any, *, timeout: float | None = None) -> None:
        await self._connection.call(self._calls.compact(await self._number(oldest_kept)), timeout)

    async def sync(self, *, timeout: float | None = None) -> None:
        await self._connection.call(self._calls.sync(), timeout)

    async def _number(self, version: Any) -> int:
        return (await self.at(version)).version if isinstance(version, (str, datetime)) else number_of(version)

    # ---- Leases ------------------------------------------------------------------------------------------------------

    def lease(self, seconds: float, *, timeout: float | None = None) -> AbstractAsyncContextManager[int]:
        return kept_awaiting(self, seconds, timeout)

    async def grant(self, seconds: float, *, number: int = 0, timeout: float | None = None) -> Lease:
        return await self._connection.call(self._calls.grant(seconds, number), timeout)

    async def keep_alive(self, number: int, *, timeout: float | None = None) -> float:
        kept = await self._connection.exchange("Leases.KeepAlive", self._calls.lease_request(number), timeout)
        return float(kept.left_ms) / 1000

    async def revoke(self, number: int, *, timeout: float | None = None) -> int:
        return await self._connection.call(self._calls.revoke(number), timeout)

    async def lease_info(self, number: int, *, keys: bool = True, timeout: float | None = None) -> Lease:
        return await self._connection.call(self._calls.lease(number, keys), timeout)

    async def leases(self, *, timeout: float | None = None) -> list[int]:
        return await self._connection.call(self._calls.leases(), timeout)

    # ---- The database itself -----------------------------------------------------------------------------------------

    async def status(self, *, timeout: float | None = None) -> DatabaseStatus:
        return await self._connection.call(self._calls.describe(), timeout)

    async def alter(
        self,
        *,
        rule: str | None = None,
        interval_ms: int | None = None,
        quota_bytes: int | None = None,
        owner: str | None = None,
        timeout: float | None = None,
    ) -> DatabaseSettings:
        return await self._connection.call(self._calls.alter(rule, interval_ms, quota_bytes, owner), timeout)

    def __repr__(self) -> str:
        return f"<icecore.remote.aio.Store {self.name!r} at {self._connection.address}>"
