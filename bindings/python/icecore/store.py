"""The store: opening and closing it, and what it tells of itself."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from . import checks, columns, html
from .compaction_arguments import wanted
from .errors import InvalidArgumentError, LockedError
from .information import DURABILITY_MODES, INDEXES, CompactionReport, DurabilityInfo, Statistics, VerifyReport
from .mapping import OrderedMapping
from .opening import (
    STORE_MODES,
    Opening,
    Path,
    Placements,
    Progress,
    crash_number,
    mode_numbers,
    path_bytes,
    placement_list,
    repair,
    verify_file,
)
from .snapshot import Snapshot
from .store_states import StatefulStore

if TYPE_CHECKING:
    from typing_extensions import Self

    from . import aio

    class _Base(OrderedMapping, MutableMapping[bytes, bytes]):
        pass

else:
    _Base = OrderedMapping

_LOOKUP_CACHE_BYTES = 64 << 20
_COMPACTION_YOUNG_BYTES = 64 << 20
COMPACTION_MODES = ("by_call", "automatic")  #: as the numbers of icecore::compaction_mode
_DEFAULTS: dict[str, Any] = {
    "durability": "best_available",
    "emulate_durability": False,
    "deferred_durability": False,
    "accept_copy": False,
    "accept_damage": False,
    "crash": "unknown",
    "huge_pages": True,
    "index": "btree",
    "change_index": False,
    "lookup_cache_bytes": _LOOKUP_CACHE_BYTES,
    "block_cache_bytes": 0,
    "grow_in_background": True,
    "beside_writer": True,
    "never_locks": False,
    "publish_settled": True,
    "compaction": "by_call",
    "compaction_threads": 1,
    "compaction_bytes_per_second": 0,
    "compaction_young_bytes": _COMPACTION_YOUNG_BYTES,
    "compaction_compress": False,
    "recovery_threads": 0,
    "placements": (),
    "shared_as": None,
}

# Stores that may need closing at exit, by id: they compare by content and so have no hash.
_stores: weakref.WeakValueDictionary[int, Store] = weakref.WeakValueDictionary()


class Store(StatefulStore, _Base):  # type: ignore[misc]  # its get() and update() take more than those of a mapping
    """An ordered map that never forgets: a ``MutableMapping`` from bytes to bytes that keeps all its versions.

    Its mapping methods read and write the present; ``at()``, ``history()`` and ``diff()`` read older versions. Any
    number of threads may use a store. To close it, call ``close()`` or leave its ``with`` block. ``icecore.open`` makes
    one, and says what the arguments mean.

    >>> with icecore.Store("model.ice", "x") as store:
    ...     store["k"] = "v"
    ...     store["k"]
    b'v'

    Raises what ``icecore.open`` raises.
    """

    __slots__ = ("__weakref__", "_opening", "_saving")
    _opening: Opening

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
        block_cache_bytes: int = 0,
        grow_in_background: bool = True,
        beside_writer: bool = True,
        never_locks: bool = False,
        publish_settled: bool = True,
        compaction: str = "by_call",
        compaction_threads: int = 1,
        compaction_bytes_per_second: int = 0,
        compaction_young_bytes: int = _COMPACTION_YOUNG_BYTES,
        compaction_compress: bool = False,
        recovery_threads: int = 0,
        placements: Placements = (),
        shared_as: Path | None = None,
        on_progress: Progress | None = None,
    ) -> None:
        asked = Opening(path, mode, {name: given for name, given in locals().items() if name in _DEFAULTS})
        self._open(asked, on_progress)

    def _open(self, asked: Opening, on_progress: Progress | None = None, *, at_first_use: bool = False) -> None:
        o = _DEFAULTS | asked.options
        access, creation = mode_numbers(asked.mode, STORE_MODES)
        if o["durability"] not in DURABILITY_MODES:
            raise InvalidArgumentError(f"durability {o['durability']!r} is not one of {', '.join(DURABILITY_MODES)}")
        if o["index"] not in INDEXES[1:]:
            raise InvalidArgumentError(f"index {o['index']!r} is not one of {', '.join(INDEXES[1:])}")
        if o["compaction"] not in COMPACTION_MODES:
            raise InvalidArgumentError(f"compaction {o['compaction']!r} is not one of {', '.join(COMPACTION_MODES)}")
        path = path_bytes(asked.path)
        self._opening = asked.absolute()
        self._saving = threading.Lock()
        try:
            super().__init__(
                path,
                access,
                creation,
                DURABILITY_MODES.index(o["durability"]),
                bool(o["emulate_durability"]),
                bool(o["deferred_durability"]),
                bool(o["accept_copy"]),
                bool(o["accept_damage"]),
                crash_number(o["crash"]),
                bool(o["huge_pages"]),
                INDEXES.index(o["index"]),
                bool(o["change_index"]),
                checks.whole_number(o["lookup_cache_bytes"], "lookup_cache_bytes"),
                checks.whole_number(o["block_cache_bytes"], "block_cache_bytes"),
                bool(o["grow_in_background"]),
                bool(o["beside_writer"]),
                bool(o["never_locks"]),
                bool(o["publish_settled"]),
                o["compaction"] == "automatic",
                columns.thread_count(o["compaction_threads"], "compaction_threads"),
                checks.whole_number(o["compaction_bytes_per_second"], "compaction_bytes_per_second"),
                checks.whole_number(o["compaction_young_bytes"], "compaction_young_bytes"),
                bool(o["compaction_compress"]),
                columns.thread_count(o["recovery_threads"], "recovery_threads"),
                placement_list(o["placements"]),
                b"" if o["shared_as"] is None else path_bytes(o["shared_as"]),
                at_first_use,
                on_progress,
            )
        except LockedError as e:
            raise explained(e, asked.path, "use that Store, from any thread") from None
        _stores[id(self)] = self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Makes everything durable, as far as the device can, and releases the file and its locks. Waits for calls that
        run in other threads. Views of values stay valid; snapshots and iterators can read no more. Closing twice does
        nothing.

        >>> store.close()
        >>> store.closed
        True

        Raises IOFailedError or NoSpaceError if something could not be made durable.
        """
        self._close()

    @property
    def closed(self) -> bool:
        """Whether ``close()`` was called.

        >>> store.closed
        False

        Raises nothing.
        """
        return self._closed

    @property
    def path(self) -> str:
        """The path with which the store was opened.

        >>> os.path.basename(store.path)
        'store.ice'

        Raises nothing.
        """
        return self._path

    @property
    def read_only(self) -> bool:
        """Whether the store was opened for reading.

        >>> store.read_only
        False

        Raises ClosedError.
        """
        return self._read_only

    @property
    def beside_writer(self) -> bool:
        """Whether the store was opened for reading while another process had it open for writing.

        >>> with icecore.open("store.ice", "r") as seen:
        ...     seen.beside_writer, store.beside_writer
        (True, False)

        Raises ClosedError.
        """
        return self._beside_writer

    @property
    def aio(self) -> aio.Store:
        """This store for asyncio: the same calls, to be awaited. They run on other threads, so the event loop never waits
        for a device. The names are those of ``icecore.remote.aio``.

        >>> async def read():
        ...     await store.aio.put("k", "v")
        ...     return [key async for key in store.aio.keys()], await store.aio.get("a", at="epoch-1")
        >>> asyncio.run(read())
        ([b'a', b'b', b'k'], b'1')

        Raises nothing; its calls raise what those of the store raise.
        """
        from . import aio

        return aio.Store(self)

    def durability(self) -> DurabilityInfo:
        """The durability that the store really has on its device.

        >>> store.durability().mode in ("none", "tag", "operation")
        True

        Raises ClosedError.
        """
        return DurabilityInfo._of(self._durability_dict())

    def stats(self) -> Statistics:
        """Sizes and counts.

        >>> store.stats().keys, store.stats().records
        (2, 3)

        Raises ClosedError.
        """
        return Statistics._of(self._stats_dict())

    def verify(self, on_progress: Progress | None = None) -> VerifyReport:
        """Checks every structure against its checksums and against the other structures. O(bytes of the store). The
        report is true if nothing is damaged. A long check calls ``on_progress(what, done, total, unit)``.

        >>> store.verify().ok
        True

        Raises IOFailedError and ClosedError; whatever ``on_progress`` raises, it raises when the check has ended.
        """
        return VerifyReport._of(self._verify_dict(on_progress))

    def checkpoint(self, path: Path, on_progress: Progress | None = None) -> int:
        """Writes the whole store as it is now, with every version and tag, to a file of its own, and returns the newest
        closed version in it. Closes the open version if anything was written in it. A store opened for reading does not
        close it; then the file contains the open version as it is. One that is open beside the process that writes puts
        no kept queries, kept feeds and holds into the file.

        Other threads go on writing meanwhile; their writes are not in the file. The file gets its name only when it is
        complete and durable, and can be opened like any store.

        >>> version = store.checkpoint("copy.ice")
        >>> with icecore.open("copy.ice", "r") as copy:
        ...     copy == store
        True

        Raises StoreExistsError if something is at ``path``, NoSpaceError, IOFailedError and ClosedError.
        """
        return self._checkpoint(path_bytes(path), on_progress)

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
        bytes_at_once: int = 0,
        on_progress: Progress | None = None,
    ) -> CompactionReport:
        """Packs what was written, while other threads go on to read and write; ``icecore.compact`` says what packing
        does, and what its arguments mean. Writers are stopped for a moment at the end (``writers_stopped`` of the report,
        in seconds). The space of what is replaced is given back by the next call once the snapshots, views and iterators
        that were open before have ended, also those of readers beside this process, until they ``refresh()``; until then
        ``erased`` is False. Everything up to ``up_to`` is durable then.

        >>> report = store.compact()
        >>> report.packed, report.records, store["a"]
        (True, 3, b'3')

        A store that processes share is packed by the process that opened it, while the others go on. In a process that
        is attached, this call asks that one, and waits for its report.

        Raises InvalidArgumentError for wrong arguments, and in a process that is attached if the one that opened the
        store has ended, ReadOnlyError, ValueTooLargeError, NoSpaceError, DamagedError, IOFailedError, PoisonedError,
        QueryBusyError and ClosedError.
        """
        how = wanted(
            whole,
            dry_run,
            only_if_expiring,
            threads,
            compression,
            compression_level,
            bytes_per_second,
            bytes_at_once,
        )
        return CompactionReport(**self._compact(how, on_progress))

    def pause_compaction(self) -> None:
        """Automatic compaction (``compaction`` of ``icecore.open``) rests until ``resume_compaction()``.

        >>> store.pause_compaction()
        >>> store.resume_compaction()

        Raises ClosedError; ReadOnlyError; InvalidArgumentError in a process that is attached.
        """
        self._pause_compaction()

    def resume_compaction(self) -> None:
        """Automatic compaction goes on.

        >>> store.resume_compaction()

        Raises ClosedError.
        """
        self._resume_compaction()

    def __repr__(self) -> str:
        return f"<icecore.Store {self.path!r}{' closed' if self.closed else ''}>"

    def _repr_html_(self) -> str:
        return html.paragraph(repr(self)) if self.closed else self.stats()._summary()

    def __reduce__(self) -> tuple[Any, ...]:
        """A store opened for reading is sent to other processes as its path and its options: each opens it anew, when it
        first uses it."""
        if self._opening.mode != "r":
            raise TypeError(
                f"{self!r} is open for writing (mode {self._opening.mode!r}), and one process at a time may write: it cannot "
                "be pickled or copied. Send a Snapshot of it, or its path: icecore.open(path, 'r') reads it beside this "
                "process"
            )
        return _store_of, (self._opening,)


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
    block_cache_bytes: int = 0,
    grow_in_background: bool = True,
    beside_writer: bool = True,
    never_locks: bool = False,
    publish_settled: bool = True,
    compaction: str = "by_call",
    compaction_threads: int = 1,
    compaction_bytes_per_second: int = 0,
    compaction_young_bytes: int = _COMPACTION_YOUNG_BYTES,
    compaction_compress: bool = False,
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
    another; ``'persistent'``, which lies in the store's file, so the time to open does not depend on the store's size. With
    ``change_index`` (and write access) an existing store gets this index, built anew.

    ``lookup_cache_bytes``: the maximum size of the lookup cache, a table of entries found or inserted lately; it grows
    with the number of keys looked up. 0: no table. ``block_cache_bytes``: the memory for packed records that are
    compressed, inflated: when there is more, what was not read lately is given back, but not what values, snapshots and
    iterators that live have shown. 0: an eighth of the machine's memory, but no more than 1 GiB.

    ``grow_in_background``: a thread takes memory and grows the file before writers need it, once the file has 8 MiB.
    ``beside_writer`` (with ``'r'``): where another process writes the store, show its settled versions: those that are
    closed, and that no write under way can still belong to. ``refresh()`` shows what was settled since. False: raises
    ``LockedError``. ``never_locks`` (with ``'r'``): never keep a process out that would write. What a closed store holds
    is then read as if beside a writer: finds take longer, and ``accept_damage`` is refused. ``publish_settled`` (with write access): tell such readers what is settled, about every 50 ms.

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
    ``shared_as``. These do all that the sharing process does, but ``pause_compaction()``, ``resume_compaction()`` and,
    unless every write is durable by itself (``'operation'`` durability, on persistent memory), ``hold()`` and
    ``start()``; ``compact()`` has the sharing process pack the store. When that one has closed the store, the others
    get ``ClosedError``.

    ``compaction`` (with write access): ``'automatic'`` packs the store on a thread of its own when
    ``compaction_young_bytes`` or more was written since the last time, and half of what is packed, while others go on to
    read and write; ``pause_compaction()`` lets it rest. ``compaction_threads`` (0: all cores),
    ``compaction_bytes_per_second`` (0: no limit) and ``compaction_compress`` say how. ``'by_call'``: when ``compact()``
    is called.

    ``recovery_threads``: 0 for all cores. A long opening calls ``on_progress(what, done, total, unit)``.

    >>> with icecore.open("model.ice") as store:
    ...     store[b"layer1/bias"] = b"0.5"
    ...     version = store.tag("epoch-1")
    >>> with icecore.open("model.ice", "r") as store:
    ...     store.at("epoch-1")[b"layer1/bias"]
    b'0.5'

    Raises NoSuchStoreError, StoreExistsError, NotAStoreError, LockedError if another process has it open for writing,
    PermissionDeniedError, NotDurableError, DamagedError, TruncatedError, MissingFileError, CopiedError,
    CrashUnknownError, UnsupportedFormatError, NoSpaceError, IOFailedError, and InvalidArgumentError for wrong arguments.
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
        block_cache_bytes=block_cache_bytes,
        grow_in_background=grow_in_background,
        beside_writer=beside_writer,
        never_locks=never_locks,
        publish_settled=publish_settled,
        compaction=compaction,
        compaction_threads=compaction_threads,
        compaction_bytes_per_second=compaction_bytes_per_second,
        compaction_young_bytes=compaction_young_bytes,
        compaction_compress=compaction_compress,
        recovery_threads=recovery_threads,
        placements=placements,
        shared_as=shared_as,
        on_progress=on_progress,
    )


