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
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from . import store as _stores
from ._types import Difference
from .aio_reading import Feed, Reader, Snapshot, blocks
from .batch import Batch
from .feed import KeyChange
from .information import Statistics, Tag, Tags, VerifyReport

if TYPE_CHECKING:
    import numpy.typing as npt

    from typing_extensions import Self

    from ._types import BytesLike, ColumnLike, VersionLike
    from .filters import FilterLike
    from .opening import Path
    from .store_reading import VersionsLike


class Store(Reader):
    """A store that is open in this process: ``store.aio``, or what ``open`` gives. ``icecore.Store`` says more of each
    function.

    >>> asyncio.run(store.aio.get("a"))
    b'3'

    Raises TypeError for what is no ``icecore.Store``.
    """

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
        """Makes everything durable and releases the file, as ``icecore.Store.close`` does.

        >>> asyncio.run(store.aio.close())
        >>> store.closed
        True

        Raises IOFailedError or NoSpaceError if something could not be made durable.
        """
        await asyncio.to_thread(self._source.close)

    # ---- Reading -----------------------------------------------------------------------------------------------------

    async def find(self, key: BytesLike, at: VersionLike | None = None) -> bytes | None:
        """The newest value, or that of a closed version, named as for ``at()``. None if the key is not there.

        >>> asyncio.run(store.aio.find("a")), asyncio.run(store.aio.find("a", at="epoch-1"))
        (b'3', b'1')

        Raises what ``icecore.Store.find`` raises.
        """
        return await asyncio.to_thread(self._source.find, key, at)

    async def get(self, key: BytesLike, default: Any = None, *, at: VersionLike | None = None) -> Any:
        """The value, now or at a closed version; ``default`` if the key is not there.

        >>> asyncio.run(store.aio.get("nothing", b"-"))
        b'-'

        Raises what ``icecore.Store.find`` raises.
        """
        return await asyncio.to_thread(lambda: self._source.get(key, default, at=at))

    async def view(self, key: BytesLike, at: VersionLike | None = None) -> memoryview:
        """The value, now or at a closed version, as a read-only memoryview into the store: no copy.

        >>> bytes(asyncio.run(store.aio.view("a", at="epoch-1")))
        b'1'

        Raises KeyError if there is no such key, and what ``icecore.Store.find`` raises.
        """
        return await asyncio.to_thread(self._source.view, key, at)

    async def get_array(self, key: BytesLike, at: VersionLike | None = None) -> npt.NDArray[Any]:
        """The array that ``put_array`` stored, now or at a closed version, read-only and without a copy.

        >>> version = asyncio.run(store.aio.put_array("weights", np.zeros((2, 2))))
        >>> asyncio.run(store.aio.get_array("weights")).shape
        (2, 2)

        Raises KeyError if there is no such key, ValueError if the value is no array, and what ``find`` raises.
        """
        return await asyncio.to_thread(self._source.get_array, key, at)

    async def find_many(
        self,
        keys: ColumnLike,
        dtype: npt.DTypeLike | None = None,
        *,
        at: VersionsLike | None = None,
        default: Any = None,
    ) -> Any:
        """The values of many keys, now or at a closed version: see ``icecore.Store.find_many``.

        >>> asyncio.run(store.aio.find_many(["a", "b", "c"], at="epoch-1"))
        [b'1', b'2', None]

        Raises what ``icecore.Store.find_many`` raises.
        """
        read: Any = self._source.find_many
        return await asyncio.to_thread(read, keys, dtype, at=at, default=default)

    async def load_state(self, name: str, *, at: VersionLike | None = None, into: Any = None) -> Any:
        """The state that ``save_state`` stored under this name, now or at a closed version: see
        ``icecore.Store.load_state``.

        >>> version = asyncio.run(store.aio.save_state("model", {"weight": np.arange(3.0), "epoch": 1}))
        >>> asyncio.run(store.aio.load_state("model"))
        {'weight': array([0., 1., 2.]), 'epoch': 1}

        Raises what ``icecore.Store.load_state`` raises.
        """
        return await asyncio.to_thread(self._source.load_state, name, at=at, into=into)

    # ---- Writing -----------------------------------------------------------------------------------------------------

    async def put(self, key: BytesLike, value: BytesLike) -> int:
        """Sets the key's value and returns the version of the write, as ``icecore.Store.insert`` does.

        >>> asyncio.run(store.aio.put("k", "v")) == store.clock
        True

        Raises what ``icecore.Store.insert`` raises.
        """
        return await asyncio.to_thread(self._source.insert, key, value)

    async def insert_new(self, key: BytesLike, value: BytesLike) -> int | None:
        """Inserts the key if it is not there, and returns the version; None if it is there: then nothing has changed.

        >>> asyncio.run(store.aio.insert_new("a", "4")) is None
        True

        Raises what ``icecore.Store.insert`` raises.
        """
        return await asyncio.to_thread(self._source.insert_new, key, value)

    async def replace(self, key: BytesLike, value: BytesLike, expected_version: int) -> int | None:
        """Sets the key's value if its newest record has this version, and returns the new version. Else it returns
        None, and nothing has changed.

        >>> version = asyncio.run(store.aio.put("k", "old"))
        >>> asyncio.run(store.aio.replace("k", "new", version)) == store.clock
        True

        Raises what ``icecore.Store.replace`` raises.
        """
        return await asyncio.to_thread(self._source.replace, key, value, expected_version)

    async def remove(self, key: BytesLike) -> int | None:
        """Removes the key in the open version and returns that version; None if the key was not there.

        >>> asyncio.run(store.aio.remove("nothing")) is None
        True

        Raises what ``icecore.Store.remove`` raises.
        """
        return await asyncio.to_thread(self._source.remove, key)

    async def put_array(self, key: BytesLike, array: npt.ArrayLike) -> int:
        """Stores an array with its dtype and shape, as ``icecore.Store.put_array`` does; returns the version.

        >>> asyncio.run(store.aio.put_array("weights", np.arange(6.0))) == store.clock
        True

        Raises what ``icecore.Store.put_array`` raises.
        """
        return await asyncio.to_thread(self._source.put_array, key, array)

    async def put_many(self, keys: ColumnLike, values: ColumnLike, *, threads: int = 1) -> None:
        """Inserts whole columns without a Python loop: see ``icecore.Store.put_many``.

        >>> asyncio.run(store.aio.put_many(["x", "y"], np.arange(2)))
        >>> len(store)
        4

        Raises what ``icecore.Store.put_many`` raises.
        """
        await asyncio.to_thread(self._source.put_many, keys, values, threads=threads)

    async def update(self, other: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Inserts all items of a mapping or of pairs, one after the other.

        >>> asyncio.run(store.aio.update({"x": "1", "y": "2"}))
        >>> store["y"]
        b'2'

        Raises what ``icecore.Store.update`` raises; the items before are then written.
        """
        await asyncio.to_thread(self._source.update, other)

    async def clear(self) -> None:
        """Removes all keys at one instant. Their histories stay.

        >>> asyncio.run(store.aio.clear())
        >>> len(store)
        0

        Raises what ``icecore.Store.clear`` raises.
        """
        await asyncio.to_thread(self._source.clear)

    async def save_state(self, name: str, state: Mapping[Any, Any]) -> int:
        """Stores the state of a model or an optimizer, as ``icecore.Store.save_state`` does; returns the
        version that has it.

        >>> version = asyncio.run(store.aio.save_state("model", {"weight": np.zeros(3)}))
        >>> store.get_array("model/weight")
        array([0., 0., 0.])

        Raises what ``icecore.Store.save_state`` raises.
        """
        return await asyncio.to_thread(self._source.save_state, name, state)

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[Batch]:
        """Collects writes and applies them at one instant at the end of the ``async with`` block; an exception
        discards them.

        >>> async def write():
        ...     async with store.aio.batch() as b:
        ...         b["x"] = "1"
        ...         del b["a"]
        ...     return b.version
        >>> asyncio.run(write()) == store.clock, "a" in store
        (True, False)

        Raises at the end of the block what ``icecore.Store.insert`` raises; then nothing has been written.
        """
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
        """Closes the open version and returns its number: see ``icecore.Store.tag``.

        >>> version = asyncio.run(store.aio.tag("epoch-2", metrics={"loss": 0.25}))
        >>> store.find_tag("epoch-2").metrics
        {'loss': 0.25}

        Raises what ``icecore.Store.tag`` raises.
        """
        return await asyncio.to_thread(self._source.tag, name, note, time, metrics=metrics)

    async def tags(self) -> Tags:
        """Named and timed tags, oldest version first.

        >>> [tag.name for tag in asyncio.run(store.aio.tags())]
        ['epoch-1']

        Raises ClosedError.
        """
        return await asyncio.to_thread(self._source.tags)

    async def find_tag(self, at: VersionLike) -> Tag | None:
        """The tag of a version, or None if it has none.

        >>> asyncio.run(store.aio.find_tag("epoch-1")).note
        'loss 0.5'

        Raises what ``icecore.Store.find_tag`` raises.
        """
        return await asyncio.to_thread(self._source.find_tag, at)

    async def latest(self) -> Snapshot:
        """The present, as a snapshot. It closes the open version, but only if anything was written in it.

        >>> async def read():
        ...     return await (await store.aio.latest()).get("a")
        >>> asyncio.run(read())
        b'3'

        Raises ClosedError.
        """
        return Snapshot(await asyncio.to_thread(self._source.latest))

    async def at(
        self, version: VersionLike | None = None, /, *, tag: str | None = None, time: datetime | int | None = None
    ) -> Snapshot:
        """The snapshot of a closed version, named as for ``icecore.Store.at``.

        >>> async def read():
        ...     return await (await store.aio.at("epoch-1")).get("a")
        >>> asyncio.run(read())
        b'1'

        Raises what ``icecore.Store.at`` raises.
        """
        return Snapshot(await asyncio.to_thread(self._source.at, version, tag=tag, time=time))

    def diff(
        self,
        before: VersionLike,
        after: VersionLike,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
    ) -> AsyncIterator[Difference]:
        """The differences between two closed versions, in key order, within the bounds: ``async for`` iterates
        over them.

        >>> async def keys():
        ...     return [one.key async for one in store.aio.diff(0, "epoch-1")]
        >>> asyncio.run(keys())
        [b'a', b'b']

        Iterating raises what ``icecore.Store.diff`` raises.
        """
        return blocks(lambda: self._source.diff(before, after, start, stop, prefix))

    def changes(
        self, after: VersionLike, up_to: VersionLike, where: FilterLike | None = None, *, layout: str | None = None
    ) -> AsyncIterator[KeyChange]:
        """All that was written in the versions behind ``after`` up to ``up_to``, by key, then by version.

        >>> async def changes():
        ...     return [(one.key, one.value) async for one in store.aio.changes(0, "epoch-1")]
        >>> asyncio.run(changes())
        [(b'a', b'1'), (b'b', b'2')]

        Iterating raises what ``icecore.Store.changes`` raises.
        """
        return blocks(lambda: self._source.changes(after, up_to, where, layout=layout))

    async def feed(self, name: str = "", **how: Any) -> Feed:
        """What changes from a version on: see ``icecore.Store.feed``, whose arguments it takes.

        >>> asyncio.run(store.aio.feed("mirror", after=0)).name
        'mirror'

        Raises what ``icecore.Store.feed`` raises.
        """
        return Feed(await asyncio.to_thread(self._source.feed, name, **how))

    async def refresh(self) -> int:
        """Of a store that is open beside the process that writes it: shows what was settled since. Returns the newest
        version that can be read.

        >>> asyncio.run(store.aio.refresh()) == store.clock - 1
        True

        Raises what ``icecore.Store.refresh`` raises.
        """
        return await asyncio.to_thread(self._source.refresh)

    async def sync(self) -> None:
        """Returns when all completed writes survive a power cut, as far as the medium allows.

        >>> asyncio.run(store.aio.sync())
        >>> store.durable_version == store.clock - 1
        True

        Raises what ``icecore.Store.sync`` raises.
        """
        await asyncio.to_thread(self._source.sync)

    # ---- The store itself --------------------------------------------------------------------------------------------

    async def stats(self) -> Statistics:
        """Sizes and counts.

        >>> asyncio.run(store.aio.stats()).records
        3

        Raises ClosedError.
        """
        return await asyncio.to_thread(self._source.stats)

    async def verify(self) -> VerifyReport:
        """Checks every structure of the store. O(bytes of the store).

        >>> asyncio.run(store.aio.verify()).ok
        True

        Raises IOFailedError and ClosedError.
        """
        return await asyncio.to_thread(self._source.verify)

    async def checkpoint(self, path: Path) -> int:
        """Writes the whole store, with every version and tag, to a file of its own: see ``icecore.Store.checkpoint``.

        >>> version = asyncio.run(store.aio.checkpoint("copy.ice"))
        >>> os.path.exists("copy.ice")
        True

        Raises what ``icecore.Store.checkpoint`` raises.
        """
        return await asyncio.to_thread(self._source.checkpoint, path)

    def __repr__(self) -> str:
        return f"<icecore.aio.Store of {self._source!r}>"


async def open(path: Path, mode: str = "a", **how: Any) -> Store:
    """Opens a store as ``icecore.open`` does, whose arguments it takes, on another thread: recovery may take long.

    >>> async def read():
    ...     async with await icecore.aio.open("new.ice") as new:
    ...         await new.put("k", "v")
    ...         return await new.get("k")
    >>> asyncio.run(read())
    b'v'

    Raises what ``icecore.open`` raises.
    """
    return Store(await asyncio.to_thread(partial(_stores.open, path, mode, **how)))


__all__ = ["Feed", "Snapshot", "Store", "open"]
