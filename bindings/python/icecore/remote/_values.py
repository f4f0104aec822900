"""Bytes, versions, bounds and rows: from what users give to what messages hold, and back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checks
from ..information import Tag
from ..versions import last_nanosecond, number_of, tag_name
from ._messages import new

if TYPE_CHECKING:
    from .._types import BytesLike


def _view(given: Any) -> memoryview:
    """Of an array, too, which has a buffer; its stubs tell so from Python 3.12 on."""
    return memoryview(given)


def as_bytes(given: BytesLike) -> bytes:
    """A key or value as bytes: a str stands for its UTF-8 bytes."""
    if isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, int):
        raise TypeError("a key or value must be bytes-like or str, not int")
    return bytes(_view(given))


def as_value(given: BytesLike) -> bytes:
    """A value as bytes. What is more than bytes is refused: reading it would not give it back."""
    if isinstance(given, (bytes, str, int)):
        return as_bytes(given)
    try:
        view = _view(given)
        is_bytes = view.ndim == 1 and view.format in ("B", "b", "c")
    except ValueError:  # items that no buffer can describe, such as dates
        is_bytes = False
    if not is_bytes:
        raise TypeError(
            f"a value of type {type(given).__name__} would lose its type and shape: array.tobytes() is its bytes alone"
        )
    return bytes(view)


def point_of(at: Any = None, tag: str | None = None, time: datetime | int | None = None) -> Any:
    """The ``Point`` of a version, which is named as in all of icecore (``icecore.versions``), or given as a tag's name or
    a time; None: the present."""
    if (at is not None) + (tag is not None) + (time is not None) > 1:
        raise TypeError("give one of a version, tag and time")
    if tag is not None or isinstance(at, str):
        return new("Point", tag=checks.text(tag_name(at if tag is None else tag), "a tag's name"))
    if time is not None or isinstance(at, datetime):
        return new("Point", time_ns=last_nanosecond(at if time is None else time))
    return None if at is None else new("Point", version=number_of(at))


class Bounds:
    """Keys from ``start`` to before ``stop`` that begin with ``prefix``."""

    __slots__ = ("start", "stop")

    def __init__(
        self, start: BytesLike | None = None, stop: BytesLike | None = None, prefix: BytesLike | None = None
    ) -> None:
        self.start = None if start is None else as_bytes(start)
        self.stop = None if stop is None else as_bytes(stop)
        if prefix is not None:
            self._narrow(*_bounds_of_prefix(as_bytes(prefix)))

    def _narrow(self, start: bytes | None, stop: bytes | None) -> None:
        if start is not None and (self.start is None or start > self.start):
            self.start = start
        if stop is not None and (self.stop is None or stop < self.stop):
            self.stop = stop

    def within(self, start: BytesLike | None, stop: BytesLike | None, prefix: BytesLike | None) -> Bounds:
        """These bounds and others, both."""
        inner = Bounds(start, stop, prefix)
        inner._narrow(self.start, self.stop)
        return inner

    def __contains__(self, key: bytes) -> bool:
        return (self.start is None or key >= self.start) and (self.stop is None or key < self.stop)

    @property
    def empty(self) -> bool:
        return self.start is not None and self.stop is not None and self.start >= self.stop

    def message(self) -> Any:
        """As a ``Bounds``; None where there are none."""
        if self.start is None and self.stop is None:
            return None
        return new("Bounds", **{"from": self.start}, to=self.stop)


def _bounds_of_prefix(prefix: bytes) -> tuple[bytes, bytes | None]:
    before = prefix.rstrip(b"\xff")
    return prefix, before[:-1] + bytes([before[-1] + 1]) if before else None


def cells(column: Any) -> Iterator[bytes]:
    """The values of a ``ByteColumn``."""
    data: bytes = column.bytes
    begin = 0
    for end in column.ends:
        yield data[begin:end]
        begin = end


def tag_of(message: Any) -> Tag:
    return Tag(message.version, message.time_ns, message.name, message.note)


def column_cells(given: Any, what: str) -> list[bytes]:
    """The items of a column: a NumPy array of fixed-size items (dtype 'S': without the NUL bytes at their ends), a
    ``ByteColumn``, or a sequence."""
    offsets = getattr(given, "offsets", None)
    if offsets is not None:
        data = np.ascontiguousarray(given.bytes).view(np.uint8).tobytes()
        ends = [int(end) for end in offsets]
        return [data[begin:end] for begin, end in zip(ends[:-1], ends[1:])]
    if isinstance(given, np.ndarray):
        if given.dtype.hasobject:
            return [_cell(item, what) for item in given.tolist()]
        if given.ndim == 0:
            raise ValueError(f"{what} must be an array of at least one dimension")
        if given.dtype.kind == "U":
            given = np.char.encode(given.astype(np.str_), "utf-8")
        if given.dtype.kind == "S" and given.ndim == 1:
            return list(given.tolist())
        raw = np.ascontiguousarray(given).tobytes()
        size = given.nbytes // len(given) if len(given) else 1
        return [raw[at : at + size] for at in range(0, len(raw), size)]
    if isinstance(given, (bytes, bytearray, memoryview, str)):
        raise TypeError(f"{what} must be an array or a sequence of bytes-like objects, not one {type(given).__name__}")
    return [_cell(item, what) for item in given]


def _cell(given: Any, what: str) -> bytes:
    return as_value(given) if what == "values" else as_bytes(given)
