"""Several independent servers as one, awaited: ``icecore.remote.group`` says what each function does.

    from icecore.remote import aio

    async with await aio.connect_group(["icecore://a:7480", "icecore://b:7480"]) as group:
        store = await group.create("weights", rule="tag")
        await store.put(b"layer1/bias", b"0.5")
        await store.tag("epoch-1")
        async for key, value in (await store.at(tag="epoch-1")).items():        # of all servers, in key order
            ...

What all servers are asked, they are asked at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .. import group as blocking
from ..._types import Change, Difference
from ...errors import Error
from ...versions import require_one, tag_name
from .._group import ServerChanges, owner_of, places_of, require_member, version_of_each
from .._leases import any_number, kept_awaiting
from .._requests import Lease
from .._server_calls import SnapshotPart, Tls
from .._streams import KeyChange, VersionChanges
from .._values import as_bytes
from ._documented import documented_as
from .client import Client, connect
from .store import Snapshot, Store

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Self

    from ..._types import BytesLike

T = TypeVar("T")
Part = TypeVar("Part")


async def _all(parts: Iterable[Part], ask: Callable[[Part], Awaitable[T]]) -> list[T]:
    """The answers of all, whatever one of them answers; then raises the first failure."""
    answers = await asyncio.gather(*(ask(part) for part in parts), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return cast("list[T]", answers)


async def _next(stream: AsyncIterator[T]) -> T | None:
    async for one in stream:
        return one
    return None


async def _merged(
    streams: Sequence[AsyncIterator[T]], order: Callable[[T], Any], reverse: bool = False
) -> AsyncGenerator[T, None]:
    """What ordered streams tell, in their order."""
    first = max if reverse else min
    try:
        heads = await _all(streams, _next)
        while True:
            there = [(place, head) for place, head in enumerate(heads) if head is not None]
            if not there:
                return
            place, head = first(there, key=lambda pair: order(pair[1]))
            yield head
            heads[place] = await _next(streams[place])
    finally:
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]


class _Reader:
    """What stores and snapshots of a group read."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = list(parts)

    def _of(self, key: BytesLike) -> Any:
        return self._parts[owner_of(key, len(self._parts))]

    async def find(self, key: BytesLike, *, timeout: float | None = None) -> bytes | None:
        """The value, or None."""
        found: bytes | None = await self._of(key).find(key, timeout=timeout)
        return found

    async def get(self, key: BytesLike, default: Any = None, *, timeout: float | None = None) -> Any:
        """The value, or ``default``."""
        return await self._of(key).get(key, default, timeout=timeout)

    async def find_many(self, keys: Iterable[BytesLike], *, default: Any = None, timeout: float | None = None) -> list[Any]:
        """The values of many keys; ``default`` for those that are not there."""
        wanted = [as_bytes(key) for key in keys]
        asked = [(part, mine) for part, mine in zip(self._parts, places_of(wanted, len(self._parts))) if mine]
        answers = await _all(
            asked, lambda one: one[0].find_many([wanted[i] for i in one[1]], default=default, timeout=timeout)
        )
        found = [default] * len(wanted)
        for (_, mine), values in zip(asked, answers):
            for place, value in zip(mine, values):
                found[place] = value
        return found

    async def count(
        self, start: BytesLike | None = None, stop: BytesLike | None = None, prefix: BytesLike | None = None
    ) -> int:
        """The number of keys. O(keys), at the servers."""
        return sum(await _all(self._parts, lambda part: part.count(start, stop, prefix)))

    async def keys(self, **bounds: Any) -> AsyncGenerator[bytes, None]:
        """In key order, or ``reverse``; ``start``, ``stop``, ``prefix`` and ``limit`` as those of ``Store.keys``."""
        async with aclosing(self.items(**bounds)) as rows:
            async for key, _ in rows:
                yield key

    async def values(self, **bounds: Any) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.items(**bounds)) as rows:
            async for _, value in rows:
                yield value

    async def items(self, **bounds: Any) -> AsyncGenerator[tuple[bytes, bytes], None]:
        left = bounds.get("limit")
        if left is not None and left <= 0:
            return
        streams = [part.items(**bounds) for part in self._parts]
        async with aclosing(_merged(streams, lambda row: row[0], bool(bounds.get("reverse", False)))) as rows:
            async for row in rows:
                yield row
                if left is not None:
                    left -= 1
                    if left == 0:
                        return

    def history(self, key: BytesLike) -> AsyncIterator[Change]:
        """The key's records, newest first, with the versions of its server."""
        records: AsyncIterator[Change] = self._of(key).history(key)
        return records


@documented_as(blocking.GroupSnapshot)
class GroupSnapshot(_Reader):
    """A version of each server. ``store.at(...)`` makes it."""

    __slots__ = ("versions",)

    def __init__(self, parts: Sequence[Snapshot]) -> None:
        super().__init__(parts)
        self.versions = [part.version for part in parts]

    def __repr__(self) -> str:
        return f"<icecore.remote.aio.GroupSnapshot versions {self.versions}>"


