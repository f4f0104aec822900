"""What ``icecore.aio`` reads: snapshots, feeds and asynchronous iterators over a local store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from ._types import Change
from .feed import Feed as _Feed
from .feed import FeedBatch
from .snapshot import Snapshot as _Snapshot
from .versions import HasVersion

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._types import BytesLike, ColumnLike
    from .filters import FilterLike

T = TypeVar("T")

_BLOCK_FIRST, _BLOCK_MAX = 16, 1024


async def blocks(make: Callable[[], Iterable[T]]) -> AsyncIterator[T]:
    """The items of an iterable that is made and read on other threads, block by block."""
    items: Iterator[T] = await asyncio.to_thread(lambda: iter(make()))
    size = _BLOCK_FIRST
    while block := await asyncio.to_thread(lambda: list(islice(items, size))):
        for item in block:
            yield item
        size = min(2 * size, _BLOCK_MAX)


class Reader:
    """What stores and snapshots read."""

    __slots__ = ("_source",)
    _source: Any

    async def find_many(self, keys: ColumnLike, dtype: npt.DTypeLike | None = None, *, default: Any = None) -> Any:
        """The values of many keys: see ``icecore.Snapshot.find_many``.

        >>> asyncio.run(store.aio.find_many(["a", "nothing"]))
        [b'3', None]

        Raises what ``icecore.Snapshot.find_many`` raises.
        """
        return await asyncio.to_thread(self._source.find_many, keys, dtype, default=default)

    async def count(
        self, start: BytesLike | None = None, stop: BytesLike | None = None, prefix: BytesLike | None = None
    ) -> int:
        """The number of keys. O(keys).

        >>> asyncio.run(store.aio.count(prefix="a"))
        1

        Raises what ``icecore.Store.keys`` raises.
        """
        return await asyncio.to_thread(lambda: len(self._source.keys(start, stop, prefix)))

    def keys(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[bytes]:
        """The keys from ``start`` to before ``stop`` that begin with ``prefix``, at most ``limit`` of them, in
        order or in
        reverse: of one version.

        >>> async def keys():
        ...     return [key async for key in store.aio.keys(reverse=True)]
        >>> asyncio.run(keys())
        [b'b', b'a']

        Iterating raises what ``icecore.Store.keys`` raises.
        """
        return blocks(partial(self._source.keys, start, stop, prefix, reverse, limit))

    def values(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[bytes]:
        """The values of ``keys(...)``, in the same order.

        >>> async def values():
        ...     return [value async for value in store.aio.values()]
        >>> asyncio.run(values())
        [b'3', b'2']

        Iterating raises what ``icecore.Store.keys`` raises.
        """
        return blocks(partial(self._source.values, start, stop, prefix, reverse, limit))

    def items(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """The (key, value) pairs of ``keys(...)``, in the same order.

        >>> async def items():
        ...     return [item async for item in store.aio.items(prefix="b")]
        >>> asyncio.run(items())
        [(b'b', b'2')]

        Iterating raises what ``icecore.Store.keys`` raises.
        """
        return blocks(partial(self._source.items, start, stop, prefix, reverse, limit))

    def history(self, key: BytesLike) -> AsyncIterator[Change]:
        """The key's records, newest first; the value of a removal is None.

        >>> async def history():
        ...     return [change.value async for change in store.aio.history("a")]
        >>> asyncio.run(history())
        [b'3', b'1']

        Iterating raises what ``icecore.Store.history`` raises.
        """
        return blocks(lambda: self._source.history(key))

    async def where(self, condition: FilterLike, layout: str | None = None) -> AsyncIterator[tuple[bytes, bytes]]:
        """The items that match, as they are found: see ``icecore.Snapshot.where``.

        >>> async def found():
        ...     return [key async for key, value in store.aio.where("value > '2'")]
        >>> asyncio.run(found())
        [b'a']

        Iterating raises what ``icecore.Snapshot.where`` raises.
        """
        snapshot = await self._snapshot()
        async for item in blocks(lambda: snapshot.where(condition, layout)):
            yield item

    async def to_numpy(
        self, key_dtype: npt.DTypeLike | None = None, value_dtype: npt.DTypeLike | None = None, *, threads: int = 0
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Keys and values as arrays: see ``icecore.Snapshot.to_numpy``.

        >>> keys, values = asyncio.run(store.aio.to_numpy("S1", "S1"))
        >>> keys.tolist(), values.tolist()
        ([b'a', b'b'], [b'3', b'2'])

        Raises what ``icecore.Snapshot.to_numpy`` raises.
        """
        snapshot = await self._snapshot()
        return await asyncio.to_thread(snapshot.to_numpy, key_dtype, value_dtype, threads=threads)

    async def _snapshot(self) -> _Snapshot:
        return await asyncio.to_thread(self._source._snapshot)


