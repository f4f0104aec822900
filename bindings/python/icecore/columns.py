"""Whole columns of keys and values: NumPy arrays in and out without a Python loop."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from . import _native, checks
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from . import _native_mpi
    from ._types import BytesLike, ColumnLike
    from .snapshot import Snapshot

    _Parts = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint8]]

_KEY, _VALUE = 0, 1
_THREADS_MAX = 2**16


class ByteColumn(NamedTuple):
    """Byte strings of any sizes in one array: item i is ``bytes[offsets[i]:offsets[i + 1]]``.

    >>> column = icecore.ByteColumn(np.array([0, 1, 3]), np.frombuffer(b"xyz", np.uint8))
    >>> store.put_many(column, column)
    >>> store["yz"]
    b'yz'

    Raises nothing; what takes it raises InvalidArgumentError for offsets that do not fit.
    """

    offsets: npt.NDArray[np.uint64]
    bytes: npt.NDArray[np.uint8]


class Columns(NamedTuple):
    """The keys and values of a snapshot, in key order: ``snapshot.to_columns()`` makes it.

    >>> keys, values = store.latest().to_columns()
    >>> keys.bytes.tobytes(), values.bytes.tobytes()
    (b'ab', b'32')

    Raises nothing.
    """

    keys: ByteColumn
    values: ByteColumn


def thread_count(asked: int, name: str = "threads") -> int:
    """``asked``, or if it is 0, the number of cores this process may use. ``name``: what the caller calls it."""
    return checks.whole_number(asked, name, 0, _THREADS_MAX) or len(os.sched_getaffinity(0))


def as_column(given: ColumnLike, what: str) -> _native.Column:
    """Converts any column of byte strings to a form that C++ can read. ``what`` names it in errors."""
    if isinstance(given, ByteColumn):
        offsets = np.ascontiguousarray(given.offsets)
        if offsets.dtype.kind not in "iu":
            raise TypeError(f"the offsets of {what} must be integers, not {offsets.dtype}")
        data = np.ascontiguousarray(given.bytes).view(np.uint8)
        return _native.Column.variable(offsets.astype(np.uint64, copy=False), data)
    if isinstance(given, (bytes, bytearray, memoryview, str)):
        raise TypeError(f"{what} must be an array or a sequence of bytes-like objects, not one {type(given).__name__}")
    if not any(hasattr(given, name) for name in ("__iter__", "__getitem__", "__arrow_c_stream__", "__arrow_c_array__")):
        raise TypeError(f"{what} must be an array or a sequence of bytes-like objects, not {type(given).__name__}")
    if not isinstance(given, np.ndarray):
        handed_over = _column_of_a_library(given, what)
        return _native.Column.sequence(cast("Sequence[BytesLike]", given), what) if handed_over is None else handed_over
    if given.dtype.hasobject:
        return _native.Column.sequence(given.tolist(), what)
    if given.ndim == 0 or given.shape[0] > 0 and given[0].nbytes == 0:
        raise ValueError(f"{what} must be an array of at least one dimension, with items of at least one byte")
    if given.dtype.kind == "U":
        given = np.char.encode(given.astype(np.str_), "utf-8")
    strip_nul = given.dtype.kind == "S" and given.ndim == 1
    size = given.nbytes // len(given) if len(given) else 1
    return _native.Column.fixed(_raw(np.ascontiguousarray(given)), size, strip_nul)


def _column_of_a_library(given: Any, what: str) -> _native.Column | None:
    """A column of pandas, polars, Arrow or another library that hands over Arrow data, read where it is; else None."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(given, (pandas.Series, pandas.Index)):
        if isinstance(given.dtype, np.dtype):
            return as_column(given.to_numpy(), what)
        try:
            return _native.Column.of_stream(pandas.Series(given).__arrow_c_stream__(), what)
        except (ImportError, AttributeError):  # pandas needs pyarrow for it, and an older one does not have it
            return _native.Column.sequence(given.tolist(), what)
    if isinstance(given, _native.Snapshot):
        return None  # a mapping, of which the keys count, as of others
    if hasattr(given, "__arrow_c_stream__"):
        return _native.Column.of_stream(given.__arrow_c_stream__(), what)
    if hasattr(given, "__arrow_c_array__"):
        schema, array = given.__arrow_c_array__()
        return _native.Column.of_array(schema, array, what)
    return None


def as_columns(keys: ColumnLike, values: ColumnLike) -> tuple[_native.Column, _native.Column]:
    """Both columns of put_many, which must have the same length."""
    key_column, value_column = as_column(keys, "keys"), as_column(values, "values")
    if len(key_column) != len(value_column):
        raise InvalidArgumentError(f"{len(key_column)} keys need as many values, not {len(value_column)}")
    return key_column, value_column


class FoundValues:
    """Arrays for find_many to fill."""

    def __init__(self, count: int, dtype: npt.DTypeLike) -> None:
        self.values, self.size, self.pad = _empty(count, dtype)
        self.found = np.empty(count, np.bool_)

    @property
    def value_bytes(self) -> npt.NDArray[np.uint8]:
        return _raw(self.values)

    @property
    def found_bytes(self) -> npt.NDArray[np.uint8]:
        return self.found.view(np.uint8)


