"""What a transaction asks: conditions and operations.

    from icecore.remote import absent, append, get, put, version_is

    outcome = store.transaction(
        conditions=[absent(b"lock")],
        then=[put(b"lock", b"me"), append(b"log", b"taken;")],
        otherwise=[get(b"lock")],
    )
    if outcome.succeeded: ...

All conditions are about one instant, at which the operations of one list take effect, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._messages import MESSAGES, new
from ._values import as_bytes, as_value

if TYPE_CHECKING:
    from .._types import BytesLike

_CONDITIONS = MESSAGES["Condition"]
_RULES = {"in_place": 0, "expand": 1, "expand_overlap": 2, "replace_from": 3, "append": 4}
_STATES = ("done", "absent", "exists", "too_large", "overlap", "no_number")


@dataclass(frozen=True)
class Condition:
    """Made by the functions of this module."""

    _message: Any


@dataclass(frozen=True)
class Operation:
    """Made by the functions of this module."""

    _message: Any
    _repeatable: bool


def _condition(key: BytesLike, kind: str, version: int = 0, value: bytes = b"") -> Condition:
    return Condition(new("Condition", key=as_bytes(key), **{"is": _CONDITIONS.Kind.Value(kind)}, version=version, value=value))


def present(key: BytesLike) -> Condition:
    """The key is there."""
    return _condition(key, "KIND_PRESENT")


def absent(key: BytesLike) -> Condition:
    """The key is not there."""
    return _condition(key, "KIND_ABSENT")


def version_is(key: BytesLike, version: int) -> Condition:
    """The key's newest record has this version; 0: it is not there."""
    return _condition(key, "KIND_VERSION_IS", version)


def version_is_not(key: BytesLike, version: int) -> Condition:
    """The key's newest record has another version."""
    return _condition(key, "KIND_VERSION_IS_NOT", version)


def version_below(key: BytesLike, version: int) -> Condition:
    """The key's newest record is older; that of a key that is not there counts as 0."""
    return _condition(key, "KIND_VERSION_BELOW", version)


def version_above(key: BytesLike, version: int) -> Condition:
    """The key's newest record is newer."""
    return _condition(key, "KIND_VERSION_ABOVE", version)


def value_is(key: BytesLike, value: BytesLike) -> Condition:
    """The key is there, with exactly this value."""
    return _condition(key, "KIND_VALUE_IS", value=as_bytes(value))


def value_is_not(key: BytesLike, value: BytesLike) -> Condition:
    """The key is there, with another value."""
    return _condition(key, "KIND_VALUE_IS_NOT", value=as_bytes(value))


def value_below(key: BytesLike, value: BytesLike) -> Condition:
    """The key is there, with a bytewise smaller value."""
    return _condition(key, "KIND_VALUE_BELOW", value=as_bytes(value))


def value_above(key: BytesLike, value: BytesLike) -> Condition:
    """The key is there, with a bytewise greater value."""
    return _condition(key, "KIND_VALUE_ABOVE", value=as_bytes(value))


def _operation(repeatable: bool, **what: Any) -> Operation:
    return Operation(new("Operation", **what), repeatable)


def put(
    key: BytesLike, value: BytesLike, *, lease: int = 0, only_new: bool = False, previous: bool = False
) -> Operation:
    """Sets the value. ``only_new``: not if the key is there. ``previous``: the result has what was there."""
    fields = {"key": as_bytes(key), "value": as_value(value), "lease": lease, "only_new": only_new, "previous": previous}
    return _operation(not only_new and not previous, put=fields)


def remove(key: BytesLike, *, previous: bool = False) -> Operation:
    """Removes the key."""
    return _operation(not previous, remove={"key": as_bytes(key), "previous": previous})


def remove_range(start: BytesLike, stop: BytesLike | None = None) -> Operation:
    """Removes the keys from ``start`` to before ``stop``; None: all from ``start`` on."""
    return _operation(True, remove={"key": as_bytes(start), "end": b"" if stop is None else as_bytes(stop)})


def update(
    key: BytesLike, offset: int, part: BytesLike, *, rule: str = "in_place", or_put: bool = False
) -> Operation:
    """Changes a part of the value.

    ``rule``: ``"in_place"`` (the part lies within the value that is there), ``"expand"`` (or begins at its end or behind
    it), ``"expand_overlap"`` (or reaches over its end), ``"replace_from"`` (the value ends with the part) or
    ``"append"``. ``or_put``: a key that is not there is put.
    """
    if rule not in _RULES:
        raise ValueError(f"rule {rule!r} is not one of {', '.join(_RULES)}")
    fields = {"key": as_bytes(key), "offset": offset, "part": as_bytes(part), "rule": _RULES[rule], "or_put": or_put}
    return _operation(False, update=fields)


def append(key: BytesLike, part: BytesLike) -> Operation:
    """Adds the part to the value's end; a key that is not there begins empty."""
    return update(key, 0, part, rule="append", or_put=True)


def increment(key: BytesLike, by: int = 1) -> Operation:
    """Adds to the value, a decimal number of 64 bits; a key that is not there counts as 0."""
    return _operation(False, increment={"key": as_bytes(key), "by": by})


def get(key: BytesLike) -> Operation:
    """Reads the value."""
    return _operation(True, get={"key": as_bytes(key)})


def get_range(start: BytesLike, stop: BytesLike | None = None, *, limit: int = 0) -> Operation:
    """Reads the keys from ``start`` to before ``stop``: at most ``limit``, and 10,000."""
    end = b"" if stop is None else as_bytes(stop)
    return _operation(True, get={"key": as_bytes(start), "end": end, "limit": limit})


@dataclass(frozen=True)
class Row:
    """A key with its value, and the version of the record that holds it."""

    key: bytes
    value: bytes
    version: int


@dataclass(frozen=True)
class Result:
    """What became of one operation."""

    state: str  #: "done", or why it was not applied: "absent", "exists", "too_large", "overlap", "no_number"
    previous: Row | None  #: what was there, if it was asked for
    rows: list[Row]  #: of a read
    more: bool  #: a read of a range ended at its limit
    count: int  #: keys removed or read
    size: int  #: of the value after an update
    number: int  #: after an increment

    @property
    def done(self) -> bool:
        """Whether the operation took effect."""
        return self.state == "done"


@dataclass(frozen=True)
class Outcome:
    """What became of a transaction."""

    succeeded: bool  #: whether all conditions held
    version: int  #: that the writes belong to; without writes, the newest that was visible
    results: list[Result]  #: one for each operation of the list that was executed


def _row(message: Any) -> Row:
    return Row(message.key, message.value, message.version)


def _result(message: Any) -> Result:
    return Result(
        _STATES[getattr(message, "is")],
        _row(message.previous) if message.HasField("previous") else None,
        [_row(row) for row in message.rows],
        message.more,
        message.count,
        message.size,
        message.number,
    )


def outcome_of(message: Any) -> Outcome:
    """The outcome that a ``WriteResponse`` tells."""
    return Outcome(message.succeeded, message.version, [_result(result) for result in message.results])
