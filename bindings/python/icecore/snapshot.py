"""Reading one version of a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

from . import _native, arrays, columns, html
from .filtered import Filtered
from .filters import FilterLike, as_filter
from .history import History
from .information import Tag
from .mapping import OrderedMapping

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ._types import BytesLike, ColumnLike
    from .columns import Columns


class Snapshot(_native.Snapshot, OrderedMapping):
    """One closed version of a store, or a range of its keys: an immutable, ordered ``Mapping`` from bytes to bytes.

    ``store.at(...)``, ``store.latest()`` and slices make one; it is free and copies nothing. Any number of threads may
    read it. It keeps the store open, but only until ``store.close()``.
    """

    __slots__ = ()

    def _snapshot(self) -> Snapshot:
        return self

    def _narrowed(self, start: BytesLike | None, stop: BytesLike | None, prefix: BytesLike | None) -> Snapshot:
        if start is None and stop is None and prefix is None:
            return self
        return Snapshot(self, start, stop, prefix)

    def _run(self, part: int, reverse: bool, limit: int) -> Iterator[Any]:
        return _native.ItemIterator(self, part, reverse, limit)

    def __len__(self) -> int:
        """The number of keys in this version within the bounds. O(keys), on all cores if there are no bounds."""
        return _native.Snapshot.__len__(self)

    @property
    def tag(self) -> Tag | None:
        """The named or timed tag of this version, if it has one."""
        found = self._tag_tuple()
        return None if found is None else Tag(*found)

    def view(self, key: BytesLike) -> memoryview:
        """The value as a read-only memoryview into the store: no copy. It stays valid and unchanged as long as it lives,
        also after ``store.close()``. KeyError if there is no such key."""
        found = self._find_view(key)
        if found is None:
            raise KeyError(key)
        return found

    def get_array(self, key: BytesLike) -> npt.NDArray[Any]:
        """The array that ``store.put_array`` stored, read-only and without a copy. KeyError if there is no such key,
        ValueError if the value is not an array."""
        return arrays.decode(self.view(key), key)

    def history(self, key: BytesLike) -> History:
        """The key's records up to this version."""
        return History(self, key)

    def where(self, condition: FilterLike, layout: str | None = None) -> Filtered:
        """The items that match: an expression as ``Filter`` takes it, a ``Filter``, or a function as
        ``filter_function`` takes it.

        ``layout`` names the columns of a value for expressions: ``"price f64, qty u32"``.
        """
        return Filtered(self, as_filter(condition, layout))

    @overload
    def find_many(self, keys: ColumnLike, dtype: None = None, *, default: Any = None) -> list[Any]: ...
    @overload
    def find_many(
        self, keys: ColumnLike, dtype: npt.DTypeLike, *, default: None = None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]: ...
    def find_many(self, keys: ColumnLike, dtype: Any = None, *, default: Any = None) -> Any:
        """Finds many keys at once; on large stores several times as fast as one by one.

        Without ``dtype``: returns a list of values as bytes, with ``default`` for keys that are not there. With
        ``dtype``: returns an array of the values, which must have the dtype's size, and an array of bools that says
        which keys were found.
        """
        column = columns.as_column(keys, "keys")
        if dtype is None:
            return self._find_many_objects(column, default)
        out = columns.FoundValues(len(column), dtype)
        self._find_many_fixed(column, out.value_bytes, out.found_bytes, out.size, out.pad)
        return out.values, out.found

    def to_numpy(
        self, key_dtype: npt.DTypeLike | None = None, value_dtype: npt.DTypeLike | None = None, *, threads: int = 0
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """All keys and values in key order as two NumPy arrays, without a Python loop.

        All items must have the dtype's size: ``'>u8'`` for keys that are big-endian integers, ``'V16'`` for any 16
        bytes, ``('<f4', (128,))`` for vectors. ``'S16'`` also accepts shorter items. None makes an array of bytes
        objects of any sizes. ``threads``: 0 for all cores. ValueError if an item does not fit.
        """
        return columns.to_numpy(self, key_dtype, value_dtype, threads)

    def to_columns(self, *, threads: int = 0) -> Columns:
        """All keys and values, of any sizes, as offsets and bytes (the layout of Arrow's large_binary)."""
        return columns.to_columns(self, threads)

    def __repr__(self) -> str:
        start, stop = self.bounds
        run = "" if start is None and stop is None else f" [{start!r}:{stop!r}]"
        return f"<icecore.Snapshot version {self.version} of {self.path!r}{run}>"

    def _repr_html_(self) -> str:
        shown = list(self.items(limit=html.ROWS_MAX + 1))
        rows = [(html.shortened(key), html.shortened(value)) for key, value in shown[: html.ROWS_MAX]]
        tag = self.tag
        caption = f"version {self.version}" + (f", tag {tag.name!r}" if tag and tag.name else "")
        return html.table(("key", "value"), rows, caption, -1 if len(shown) > len(rows) else 0)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(
            "a snapshot cannot be pickled or copied: send the store's path and the version, and in the other process "
            "use icecore.open(path, 'r').at(version)"
        )
