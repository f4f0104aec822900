"""NumPy arrays as values.

An array is stored as a .npy file (format 1.0, or 2.0 for very long dtypes): if the bytes of the value are written to a
file, ``numpy.load`` can read them. The header's size is a multiple of 64, and a store places every value at a multiple
of 8 (values of 4 KiB and more at a multiple of 64). So the array is aligned without a copy when it is read back.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

if TYPE_CHECKING:
    import numpy.typing as npt

_PREFIX_SIZE = {(1, 0): 10, (2, 0): 12}  # magic, version, header length
_HEADER_SIZE_MAX = 1 << 20
_PLAIN = frozenset((np.ndarray, np.memmap, np.recarray, int, float, bool, complex))


def encode(array: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """The bytes of the array as a .npy file. TypeError or ValueError for dtypes that bytes cannot hold."""
    given = _storable(array)
    header = _header(given)
    out = np.empty(len(header) + given.nbytes, np.uint8)  # NumPy asks for huge pages, and nothing is cleared before
    out[: len(header)] = np.frombuffer(header, np.uint8)
    if given.nbytes:
        body: npt.NDArray[Any] = np.ndarray(
            given.shape, given.dtype, out.data, len(header), order="C" if given.flags.c_contiguous else "F"
        )
        body[...] = given
    return out


def parts(array: npt.ArrayLike) -> tuple[bytes, npt.NDArray[np.uint8]]:
    """The header and the rest of what ``encode`` makes, without a copy of an array that is contiguous."""
    given = _storable(array)
    return _header(given), given.ravel(order="K").view(np.uint8) if given.nbytes else np.empty(0, np.uint8)


def require_storable(array: npt.ArrayLike) -> None:
    """Raises what ``encode`` raises, except for a header that is too long."""
    _storable(array)


def _storable(array: npt.ArrayLike) -> npt.NDArray[Any]:
    _require_plain(array)
    given = np.asarray(array)
    if given.dtype.hasobject and given.ndim == 0:
        raise TypeError(f"NumPy makes no array of {type(array).__module__}.{type(array).__qualname__}: convert it yourself")
    if given.dtype.hasobject:
        raise TypeError(f"an array of dtype {given.dtype} holds Python objects, which cannot be stored as bytes")
    if npy.descr_to_dtype(npy.dtype_to_descr(given.dtype)) != given.dtype:
        raise TypeError(f"the .npy format cannot describe dtype {given.dtype}: store a view of a standard dtype")
    if not (given.flags.c_contiguous or given.flags.f_contiguous):
        given = np.ascontiguousarray(given)
    return given


def _require_plain(given: Any) -> None:
    """TypeError for what is more than an array: it would lose its index, names, mask or units."""
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError("a masked array would lose its mask: store its data and its mask under two keys")
    kind = type(given)
    if kind in _PLAIN or isinstance(given, (bool, int, float, complex, str, bytes, np.generic)):
        return
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(given, np.ndarray):
        raise TypeError(f"an array of type {name} would lose what it adds to an array: put_array(key, np.array(array))")
    if isinstance(given, (list, tuple)):
        for one in given:
            _require_plain(one)
    elif hasattr(given, "__array__") and not hasattr(given, "__dlpack__"):
        raise TypeError(
            f"{name} would lose its index, names or coordinates: store its values, put_array(key, data.to_numpy()), and "
            "what names them under keys of their own; or all of it as bytes, such as those of a Parquet file"
        )
    elif hasattr(given, "__arrow_c_array__"):
        _require_plain_arrow(given, name)


def _require_plain_arrow(given: Any, name: str) -> None:
    """TypeError for an Arrow array that NumPy would change: nulls become NaN, times lose their zone. What an array of NumPy
    can be is what it exports by DLPack."""
    try:
        try:
            given.__dlpack__(max_version=(1, 0))
        except TypeError as error:
            if "max_version" not in str(error):
                raise
            given.__dlpack__()  # of an older library
    except Exception as error:  # libraries have classes of their own for it
        raise TypeError(
            f"{name} would lose its nulls or its type ({error}): fill nulls first, or convert it yourself: put_array(key, "
            "array.to_numpy(zero_copy_only=False))"
        ) from None


def decode(value: memoryview, key: object) -> npt.NDArray[Any]:
    """The array in ``value``, which it keeps alive. ValueError if the value is not an array."""
    try:
        version = npy.read_magic(io.BytesIO(value[:8]))
        prefix = _PREFIX_SIZE[version]
        size = prefix + int.from_bytes(value[8:prefix], "little")
        if size > len(value) or size > _HEADER_SIZE_MAX:
            raise ValueError("its header is longer than the value or the maximum")
        return _array(version, bytes(value[8:size]), value, size)
    except (ValueError, KeyError, SyntaxError, TypeError) as e:
        raise ValueError(f"the value of {key!r} is not an array that put_array stored: {e}") from None


def decode_parts(header: bytes, body: npt.NDArray[np.uint8], key: object) -> npt.NDArray[Any]:
    """The array of which ``parts`` made these. ValueError if they are none."""
    try:
        return _array(npy.read_magic(io.BytesIO(header[:8])), header[8:], body.data, 0)
    except (ValueError, KeyError, SyntaxError, TypeError) as e:
        raise ValueError(f"the pieces of {key!r} are not an array that put_array stored: {e}") from None


def _array(version: tuple[int, int], header: bytes, of: memoryview, offset: int) -> npt.NDArray[Any]:
    shape, dtype, order = _parsed(version, header)
    if offset + dtype.itemsize * int(np.prod(shape, dtype=object)) != len(of):
        raise ValueError(f"its {len(of) - offset} bytes are not an array of shape {shape} and dtype {dtype}")
    return np.ndarray(shape, dtype, of, offset, order=order)


def _header(array: npt.NDArray[Any]) -> bytes:
    out = io.BytesIO()
    told = npy.header_data_from_array_1_0(array)
    try:
        npy.write_array_header_1_0(out, told)
    except ValueError:  # the header is longer than 64 KiB, the limit of format 1.0
        out = io.BytesIO()
        npy.write_array_header_2_0(out, told)
    if out.tell() > _HEADER_SIZE_MAX:
        raise ValueError(f"dtype and shape need a header of {out.tell()} bytes; the maximum is {_HEADER_SIZE_MAX}")
    return out.getvalue()


@lru_cache(maxsize=256)
def _parsed(version: tuple[int, int], header: bytes) -> tuple[tuple[int, ...], np.dtype[Any], Any]:
    """Shape, dtype and order; cached, because the arrays of a program have few different headers."""
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran_order, dtype = read(io.BytesIO(header), max_header_size=_HEADER_SIZE_MAX)
    if dtype.hasobject:
        raise ValueError("its header says that it holds Python objects")
    return shape, dtype, "F" if fortran_order else "C"
