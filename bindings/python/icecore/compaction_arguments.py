"""What packing a store is asked for, as the native functions take it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from . import checks, columns
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from ._types import BytesLike

COMPRESSIONS = ("none", "zstd")  #: as the numbers of icecore::compression


def wanted(
    whole: bool,
    dry_run: bool,
    only_if_expiring: bool,
    threads: int,
    compression: str,
    compression_level: int,
    bytes_per_second: int,
    bytes_at_once: int = 0,
) -> tuple[bool, bool, bool, int, int, int, int, int]:
    """The argument of the native functions."""
    for name, flag in (("whole", whole), ("dry_run", dry_run), ("only_if_expiring", only_if_expiring)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be a bool, not {type(flag).__name__}")
    if compression not in COMPRESSIONS:
        raise InvalidArgumentError(f"compression must be one of {', '.join(COMPRESSIONS)}, not {compression!r}")
    level = checks.whole_number(compression_level, "compression_level")
    if not 1 <= level <= 19:
        raise InvalidArgumentError(f"compression_level must be from 1 to 19, not {level}")
    return (
        whole,
        dry_run,
        only_if_expiring,
        columns.thread_count(threads),
        COMPRESSIONS.index(compression),
        level,
        checks.whole_number(bytes_per_second, "bytes_per_second"),
        checks.whole_number(bytes_at_once, "bytes_at_once"),
    )


def retention_wanted(
    tagged: bool, newest: int, younger_than: timedelta, hourly: int, daily: int, weekly: int
) -> tuple[bool, int, int, int, int, int]:
    """The same for ``set_retention``."""
    if not isinstance(tagged, bool):
        raise TypeError(f"tagged must be a bool, not {type(tagged).__name__}")
    age = checks.instance(younger_than, timedelta, "younger_than")
    most = 2**32 - 1
    return (
        tagged,
        checks.whole_number(newest, "newest"),
        age // timedelta(seconds=1),
        checks.whole_number(hourly, "hourly", 0, most),
        checks.whole_number(daily, "daily", 0, most),
        checks.whole_number(weekly, "weekly", 0, most),
    )


def prefixes_wanted(prefixes: Iterable[BytesLike]) -> Iterable[BytesLike]:
    """The same for ``forget``: one prefix alone would be taken for a list of its characters."""
    if isinstance(prefixes, (str, bytes, bytearray, memoryview)) or not isinstance(prefixes, Iterable):
        raise TypeError(f"prefixes must be a list or the like of prefixes, not {type(prefixes).__name__}")
    return prefixes


def hold_name(given: object) -> bytes:
    """The same for ``hold`` and ``release``."""
    if not isinstance(given, str):
        raise TypeError(f"a hold's name must be a str, not {type(given).__name__}")
    return checks.stored_text(given, "a hold's name")
