"""Writes that take effect at one instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _native, array_pieces, columns
from .versions import record_version

if TYPE_CHECKING:
    from typing import Protocol

    import numpy.typing as npt

    from ._types import BytesLike, ColumnLike

    class _Applies(Protocol):
        def _apply(self, batch: _native.Batch) -> int | None: ...


class Batch:
    """Inserts and removes that take effect at one instant: readers and crashes see all of them or none. Made by
    ``with store.batch() as b:``.

    If several operations name one key, the last one counts. A batch cannot be read. Removing a key that is not there
    does nothing. The batch copies its keys and values, so memory must hold them all.

    ``insert_new`` and ``replace`` set conditions for the whole batch, about the state that it finds: if one does not
    hold, nothing happens, and ``applied`` is False.

    >>> with store.batch() as b:
    ...     b["x"] = "1"
    ...     del b["a"]
    >>> b.applied, "a" in store
    (True, False)

    Raises ValueError when it is used after its ``with`` block.
    """

    __slots__ = ("_applied", "_ended", "_operations")

    def __init__(self) -> None:
        self._operations = _native.Batch()
        self._applied: int | None = None
        self._ended = False

    def __setitem__(self, key: BytesLike, value: BytesLike) -> None:
        self._open().insert(key, value)

    def __delitem__(self, key: BytesLike) -> None:
        self._open().remove(key)

    def insert_new(self, key: BytesLike, value: BytesLike) -> None:
        """Inserts the key, on the condition that it is not there.

        >>> with store.batch() as b:
        ...     b.insert_new("a", "4")
        ...     b["x"] = "1"
        >>> b.applied, "x" in store
        (False, False)

        Raises TypeError, KeyTooLongError, ValueTooLargeError, and ValueError after the block.
        """
        self._open().insert_new(key, value)

    def replace(self, key: BytesLike, value: BytesLike, expected_version: int) -> None:
        """Sets the key's value, on the condition that its newest record has this version.

        >>> version = store.insert("k", "old")
        >>> with store.batch() as b:
        ...     b.replace("k", "new", version)
        >>> b.applied
        True

        Raises TypeError, InvalidArgumentError for version 0, KeyTooLongError, ValueTooLargeError, and ValueError after
        the block.
        """
        self._open().replace(key, value, record_version(expected_version))

    def put_many(self, keys: ColumnLike, values: ColumnLike) -> None:
        """Adds whole columns without a Python loop; ``Store.put_many`` says what a column is.

        >>> with store.batch() as b:
        ...     b.put_many(np.arange(10, dtype=">u8"), np.zeros(10))
        >>> len(store)
        12

        Raises InvalidArgumentError if the columns differ in length, TypeError, KeyTooLongError, ValueTooLargeError, and
        ValueError after the block.
        """
        self._open().insert_many(*columns.as_columns(keys, values))

    def put_array(self, key: BytesLike, array: npt.ArrayLike) -> None:
        """Adds an array with its dtype and shape: see ``Store.put_array``. Pieces of an array that it replaces stay.

        >>> with store.batch() as b:
        ...     b.put_array("weights", np.zeros(3))
        >>> store.get_array("weights").shape
        (3,)

        Raises what ``Store.put_array`` raises, and ValueError after the block.
        """
        array_pieces.put(array, key, self._open().insert)

    def clear(self) -> None:
        """Discards all operations collected so far.

        >>> with store.batch() as b:
        ...     b["x"] = "1"
        ...     b.clear()
        >>> "x" in store
        False

        Raises ValueError after the block.
        """
        self._open().clear()

    def __len__(self) -> int:
        """The number of operations collected."""
        return len(self._operations)

    @property
    def version(self) -> int:
        """The version the writes belong to, once the ``with`` block has ended without an exception.

        >>> with store.batch() as b:
        ...     b["x"] = "1"
        >>> b.version == store.clock
        True

        Raises ValueError before that, if there were no writes, or if a condition did not hold.
        """
        if self._applied is None:
            if self._ended:
                raise ValueError("a condition of the batch did not hold: nothing was written")
            raise ValueError("the batch has not been applied: its version is known after the with block")
        return self._applied

    @property
    def applied(self) -> bool:
        """Whether the writes have taken effect.

        >>> with store.batch() as b:
        ...     b["x"] = "1"
        ...     b.applied
        False
        >>> b.applied
        True

        Raises nothing.
        """
        return self._applied is not None

    def _open(self) -> _native.Batch:
        if self._ended:
            raise ValueError("the batch has been applied already: start another with store.batch()")
        return self._operations

    def _apply_to(self, store: _Applies) -> None:
        if len(self._operations) > 0:
            self._applied = store._apply(self._operations)
            self._ended = True