def to_numpy(
    snapshot: Snapshot, key_dtype: npt.DTypeLike | None, value_dtype: npt.DTypeLike | None, threads: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """See Snapshot.to_numpy."""
    threads = thread_count(threads)
    dtypes = [None if asked is None else np.dtype(asked) for asked in (key_dtype, value_dtype)]
    if snapshot.bounds == (None, None) and None not in dtypes:
        try:
            keys, values = _extract_fixed(snapshot, dtypes[_KEY], dtypes[_VALUE], threads)
            if not _ends_with_nul(keys) and not _ends_with_nul(values):
                return keys, values
        except InvalidArgumentError:
            if not any(dtype is not None and dtype.kind == "S" for dtype in dtypes):
                raise
    # the general method also handles items of different sizes and ranges of keys, and reports which item does not fit
    selection = _native.Selection(snapshot, threads)
    return _selected(selection, _KEY, dtypes[_KEY]), _selected(selection, _VALUE, dtypes[_VALUE])


def _extract_fixed(
    snapshot: Snapshot, key_dtype: npt.DTypeLike | None, value_dtype: npt.DTypeLike | None, threads: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    capacity = snapshot._size_bound()
    keys, key_size, _ = _empty(capacity, key_dtype)
    values, value_size, _ = _empty(capacity, value_dtype)
    count = _native.extract_fixed(snapshot, _raw(keys), key_size, _raw(values), value_size, capacity, threads)
    if count < capacity:  # the bound includes removed keys: release their room without copying
        keys.resize((count, *keys.shape[1:]), refcheck=False)
        values.resize((count, *values.shape[1:]), refcheck=False)
    return keys, values


def _selected(
    selection: _native.Selection | _native_mpi.Extracted, part: int, dtype: npt.DTypeLike | None
) -> npt.NDArray[Any]:
    if dtype is None:
        objects = np.empty(len(selection), object)
        objects[:] = selection.to_objects(part)
        return objects
    out, size, pad = _empty(len(selection), dtype)
    selection.copy_fixed(part, _raw(out), size, pad)
    return out


def to_columns(snapshot: Snapshot, threads: int) -> Columns:
    """See Snapshot.to_columns."""
    return columns_of(_native.extract_columns(snapshot, thread_count(threads)))


def columns_of(parts: _Parts) -> Columns:
    """Converts the result of the native half: key offsets, key bytes, value offsets, value bytes."""
    return Columns(ByteColumn(*parts[:2]), ByteColumn(*parts[2:]))


def extracted_to_numpy(
    extracted: _native_mpi.Extracted, key_dtype: npt.DTypeLike | None, value_dtype: npt.DTypeLike | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """See mpi.Snapshot.to_numpy."""
    return _extracted(extracted, _KEY, key_dtype), _extracted(extracted, _VALUE, value_dtype)


def _extracted(extracted: _native_mpi.Extracted, part: int, dtype: npt.DTypeLike | None) -> npt.NDArray[Any]:
    made = None if dtype is None else np.dtype(dtype)
    if made is None or len(extracted) == 0 or extracted.width(part) != made.itemsize:
        return _selected(extracted, part, made)
    return extracted.bytes(part).view(made.base).reshape(-1, *made.shape)  # no copy: the memory that was extracted


def extracted_to_columns(extracted: _native_mpi.Extracted) -> Columns:
    """See mpi.Snapshot.to_columns."""
    keys, values = (ByteColumn(extracted.offsets(part), extracted.bytes(part)) for part in (_KEY, _VALUE))
    return Columns(keys, values)


def item_size(dtype: npt.DTypeLike | None) -> tuple[int, bool]:
    """An item's size in bytes, and whether shorter byte strings fit it too. ValueError if bytes cannot be of this
    dtype."""
    made = np.dtype(dtype)
    if made.hasobject:
        raise ValueError(f"dtype {made} holds Python objects; None makes an array of bytes objects")
    if made.itemsize == 0:
        raise ValueError(f"dtype {made} has no size: say how many bytes an item has, as in 'S8'")
    if made.kind == "U":
        raise ValueError(f"dtype {made} is UTF-32; use 'S' with a size in bytes and decode with numpy.char.decode")
    return made.itemsize, made.kind == "S"


def _empty(count: int, dtype: npt.DTypeLike | None) -> tuple[npt.NDArray[Any], int, bool]:
    """An array of ``count`` items, and their ``item_size``."""
    size, pad = item_size(dtype)
    return np.empty(count, dtype), size, pad


def _ends_with_nul(array: npt.NDArray[Any]) -> bool:
    """Whether an item of dtype 'S' ends with a NUL byte, which NumPy would drop."""
    if array.dtype.kind != "S" or array.size == 0:
        return False
    return not _raw(array).reshape(-1, array.dtype.itemsize)[:, -1].all()


def _raw(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The array's memory as bytes, because the buffer protocol does not support all dtypes."""
    return array.reshape(-1).view(np.uint8)