def explained(locked: LockedError, path: Path, advice: str) -> LockedError:
    """The error, with advice if this process itself holds the file."""
    for store in list(_stores.values()):
        try:
            same = os.path.samefile(store.path, path)
        except OSError:
            continue
        if same and not store.closed:
            return LockedError(locked.errno, f"{locked} (this process has it open: {advice})")
    return locked


def _store_of(opening: Opening) -> Store:
    """The store of a pickle, which is opened at its first use."""
    made = Store.__new__(Store)
    made._open(opening, at_first_use=True)
    return made


# The stores of the snapshots that were sent here, for as long as a snapshot needs them.
def opened_in_this_process(opening: Opening) -> Store | None:
    """The store that this process has open for writing."""
    for store in list(_stores.values()):
        if store._opening.path == opening.path and not store.closed and not store.read_only:
            return store
    return None


_stores_of_snapshots: dict[tuple[Any, ...], weakref.ref[Store]] = {}


def _snapshot_of(opening: Opening, version: int, start: bytes | None, stop: bytes | None) -> Snapshot:
    """The snapshot of a pickle, whose store is opened at its first use; all snapshots of a store share it."""
    key = opening.key()
    known = _stores_of_snapshots.get(key)
    store = None if known is None else known()
    if store is None or store.closed:
        store = _store_of(opening)
        _stores_of_snapshots[key] = weakref.ref(store)
    return Snapshot(store, version, start, stop)


@atexit.register
def _close_all() -> None:
    """Closes stores that are still open at exit, so that the next opening need not recover them."""
    for store in list(_stores.values()):
        try:
            store.close()
        except Exception:  # the process ends, so no code could handle the error
            pass


__all__ = ["Path", "Placements", "Progress", "Store", "open", "repair", "verify_file"]
