"""Where stores are and how they are opened; checking and repairing their files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Union

from . import _native
from .errors import InvalidArgumentError
from .information import CRASH_KINDS, RepairReport, VerifyReport

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Placements = Sequence[Union[Path, tuple[Path, int]]]
Progress = Callable[[str, int, int, str], object]

# mode: (access, creation), the numbers of icecore::access and icecore::creation
MODES = {"r": (1, 1), "r+": (0, 1), "a": (0, 0), "x": (0, 2)}
STORE_MODES = {**MODES, "attached": (2, 1)}

# The options that reading has.
_READING = (
    "accept_copy",
    "accept_damage",
    "beside_writer",
    "block_cache_bytes",
    "crash",
    "huge_pages",
    "lookup_cache_bytes",
    "never_locks",
    "placements",
    "recovery_threads",
)


class Opening(NamedTuple):
    """How a store was opened: what another process needs to open it, too."""

    path: Path
    mode: str
    options: dict[str, Any]

    def absolute(self) -> Opening:
        """The same from any working directory."""
        placements = [p if isinstance(p, tuple) else (p, -1) for p in self.options.get("placements", ())]
        moved = [(os.path.abspath(os.fsencode(path)), node) for path, node in placements]
        return Opening(os.path.abspath(os.fsencode(self.path)), self.mode, {**self.options, "placements": moved})

    def for_reading(self) -> Opening:
        """How to read the store beside this process."""
        return Opening(self.path, "r", {name: self.options[name] for name in _READING if name in self.options})

    def key(self) -> tuple[Any, ...]:
        """What two openings that are the same have in common."""
        return (self.path, self.mode, repr(sorted(self.options.items())))


def verify_file(path: Path, on_progress: Progress | None = None, *, moved: Placements = ()) -> VerifyReport:
    """Checks a store's file that may be too damaged to open; changes nothing. The report is true if nothing is damaged.

    ``moved``: secondary files that are not where the store expects them.

    >>> store.close()
    >>> icecore.verify_file("store.ice").ok
    True

    Raises NoSuchStoreError, NotAStoreError, MissingFileError, LockedError while a process writes the store,
    PermissionDeniedError and IOFailedError.
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
    keys and versions. ``placements`` are the secondary files of the new store, ``moved`` those of the damaged store that
    are not where it expects them. ``crash`` as in ``open``.

    >>> store.close()
    >>> report = icecore.repair("store.ice", "repaired.ice")
    >>> report.complete, report.keys
    (True, 2)

    Raises StoreExistsError if something is at ``repaired``, CrashUnknownError if it matters what ended the last session,
    NoSuchStoreError, NotAStoreError, LockedError, NoSpaceError and IOFailedError.
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


def mode_numbers(mode: str, modes: Mapping[str, tuple[int, int]] = MODES) -> tuple[int, int]:
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
