"""The C++ half of icecore. Programs use the Python half (store.py, snapshot.py, ...)."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from .snapshot import Snapshot as _Snapshot

_Buffer = Buffer | npt.NDArray[Any]  # arrays are buffers, which their stubs tell from Python 3.12 on
_BytesLike = str | _Buffer
_Progress = Callable[[str, int, int, str], object]
_TagTuple = tuple[int, int, str, str]

def library_version() -> str: ...
def verify_file_dict(
    path: bytes, on_progress: _Progress | None, moved: list[tuple[bytes, int]]
) -> dict[str, Any]: ...
def repair_dict(
    damaged: bytes,
    repaired: bytes,
    on_progress: _Progress | None,
    placements: list[tuple[bytes, int]],
    moved: list[tuple[bytes, int]],
    crash: int,
) -> dict[str, Any]: ...

class ValueView:
    """A value in the pool, which the view keeps mapped."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class Column:
    """A column of byte strings for put_many and find_many."""

    @staticmethod
    def fixed(buffer: _Buffer, size: int, strip_nul: bool) -> Column: ...
    @staticmethod
    def variable(offsets: _Buffer, bytes: _Buffer) -> Column: ...
    @staticmethod
    def sequence(objects: Iterable[_BytesLike], what: str) -> Column: ...
    def __len__(self) -> int: ...

class Batch:
    """Collected writes that take effect at one instant."""

    def __init__(self) -> None: ...
    def insert(self, key: _BytesLike, value: _BytesLike) -> None: ...
    def remove(self, key: _BytesLike) -> None: ...
    def insert_many(self, keys: Column, values: Column) -> None: ...
    def clear(self) -> None: ...
    def __len__(self) -> int: ...

class Store:
    """An open store; icecore.Store adds the rest."""

    def __init__(
        self,
        path: bytes,
        access: int,
        creation: int,
        durability: int,
        emulate_durability: bool,
        accept_copy: bool,
        accept_damage: bool,
        crash: int,
        huge_pages: bool,
        index: int,
        change_index: bool,
        lookup_cache_bytes: int,
        recovery_threads: int,
        placements: list[tuple[bytes, int]],
        shared_as: bytes,
        on_progress: _Progress | None,
    ) -> None: ...
    def close(self) -> None:
        """Makes everything durable, as far as the device can, and releases the file and its locks. Waits for calls
        running in other threads. Views of values stay valid; snapshots and iterators can read no more. Closing twice
        does nothing."""

    @overload
    def __getitem__(self, key: _BytesLike, /) -> bytes: ...
    @overload
    def __getitem__(self, key: slice, /) -> _Snapshot: ...
    def __setitem__(self, key: _BytesLike, value: _BytesLike, /) -> None: ...
    def __delitem__(self, key: _BytesLike, /) -> None: ...
    def __contains__(self, key: object, /) -> bool: ...
    def insert(self, key: _BytesLike, value: _BytesLike) -> int:
        """Sets the key's value in the open version and returns that version."""

    def remove(self, key: _BytesLike) -> int | None:
        """Removes the key in the open version and returns that version; None if the key was not there."""

    def _apply(self, batch: Batch) -> int: ...
    def _tag(self, name: str | None, note: str | None, time_ns: int | None) -> int: ...
    def _checkpoint(self, path: bytes, on_progress: _Progress | None) -> int: ...
    def sync(self) -> None:
        """Returns when all completed writes survive a power cut, as far as the medium allows. In modes other than
        operation durability it closes the open version if anything was written in it."""

    def find(self, key: _BytesLike, at: int | None = None) -> bytes | None:
        """The newest value, or that of the closed version ``at``; None if the key is not there."""

    def _find_view(self, key: _BytesLike, at: int | None = None) -> memoryview | None: ...
    def _latest_version(self) -> int: ...
    def _insert_many(self, keys: Column, values: Column, threads: int) -> None: ...
    def _find_many_objects(self, keys: Column, versions: _Buffer, missing: object) -> list[Any]: ...
    def _find_many_fixed(
        self, keys: Column, versions: _Buffer, values: _Buffer, found: _Buffer, size: int, pad: bool
    ) -> None: ...
    @property
    def clock(self) -> int:
        """The version that a write now belongs to; all smaller ones are closed."""

    @property
    def read_only(self) -> bool:
        """Whether the store was opened for reading."""

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    @property
    def path(self) -> str:
        """The path with which the store was opened."""

    def _tag_tuples(self) -> list[_TagTuple]: ...
    def _tag_by_name(self, name: str) -> _TagTuple | None: ...
    def _tag_by_version(self, version: int) -> _TagTuple | None: ...
    def _tag_by_time(self, time_ns: int) -> _TagTuple | None: ...
    def _durability_dict(self) -> dict[str, Any]: ...
    def _stats_dict(self) -> dict[str, Any]: ...
    def _verify_dict(self, on_progress: _Progress | None) -> dict[str, Any]: ...

