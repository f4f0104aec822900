"""Arrays that are longer than a value can be: their items lie in pieces, values under keys of their own.

The value of the array's key says how many pieces there are and what they are called, and ends with the header of the
.npy file that the array would be. The pieces are at the array's key, a NUL byte, the name and a number. Each array that
is put has another name, so pieces never change. They are written before the value that leads to them: whoever sees that
value sees them, in each version.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import arrays

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._types import BytesLike

VALUE_BYTES_MAX = 2**32 - 1  # of the store's format
PIECE_BYTES = 2**30
_JOINED_BYTES_MAX = 2**20  # the store joins what is shorter

_MAGIC = b"\x93ICEPART"  # no .npy file, and no text, begins so
_HEAD = struct.Struct("<8s16sQQ")  # magic, name, bytes of a piece, bytes of all
_NUMBER = struct.Struct(">I")
_PIECES_MAX = 2**20


class Pieces(NamedTuple):
    """What the value of the array's key says."""

    name: bytes
    piece_bytes: int
    size: int
    header: bytes

    def keys(self, key: bytes) -> list[bytes]:
        count = -(-self.size // self.piece_bytes)
        return [key + b"\0" + self.name + _NUMBER.pack(number) for number in range(count)]

    def value(self) -> bytes:
        return _HEAD.pack(_MAGIC, self.name, self.piece_bytes, self.size) + self.header


def told_by(value: memoryview | None) -> Pieces | None:
    """What the value says if it is one that leads to pieces."""
    if value is None or len(value) < _HEAD.size or value[: len(_MAGIC)] != _MAGIC:
        return None
    _, name, piece_bytes, size = _HEAD.unpack(value[: _HEAD.size])
    if piece_bytes == 0 or -(-size // piece_bytes) > _PIECES_MAX:
        return None
    return Pieces(name, piece_bytes, size, bytes(value[_HEAD.size :]))


def put(
    array: npt.ArrayLike,
    key: BytesLike,
    insert: Callable[[BytesLike, Any], Any],
    insert_parts: Callable[[BytesLike, bytes, Any], Any] | None = None,
) -> tuple[Any, bool]:
    """Inserts the array as one value or, if it is too long for one, in pieces. What the last insert returned, and
    whether there are pieces. ``insert_parts`` takes the header and the rest of the value, so that a long one need not be
    copied to join them."""
    header, body = arrays.parts(array)
    size = len(header) + body.nbytes
    if size <= VALUE_BYTES_MAX:
        if insert_parts is not None and size >= _JOINED_BYTES_MAX:
            return insert_parts(key, header, body), False
        return insert(key, arrays.encode(array)), False
    pieces = Pieces(os.urandom(16), PIECE_BYTES, body.nbytes, header)
    for number, piece in enumerate(pieces.keys(_key_bytes(key))):
        insert(piece, body[number * PIECE_BYTES : (number + 1) * PIECE_BYTES])
    return insert(key, pieces.value()), True


def remove(of: Pieces | None, key: BytesLike, remove_key: Callable[[bytes], Any]) -> None:
    """Removes the pieces of an array to which nothing leads any more."""
    for piece in of.keys(_key_bytes(key)) if of is not None else ():
        remove_key(piece)


def get(key: BytesLike, find: Callable[[BytesLike], memoryview | None]) -> npt.NDArray[Any]:
    """The array: a view of its value, or a copy if it lies in pieces. ``find`` shows the value of a key, or None; if
    it shows the present, the array may be replaced meanwhile."""
    value = find(key)
    while True:
        if value is None:
            raise KeyError(key)
        pieces = told_by(value)
        if pieces is None:
            return arrays.decode(value, key)
        found, missing = _joined(pieces, key, find)
        if not missing:
            return arrays.decode_parts(pieces.header, found, key)
        now = find(key)  # another one may have replaced the array, and removed its pieces
        if now is not None and now == value:
            raise ValueError(f"the array of {key!r} is not whole: {missing}; put it again, or read an older version")
        value = now


def _joined(pieces: Pieces, key: BytesLike, find: Callable[[BytesLike], memoryview | None]) -> tuple[Any, str]:
    """The bytes of all pieces; and what is missing."""
    # before memory is taken for what a value claims
    keys = pieces.keys(_key_bytes(key))
    sizes = [min(pieces.piece_bytes, pieces.size - at) for at in range(0, pieces.size, pieces.piece_bytes)]
    shown = []
    for number, (piece, size) in enumerate(zip(keys, sizes)):
        view = find(piece)
        if view is None or len(view) != size:
            what = "is not there" if view is None else f"has {len(view)} bytes and not {size}"
            return None, f"piece {number} of {len(keys)}, key {piece!r}, {what}"
        shown.append(view)
    whole = np.empty(pieces.size, np.uint8)
    at = 0
    for view in shown:
        whole[at : at + len(view)] = np.frombuffer(view, np.uint8)
        at += len(view)
    whole.flags.writeable = False
    return whole, ""


def _key_bytes(key: BytesLike) -> bytes:
    return key.encode() if isinstance(key, str) else bytes(memoryview(key))  # type: ignore[arg-type, unused-ignore]
