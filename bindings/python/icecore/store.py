"""The store: opening, writing, tags, and access to older versions."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Union, overload

import numpy as np

from . import _native, arrays, columns
from .batch import Batch
from .errors import InvalidArgumentError, LockedError, UnknownTagError
from .feed import Changes, Feed, FeedInfo, feeds_of
from .filters import FilterLike, as_filter, functions_of
from .history import Diff, History
from .information import (
    CRASH_KINDS,
    DURABILITY_MODES,
    INDEXES,
    DurabilityInfo,
    RepairReport,
    Statistics,
    Tag,
    Tags,
    VerifyReport,
    nanoseconds,
)
from .mapping import OrderedMapping
from .query import Queries, Query, aggregate_list, keep_number
from .snapshot import Snapshot

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Self

    from ._types import BytesLike, ColumnLike, VersionLike

    class _Base(OrderedMapping, MutableMapping[bytes, bytes]):
        pass

else:
    _Base = OrderedMapping

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Placements = Sequence[Union[Path, tuple[Path, int]]]
Progress = Callable[[str, int, int, str], object]

# mode: (access, creation), the numbers of icecore::access and icecore::creation
_MODES = {"r": (1, 1), "r+": (0, 1), "a": (0, 0), "x": (0, 2)}
_STORE_MODES = {**_MODES, "attached": (2, 1)}
_VERSION_MAX = 2**48 - 1
_LOOKUP_CACHE_BYTES = 64 << 20
_RAISE = object()

# Stores that may need closing at exit, by id: they compare by content and so have no hash.
_stores: weakref.WeakValueDictionary[int, Store] = weakref.WeakValueDictionary()


class Store(_native.Store, _Base):
    """An ordered map that never forgets: a ``MutableMapping`` from bytes to bytes that keeps all its versions.

    Its mapping methods read and write the present; ``at()``, ``history()`` and ``diff()`` read older versions. Any
    number of threads may use a store. To close it, call ``close()`` or leave its ``with`` block.
    """

    __slots__ = ("__weakref__",)

    def __init__(
        self,
        path: Path,
        mode: str = "a",
        *,
        durability: str = "best_available",
        emulate_durability: bool = False,
        deferred_durability: bool = False,
        accept_copy: bool = False,
        accept_damage: bool = False,
        crash: str = "unknown",
        huge_pages: bool = True,
        index: str = "btree",
        change_index: bool = False,
        lookup_cache_bytes: int = _LOOKUP_CACHE_BYTES,
        grow_in_background: bool = True,
        beside_writer: bool = True,
        publish_settled: bool = True,
        recovery_threads: int = 0,
        placements: Placements = (),
        shared_as: Path | None = None,
        on_progress: Progress | None = None,
    ) -> None:
        access, creation = mode_numbers(mode, _STORE_MODES)
        if durability not in DURABILITY_MODES:
            raise InvalidArgumentError(f"durability {durability!r} is not one of {', '.join(DURABILITY_MODES)}")
        if index not in INDEXES[1:]:
            raise InvalidArgumentError(f"index {index!r} is not one of {', '.join(INDEXES[1:])}")
        if lookup_cache_bytes < 0:
            raise InvalidArgumentError(f"lookup_cache_bytes must be 0 (none) or more, not {lookup_cache_bytes}")
        try:
            super().__init__(
                path_bytes(path),
                access,
                creation,
                DURABILITY_MODES.index(durability),
                emulate_durability,
                deferred_durability,
                accept_copy,
                accept_damage,
                crash_number(crash),
                huge_pages,
                INDEXES.index(index),
                change_index,
                lookup_cache_bytes,
                grow_in_background,
                beside_writer,
                publish_settled,
                columns.thread_count(recovery_threads),
                placement_list(placements),
                b"" if shared_as is None else path_bytes(shared_as),
                on_progress,
            )
        except LockedError as e:
            raise _explained(e, path) from None
        _stores[id(self)] = self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _snapshot(self) -> Snapshot:
        return self.latest()

    # ---- Writing -----------------------------------------------------------------------------------------------------

    def put_array(self, key: BytesLike, array: npt.ArrayLike) -> int:
        """Stores an array with its dtype and shape, as a .npy file; returns the version. ``get_array`` reads it."""
        return self.insert(key, arrays.encode(array))

    def put_many(self, keys: ColumnLike, values: ColumnLike, *, threads: int = 1) -> None:
        """Inserts whole columns without a Python loop.

        A column is an array of fixed-size items (dtype 'S': without the NUL bytes at their ends), a ``ByteColumn``, or
        a sequence of bytes-like objects. Items are inserted one by one, in order. With several threads, each inserts a
        range of the items, so any of several equal keys may be the last. Not atomic: if it fails, the error names an
        item, and others may have been inserted. ``with store.batch() as b: b.put_many(...)`` is atomic.
        """
        key_column, value_column = columns.as_columns(keys, values)
        self._insert_many(key_column, value_column, columns.thread_count(threads))

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Collects writes and applies them at one instant at the end of the ``with`` block; an exception discards them.
        Afterwards ``b.version`` is the version they belong to."""
        collected = Batch()
        yield collected
        collected._apply_to(self)

    def clear(self) -> None:
        """Removes all keys at one instant. Their histories stay."""
        with self.batch() as b:
            for key in self:
                del b[key]

    def pop(self, key: BytesLike, default: Any = _RAISE) -> Any:
        """Removes the key and returns its value. If it is not there, returns ``default``, or raises KeyError."""
        found = self.find(key)
        if found is not None:
            self.remove(key)
            return found
        if default is _RAISE:
            raise KeyError(key)
        return default

    if not TYPE_CHECKING:
        popitem = MutableMapping.popitem
        setdefault = MutableMapping.setdefault
        update = MutableMapping.update

    # ---- Versions ----------------------------------------------------------------------------------------------------

    def tag(self, name: str | None = None, note: str = "", time: datetime | int | None = None) -> int:
        """Closes the open version and returns its number. From then on ``at()`` reads it, and it never changes.

        If a name (unique in the store), a note or a time is given, the tag is stored, and ``tags()`` and ``at()`` find
        it; by default its time is now. ``time`` may be a datetime or nanoseconds since 1970-01-01 UTC. Under tag
        durability this returns when the version is durable.
        """
        time_ns = None if time is None else nanoseconds(time)
        return self._tag(None if name == "" else name, None if note == "" else note, time_ns)

    def tags(self) -> Tags:
        """Named and timed tags, oldest version first."""
        return Tags(Tag(*found) for found in self._tag_tuples())

    def find_tag(self, tagged: str | int) -> Tag | None:
        """The tag of this name or version, or None."""
        found = self._tag_by_name(tagged) if isinstance(tagged, str) else self._tag_by_version(checked_version(tagged))
        return None if found is None else Tag(*found)

    def latest(self) -> Snapshot:
        """The present, as a snapshot: closes the open version if anything was written in it. O(1)."""
        return Snapshot(self, self._latest_version())

    def at(
        self, version: VersionLike | None = None, *, tag: str | None = None, time: datetime | int | None = None
    ) -> Snapshot:
        """The snapshot of a closed version: by number, by tag name, or by time (the latest tag not after it).

        Free. A datetime means the end of its microsecond, so ``at(time=t.time)`` finds the tag ``t``; a naive datetime
        is local time. Raises UnknownTagError (a KeyError) or VersionNotClosedError (a ValueError).
        """
        if (version is not None) + (tag is not None) + (time is not None) != 1:
            raise TypeError("at() takes exactly one of version, tag and time")
        if time is not None:
            return Snapshot(self, self._version_at(time))
        return Snapshot(self, self._version_of(version if tag is None else tag))

    def history(self, key: BytesLike) -> History:
        """All records of the key, newest first; empty if it was never inserted."""
        return History(self, key)

    def diff(
        self,
        before: VersionLike,
        after: VersionLike,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
    ) -> Diff:
        """The differences between two closed versions, in key order, within the bounds."""
        return Diff(self, self._version_of(before), self._version_of(after), start, stop, prefix)

    # ---- Reading -----------------------------------------------------------------------------------------------------

    def view(self, key: BytesLike, version: VersionLike | None = None) -> memoryview:
        """The value as a read-only memoryview into the store: no copy. It stays valid and unchanged as long as it lives,
        also after ``close()``. KeyError if there is no such key."""
        found = self._find_view(key) if version is None else self._find_view(key, self._version_of(version))
        if found is None:
            raise KeyError(key)
        return found

    def get_array(self, key: BytesLike, version: VersionLike | None = None) -> npt.NDArray[Any]:
        """The array that ``put_array`` stored, read-only and without a copy. KeyError if there is no such key,
        ValueError if the value is not an array."""
        return arrays.decode(self.view(key, version), key)

    @overload
    def find_many(
        self, keys: ColumnLike, dtype: None = None, *, version: Any = None, default: Any = None
    ) -> list[Any]: ...
    @overload
    def find_many(
        self, keys: ColumnLike, dtype: npt.DTypeLike, *, version: Any = None, default: None = None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]: ...
    def find_many(self, keys: ColumnLike, dtype: Any = None, *, version: Any = None, default: Any = None) -> Any:
        """Finds many keys at once: see ``Snapshot.find_many``. ``version``: one for all keys, or an array with one per
        key."""
        if not isinstance(version, (np.ndarray, list)):
            snapshot = self.latest() if version is None else self.at(version)
            return snapshot.find_many(keys, dtype, default=default)
        column = columns.as_column(keys, "keys")
        versions = np.ascontiguousarray(version)
        if versions.dtype.kind not in "iu" or (versions.size and versions.min() < 0):
            raise InvalidArgumentError("an array of versions must hold integers of 0 or more")
        versions = versions.astype(np.uint64, copy=False)
        if dtype is None:
            return self._find_many_objects(column, versions, default)
        out = columns.FoundValues(len(column), dtype)
        self._find_many_fixed(column, versions, out.value_bytes, out.found_bytes, out.size, out.pad)
        return out.values, out.found

    # ---- Queries that are kept ---------------------------------------------------------------------------------------

    def start(
        self,
        name: str,
        where: FilterLike | None = None,
        *,
        at: VersionLike | None = None,
        keep: str = "keys",
        select: str | Sequence[str] = (),
        aggregates: Sequence[tuple[str, str]] = (),
        layout: str | None = None,
    ) -> Query:
        """Starts a query: when this returns, the version and the query are durable. ``Query.run()`` runs it.

        ``where``: an expression (``layout`` names the columns of a value), a ``Filter`` or a function; by default all
        keys match. ``at``: a closed version, by default the present. ``keep``: ``"keys"``, whose values are looked up
        when rows are read, or ``"count"``. ``select``: expressions whose values are kept as columns in place of keys.
        ``aggregates``: totals that are kept, such as ``[("sum", "price * qty"), ("count", "true")]``. QueryExistsError
        if the name is taken.
        """
        version = None if at is None else self._version_of(at)
        columns = [select] if isinstance(select, str) else list(select)
        return Query(
            self, name, as_filter(where, layout), version, keep_number(keep), columns, aggregate_list(aggregates)
        )

    def query(self, name: str, functions: FilterLike | Sequence[FilterLike] = ()) -> Query:
        """The query of this name, in whatever state. ``functions``: the functions that its filter calls, if another
        process started it. NoSuchQueryError; UnknownFunctionError if none of them has the name and revision."""
        return Query(self, name, functions_of(functions))

    def queries(self) -> Queries:
        """All queries, oldest first."""
        return Queries(Query(self, name, []) for name in _native.query_names(self))

    def prune_queries(self, *, older_than: float | None = None, finished: bool = True) -> int:
        """Drops queries that are finished or cancelled, and returns how many. ``older_than``: only those that were
        started more seconds ago. ``finished=False``: all that do not run."""
        return _native.prune_queries(self, None if older_than is None else int(older_than), finished)

    # ---- Changes and feeds -------------------------------------------------------------------------------------------

    def changes(
        self, after: VersionLike, up_to: VersionLike, where: FilterLike | None = None, *, layout: str | None = None
    ) -> Changes:
        """All that was written in the versions behind ``after`` up to ``up_to``, by key, then by version. In ``where``
        ``before.value``, ``removed`` and ``first`` tell what a change is. O(keys)."""
        return Changes(self, self._version_of(after), self._version_of(up_to), as_filter(where, layout))

    def feed(
        self,
        name: str = "",
        *,
        after: VersionLike | None = None,
        where: FilterLike | None = None,
        layout: str | None = None,
        snapshot: bool = False,
        unsynced: bool = False,
        token: BytesLike = b"",
        secret: BytesLike = b"",
    ) -> Feed:
        """What changes from a version on. The feed of this ``name`` goes on where it was acknowledged; if there is none,
        it is made, and begins behind the closed version ``after`` (by default the newest), with its items first if a
        ``snapshot`` is asked for. Without a name the caller keeps the place: the ``token`` of a batch. ``unsynced``:
        tells versions as soon as they are closed, which a power cut may take. With a ``secret`` tokens are signed, and
        others are refused (BadTokenError): for tokens that go through hands that must not choose where the feed goes
        on."""
        version = None if after is None else self._version_of(after)
        return Feed(self, name, version, as_filter(where, layout), snapshot, unsynced, token, secret)

    def feeds(self) -> list[FeedInfo]:
        """The feeds that the store keeps, oldest first."""
        return feeds_of(self)

    # ---- The store itself --------------------------------------------------------------------------------------------

    def durability(self) -> DurabilityInfo:
        """The durability that the store really has on its device."""
        return DurabilityInfo._of(self._durability_dict())

    def stats(self) -> Statistics:
        """Sizes and counts."""
        return Statistics._of(self._stats_dict())

    def verify(self, on_progress: Progress | None = None) -> VerifyReport:
        """Checks every structure against its checksums and against the other structures. O(bytes of the store)."""
        return VerifyReport._of(self._verify_dict(on_progress))

    def checkpoint(self, path: Path, on_progress: Progress | None = None) -> int:
        """Writes the whole store as it is now, with every version and tag, to a file of its own, and returns the newest
        closed version in it. Closes the open version if anything was written in it. A store opened for reading does not
        close it; then the file contains the open version as it is.

        Other threads go on writing meanwhile; their writes are not in the file. The file gets its name only when it is
        complete and durable, and can be opened like any store. StoreExistsError if something is at ``path``.
        """
        return self._checkpoint(path_bytes(path), on_progress)

    def __repr__(self) -> str:
        return f"<icecore.Store {self.path!r}{' closed' if self.closed else ''}>"

    def _repr_html_(self) -> str:
        if self.closed:
            return f"<p>{self!r} closed</p>".replace("<icecore", "&lt;icecore")
        try:
            return self.stats()._repr_html_()
        except InvalidArgumentError:  # attached: only the sharing process has statistics
            return f"<p>{self!r} attached</p>".replace("<icecore", "&lt;icecore")

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(
            "a store cannot be pickled or copied: send its path, and open it in the other process with "
            "icecore.open(path, 'r') once it is closed here (one process at a time may write)"
        )

    def _version_of(self, named: VersionLike | None) -> int:
        if isinstance(named, (Snapshot, Tag)):
            return named.version
        if not isinstance(named, str):
            return checked_version(named)
        found = self._tag_by_name(named)
        if found is None:
            raise UnknownTagError(f"{self.path}: no tag is named {named!r}; tags() lists them")
        return int(found[0])

    def _version_at(self, time: datetime | int) -> int:
        time_ns = nanoseconds(time) + (999 if isinstance(time, datetime) else 0)
        found = self._tag_by_time(time_ns)
        if found is None:
            raise UnknownTagError(f"{self.path}: every tag is newer than {time}; tags() lists them")
        return int(found[0])


