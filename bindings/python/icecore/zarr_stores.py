"""Arrays of zarr (version 3 of the package, any format) in a store: ``icecore.zarr_store(...)`` makes the stores of zarr.

What zarr keeps under the path ``temperature/c/0/1`` is the value of the key ``temperature/c/0/1``, behind the prefix.
Reads hand over the store's memory without a copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Union

from zarr.abc.store import (  # type: ignore[import-not-found, unused-ignore]
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
)
from zarr.abc.store import Store as _ZarrStore
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype  # type: ignore[import-not-found, unused-ignore]

from . import checks
from .errors import InvalidArgumentError
from .snapshot import Snapshot
from .store import Store, opened_in_this_process
from .versions import HasVersion

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._types import VersionLike
    from .opening import Opening

Source = Union[Store, Snapshot]
_AFTER_SLASH = "0"  # the character behind "/": what begins with it follows all that is below a path


class ZarrStore(_ZarrStore):  # type: ignore[misc, unused-ignore]
    """A store of zarr whose keys and values are those of an icecore store, behind a prefix: one version of it, or the
    present, which can be written. ``icecore.zarr_store`` makes it.

    Each operation of zarr takes effect at once; ``clear`` and ``delete_dir`` at one instant. ``close`` ends only this
    object: whoever opened the icecore store closes it.
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True
    supports_partial_writes = False

    def __init__(
        self, store: Source, *, at: VersionLike | None = None, prefix: str = "", read_only: bool | None = None
    ) -> None:
        if not isinstance(store, (Store, Snapshot)):
            raise TypeError(f"store must be an icecore.Store or a Snapshot of one, not {type(store).__name__}")
        if isinstance(store, Snapshot) and at is not None:
            raise TypeError("a Snapshot is a version already: give a Store together with at=")
        source: Source = store if at is None or isinstance(store, Snapshot) else store.at(at)
        fixed = isinstance(source, Snapshot) or source.read_only
        if fixed and read_only is False:
            what = f"version {source.version}" if isinstance(source, Snapshot) else f"{source!r}, open for reading,"
            raise InvalidArgumentError(f"{what} never changes: it cannot be written; leave out read_only=False")
        super().__init__(read_only=fixed if read_only is None else bool(read_only))
        self._source = source
        self._prefix = _normalized(checks.text(prefix, "prefix"))
        self._writes_wait = False
        if not self.read_only and isinstance(source, Store):
            provided = source.durability()
            self._writes_wait = provided.mode == "operation" and not provided.deferred

    # ---- What it is --------------------------------------------------------------------------------------------------

    def with_read_only(self, read_only: bool = False) -> Self:
        return type(self)(self._source, prefix=self._prefix, read_only=read_only)

    def _identity(self) -> tuple[Any, ...]:
        version = self._source.version if isinstance(self._source, HasVersion) else None
        bounds = self._source.bounds if isinstance(self._source, Snapshot) else None
        return (self._source.path, version, bounds, self._prefix, self.read_only)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZarrStore) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        behind = f", prefix {self._prefix!r}" if self._prefix else ""
        return f"<icecore.ZarrStore of {self._source!r}{behind}{', read-only' if self.read_only else ''}>"

    def __str__(self) -> str:
        return f"icecore://{self._source.path}/{self._prefix}"

    def __reduce__(self) -> tuple[Any, ...]:
        """A version, or a store that is open for reading, is sent to any process. What can be written is known only in the
        process that has it open, because one process at a time writes; there it may be copied."""
        source: Any = self._source
        if isinstance(source, Store) and not source.read_only:
            return _restored, (source._opening, self._prefix, self.read_only)
        return _made, (source, self._prefix)

    # ---- Reading -----------------------------------------------------------------------------------------------------

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        self._is_open = True
        shown = self._source._find_view(self._key(key))
        if shown is None:
            return None
        made = default_buffer_prototype() if prototype is None else prototype
        return made.buffer.from_bytes(_part(shown, byte_range))

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        return self.get_sync(key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [self.get_sync(key, prototype=prototype, byte_range=one) for key, one in key_ranges]

    async def exists(self, key: str) -> bool:
        return self._source._find_view(self._key(key)) is not None

    async def getsize(self, key: str) -> int:
        shown = self._source._find_view(self._key(key))
        if shown is None:
            raise FileNotFoundError(key)
        return len(shown)

    # ---- Writing -----------------------------------------------------------------------------------------------------

    def set_sync(self, key: str, value: Buffer) -> None:
        store = self._writable()
        store.insert(self._key(key), _bytes_of(value))

    async def set(self, key: str, value: Buffer) -> None:
        await self._awaited(self.set_sync, key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        await self._awaited(self._writable().insert_new, self._key(key), _bytes_of(value))

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        await self._awaited(self._set_all, list(values))

    def _set_all(self, values: Iterable[tuple[str, Buffer]]) -> None:
        with self._writable().batch() as b:
            for key, value in values:
                b[self._key(key)] = _bytes_of(value)

    def delete_sync(self, key: str) -> None:
        self._writable().remove(self._key(key))

    async def delete(self, key: str) -> None:
        await self._awaited(self.delete_sync, key)

    async def delete_dir(self, prefix: str) -> None:
        await self._awaited(self._delete_below, prefix)

    def _delete_below(self, prefix: str) -> None:
        store = self._writable()
        with store.batch() as b:
            for key in store.keys(prefix=self._prefix + _normalized(prefix)):
                del b[key]

    async def _awaited(self, call: Callable[..., object], *arguments: Any) -> None:
        """Calls what writes: on another thread, if each write waits for the device; else it takes less time than a thread."""
        if self._writes_wait:
            await asyncio.to_thread(call, *arguments)
        else:
            call(*arguments)

    # ---- Listing -----------------------------------------------------------------------------------------------------

    async def list(self) -> AsyncIterator[str]:
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        skipped = len(self._prefix.encode())
        for key in self._source.keys(prefix=self._prefix + prefix):
            text = _text(key[skipped:])
            if text is not None:
                yield text

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """What is directly below a path. Where that is a path itself, all that is below it is skipped: O(log keys)."""
        below = (self._prefix + _normalized(prefix)).encode()
        present = self._source if isinstance(self._source, Snapshot) else self._source.latest()
        start: bytes | None = None
        while True:
            skip: bytes | None = None
            for key in present.keys(start, prefix=below):
                name, slash, _ = key[len(below) :].partition(b"/")
                text = _text(name)
                if text is not None and not (slash and below + name in present):  # which was told before
                    yield text
                if slash:
                    skip = below + name + _AFTER_SLASH.encode()
                    break
            if skip is None:
                return
            start = skip

    # ------------------------------------------------------------------------------------------------------------------

    def _key(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(f"a key of zarr must be a str, not {type(key).__name__}")
        return self._prefix + key

    def _writable(self) -> Store:
        self._check_writable()
        self._is_open = True
        if isinstance(self._source, Snapshot):
            raise InvalidArgumentError(f"version {self._source.version} never changes: it cannot be written")
        return self._source


def _normalized(path: str) -> str:
    """A path as a prefix: empty, or with one slash at its end."""
    return path.rstrip("/") + "/" if path.rstrip("/") else ""


def _text(key: bytes) -> str | None:
    """A key as zarr names it; None for one that is not UTF-8, which zarr cannot have made."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


def _part(shown: memoryview, asked: ByteRequest | None) -> memoryview:
    if asked is None:
        return shown
    if isinstance(asked, RangeByteRequest):
        return shown[asked.start : asked.end]
    if isinstance(asked, OffsetByteRequest):
        return shown[asked.offset :]
    if isinstance(asked, SuffixByteRequest):
        return shown[max(0, len(shown) - asked.suffix) :]
    raise ValueError(f"Unexpected byte_range, got {asked}: zarr's are RangeByteRequest, OffsetByteRequest, SuffixByteRequest")


def _bytes_of(value: Buffer) -> Any:
    if not isinstance(value, Buffer):
        raise TypeError(f"ZarrStore.set(): `value` must be a Buffer instance. Got an instance of {type(value)} instead.")
    return value.as_numpy_array()


def _made(source: Source, prefix: str) -> ZarrStore:
    return ZarrStore(source, prefix=prefix)


def _restored(opening: Opening, prefix: str, read_only: bool) -> ZarrStore:
    """The store that this process has open for writing; elsewhere one for reading, if no more was asked for."""
    source = opened_in_this_process(opening)
    if source is None and read_only:
        source = Store.__new__(Store)
        source._open(opening.for_reading(), at_first_use=True)
    if source is None:
        raise InvalidArgumentError(
            f"{opening.path!r} is not open for writing in this process, and one process at a time writes: send a store of "
            "zarr that reads, zarr_store(store, at=...) or read_only=True"
        )
    return ZarrStore(source, prefix=prefix, read_only=read_only)
