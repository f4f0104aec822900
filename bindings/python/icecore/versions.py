"""The names of versions: what every parameter that takes a version accepts, here and in icecore.remote.

A closed version is named by its number, by the name of a tag, by a Tag or a Snapshot, or by a datetime with a time zone:
then it is the version of the newest tag that was made at or before that time.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from . import checks
from .errors import InvalidArgumentError, UnknownTagError

if TYPE_CHECKING:
    from ._types import VersionLike

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
VERSION_MAX = 2**48 - 1
_ACCEPTED = "an int (its number), a str (a tag's name), a Tag, a Snapshot, or a datetime with a time zone"


class HasVersion:
    """What names a version because it has one: tags and snapshots."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def version(self) -> int: ...


class VersionNames:
    """Finds the numbers of versions, for stores and clusters."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def path(self) -> str: ...
        def _tag_by_name(self, name: Any) -> tuple[int, int, str, str] | None: ...
        def _tag_by_time(self, time_ns: int) -> tuple[int, int, str, str] | None: ...

    def _version_of(self, named: VersionLike) -> int:
        """The number of a version. UnknownTagError if no tag has this name, or none is as old as this time."""
        if isinstance(named, str):
            found = self._tag_by_name(checks.stored_text(named, "a tag's name"))
            if found is None:
                raise UnknownTagError(f"{self.path}: no tag is named {named!r}; tags() lists them")
            return int(found[0])
        return self._version_at(named) if isinstance(named, datetime) else number_of(named)

    def _version_at(self, time: datetime | int) -> int:
        found = self._tag_by_time(last_nanosecond(time))
        if found is None:
            raise UnknownTagError(f"{self.path}: every tag is newer than {time}; tags() lists them")
        return int(found[0])

    def _version_or_present(self, named: VersionLike | None) -> int | None:
        return None if named is None else self._version_of(named)

    def _one_of(self, at: VersionLike | None, tag: str | None, time: datetime | int | None) -> int:
        """The version that ``at(...)`` was asked for in one of three ways."""
        require_one(at, tag, time)
        if time is not None:
            return self._version_at(time)
        return self._version_of(tag_name(tag) if at is None else at)

    def _found_tag(self, named: VersionLike) -> tuple[int, int, str, str] | None:
        if isinstance(named, str):
            return self._tag_by_name(checks.stored_text(named, "a tag's name"))
        if isinstance(named, datetime):
            return self._tag_by_time(last_nanosecond(named))
        return self._tag_by_version(number_of(named))

    def _tag_by_version(self, version: int) -> tuple[int, int, str, str] | None:
        raise NotImplementedError


def number_of(named: Any) -> int:
    """The number of a version that is named without a text or a time."""
    if isinstance(named, HasVersion):
        return named.version
    if isinstance(named, bool) or not hasattr(named, "__index__"):
        raise TypeError(f"a version is named by {_ACCEPTED}, not by {_kind_of(named)}")
    number = int(named.__index__())
    if not 0 <= number <= VERSION_MAX:
        raise InvalidArgumentError(f"version {number} is outside the range 0 to {VERSION_MAX}")
    return number


def record_version(given: object) -> int:
    """The version of a record, which ``insert`` returned or a history tells; it need not be closed."""
    return checks.whole_number(given, "expected_version", 0, VERSION_MAX)


def require_one(at: Any, tag: Any, time: Any) -> None:
    if (at is not None) + (tag is not None) + (time is not None) != 1:
        raise TypeError(f"at() takes exactly one version, named by {_ACCEPTED}, or one of tag= and time=")


def tag_name(given: object) -> str:
    """The name of a tag, where nothing else can be meant."""
    if not isinstance(given, str):
        raise TypeError(f"tag must be a str, the tag's name, not {type(given).__name__}")
    return given


def nanoseconds(time: datetime | int) -> int:
    """Nanoseconds since 1970-01-01 UTC of a datetime with a time zone, or the same given as an int."""
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise InvalidArgumentError(
                f"the time {time} has no time zone: use datetime.now(timezone.utc), or give it one with .astimezone(), "
                "if it is local time, or .replace(tzinfo=timezone.utc)"
            )
        since = time - EPOCH
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        return micros * 1_000 + int(getattr(time, "nanosecond", 0))  # which a pandas.Timestamp has besides
    if isinstance(time, bool) or not hasattr(time, "__index__"):
        raise TypeError(
            "a time must be a datetime with a time zone, or an int of nanoseconds since 1970-01-01 UTC, "
            f"not {_kind_of(time)}"
        )
    return checks.whole_number(time, "a time", -(2**63), 2**63 - 1)


def last_nanosecond(time: datetime | int) -> int:
    """The end of the time: a datetime means its whole microsecond, so that ``Tag.time`` finds the tag."""
    whole = isinstance(time, datetime) and not hasattr(time, "nanosecond")
    return min(nanoseconds(time) + (999 if whole else 0), 2**63 - 1)


def _kind_of(given: object) -> str:
    made = type(given)
    return made.__name__ if made.__module__ == "builtins" else f"{made.__module__}.{made.__name__}"
