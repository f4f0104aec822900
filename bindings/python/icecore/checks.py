"""Checks of arguments: a wrong kind is a TypeError that says what is accepted, a wrong value an InvalidArgumentError."""

from __future__ import annotations

from typing import Any, TypeVar

from .errors import InvalidArgumentError

T = TypeVar("T")

_NUMBER_MAX = 2**64 - 1


def whole_number(given: object, what: str, least: int = 0, most: int = _NUMBER_MAX) -> int:
    """A number as an int: an int, or a NumPy integer."""
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise TypeError(f"{what} must be an int, not {type(given).__name__}")
    number = int(given.__index__())
    if not least <= number <= most:
        expected = f"{least} or more" if number < least else f"{most} or less"
        raise InvalidArgumentError(f"{what} must be {expected}, not {number}")
    return number


def text(given: object, what: str) -> str:
    """A str that UTF-8 can hold."""
    if not isinstance(given, str):
        raise TypeError(f"{what} must be a str, not {type(given).__name__}")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{what} {given!r} is no text: a surrogate in it is half a character") from None
    return given


def text_or_none(given: object, what: str) -> str | None:
    """The same, or None."""
    return None if given is None else text(given, what)


def stored_text(given: str, what: str) -> bytes:
    """The bytes of a text of the store: those that were not UTF-8 are surrogates in it, as in file names."""
    try:
        return given.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{what} {given!r} is no text: a surrogate in it is half a character") from None


def microseconds(given: object, what: str) -> int:
    """Seconds, an int or a float, as microseconds."""
    if isinstance(given, bool) or not hasattr(given, "__float__"):
        raise TypeError(f"{what} must be a number of seconds, not {type(given).__name__}")
    seconds = float(given.__float__())
    if not 0 <= seconds <= 1e12:
        raise InvalidArgumentError(f"{what} must be from 0 to 1e12 seconds, not {seconds:g}")
    return int(seconds * 1e6)


def instance(given: Any, wanted: type[T], what: str) -> T:
    """An object of a class."""
    if not isinstance(given, wanted):
        raise TypeError(f"{what} must be {_article(wanted.__name__)}, not {type(given).__name__}")
    return given


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"
