"""The C++ half of icecore.mpi. Programs use the Python half (mpi.py)."""

import builtins
from collections.abc import Callable, Iterator
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from . import _native
from .mpi import Snapshot as _Snapshot

_Buffer = Buffer | npt.NDArray[Any]
_BytesLike = str | _Buffer
_TagTuple = tuple[int, int, str, str]

def mpi_library_version() -> str: ...
def mpi_is_initialized() -> bool: ...

class Cluster:
    """An open cluster; icecore.mpi.Cluster adds the rest."""

    def __init__(
        self,
        communicator: int,
        path: bytes,
        access: int,
        creation: int,
        durability: int,
        emulate_durability: bool,
        accept_copy: bool,
        crash: int,
        huge_pages: bool,
        index: int,
        recovery_threads: int,
        consistency: int,
        group_size: int,
        staging_bytes: int,
        cache_bytes: int,
        progress_thread: bool,
        owner_name: str | None,
        owner: Callable[[bytes, int], int] | None,
        splits: list[bytes] | None,
        restored_from: bytes | None,
        redistribute: bool,
    ) -> None: ...
    def close(self) -> None:
        """Makes a fence, makes everything durable and closes every rank's store. Collective. Waits for calls running in
        other threads of this rank. Closing twice does nothing."""

    def __getitem__(self, key: _BytesLike, /) -> bytes: ...
    def __setitem__(self, key: _BytesLike, value: _BytesLike, /) -> None: ...
    def __delitem__(self, key: _BytesLike, /) -> None: ...
    def __contains__(self, key: object, /) -> bool: ...
    def insert(self, key: _BytesLike, value: _BytesLike) -> int:
        """Sets the key's value in the open version and returns that version."""

    def remove(self, key: _BytesLike) -> int:
        """Removes the key in the open version and returns that version, whether or not the key was there: with relaxed
        consistency only its owner finds this out, and only later."""

    def find(self, key: _BytesLike, at: int | None = None) -> bytes | None:
        """The newest value, or that of the closed version ``at``; None if the key is not there."""

    def _apply(self, batch: _native.Batch) -> int: ...
    def _history(self, key: _BytesLike) -> list[tuple[int, bytes | None]]: ...
    def _insert_many(self, keys: _native.Column, values: _native.Column) -> None: ...
    def _find_many_objects(self, keys: _native.Column, missing: object) -> list[Any]: ...
    def _find_many_fixed(
        self, keys: _native.Column, values: _Buffer, found: _Buffer, size: int, pad: bool
    ) -> None: ...
    def _tag(self, name: str | None, note: str | None, time_ns: int | None) -> int: ...
    def _tag_tuples(self) -> list[_TagTuple]: ...
    def _tag_by_name(self, name: str) -> _TagTuple | None: ...
    def fence(self) -> None:
        """Returns when the owners have made all writes that this rank has staged. Not collective."""

    def _barrier(self, level: int) -> None: ...
    def _set_consistency(self, mode: int) -> None: ...
    def _protect(self, mode: int) -> None: ...
    def _consistency(self) -> int: ...
    def _protection(self) -> int: ...
    def _signal_notify(self, signum: int, ranks: list[int]) -> None: ...
    def _signal_wait(self, signum: int, ranks: list[int]) -> None: ...
    def _checkpoint(self, folder: bytes) -> Checkpoint: ...
    def owner_of(self, key: _BytesLike) -> int:
        """The rank that holds the key."""

    def group_of(self, rank: int) -> int:
        """The storage group of a rank, counted from 0."""

    def reaches_directly(self, rank: int) -> bool:
        """Whether this rank reads and writes that rank's keys directly in its memory, without its help."""

    @property
    def clock(self) -> int:
        """The version that a write now belongs to, the same on all ranks between two collective calls."""

    @property
    def rank(self) -> int:
        """This rank."""

    @property
    def size(self) -> int:
        """The number of ranks; for the number of keys, ``len(c.latest())``."""

    @property
    def has_progress_thread(self) -> bool:
        """Whether a thread answers other ranks while this rank is outside the cluster's calls."""

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    @property
    def path(self) -> str:
        """The folder of this rank's store."""

class Checkpoint:
    """A checkpoint that is being written or has been written. It is completed even if this object is gone."""

    def wait(self) -> None:
        """Returns when the checkpoint is complete on all ranks, or raises the failure. Not collective."""

    @property
    def done(self) -> bool:
        """Whether wait() would return or raise without waiting."""

    @property
    def progress(self) -> tuple[int, int]:
        """The bytes of its file that this rank has written so far, and the file's final size."""

class Snapshot:
    """One closed version of a cluster; icecore.mpi.Snapshot adds the rest."""

    @overload
    def __init__(self, cluster: Cluster, version: int) -> None: ...
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

    def _find_many_objects(self, keys: _native.Column, missing: object) -> list[Any]: ...
    def _find_many_fixed(
        self, keys: _native.Column, values: _Buffer, found: _Buffer, size: int, pad: bool
    ) -> None: ...
    def _extract(
        self,
        method: int,
        root: int,
        threads: int,
        linear_scan: bool,
        memory_bytes_max: int | None,
        key_size: int | None,
        key_pad: bool,
        value_size: int | None,
        value_pad: bool,
    ) -> Extracted: ...
    def _stream(
        self, sink: Callable[[Any], object], as_columns: bool, root: int, memory_bytes_max: int | None
    ) -> None: ...
    def _find_by_broadcast(self, key: _BytesLike | None, root: int) -> bytes | None: ...
    @property
    def version(self) -> int:
        """The version's number."""

    @property
    def bounds(self) -> tuple[bytes | None, bytes | None]:
        """The first key and the one after the last; None where there is no bound."""

    @property
    def path(self) -> str:
        """The folder of this rank's store."""

class Extracted:
    """Pairs of all ranks, from which columns can be made."""

    def __len__(self) -> int: ...
    def width(self, part: int) -> int: ...
    def bytes(self, part: int) -> npt.NDArray[np.uint8]: ...
    def offsets(self, part: int) -> npt.NDArray[np.uint64]: ...
    def copy_fixed(self, part: int, out: _Buffer, size: int, pad: bool) -> None: ...
    def to_objects(self, part: int) -> list[builtins.bytes]: ...

class ItemIterator(Iterator[Any]):
    def __init__(self, snapshot: Snapshot, part: int, limit: int) -> None: ...
    def __iter__(self) -> ItemIterator: ...
    def __next__(self) -> Any: ...
