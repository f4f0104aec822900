"""icecore.mpi: one store over the ranks of an MPI job.

from mpi4py import MPI
import icecore.mpi

with icecore.mpi.Cluster(MPI.COMM_WORLD, "/dev/shm/weather") as c:
    c[f"station/{c.rank}"] = b"12.5"
    c.tag("hour-1")  # collective: the same number and the same cut on all ranks
    for key, value in c.at("hour-1").items(prefix=b"station/"):
        print(key, value)

Every rank must make the collective calls, in the same order: ``Cluster()``, ``Cluster.restore``, ``close`` (and the end
of the ``with`` block), ``tag``, ``barrier``, ``set_consistency``, ``protect``, ``checkpoint``, ``compact``,
``set_retention``, ``retention``, ``hold``, ``release`` and ``forget``, and a snapshot's ``to_numpy``, ``to_columns``, ``stream`` and
``find_by_broadcast``. Any rank can make all other calls alone. Every call
that may wait for another rank releases the GIL.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, overload

from . import _mpi_library

_mpi_library.check()  # ImportError if this package and mpi4py do not fit together

from . import _native_mpi, checks, columns
from ._types import Change
from .batch import Batch
from .compaction_arguments import hold_name, prefixes_wanted, retention_wanted, wanted
from .errors import Error, InvalidArgumentError
from .information import (
    CRASH_KINDS,
    DURABILITY_MODES,
    INDEXES,
    CompactionReport,
    ForgetReport,
    Hold,
    Retention,
    Tag,
    Tags,
)
from .mapping import OrderedMapping
from .metrics import note_with
from .opening import mode_numbers, path_bytes
from .versions import HasVersion, VersionNames, nanoseconds

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from mpi4py import MPI  # type: ignore[import-not-found, unused-ignore]
    from typing_extensions import Self

    from ._types import BytesLike, ColumnLike, VersionLike
    from .opening import Path, Progress

Checkpoint = _native_mpi.Checkpoint

_RAISE = object()
_CONSISTENCIES = ("relaxed", "sequential")
_PROTECTIONS = ("read_write", "write_only", "read_only", "update_only")
_LEVELS = ("memory", "storage")
_METHODS = ("gather", "naive_merge", "opt_merge", "concatenate", "distributed")

# Clusters that may need closing at exit, in the order in which all ranks opened them.
_clusters: weakref.WeakValueDictionary[int, Cluster] = weakref.WeakValueDictionary()


@dataclass(frozen=True)
class Ownership:
    """Which rank owns a key. All ranks must give the same ownership, and must give it again at every later opening."""

    name: str | None = None
    function: Callable[[bytes, int], int] | None = None
    splits: tuple[bytes, ...] | None = None

    @classmethod
    def by_hash(cls) -> Ownership:
        """By a hash of the key; the default."""
        return cls()

    @classmethod
    def by_function(cls, name: str, function: Callable[[bytes, int], int]) -> Ownership:
        """By ``function(key, ranks)``, which must always return the same rank for the same key, on all ranks. The
        cluster stores only its name, one word. Every find and write calls it, at the speed of Python."""
        return cls(name=name, function=function)

    @classmethod
    def by_ranges(cls, splits: Iterable[bytes]) -> Ownership:
        """By order: rank r owns the keys from ``splits[r - 1]`` to before ``splits[r]``; one split fewer than ranks."""
        return cls(splits=tuple(bytes(split) for split in splits))


class Snapshot(_native_mpi.Snapshot, HasVersion, OrderedMapping):
    """One closed version of a cluster, or a range of its keys: an immutable, ordered ``Mapping`` from bytes to bytes.

    ``cluster.at(...)``, ``cluster.latest()`` and slices make one; it is free. Reading it as a mapping is not
    collective; ``to_numpy``, ``to_columns``, ``stream`` and ``find_by_broadcast`` are. It can be read forwards only,
    and only until the cluster is closed.
    """

    __slots__ = ()

    def _snapshot(self) -> Snapshot:
        return self

    def _narrowed(self, start: BytesLike | None, stop: BytesLike | None, prefix: BytesLike | None) -> Snapshot:
        if start is None and stop is None and prefix is None:
            return self
        return Snapshot(self, start, stop, prefix)

    def _run(self, part: int, reverse: bool, limit: int) -> Iterator[Any]:
        if reverse:
            raise InvalidArgumentError("a cluster's snapshot can be read forwards only: reverse a list of its items")
        return _native_mpi.ItemIterator(self, part, limit)

    def __len__(self) -> int:
        """The number of keys in this version within the bounds. Without bounds every rank counts its own keys: O(keys
        of a rank)."""
        return _native_mpi.Snapshot.__len__(self)

    @overload
    def find_many(self, keys: ColumnLike, dtype: None = None, *, default: Any = None) -> list[Any]: ...
    @overload
    def find_many(
        self, keys: ColumnLike, dtype: npt.DTypeLike, *, default: None = None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]: ...
    def find_many(self, keys: ColumnLike, dtype: Any = None, *, default: Any = None) -> Any:
        """Finds many keys at once and asks all their owners together: see ``icecore.Snapshot.find_many``."""
        return _find_many(self, keys, dtype, default)

    def to_numpy(
        self,
        key_dtype: npt.DTypeLike | None = None,
        value_dtype: npt.DTypeLike | None = None,
        *,
        method: str = "opt_merge",
        root: int = 0,
        threads: int = 1,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        linear_scan: bool = False,
        memory_bytes_max: int | None = None,
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """All keys and values of all ranks as two NumPy arrays at ``root``, and empty arrays on the other ranks.
        Collective, with the same arguments on all ranks.

        The dtypes are those of ``icecore.Snapshot.to_numpy``; an item that does not fit is a ValueError on all ranks.
        If all items have the dtype's size, the array is the received memory, without a copy.

        ``method``: how the pairs are combined. ``'opt_merge'``: in key order, merged in pairs of ranks by ``threads``
        threads (0: all cores). ``'naive_merge'``: in key order, merged at the root alone (``linear_scan``: by comparing
        the next keys of all ranks for each pair). ``'concatenate'``: in key order, for a cluster whose owners hold
        ranges. ``'gather'``: rank after rank, without an overall order. ``'distributed'``: every rank gets a range of
        the keys, about as many as the others, which follows the range of the rank before it.

        ``start``, ``stop``, ``prefix``: as in ``items``. ``memory_bytes_max``: the memory that a rank may take for its
        own pairs, and again for the pairs it receives; InvalidArgumentError on all ranks if one needs more.
        """
        sizes = tuple((None, False) if dtype is None else columns.item_size(dtype) for dtype in (key_dtype, value_dtype))
        run = self._narrowed(start, stop, prefix)
        number = _number(method, _METHODS, "method")
        threads = columns.thread_count(threads)
        extracted = run._extract(number, root, threads, linear_scan, memory_bytes_max, *sizes[0], *sizes[1])
        return columns.extracted_to_numpy(extracted, key_dtype, value_dtype)

    def to_columns(
        self,
        *,
        method: str = "opt_merge",
        root: int = 0,
        threads: int = 1,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        linear_scan: bool = False,
        memory_bytes_max: int | None = None,
    ) -> columns.Columns:
        """The same as offsets and bytes, for items of any sizes: see ``icecore.Snapshot.to_columns``. The received
        memory is not copied. Collective."""
        run = self._narrowed(start, stop, prefix)
        number = _number(method, _METHODS, "method")
        threads = columns.thread_count(threads)
        extracted = run._extract(number, root, threads, linear_scan, memory_bytes_max, None, False, None, False)
        return columns.extracted_to_columns(extracted)

    def stream(
        self,
        sink: Callable[[Any], object],
        *,
        as_columns: bool = False,
        root: int = 0,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        memory_bytes_max: int | None = None,
    ) -> None:
        """Calls ``sink(block)`` at ``root`` with all pairs of all ranks in key order, some at a time. No rank holds
        more than two blocks of 64 KiB (or of one pair) for each rank it communicates with. Collective, with the same
        arguments on all ranks.

        A block is a list of ``(key, value)``, or with ``as_columns`` the same as ``to_columns`` returns. ``sink`` may
        use the cluster, but must not make collective calls. An exception of ``sink`` ends the stream: it is raised at
        the root, and the other ranks raise an InvalidArgumentError that describes it. ``memory_bytes_max`` makes the
        blocks smaller.
        """
        run = self._narrowed(start, stop, prefix)
        to = (lambda parts: sink(columns.columns_of(parts))) if as_columns else sink
        run._stream(to, as_columns, root, memory_bytes_max)

    def find_by_broadcast(self, key: BytesLike | None, *, root: int = 0) -> bytes | None:
        """Finds the key that ``root`` gives and returns its value there; the other ranks get None, and their ``key`` is
        ignored. Collective: all ranks look for the key, and their answers are reduced to one. ``find`` asks only the
        key's owner."""
        return self._find_by_broadcast(key, root)

    def __repr__(self) -> str:
        start, stop = self.bounds
        run = "" if start is None and stop is None else f" [{start!r}:{stop!r}]"
        return f"<icecore.mpi.Snapshot version {self.version} of {self.path!r}{run}>"

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a snapshot of a cluster cannot be pickled or copied: send its version")