Mapping.register(Snapshot)
MutableMapping.register(Store)


def open(  # named like the built-in function, as users expect
    path: Path,
    mode: str = "a",
    *,
    durability: str = "best_available",
    emulate_durability: bool = False,
    deferred_durability: bool = False,
    accept_copy: bool = False,
    accept_damage: bool = False,
    crash: str = "unknown",
    huge_pages: bool = True,
    index: str = "btree",
    change_index: bool = False,
    lookup_cache_bytes: int = _LOOKUP_CACHE_BYTES,
    grow_in_background: bool = True,
    beside_writer: bool = True,
    publish_settled: bool = True,
    recovery_threads: int = 0,
    placements: Placements = (),
    shared_as: Path | None = None,
    on_progress: Progress | None = None,
) -> Store:
    """Opens the store at ``path``.

    ``mode``: ``'r'`` reads (any number of processes may, also beside the one that writes); ``'r+'`` reads and writes an
    existing store; ``'a'`` does the same, or creates one; ``'x'`` creates one and fails if something is there;
    ``'attached'`` reads and writes a store that another process has open and shares.

    ``durability``: what survives a power cut. In every mode a process crash loses nothing. ``'operation'``: every write
    that has returned; ``'tag'``: every tag that has returned, with all writes it covers; ``'none'``: what ``sync()`` or
    a clean close has made durable; ``'best_available'``: operation on persistent memory, tag on block devices, none on
    memory file systems. Opening fails if the device cannot provide the mode, unless ``emulate_durability`` is set: then
    all flushes are executed, but a memory file system still loses everything at power off.

    ``deferred_durability`` (with ``'operation'``): no write waits; ``sync()`` waits once for all before it, and a read
    waits if it shows what no ``sync()`` covers. A power cut takes the store back to what the last ``sync()`` covers.

    ``index``: the index of a new store: ``'btree'``, the fastest; ``'skip_list'``, slower, but no write ever waits for
    another; ``'persistent'``, which lies in the store's file, so the time to open does not depend on the store's size. With ``change_index`` (and write access) an existing store gets this index, built anew.

    ``lookup_cache_bytes``: the maximum size of the lookup cache, a table of entries found or inserted lately; it grows
    with the number of keys looked up. 0: no table.

    ``grow_in_background``: a thread takes memory and grows the file before writers need it, once the file has 8 MiB.
    ``beside_writer`` (with ``'r'``): where another process writes the store, show its settled versions: those that are
    closed, and that no write under way can still belong to. ``refresh()`` shows what was settled since. False: raises
    ``LockedError``. ``publish_settled`` (with write access): tell such readers what is settled, about every 50 ms.

    ``accept_copy`` opens a copy of a file that its writer had not closed. ``accept_damage`` (with ``'r'``) opens a
    damaged store: reads of lost data raise ``DamagedError`` if it is known whose the data was.

    ``crash``: what ended the last session of a store that was not closed, if opening cannot find it out (because
    another machine wrote it, or the kernel hides the machine's boot). ``'process'``: only the process died, so
    everything it wrote counts; ``'machine'``: the store goes back to its durable point; ``'unknown'``: raises
    ``CrashUnknownError`` if it matters.

    ``placements``: the secondary files of a new store of several files, each a path, or a path and the NUMA node whose
    threads write to it. For an existing store: where its files were moved to.

    ``shared_as``: a file on a memory file system such as ``/dev/shm``, which must not exist yet. The store is shared
    through it with other processes of this machine, which open the store with the mode ``'attached'`` and the same
    ``shared_as``. Only the sharing process can use tags with a name, lists of tags, ``sync()``, ``verify()``,
    ``stats()`` and ``checkpoint()``. When it has closed the store, the others get ``ClosedError``.

    ``recovery_threads``: 0 for all cores. A long opening calls ``on_progress(what, done, total, unit)``.
    """
    return Store(
        path,
        mode,
        durability=durability,
        emulate_durability=emulate_durability,
        deferred_durability=deferred_durability,
        accept_copy=accept_copy,
        accept_damage=accept_damage,
        crash=crash,
        huge_pages=huge_pages,
        index=index,
        change_index=change_index,
        lookup_cache_bytes=lookup_cache_bytes,
        grow_in_background=grow_in_background,
        beside_writer=beside_writer,
        publish_settled=publish_settled,
        recovery_threads=recovery_threads,
        placements=placements,
        shared_as=shared_as,
        on_progress=on_progress,
    )