class Snapshot:
    """One closed version of a store; icecore.Snapshot adds the rest."""

    @overload
    def __init__(self, store: Store, version: int) -> None: ...
    @overload
    def __init__(
        self, snapshot: Snapshot, start: _BytesLike | None, stop: _BytesLike | None, prefix: _BytesLike | None
    ) -> None: ...
    @overload
    def __getitem__(self, key: _BytesLike, /) -> bytes: ...
    @overload
    def __getitem__(self, key: slice, /) -> _Snapshot: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def find(self, key: _BytesLike) -> bytes | None:
        """The value; None if the key is not there."""

    def _find_view(self, key: _BytesLike) -> memoryview | None: ...
    def _tag_tuple(self) -> _TagTuple | None: ...
    def _size_bound(self) -> int:
        """The number of keys ever inserted into the store, never less than ``len()``. O(1)."""

    def _find_many_objects(self, keys: Column, missing: object) -> list[Any]: ...
    def _find_many_fixed(self, keys: Column, values: _Buffer, found: _Buffer, size: int, pad: bool) -> None: ...
    @property
    def version(self) -> int:
        """The version's number."""

    @property
    def bounds(self) -> tuple[bytes | None, bytes | None]:
        """The first key and the one after the last; None where there is no bound."""

    @property
    def path(self) -> str:
        """The path of the store."""

class ItemIterator(Iterator[Any]):
    def __init__(self, snapshot: Snapshot, part: int, reverse: bool, limit: int) -> None: ...
    def __iter__(self) -> ItemIterator: ...
    def __next__(self) -> Any: ...

class HistoryIterator(Iterator[Any]):
    def __init__(self, source: Store | Snapshot, key: _BytesLike, oldest_first: bool, as_views: bool) -> None: ...
    def __iter__(self) -> HistoryIterator: ...
    def __next__(self) -> Any: ...

class DiffIterator(Iterator[Any]):
    def __init__(
        self,
        store: Store,
        before: int,
        after: int,
        start: _BytesLike | None,
        stop: _BytesLike | None,
        prefix: _BytesLike | None,
        as_views: bool,
    ) -> None: ...
    def __iter__(self) -> DiffIterator: ...
    def __next__(self) -> Any: ...

class Selection:
    """The items of a snapshot, which can be copied column by column."""

    def __init__(self, snapshot: Snapshot, threads: int) -> None: ...
    def copy_fixed(self, part: int, out: _Buffer, size: int, pad: bool) -> None: ...
    def to_objects(self, part: int) -> list[bytes]: ...
    def __len__(self) -> int: ...

def extract_fixed(
    snapshot: Snapshot,
    keys: _Buffer | None,
    key_size: int,
    values: _Buffer | None,
    value_size: int,
    capacity: int,
    threads: int,
) -> int: ...
def extract_columns(
    snapshot: Snapshot, threads: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint8]]: ...