class Snapshot(Reader, HasVersion):
    """One version of a store; it never changes. ``icecore.Snapshot`` says more of each function.

    >>> asyncio.run(store.aio.at("epoch-1"))
    <icecore.aio.Snapshot of <icecore.Snapshot version 1 of 'store.ice'>>

    Raises nothing; ``store.aio.at(...)`` and ``latest()`` make it.
    """

    __slots__ = ()
    _source: _Snapshot

    def __init__(self, snapshot: _Snapshot) -> None:
        self._source = snapshot

    @property
    def version(self) -> int:
        """The version's number.

        >>> asyncio.run(store.aio.at("epoch-1")).version
        1

        Raises nothing.
        """
        return self._source.version

    async def find(self, key: BytesLike) -> bytes | None:
        """The value, or None if the key is not there.

        >>> then = asyncio.run(store.aio.at("epoch-1"))
        >>> asyncio.run(then.find("a"))
        b'1'

        Raises what ``icecore.Snapshot.find`` raises.
        """
        return await asyncio.to_thread(self._source.find, key)

    async def get(self, key: BytesLike, default: Any = None) -> Any:
        """The value, or ``default`` if the key is not there.

        >>> then = asyncio.run(store.aio.at("epoch-1"))
        >>> asyncio.run(then.get("nothing", b"-"))
        b'-'

        Raises what ``icecore.Snapshot.get`` raises.
        """
        return await asyncio.to_thread(self._source.get, key, default)

    async def view(self, key: BytesLike) -> memoryview:
        """The value as a read-only memoryview into the store: no copy.

        >>> then = asyncio.run(store.aio.at("epoch-1"))
        >>> bytes(asyncio.run(then.view("a")))
        b'1'

        Raises what ``icecore.Snapshot.view`` raises.
        """
        return await asyncio.to_thread(self._source.view, key)

    async def get_array(self, key: BytesLike) -> npt.NDArray[Any]:
        """The array that ``put_array`` stored, read-only and without a copy.

        >>> version = asyncio.run(store.aio.put_array("weights", np.zeros(2)))
        >>> latest = asyncio.run(store.aio.latest())
        >>> asyncio.run(latest.get_array("weights"))
        array([0., 0.])

        Raises what ``icecore.Snapshot.get_array`` raises.
        """
        return await asyncio.to_thread(self._source.get_array, key)

    async def load_state(self, name: str, *, into: Any = None) -> Any:
        """The state that ``save_state`` stored under this name: see ``icecore.Store.load_state``.

        >>> version = asyncio.run(store.aio.save_state("model", {"epoch": 1}))
        >>> latest = asyncio.run(store.aio.latest())
        >>> asyncio.run(latest.load_state("model"))
        {'epoch': 1}

        Raises what ``icecore.Snapshot.load_state`` raises.
        """
        return await asyncio.to_thread(self._source.load_state, name, into=into)

    def __repr__(self) -> str:
        return f"<icecore.aio.Snapshot of {self._source!r}>"


class Feed:
    """What changes from a version on. ``icecore.Feed`` says more of each function.

    >>> asyncio.run(store.aio.feed("mirror", after=0)).name
    'mirror'

    Raises nothing; ``store.aio.feed(...)`` makes it.
    """

    __slots__ = ("_feed",)

    def __init__(self, feed: _Feed) -> None:
        self._feed = feed

    async def next(self, limit: int = 1000, timeout: float = 0) -> FeedBatch:
        """The next changes, of whole versions where they fit, at most about ``limit``: see
        ``icecore.Feed.next``. It waits up to
        ``timeout`` seconds for a version to be closed.

        >>> async def told():
        ...     feed = await store.aio.feed("mirror", after=0)
        ...     await store.aio.sync()
        ...     return [change.key for change in (await feed.next()).changes]
        >>> asyncio.run(told())
        [b'a', b'b', b'a']

        Raises what ``icecore.Feed.next`` raises.
        """
        return await asyncio.to_thread(self._feed.next, limit, timeout)

    async def acknowledge(self, token: BytesLike) -> None:
        """Says, durably, that all up to this token was dealt with: the next process goes on behind it.

        >>> async def acknowledged():
        ...     feed = await store.aio.feed("mirror", after=0)
        ...     await store.aio.sync()
        ...     batch = await feed.next()
        ...     await feed.acknowledge(batch.token)
        ...     return (await feed.next()).changes
        >>> asyncio.run(acknowledged())
        []

        Raises what ``icecore.Feed.acknowledge`` raises.
        """
        await asyncio.to_thread(self._feed.acknowledge, token)

    async def drop(self) -> None:
        """Takes the feed out of the store.

        >>> async def dropped():
        ...     await (await store.aio.feed("mirror", after=0)).drop()
        >>> asyncio.run(dropped())
        >>> list(store.feeds())
        []

        Raises what ``icecore.Feed.drop`` raises.
        """
        await asyncio.to_thread(self._feed.drop)

    @property
    def name(self) -> str:
        """The name under which the store keeps it; empty if the caller keeps the place.

        >>> asyncio.run(store.aio.feed("mirror", after=0)).name
        'mirror'

        Raises nothing.
        """
        return self._feed.name

    @property
    def token(self) -> bytes:
        """Where it goes on.

        >>> feed = asyncio.run(store.aio.feed(after=0))
        >>> asyncio.run(store.aio.feed(token=feed.token)).token == feed.token
        True

        Raises nothing.
        """
        return self._feed.token