class Cluster(_native_mpi.Cluster, VersionNames):
    """One store over the ranks of a communicator: it maps bytes to bytes, keeps all versions, and every rank can read
    everything.

    ``c[key]``, ``c[key] = value``, ``del c[key]`` and ``key in c`` read and write the present. Operations on all keys
    (iteration, ``len``, slices) need a version: ``c.latest()`` or ``c.at(...)``. To close the cluster, call ``close()``
    or leave its ``with`` block on all ranks.
    """

    __slots__ = ("__weakref__",)
    __iter__ = None  # iteration needs a version: see latest()

    def __init__(
        self,
        comm: MPI.Comm,
        path: Path,
        mode: str = "a",
        *,
        ownership: Ownership = Ownership(),
        consistency: str = "relaxed",
        group_size: int = 0,
        staging_bytes: int = 256 * 1024,
        cache_bytes: int = 64 * 1024 * 1024,
        progress_thread: bool = True,
        durability: str = "best_available",
        emulate_durability: bool = False,
        accept_copy: bool = False,
        crash: str = "unknown",
        huge_pages: bool = True,
        index: str = "btree",
        recovery_threads: int = 0,
        _restored: tuple[bytes, bool] | None = None,
    ) -> None:
        """Opens or makes the cluster in the folder ``path``. Collective on ``comm``, which is duplicated.

        ``mode``, ``durability`` and the arguments after it are those of ``icecore.open``, for each rank's store.
        ``consistency``: with ``'relaxed'``, other ranks see a write after the writer's ``fence()`` or a ``barrier()``;
        with ``'sequential'``, when it has returned. ``group_size``: ranks that share memory, 0 for all of a node.
        """
        access, creation = mode_numbers(mode)
        _native_mpi.Cluster.__init__(
            self,
            _mpi_library.address_of(comm),
            path_bytes(path),
            access,
            creation,
            _number(durability, DURABILITY_MODES, "durability"),
            emulate_durability,
            accept_copy,
            _number(crash, CRASH_KINDS, "crash"),
            huge_pages,
            _number(index, INDEXES, "index"),
            recovery_threads,
            _number(consistency, _CONSISTENCIES, "consistency"),
            group_size,
            staging_bytes,
            cache_bytes,
            progress_thread,
            ownership.name,
            ownership.function,
            None if ownership.splits is None else list(ownership.splits),
            None if _restored is None else _restored[0],
            _restored is not None and _restored[1],
        )
        _clusters[id(self)] = self

    @classmethod
    def restore(cls, comm: MPI.Comm, folder: Path, path: Path, *, redistribute: bool = False, **opening: Any) -> Self:
        """Makes a cluster at ``path`` from the checkpoint in ``folder`` and opens it. Collective; any number of ranks
        and any ownership will do.

        ``opening``: the keyword arguments of ``Cluster``. ``redistribute`` sends every record to its owner anew even if
        ranks and ownership are those of the checkpoint. OtherClusterError if the checkpoint is not complete,
        DamagedError if bytes of it fail their check, StoreExistsError if a cluster is at ``path``.
        """
        return cls(comm, path, **opening, _restored=(path_bytes(folder), redistribute))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        try:
            self.close()
        except Error:
            if kind is None:  # else the exception that ended the block is more important
                raise

    # ---- Writing -----------------------------------------------------------------------------------------------------

    def put_many(self, keys: ColumnLike, values: ColumnLike) -> None:
        """Inserts whole columns without a Python loop and sends each item to its owner. ``icecore.Store.put_many`` says
        what a column is. Of equal keys the last one counts. Not atomic."""
        self._insert_many(*columns.as_columns(keys, values))

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Collects writes to keys of one owner and applies them at one instant at the end of the ``with`` block; an
        exception discards them. Keys of several owners are an InvalidArgumentError."""
        collected = Batch()
        yield collected
        collected._apply_to(self)

    def update(self, other: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), /, **more: Any) -> None:
        """Inserts all items, as ``put_many`` does."""
        items = {**dict(other), **more}
        self.put_many(list(items.keys()), list(items.values()))

    def pop(self, key: BytesLike, default: Any = _RAISE) -> Any:
        """Removes the key and returns its value. If it is not there, returns ``default``, or raises KeyError. Not
        atomic: finding and removing are two steps."""
        found = self.find(key)
        if found is not None:
            self.remove(key)
            return found
        if default is _RAISE:
            raise KeyError(key)
        return default

    # ---- Reading -----------------------------------------------------------------------------------------------------

    def find(self, key: BytesLike, at: VersionLike | None = None) -> bytes | None:
        """The newest value, or that of the closed version ``at``, named as for ``at()``; None if the key is not there."""
        return self._find(key) if at is None else self._find(key, self._version_of(at))

    def get(self, key: BytesLike, default: Any = None, *, at: VersionLike | None = None) -> Any:
        """The newest value, or that of the closed version ``at``; ``default`` if the key is not there."""
        found = self.find(key, at)
        return default if found is None else found

    @overload
    def find_many(
        self, keys: ColumnLike, dtype: None = None, *, at: VersionLike | None = None, default: Any = None
    ) -> list[Any]: ...
    @overload
    def find_many(
        self, keys: ColumnLike, dtype: npt.DTypeLike, *, at: VersionLike | None = None, default: None = None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]: ...
    def find_many(self, keys: ColumnLike, dtype: Any = None, *, at: Any = None, default: Any = None) -> Any:
        """Finds the newest values of many keys at once, or those of the closed version ``at``: see
        ``icecore.Snapshot.find_many``."""
        return _find_many(self if at is None else self.at(at), keys, dtype, default)

    def history(self, key: BytesLike) -> list[Change]:
        """All records of the key, newest first; ``value`` is None if the record is a removal."""
        return [Change._make(record) for record in self._history(key)]

    def at(
        self, version: VersionLike | None = None, /, *, tag: str | None = None, time: datetime | int | None = None
    ) -> Snapshot:
        """The snapshot of a closed version, named as for ``icecore.Store.at``: by number, tag name, Tag, Snapshot, or a
        datetime with a time zone. UnknownTagError (a KeyError) or VersionNotClosedError (a ValueError)."""
        return Snapshot(self, self._one_of(version, tag, time))

    def latest(self) -> Snapshot:
        """The newest closed version. It does not include writes since the last ``tag()`` or storage barrier."""
        return Snapshot(self, self.clock - 1)

    # ---- Tags --------------------------------------------------------------------------------------------------------

    def tag(
        self,
        name: str | None = None,
        note: str = "",
        time: datetime | int | None = None,
        *,
        metrics: Mapping[str, Any] | None = None,
    ) -> int:
        """Closes the open version of all ranks and returns its number, the same on all. Collective: the version
        includes all writes that had returned on a rank before that rank made this call. Rank 0 gives name, note, time
        and metrics, which are those of ``icecore.Store.tag``."""
        note = note_with(note, metrics)
        time_ns = None if time is None else nanoseconds(time)
        return self._tag(None if name == "" else name, None if note == "" else note, time_ns)

    def tags(self) -> Tags:
        """Named and timed tags, oldest version first."""
        return Tags(Tag(*found) for found in self._tag_tuples())

    def find_tag(self, at: VersionLike) -> Tag | None:
        """The tag of a version, named as for ``at()``, or None if there is none."""
        found = self._found_tag(at)
        return None if found is None else Tag(*found)

    # ---- Synchronising -----------------------------------------------------------------------------------------------

    def barrier(self, level: str = "memory") -> None:
        """Afterwards all ranks see all writes that any rank made before. With level ``'storage'`` these writes are also
        durable. Collective."""
        self._barrier(_number(level, _LEVELS, "level"))

    @property
    def consistency(self) -> str:
        """``'relaxed'`` or ``'sequential'``."""
        return _CONSISTENCIES[self._consistency()]

    def set_consistency(self, mode: str) -> None:
        """Sets the consistency of all ranks from now on. Collective."""
        self._set_consistency(_number(mode, _CONSISTENCIES, "consistency"))

    @property
    def protection(self) -> str:
        """``'read_write'``, ``'write_only'``, ``'read_only'`` or ``'update_only'``."""
        return _PROTECTIONS[self._protection()]

    def protect(self, allowed: str) -> None:
        """Sets which calls all ranks may make from now on. Collective. Other calls raise ProtectionError."""
        self._protect(_number(allowed, _PROTECTIONS, "protection"))

    def signal_notify(self, signum: int, ranks: int | Sequence[int]) -> None:
        """Makes a fence, then sends the signal ``signum`` to each of ``ranks``."""
        self._signal_notify(signum, _ranks(ranks))

    def signal_wait(self, signum: int, ranks: int | Sequence[int]) -> None:
        """Waits for one signal from each of ``ranks``. Signals are counted, so none is lost."""
        self._signal_wait(signum, _ranks(ranks))

    def checkpoint(self, folder: Path) -> Checkpoint:
        """Starts to write the whole cluster as it is now, with every version and tag, to a folder that all ranks share,
        and returns; writes go on meanwhile. Collective. The new checkpoint replaces one that is already in the folder
        when it is complete. ``wait()`` of the returned object waits for that, or raises the failure."""
        return self._checkpoint(path_bytes(folder))

    # ---- Upkeep ------------------------------------------------------------------------------------------------------

    def compact(
        self,
        *,
        whole: bool = False,
        dry_run: bool = False,
        only_if_expiring: bool = False,
        threads: int = 0,
        compression: str = "none",
        compression_level: int = 3,
        bytes_per_second: int = 0,
        on_progress: Progress | None = None,
    ) -> CompactionReport:
        """Packs the stores of all ranks while threads go on to read and write; ``icecore.compact`` says what packing
        does and what the arguments mean. Collective: all but ``threads``, ``bytes_per_second`` and ``on_progress`` must
        be the same on all ranks. A version expires on all ranks or on none. The report has the sums of all ranks;
        progress is that of this rank."""
        how = wanted(
            whole, dry_run, only_if_expiring, threads, compression, compression_level, bytes_per_second
        )
        return CompactionReport(**self._compact(how, on_progress))

    def retention(self) -> Retention:
        """Which closed versions ``compact`` keeps; all, unless ``set_retention`` was called. Collective."""
        kept = self._retention_dict()
        return Retention(younger_than=timedelta(seconds=kept.pop("seconds")), **kept)

    def set_retention(
        self,
        *,
        tagged: bool = False,
        newest: int = 0,
        younger_than: timedelta = timedelta(0),
        hourly: int = 0,
        daily: int = 0,
        weekly: int = 0,
    ) -> None:
        """Sets which closed versions ``compact`` keeps from now on, by the tags of the cluster, as
        ``icecore.Store.set_retention``. Collective; all ranks pass the same."""
        self._set_retention(*retention_wanted(tagged, newest, younger_than, hourly, daily, weekly))

    def hold(self, name: str, at: VersionLike | None = None) -> int:
        """Holds a closed version on all ranks by a name, and returns it: it does not expire until ``release(name)``, as
        ``icecore.Store.hold``. Without a version the open one is closed, as by ``tag()``. Collective; all ranks pass the
        same."""
        return self._hold_version(hold_name(name), None if at is None else self._version_of(at))

    def release(self, name: str) -> None:
        """Ends the hold of this name on all ranks, as ``icecore.Store.release``. Collective."""
        self._release_version(hold_name(name))

    def holds(self) -> list[Hold]:
        """The versions that are held, in their order, as this rank has them; any rank may ask alone."""
        return [Hold(*one) for one in self._held_tuples()]

    def forget(self, *keys: BytesLike, prefixes: Iterable[BytesLike] = (), note: str = "") -> ForgetReport:
        """Removes the keys, and those that begin with one of the prefixes, on the ranks that own them, and has the next
        ``compact`` erase them from all versions on all ranks, as ``icecore.Store.forget``. Collective; all ranks pass
        the same. No rank writes meanwhile. The report has the keys of all ranks, and names the cluster's tag that tells
        of it."""
        return ForgetReport(**self._forget(keys, prefixes_wanted(prefixes), checks.text(note, "note").encode()))

    # ---- The cluster itself ------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        if self.closed:
            return f"<icecore.mpi.Cluster {self.path!r} closed>"
        return f"<icecore.mpi.Cluster {self.path!r}, rank {self.rank} of {self.size}>"

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a cluster cannot be pickled or copied: open it on every rank")

    def _slice(self, asked: slice) -> Any:
        raise TypeError("a cluster cannot be sliced; slice one of its versions: cluster.latest()[start:stop]")

    def _tag_by_version(self, version: int) -> tuple[int, int, str, str] | None:
        return next((told for told in self._tag_tuples() if told[0] == version), None)

    def _tag_by_time(self, time_ns: int) -> tuple[int, int, str, str] | None:
        """The newest tag that is not after the time; of several of that time, the newest version."""
        return max((told for told in self._tag_tuples() if told[1] <= time_ns), key=lambda t: (t[1], t[0]), default=None)


Mapping.register(Snapshot)


def _find_many(source: Cluster | Snapshot, keys: ColumnLike, dtype: Any, default: Any) -> Any:
    column = columns.as_column(keys, "keys")
    if dtype is None:
        return source._find_many_objects(column, default)
    out = columns.FoundValues(len(column), dtype)
    source._find_many_fixed(column, out.value_bytes, out.found_bytes, out.size, out.pad)
    return out.values, out.found


def _number(asked: str, names: tuple[str, ...], what: str) -> int:
    if asked == "" or asked not in names:
        raise InvalidArgumentError(f"{what} {asked!r} is not one of {', '.join(name for name in names if name)}")
    return names.index(asked)


def _ranks(ranks: int | Sequence[int]) -> list[int]:
    return [ranks] if isinstance(ranks, int) else [int(rank) for rank in ranks]


@atexit.register
def _close_all() -> None:
    """Closes clusters that are still open at exit, before mpi4py finalises MPI."""
    for cluster in list(_clusters.values()):
        try:
            cluster.close()
        except Exception:  # the process ends, so no code could handle the error
            pass


__all__ = ["Checkpoint", "Cluster", "Ownership", "Snapshot"]
