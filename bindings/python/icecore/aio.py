"""Stores of this machine for asyncio: the names of ``icecore.remote.aio``, to be awaited; iterators are asynchronous.

    from icecore import aio

    async with await aio.open("model.ice") as store:         # or store.aio of a store that is open
        await store.put(b"layer1/bias", b"0.5")
        await store.tag("epoch-1")
        async for key, value in store.items(prefix=b"layer1/"):
            ...

Every call runs on a thread of the event loop's default executor, and iterators fetch blocks there, so the loop never
waits for a device, a lock or a long read. Cancelling a task does not stop a call that has begun: a write may still take
effect. Any number of event loops may use one store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from . import store as _stores
from ._types import Change, Difference
from .batch import Batch
from .feed import FeedBatch, KeyChange
from .feed import Feed as _Feed
from .information import Statistics, Tag, Tags, VerifyReport
from .snapshot import Snapshot as _Snapshot
from .versions import HasVersion

if TYPE_CHECKING:
    import numpy.typing as npt

    from typing_extensions import Self

    from ._types import BytesLike, ColumnLike, VersionLike
    from .filters import FilterLike
    from .opening import Path
    from .store_reading import VersionsLike

T = TypeVar("T")

_BLOCK_FIRST, _BLOCK_MAX = 16, 1024


async def _blocks(make: Callable[[], Iterable[T]]) -> AsyncIterator[T]:
    """The items of an iterable that is made and read on other threads, block by block."""
    items: Iterator[T] = await asyncio.to_thread(lambda: iter(make()))
    size = _BLOCK_FIRST
    while block := await asyncio.to_thread(lambda: list(islice(items, size))):
        for item in block:
            yield item
        size = min(2 * size, _BLOCK_MAX)


class _Reader:
    """What stores and snapshots read."""

    __slots__ = ("_source",)
    _source: Any

    async def find_many(self, keys: ColumnLike, dtype: npt.DTypeLike | None = None, *, default: Any = None) -> Any:
        """See ``icecore.Snapshot.find_many``."""
        return await asyncio.to_thread(self._source.find_many, keys, dtype, default=default)

    async def count(
        self, start: BytesLike | None = None, stop: BytesLike | None = None, prefix: BytesLike | None = None
    ) -> int:
        """The number of keys. O(keys)."""
        return await asyncio.to_thread(lambda: len(self._source.keys(start, stop, prefix)))

    def keys(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[bytes]:
        """The keys from ``start`` to before ``stop`` that begin with ``prefix``, at most ``limit`` of them, in order or in
        reverse: of one version."""
        return _blocks(partial(self._source.keys, start, stop, prefix, reverse, limit))

    def values(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[bytes]:
        """The values of ``keys(...)``, in the same order."""
        return _blocks(partial(self._source.values, start, stop, prefix, reverse, limit))

    def items(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """The (key, value) pairs of ``keys(...)``, in the same order."""
        return _blocks(partial(self._source.items, start, stop, prefix, reverse, limit))

    def history(self, key: BytesLike) -> AsyncIterator[Change]:
        """The key's records, newest first; the value of a removal is None."""
        return _blocks(lambda: self._source.history(key))

    async def where(self, condition: FilterLike, layout: str | None = None) -> AsyncIterator[tuple[bytes, bytes]]:
        """The items that match, as they are found: ``async for key, value in store.where("key > 'a'")``."""
        snapshot = await self._snapshot()
        async for item in _blocks(lambda: snapshot.where(condition, layout)):
            yield item

    async def to_numpy(
        self, key_dtype: npt.DTypeLike | None = None, value_dtype: npt.DTypeLike | None = None, *, threads: int = 0
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """See ``icecore.Snapshot.to_numpy``."""
        snapshot = await self._snapshot()
        return await asyncio.to_thread(snapshot.to_numpy, key_dtype, value_dtype, threads=threads)

    async def _snapshot(self) -> _Snapshot:
        return await asyncio.to_thread(self._source._snapshot)


class Snapshot(_Reader, HasVersion):
    """One version of a store; it never changes. ``icecore.Snapshot`` says what each function does."""

    __slots__ = ()
    _source: _Snapshot

    def __init__(self, snapshot: _Snapshot) -> None:
        self._source = snapshot

    @property
    def version(self) -> int:
        """The version's number."""
        return self._source.version

    async def find(self, key: BytesLike) -> bytes | None:
        """The value, or None."""
        return await asyncio.to_thread(self._source.find, key)

    async def get(self, key: BytesLike, default: Any = None) -> Any:
        """The value, or ``default``."""
        return await asyncio.to_thread(self._source.get, key, default)

    async def view(self, key: BytesLike) -> memoryview:
        return await asyncio.to_thread(self._source.view, key)

    async def get_array(self, key: BytesLike) -> npt.NDArray[Any]:
        return await asyncio.to_thread(self._source.get_array, key)

    async def load_state(self, name: str, *, into: Any = None) -> Any:
        return await asyncio.to_thread(self._source.load_state, name, into=into)

    def __repr__(self) -> str:
        return f"<icecore.aio.Snapshot of {self._source!r}>"


class Feed:
    """What changes from a version on. ``icecore.Feed`` says what each function does."""

    __slots__ = ("_feed",)

    def __init__(self, feed: _Feed) -> None:
        self._feed = feed

    async def next(self, limit: int = 1000, timeout: float = 0) -> FeedBatch:
        return await asyncio.to_thread(self._feed.next, limit, timeout)

    async def acknowledge(self, token: BytesLike) -> None:
        await asyncio.to_thread(self._feed.acknowledge, token)

    async def drop(self) -> None:
        await asyncio.to_thread(self._feed.drop)

    @property
    def name(self) -> str:
        return self._feed.name

    @property
    def token(self) -> bytes:
        return self._feed.token


class Store(_Reader):
    """A store that is open in this process. ``icecore.Store`` says what each function does."""

    __slots__ = ()
    _source: _stores.Store

    def __init__(self, store: _stores.Store) -> None:
        if not isinstance(store, _stores.Store):
            raise TypeError(f"store must be an icecore.Store, not {type(store).__name__}: aio.open(path) opens one")
        self._source = store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        await asyncio.to_thread(self._source.close)

    # ---- Reading -----------------------------------------------------------------------------------------------------

    async def find(self, key: BytesLike, at: VersionLike | None = None) -> bytes | None:
        return await asyncio.to_thread(self._source.find, key, at)

    async def get(self, key: BytesLike, default: Any = None, *, at: VersionLike | None = None) -> Any:
        return await asyncio.to_thread(lambda: self._source.get(key, default, at=at))

    async def view(self, key: BytesLike, at: VersionLike | None = None) -> memoryview:
        return await asyncio.to_thread(self._source.view, key, at)

    async def get_array(self, key: BytesLike, at: VersionLike | None = None) -> npt.NDArray[Any]:
        return await asyncio.to_thread(self._source.get_array, key, at)

    async def find_many(
        self,
        keys: ColumnLike,
        dtype: npt.DTypeLike | None = None,
        *,
        at: VersionsLike | None = None,
        default: Any = None,
    ) -> Any:
        """See ``icecore.Store.find_many``."""
        read: Any = self._source.find_many
        return await asyncio.to_thread(read, keys, dtype, at=at, default=default)

    async def load_state(self, name: str, *, at: VersionLike | None = None, into: Any = None) -> Any:
        return await asyncio.to_thread(self._source.load_state, name, at=at, into=into)

    # ---- Writing -----------------------------------------------------------------------------------------------------

    async def put(self, key: BytesLike, value: BytesLike) -> int:
        """Sets the key's value and returns the version of the write, as ``icecore.Store.insert`` does."""
        return await asyncio.to_thread(self._source.insert, key, value)

    async def insert_new(self, key: BytesLike, value: BytesLike) -> int | None:
        return await asyncio.to_thread(self._source.insert_new, key, value)

    async def replace(self, key: BytesLike, value: BytesLike, expected_version: int) -> int | None:
        return await asyncio.to_thread(self._source.replace, key, value, expected_version)

    async def remove(self, key: BytesLike) -> int | None:
        return await asyncio.to_thread(self._source.remove, key)

    async def put_array(self, key: BytesLike, array: npt.ArrayLike) -> int:
        return await asyncio.to_thread(self._source.put_array, key, array)

    async def put_many(self, keys: ColumnLike, values: ColumnLike, *, threads: int = 1) -> None:
        await asyncio.to_thread(self._source.put_many, keys, values, threads=threads)

    async def update(self, other: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        await asyncio.to_thread(self._source.update, other)

    async def clear(self) -> None:
        await asyncio.to_thread(self._source.clear)

    async def save_state(self, name: str, state: Mapping[Any, Any]) -> int:
        return await asyncio.to_thread(self._source.save_state, name, state)

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[Batch]:
        """Collects writes and applies them at one instant at the end of the ``async with`` block."""
        collected = Batch()
        yield collected
        await asyncio.to_thread(collected._apply_to, self._source)

    # ---- Versions ----------------------------------------------------------------------------------------------------

    async def tag(
        self,
        name: str | None = None,
        note: str = "",
        time: datetime | int | None = None,
        *,
        metrics: Mapping[str, Any] | None = None,
    ) -> int:
        return await asyncio.to_thread(self._source.tag, name, note, time, metrics=metrics)

    async def tags(self) -> Tags:
        return await asyncio.to_thread(self._source.tags)

    async def find_tag(self, at: VersionLike) -> Tag | None:
        return await asyncio.to_thread(self._source.find_tag, at)

    async def latest(self) -> Snapshot:
        return Snapshot(await asyncio.to_thread(self._source.latest))

    async def at(
        self, version: VersionLike | None = None, /, *, tag: str | None = None, time: datetime | int | None = None
    ) -> Snapshot:
        return Snapshot(await asyncio.to_thread(self._source.at, version, tag=tag, time=time))

    def diff(
        self,
        before: VersionLike,
        after: VersionLike,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
    ) -> AsyncIterator[Difference]:
        return _blocks(lambda: self._source.diff(before, after, start, stop, prefix))

    def changes(
        self, after: VersionLike, up_to: VersionLike, where: FilterLike | None = None, *, layout: str | None = None
    ) -> AsyncIterator[KeyChange]:
        return _blocks(lambda: self._source.changes(after, up_to, where, layout=layout))

    async def feed(self, name: str = "", **how: Any) -> Feed:
        """See ``icecore.Store.feed``, whose arguments it takes."""
        return Feed(await asyncio.to_thread(self._source.feed, name, **how))

    async def refresh(self) -> int:
        return await asyncio.to_thread(self._source.refresh)

    async def sync(self) -> None:
        await asyncio.to_thread(self._source.sync)

    # ---- The store itself --------------------------------------------------------------------------------------------

    async def stats(self) -> Statistics:
        return await asyncio.to_thread(self._source.stats)

    async def verify(self) -> VerifyReport:
        return await asyncio.to_thread(self._source.verify)

    async def checkpoint(self, path: Path) -> int:
        return await asyncio.to_thread(self._source.checkpoint, path)

    def __repr__(self) -> str:
        return f"<icecore.aio.Store of {self._source!r}>"


async def open(path: Path, mode: str = "a", **how: Any) -> Store:
    """Opens a store as ``icecore.open`` does, whose arguments it takes, on another thread: recovery may take long."""
    return Store(await asyncio.to_thread(partial(_stores.open, path, mode, **how)))


__all__ = ["Feed", "Snapshot", "Store", "open"]
