"""Snapshots, histories, differences, changes and tags as tables, for libraries of arrays, frames and queries.

The Arrow C stream interface hands them over: the native half makes the streams, so no Arrow library is needed here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _native, checks
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    import polars  # type: ignore[import-not-found, unused-ignore]

    from typing_extensions import TypeAlias

    from .feed import Changes
    from .history import Diff, History
    from .snapshot import Snapshot

    ColumnType: TypeAlias = Union[npt.DTypeLike, str, None]
    """What the items of a column become: None or "binary", "utf8", "binary_view", or a NumPy dtype."""

_KINDS = {"binary": 0, "utf8": 1, "binary_view": 2}
_FIXED = 3
_FORMATS = {
    "i1": "c", "u1": "C", "i2": "s", "u2": "S", "i4": "i", "u4": "I", "i8": "l", "u8": "L",
    "f2": "e", "f4": "f", "f8": "g",
}  # fmt: skip


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{text!r} is not UTF-8, as text of Arrow is: to_pandas() takes it") from None


_TYPES: dict[str, tuple[tuple[Any, ...], Callable[[Any], bytes]]] = {
    "int": ((_FIXED, "l", 8), struct.Struct("=q").pack),
    "float": ((_FIXED, "g", 8), struct.Struct("=d").pack),
    "bool": ((5,), lambda flag: b"1" if flag else b""),
    "str": ((1,), _encoded),
    "version": ((_FIXED, "L", 8), struct.Struct("=Q").pack),
    "time": ((_FIXED, "tsn:UTC", 8), struct.Struct("=q").pack),
}  # fmt: skip
_UNITS = {"s": "s", "ms": "m", "us": "u", "ns": "n"}
_ACCEPTED = "None or 'binary', 'utf8', 'binary_view', or a NumPy dtype such as '>u8', '<f4', 'V16' or ('<f4', (128,))"
_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 16 << 20


class ArrowStream:
    """A table for any library that reads Arrow: ``pyarrow.table(made)``, ``polars.DataFrame(made)``, DuckDB's SQL and
    others read it batch by batch, as often as they like. ``to_arrow()`` of a snapshot, a history,
    differences, changes and tags makes one.

    A stream reads the store as it goes on, so memory has one batch at a time; batches stay valid after ``close()``. A
    stream that is read on after it ends with an error that says so.

    >>> table = pyarrow.table(store.at("epoch-1").to_arrow("utf8"))
    >>> table["key"].to_pylist(), table["value"].to_pylist()
    (['a', 'b'], [b'1', b'2'])

    Raises ClosedError when a stream is asked for after the store was closed.
    """

    __slots__ = ("_made", "_names", "_shown")

    def __init__(self, made: Callable[[], Any], names: tuple[str, ...], shown: str) -> None:
        if not callable(made):
            raise TypeError("an ArrowStream is made by to_arrow() of a snapshot, a history, a diff, changes or tags")
        self._made = made
        self._names = names
        self._shown = shown

    @property
    def names(self) -> list[str]:
        """The names of the columns.

        >>> store.latest().to_arrow().names, store.history("a").to_arrow().names
        (['key', 'value'], ['version', 'value'])

        Raises nothing.
        """
        return list(self._names)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._made()

    def __arrow_c_schema__(self) -> Any:
        return _native.schema_of_stream(self._made())

    def __repr__(self) -> str:
        return f"<icecore.ArrowStream of {self._shown}: {', '.join(self._names)}>"


def arrow_type(given: ColumnType, what: str) -> _native.ArrowType:
    """How the native half makes a column of this type. ``what`` names the parameter in errors."""
    if given is None:
        given = "binary"
    if isinstance(given, str) and given in _KINDS:
        return _native.ArrowType(_KINDS[given])
    made = _dtype(given, what)
    base = made.base
    list_size = int(np.prod(made.shape)) if made.shape else 0
    if base.kind == "V" and base.names is None and not made.shape:
        return _native.ArrowType(_FIXED, f"w:{made.itemsize}", made.itemsize)
    if base.kind in "mM":
        unit, count = np.datetime_data(base)
        if unit not in _UNITS or count != 1:
            raise ValueError(f"{what}: times of Arrow are in s, ms, us or ns, not {base}")
        form = ("tD" if base.kind == "m" else "ts") + _UNITS[unit] + ("" if base.kind == "m" else ":")
    else:
        form = _FORMATS.get(f"{base.kind}{base.itemsize}", "")
    if not form:
        hint = "; the columns of a structure are those of where('true', layout).to_arrow([...])" if base.names else ""
        raise ValueError(f"{what} must be {_ACCEPTED}, not {made}{hint}")
    swapped = base.itemsize if base.newbyteorder("<") != base else 0
    return _native.ArrowType(_FIXED, form, made.itemsize, list_size, swapped)


def _dtype(given: Any, what: str) -> np.dtype[Any]:
    try:
        if isinstance(given, bool) or isinstance(given, (int, float)) or given is object:
            raise TypeError
        made: np.dtype[Any] = np.dtype(given)
    except (TypeError, ValueError, SyntaxError):
        raise TypeError(f"{what} must be {_ACCEPTED}, not {given!r}") from None
    if made.itemsize == 0:
        raise ValueError(f"{what}: dtype {made} has no size: say how many bytes an item has, as in 'V8'")
    return made


def limits(batch_rows: int) -> tuple[int, int]:
    """Where a batch ends: rows, and bytes."""
    return checks.whole_number(batch_rows, "batch_rows", 1), _BATCH_BYTES


def to_polars(made: ArrowStream) -> polars.DataFrame:
    """The table as a frame of polars."""
    try:
        import polars  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ImportError("to_polars() needs polars: pip install polars") from None
    try:
        return polars.DataFrame(made)
    except polars.exceptions.PolarsError as e:
        raise InvalidArgumentError(f"polars cannot read the table: {e}") from None


def to_pandas(columns: Callable[[], dict[str, Any]]) -> pandas.DataFrame:
    """A frame of these columns, which are made when pandas is known to be there."""
    try:
        import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise ImportError("to_pandas() needs pandas: pip install pandas") from None
    return pandas.DataFrame(columns())


def snapshot_columns(snapshot: Snapshot, key_type: ColumnType, value_type: ColumnType) -> dict[str, Any]:
    """The columns of a frame of pandas. Numbers are extracted as arrays, on all cores."""
    given = {"key": key_type, "value": value_type}
    numbers = [_number_type(one, f"{name}_type") for name, one in given.items()]
    extracted = snapshot.to_numpy(*numbers)
    return {
        name: _pandas_column(found.tolist(), one, name) if number is None else found.astype(number.newbyteorder("="))
        for found, number, (name, one) in zip(extracted, numbers, given.items(), strict=True)
    }


def history_columns(history: History, value_type: ColumnType) -> dict[str, Any]:
    """The same of a history."""
    changes = list(history)
    versions = np.array([change.version for change in changes], np.uint64)
    return {"version": versions, "value": _pandas_column([change.value for change in changes], value_type, "value")}


def diff_columns(diff: Diff, key_type: ColumnType, value_type: ColumnType) -> dict[str, Any]:
    """The same of differences."""
    found = list(diff)
    return {
        "key": _pandas_column([one.key for one in found], key_type, "key"),
        "before": _pandas_column([one.before for one in found], value_type, "before"),
        "after": _pandas_column([one.after for one in found], value_type, "after"),
    }


def change_columns(changes: Changes, key_type: ColumnType, value_type: ColumnType) -> dict[str, Any]:
    """The same of changes."""
    found = list(changes)
    return {
        "key": _pandas_column([one.key for one in found], key_type, "key"),
        "version": np.array([one.version for one in found], np.uint64),
        "value": _pandas_column([one.value for one in found], value_type, "value"),
        "before": _pandas_column([one.before for one in found], value_type, "before"),
        "first": np.array([one.first for one in found], bool),
    }


def stream_of(columns: dict[str, tuple[str, list[Any]]], shown: str, batch_rows: int) -> ArrowStream:
    """A table of these columns, each with its type: "int", "float", "bool", "str", "version" or "time"."""
    types = [_native.ArrowType(*_TYPES[kind][0]) for kind, _ in columns.values()]
    items = [[None if one is None else _TYPES[kind][1](one) for one in column] for kind, column in columns.values()]
    rows, names = len(items[0]), list(columns)
    ends = limits(batch_rows)
    return ArrowStream(lambda: _native.table_stream(names, types, items, rows, *ends), tuple(names), shown)


def _number_type(given: ColumnType, what: str) -> np.dtype[Any] | None:
    """The dtype, if items are numbers or times; else None."""
    arrow_type(given, what)  # the same types as for Arrow
    if given is None or isinstance(given, str) and given in _KINDS:
        return None
    made = _dtype(given, what)
    return None if made.shape or made.kind == "V" else made


def _pandas_column(values: list[Any], given: ColumnType, what: str) -> Any:
    """A list of bytes, or of None, as what a frame holds: objects, or an array if a dtype is given and none is None."""
    if given is None or given in ("binary", "binary_view"):
        return _objects(values)
    if isinstance(given, str) and given == "utf8":
        return _objects([None if value is None else _decoded(value, row, what) for row, value in enumerate(values)])
    made = _dtype(given, what)
    arrow_type(given, what)
    for row, value in enumerate(values):
        if value is not None and len(value) != made.itemsize:
            raise InvalidArgumentError(
                f"row {row} of the column {what!r} has {len(value)} bytes, but {made} has {made.itemsize}: choose another "
                "type, or 'binary'"
            )
    if None in values or made.shape or made.kind == "V":
        return _objects([None if value is None else _item(value, made) for value in values])
    native = made.newbyteorder("=")
    return np.frombuffer(b"".join(values), made).astype(native, copy=False)


def _item(value: bytes, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "V" and not dtype.shape:
        return bytes(value)
    found = np.frombuffer(value, dtype.base).astype(dtype.base.newbyteorder("="), copy=False)
    return found.reshape(dtype.shape) if dtype.shape else found[0]


def _objects(values: list[Any]) -> npt.NDArray[np.object_]:
    made = np.empty(len(values), object)
    for row, value in enumerate(values):  # not made[:] = values, which would open lists of arrays
        made[row] = value
    return made


def _decoded(value: bytes, row: int, what: str) -> str:
    try:
        return bytes(value).decode()
    except UnicodeDecodeError as e:
        raise InvalidArgumentError(
            f"row {row} of the column {what!r} is not UTF-8 at its byte {e.start}: read it as 'binary'"
        ) from None