@documented_as(blocking.GroupStore)
class GroupStore(_Reader):
    """A database of all servers. What concerns one key is as in ``icecore.remote.aio.Store``."""

    __slots__ = ("name",)

    def __init__(self, parts: Sequence[Store], name: str) -> None:
        super().__init__(parts)
        self.name = name

    # ---- Reading: the present, or a version of each server, named as for at() ------------------------------------------

    async def find(self, key: BytesLike, at: Any = None, *, timeout: float | None = None) -> bytes | None:
        version = None if at is None else version_of_each(at, len(self._parts))[owner_of(key, len(self._parts))]
        return await self.server(key).find(key, version, timeout=timeout)

    async def get(
        self, key: BytesLike, default: Any = None, *, at: Any = None, timeout: float | None = None
    ) -> Any:
        found = await self.find(key, at, timeout=timeout)
        return default if found is None else found

    async def find_many(
        self, keys: Iterable[BytesLike], *, at: Any = None, default: Any = None, timeout: float | None = None
    ) -> list[Any]:
        if at is None:
            return await super().find_many(keys, default=default, timeout=timeout)
        return await (await self.at(at, timeout=timeout)).find_many(keys, default=default, timeout=timeout)

    # ---- Writing: one key, at its server -----------------------------------------------------------------------------

    def server(self, key: BytesLike) -> Store:
        """The store that has the key: for transactions, appends and the like, whose keys all have this server."""
        store: Store = self._of(key)
        return store

    async def put(self, key: BytesLike, value: BytesLike, *, lease: int = 0, timeout: float | None = None) -> int:
        return await self.server(key).put(key, value, lease=lease, timeout=timeout)

    async def insert_new(
        self, key: BytesLike, value: BytesLike, *, lease: int = 0, timeout: float | None = None
    ) -> int | None:
        return await self.server(key).insert_new(key, value, lease=lease, timeout=timeout)

    async def remove(self, key: BytesLike, *, timeout: float | None = None) -> int | None:
        return await self.server(key).remove(key, timeout=timeout)

    async def increment(self, key: BytesLike, by: int = 1, *, timeout: float | None = None) -> int:
        return await self.server(key).increment(key, by, timeout=timeout)

    # ---- Versions ----------------------------------------------------------------------------------------------------

    async def tag(
        self,
        name: str | None = None,
        note: str = "",
        *,
        metrics: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> list[int]:
        """Closes the open version of each server; returns their numbers."""
        return await _all(self._parts, lambda part: part.tag(name, note, metrics=metrics, timeout=timeout))

    async def latest(self, *, timeout: float | None = None) -> GroupSnapshot:
        """The present of each server: it holds everything that was acknowledged before the call."""
        return GroupSnapshot(await _all(self._parts, lambda part: part.latest(timeout=timeout)))

    async def at(
        self,
        versions: Any = None,
        /,
        *,
        tag: str | None = None,
        time: datetime | int | None = None,
        timeout: float | None = None,
    ) -> GroupSnapshot:
        """The snapshot of a version of each server: that of a tag that all servers have, of a time, of a GroupSnapshot, or
        of a list with a version of each. ``diff``, ``changes``, ``watch``, ``compact`` and all parameters called ``at``
        take the same."""
        require_one(versions, tag, time)
        if time is not None:
            return GroupSnapshot(await _all(self._parts, lambda part: part.at(time=time, timeout=timeout)))
        named = version_of_each(tag_name(tag) if versions is None else versions, len(self._parts))
        parts = zip(self._parts, named)
        return GroupSnapshot(await _all(parts, lambda one: one[0].at(one[1], timeout=timeout)))

    def diff(self, before: Any, after: Any = None, **bounds: Any) -> AsyncGenerator[Difference, None]:
        """What differs between two snapshots (``after``: by default the present), in key order."""
        return self._between(before, after, lambda part, a, b: part.diff(a, b, **bounds), lambda row: row.key)

    def changes(self, after: Any, up_to: Any = None, **bounds: Any) -> AsyncGenerator[KeyChange, None]:
        """All that was written between two snapshots, by number of version, then by key: the changes of one key are in
        their order."""
        return self._between(
            after, up_to, lambda part, a, b: part.changes(a, b, **bounds), lambda row: (row.version, row.key)
        )

    def watch(self, after: Any = None, **bounds: Any) -> AsyncGenerator[ServerChanges, None]:
        """What is written behind ``after``, as it comes: of each server one version at a time, with all its changes, each
        once, in order. Without ``after`` it begins when it is first awaited.

            async for server, version, changes in store.watch(after=versions):
                apply(changes); versions[server] = version

        It ends with the task that reads it, or with ``aclose()``."""
        return self._watch(None if after is None else version_of_each(after, len(self._parts)), bounds)

    async def compact(self, oldest_kept: Any, *, timeout: float | None = None) -> None:
        """Gives up the versions before this snapshot."""
        parts = zip(self._parts, version_of_each(oldest_kept, len(self._parts)))
        await _all(parts, lambda one: one[0].compact(one[1], timeout=timeout))

    async def sync(self, *, timeout: float | None = None) -> None:
        """Returns when everything that was acknowledged is durable at all servers."""
        await _all(self._parts, lambda part: part.sync(timeout=timeout))

    def _between(
        self, before: Any, after: Any, ask: Callable[[Store, int, int], AsyncIterator[T]], order: Callable[[T], Any]
    ) -> AsyncGenerator[T, None]:
        count = len(self._parts)
        first = version_of_each(before, count)
        last = None if after is None else version_of_each(after, count)
        return self._merged_between(first, last, ask, order)

    async def _merged_between(
        self,
        first: list[int],
        last: list[int] | None,
        ask: Callable[[Store, int, int], AsyncIterator[T]],
        order: Callable[[T], Any],
    ) -> AsyncGenerator[T, None]:
        if last is None:
            last = (await self.latest()).versions
        streams = [ask(part, a, b) for part, a, b in zip(self._parts, first, last)]
        async with aclosing(_merged(streams, order)) as rows:
            async for row in rows:
                yield row

    async def _watch(self, versions: list[int] | None, bounds: dict[str, Any]) -> AsyncGenerator[ServerChanges, None]:
        if versions is None:
            versions = (await self.latest()).versions
        told: asyncio.Queue[ServerChanges | BaseException] = asyncio.Queue(maxsize=64)

        async def follow(server: int, changes: AsyncGenerator[VersionChanges, None]) -> None:
            try:
                async with aclosing(changes):
                    async for one in changes:
                        await told.put(ServerChanges(server, one.version, one.changes))
            except Exception as error:  # raised where the watch is read
                await told.put(error)

        following = [
            asyncio.create_task(follow(server, part.watch(version, **bounds)), name="icecore watch")
            for server, (part, version) in enumerate(zip(self._parts, versions))
        ]
        try:
            while True:
                what = await told.get()
                if isinstance(what, BaseException):
                    raise what
                yield what
        finally:
            for task in following:
                task.cancel()
            await asyncio.wait(following)

    # ---- Leases: kept by each server for its own keys, by its own clock ----------------------------------------------

    def lease(self, seconds: float, *, timeout: float | None = None) -> AbstractAsyncContextManager[int]:
        """As ``Store.lease``, at all servers."""
        return kept_awaiting(self, seconds, timeout)

    async def grant(self, seconds: float, *, number: int = 0, timeout: float | None = None) -> Lease:
        """A lease of all servers; one that not all could grant is taken back."""
        number = number or any_number()
        done: list[Store] = []

        async def grant(part: Store) -> Lease:
            granted = await part.grant(seconds, number=number, timeout=timeout)
            done.append(part)
            return granted

        try:
            return (await _all(self._parts, grant))[-1]
        except Error:
            # What cannot be taken back ends by itself.
            await asyncio.gather(*(part.revoke(number, timeout=timeout) for part in done), return_exceptions=True)
            raise

    async def keep_alive(self, number: int, *, timeout: float | None = None) -> float:
        """Begins the lease's time anew at all servers; returns the least of the seconds that are left."""
        return float(min(await _all(self._parts, lambda part: part.keep_alive(number, timeout=timeout))))

    async def revoke(self, number: int, *, timeout: float | None = None) -> int:
        """Ends the lease and removes its keys; returns how many."""
        return sum(await _all(self._parts, lambda part: part.revoke(number, timeout=timeout)))

    def __repr__(self) -> str:
        return f"<icecore.remote.aio.GroupStore {self.name!r} of {len(self._parts)} servers>"


@documented_as(blocking.GroupClient)
class GroupClient:
    """Connections to all servers of an independent group: ``aio.connect_group`` makes it."""

    __slots__ = ("clients",)

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients = list(clients)  #: of each server, for what concerns one of them

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        await _all(self.clients, lambda client: client.close())

    async def create(self, name: str, **settings: Any) -> GroupStore:
        """Makes the database at all servers: see ``Client.create``."""
        return GroupStore([await client.create(name, **settings) for client in self.clients], name)

    async def open(self, name: str, *, timeout: float | None = None) -> GroupStore:
        return GroupStore(await _all(self.clients, lambda client: client.open(name, timeout=timeout)), name)

    async def drop(self, name: str, *, timeout: float | None = None) -> None:
        for client in self.clients:
            await client.drop(name, timeout=timeout)

    async def snapshot(self, to: str, *, timeout: float | None = None) -> list[list[SnapshotPart]]:
        """Each server writes its own, at an instant of its own, into a folder with its number behind the name."""
        return await _all(
            enumerate(self.clients), lambda one: one[1].snapshot(f"{to}.{one[0]}", timeout=timeout)
        )


async def connect_group(
    addresses: Sequence[str],
    *,
    group: str | None = None,
    user: str | None = None,
    password: str | None = None,
    tls: Tls | bool | None = None,
    timeout: float | None = 30.0,
) -> GroupClient:
    """Connects to all servers of an independent group: see ``icecore.remote.connect_group``."""
    clients: list[Client] = []
    try:
        for number, address in enumerate(addresses):
            clients.append(await connect(address, user=user, password=password, tls=tls, timeout=timeout))
            group = require_member(await clients[-1].status(), address, number, len(addresses), group)
    except BaseException:
        for client in clients:
            await client.close()
        raise
    return GroupClient(clients)