def verify_file(path: Path, on_progress: Progress | None = None, *, moved: Placements = ()) -> VerifyReport:
    """Checks a store's file that may be too damaged to open; changes nothing.

    ``moved``: secondary files that are not where the store expects them.
    """
    return VerifyReport._of(_native.verify_file_dict(path_bytes(path), on_progress, placement_list(moved)))


def repair(
    damaged: Path,
    repaired: Path,
    on_progress: Progress | None = None,
    *,
    placements: Placements = (),
    moved: Placements = (),
    crash: str = "unknown",
) -> RepairReport:
    """Writes everything intact of the store's file ``damaged`` to a new store ``repaired``; does not change
    ``damaged``.

    Where a record is lost, the new store has no value; it never shows an older value instead. The report lists these
    keys and versions. ``StoreExistsError`` if something is at ``repaired``. ``placements`` are the secondary files of
    the new store, ``moved`` those of the damaged store that are not where it expects them. ``crash`` as in `open`.
    """
    told = _native.repair_dict(
        path_bytes(damaged),
        path_bytes(repaired),
        on_progress,
        placement_list(placements),
        placement_list(moved),
        crash_number(crash),
    )
    return RepairReport._of(told)


def crash_number(crash: str) -> int:
    if crash not in CRASH_KINDS:
        raise InvalidArgumentError(f"crash {crash!r} is not one of {', '.join(CRASH_KINDS)}")
    return CRASH_KINDS.index(crash)


