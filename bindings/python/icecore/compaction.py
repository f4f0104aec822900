"""Packing a store that nobody has open."""

from __future__ import annotations

from . import _native
from .compaction_arguments import wanted
from .errors import LockedError
from .information import CompactionReport
from .opening import Path, Placements, Progress, crash_number, path_bytes, placement_list
from .store import explained

def compact(
    path: Path,
    *,
    whole: bool = False,
    dry_run: bool = False,
    only_if_expiring: bool = False,
    threads: int = 0,
    compression: str = "none",
    compression_level: int = 3,
    bytes_per_second: int = 0,
    bytes_at_once: int = 0,
    placements: Placements = (),
    crash: str = "unknown",
    on_progress: Progress | None = None,
) -> CompactionReport:
    """Packs the versions of the store at ``path``: they then lie side by side in the order of keys, take a fraction of
    the space, and are scanned faster.

    Every version shows what it did, unless ``Store.set_retention`` was called: versions that the store does not keep
    expire, and what only they showed goes. The store is used as before; what is written later is packed by the next call.
    Of several writes of a key in one version the last one stays. Nobody may have the store open. On the way the store
    takes the space of what is packed twice, or less (``bytes_at_once``). A crash leaves it as it was before, or as it is
    afterwards.

    ``whole`` packs once more what is packed already, so that there is one stratum. ``dry_run`` only counts what would be
    packed and what would go; the store, which is opened for reading, stays as it is. ``only_if_expiring``: nothing is packed,
    and the store stays as it is, unless versions expire. ``threads``: 0 for all cores.
    ``compression``: "zstd" compresses what is packed now, at ``compression_level`` (1 to 19; a greater one takes more
    time for less space); it is inflated when it is read (``block_cache_bytes`` of ``stats()``). "none" does not.
    ``bytes_per_second`` limits what is written on average; 0: no limit. ``bytes_at_once``: a larger merge of packed
    records is done by ranges of keys with so many bytes, about, each by a durable change of its own, so that it takes
    little more space than that on the way, and goes on where a crash or an error cut it off. 0: an eighth, if the store
    keeps not all versions or more than 4 GiB are merged; else all at once.
    ``placements`` and ``crash`` as in ``open``. A long call calls ``on_progress(what, done, total, unit)``.

    >>> store.close()
    >>> icecore.compact("store.ice").records
    3
    >>> with icecore.open("store.ice") as store:
    ...     store.at("epoch-1")["a"], store["a"], store.stats().packed_records
    (b'1', b'3', 3)

    Raises LockedError if somebody has the store open, NoSuchStoreError, NotAStoreError, NoSpaceError, DamagedError,
    MissingFileError, CopiedError, CrashUnknownError, PermissionDeniedError, ValueTooLargeError for a value of more than
    4 GiB less 128 KiB, which cannot be compressed, IOFailedError, and InvalidArgumentError for wrong arguments. The store is
    then as it was.
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
    try:
        told = _native.compact_dict(
            path_bytes(path),
            how,
            on_progress,
            placement_list(placements),
            crash_number(crash),
        )
    except LockedError as e:
        raise explained(e, path, "close that Store first") from None
    return CompactionReport(**told)