def mode_numbers(mode: str, modes: Mapping[str, tuple[int, int]] = _MODES) -> tuple[int, int]:
    if mode == "w":
        raise InvalidArgumentError("a store never forgets, so no mode 'w' truncates it; delete the file, then use 'x'")
    if mode not in modes:
        raise InvalidArgumentError(f"mode {mode!r} is not one of {', '.join(map(repr, modes))}")
    return modes[mode]


def path_bytes(path: Path) -> bytes:
    made = os.fsencode(path)
    if b"\0" in made:
        raise InvalidArgumentError(f"the path {path!r} contains a NUL byte")
    return made


def placement_list(placements: Placements) -> list[tuple[bytes, int]]:
    """Converts placements: each is a path, or a path and a NUMA node."""
    pairs = [p if isinstance(p, tuple) else (p, -1) for p in placements]
    for path, node in pairs:
        if isinstance(node, bool) or not isinstance(node, int) or not -1 <= node < 2**15:
            raise InvalidArgumentError(f"{path!r}: a NUMA node must be a number, or -1 for any, not {node!r}")
    return [(path_bytes(path), node) for path, node in pairs]


def checked_version(version: object) -> int:
    if isinstance(version, bool) or not hasattr(version, "__index__"):
        raise TypeError(f"a version must be an int, a tag's name, a Tag or a Snapshot, not {type(version).__name__}")
    made = int(version.__index__())
    if not 0 <= made <= _VERSION_MAX:
        raise InvalidArgumentError(f"version {made} is outside the range 0 to {_VERSION_MAX}")
    return made


def _explained(locked: LockedError, path: Path) -> LockedError:
    """The error, with a hint if this process itself holds the file."""
    for store in list(_stores.values()):
        try:
            same = os.path.samefile(store.path, path)
        except OSError:
            continue
        if same and not store.closed:
            hint = "this process has it open: use that Store, from any thread"
            return LockedError(locked.errno, f"{locked} ({hint})")
    return locked


@atexit.register
def _close_all() -> None:
    """Closes stores that are still open at exit, so that the next opening need not recover them."""
    for store in list(_stores.values()):
        try:
            store.close()
        except Exception:  # the process ends, so no code could handle the error
            pass
