"""Reading one version of a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

from . import _native, array_pieces, columns, html, states, tables
from .errors import ClosedError
from .filtered import Filtered
from .filters import FilterLike, as_filter
from .history import History
from .information import Tag
from .mapping import OrderedMapping
from .versions import HasVersion

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    import polars  # type: ignore[import-not-found, unused-ignore]

    from ._types import BytesLike, ColumnLike
    from .columns import Columns
    from .tables import ArrowStream, ColumnType


class Snapshot(_native.Snapshot, HasVersion, OrderedMapping):
    """One closed version of a store, or a range of its keys: an immutable, ordered ``Mapping`` from bytes to bytes.

    ``store.at(...)``, ``store.latest()`` and slices make one; it is free and copies nothing. Any number of threads may
    read it. It keeps the store open, but only until ``store.close()``.

    >>> then = store.at("epoch-1")
    >>> dict(then)
    {b'a': b'1', b'b': b'2'}
    >>> len(then["b":])
    1

    Raises KeyError for a key that is not there, TypeError for one of a wrong kind, and ClosedError.
    """

    __slots__ = ("_source",)

    def __init__(self, source: _native.Store | _native.Snapshot, /, *place: Any) -> None:
        if not isinstance(source, (_native.Store, _native.Snapshot)):
            raise TypeError("a Snapshot is made by store.at(...), store.latest() or a slice of keys")
        super().__init__(source, *place)
        self._source: Any = source._source if isinstance(source, Snapshot) else source

    def _snapshot(self) -> Snapshot:
        return self

    def _narrowed(self, start: BytesLike | None, stop: BytesLike | None, prefix: BytesLike | None) -> Snapshot:
        if start is None and stop is None and prefix is None:
            return self
        return Snapshot(self, start, stop, prefix)

    def _run(self, part: int, reverse: bool, limit: int) -> Iterator[Any]:
        return _native.ItemIterator(self, part, reverse, limit)

    def __len__(self) -> int:
        """The number of keys in this version within the bounds. O(keys), on all cores if there are no bounds.

        >>> len(store.at("epoch-1"))
        2

        Raises ClosedError.
        """
        return _native.Snapshot.__len__(self)

    @property
    def version(self) -> int:
        """The version's number.

        >>> store.at(0).version
        0

        Raises nothing.
        """
        return self._version

    @property
    def bounds(self) -> tuple[bytes | None, bytes | None]:
        """The first key and the one after the last; None where there is no bound.

        >>> store["a":"b"].bounds, store.latest().bounds
        ((b'a', b'b'), (None, None))

        Raises nothing.
        """
        return self._bounds

    @property
    def path(self) -> str:
        """The path of the store.

        >>> store.latest().path == store.path
        True

        Raises nothing.
        """
        return self._path

    @property
    def tag(self) -> Tag | None:
        """The named or timed tag of this version, if it has one.

        >>> store.at("epoch-1").tag.note
        'loss 0.5'

        Raises ClosedError.
        """
        found = self._tag_tuple()
        return None if found is None else Tag(*found)

    def find(self, key: BytesLike) -> bytes | None:
        """The value; None if the key is not there.

        >>> store.at("epoch-1").find("a"), store.at("epoch-1").find("nothing")
        (b'1', None)

        Raises TypeError for a key of a wrong kind, DamagedError and ClosedError.
        """
        return self._find(key)

    def view(self, key: BytesLike) -> memoryview:
        """The value as a read-only memoryview into the store: no copy. It stays valid and unchanged as long as it lives,
        also after ``store.close()``.

        >>> bytes(store.at("epoch-1").view("a"))
        b'1'

        Raises KeyError if there is no such key, and what ``find`` raises.
        """
        found = self._find_view(key)
        if found is None:
            raise KeyError(key)
        return found

    def get_array(self, key: BytesLike) -> npt.NDArray[Any]:
        """The array that ``store.put_array`` stored, read-only and without a copy; one of more than 4 GiB is a copy.

        >>> version = store.put_array("weights", np.zeros(3))
        >>> store.latest().get_array("weights")
        array([0., 0., 0.])

        Raises KeyError if there is no such key, ValueError if the value is not an array, and what ``find`` raises.
        """
        return array_pieces.get(key, self._find_view)

    def load_state(self, name: str, *, into: Any = None) -> Any:
        """The state that ``store.save_state`` stored in this version or before: see ``Store.load_state``.

        >>> version = store.save_state("model", {"weight": np.zeros(3)})
        >>> store.latest().load_state("model")["weight"]
        array([0., 0., 0.])

        Raises what ``Store.load_state`` raises.
        """
        return states.load(self, name, into)

    def history(self, key: BytesLike) -> History:
        """The key's records up to this version, newest first.

        >>> [change.value for change in store.at("epoch-1").history("a")]
        [b'1']

        Raises TypeError for a key of a wrong kind, and ClosedError.
        """
        return History(self, key)

    def where(self, condition: FilterLike, layout: str | None = None) -> Filtered:
        """The items that match: an expression as ``Filter`` takes it, a ``Filter``, or a function as
        ``filter_function`` takes it.

        ``layout`` names the columns of a value for expressions: ``"price f64, qty u32"``.

        >>> list(store.latest().where("key >= 'b'"))
        [(b'b', b'2')]

        Raises BadInputError for an expression that cannot be read, TypeError and ClosedError.
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

        >>> store.latest().find_many(["a", "c"])
        [b'3', None]
        >>> values, found = store.latest().find_many(["a", "c"], "S1")
        >>> found
        array([ True, False])

        Raises InvalidArgumentError if a value does not fit the dtype, TypeError, DamagedError and ClosedError.
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
        objects of any sizes. ``threads``: 0 for all cores.

        >>> keys, values = store.latest().to_numpy("S1", "S1")
        >>> keys.tolist(), values.tolist()
        ([b'a', b'b'], [b'3', b'2'])

        Raises ValueError if an item does not fit, InvalidArgumentError, DamagedError and ClosedError.
        """
        return columns.to_numpy(self, key_dtype, value_dtype, threads)

    def to_columns(self, *, threads: int = 0) -> Columns:
        """All keys and values, of any sizes, as offsets and bytes (the layout of Arrow's large_binary). ``threads``: 0
        for all cores.

        >>> store.latest().to_columns().keys.offsets
        array([0, 1, 2], dtype=uint64)

        Raises InvalidArgumentError for negative threads, DamagedError and ClosedError.
        """
        return columns.to_columns(self, threads)

    def to_arrow(
        self, key_type: ColumnType = None, value_type: ColumnType = None, *, batch_rows: int = 65536
    ) -> ArrowStream:
        """The columns ``key`` and ``value``, in key order, for any library that reads Arrow; no such library is needed
        here. The snapshot itself can be given to them, too: ``pyarrow.table(snapshot)``, or in DuckDB's SQL. polars takes
        it for a mapping from names to columns, as any mapping: give it ``polars.DataFrame(snapshot.to_arrow())``.

        Types: None or ``"binary"`` (large_binary), ``"utf8"``, which is checked, a NumPy dtype that all items must have the
        size of (``">u8"`` becomes uint64, ``"V16"`` fixed_size_binary, ``("<f4", (128,))`` a fixed-size list), or
        ``"binary_view"``: values of 4 KiB and more then lie in the store, without a copy. A batch has at most
        ``batch_rows`` rows, and ends behind 16 MiB.

        >>> pyarrow.table(store.latest().to_arrow("utf8", "V1")).schema.types
        [DataType(large_string), FixedSizeBinaryType(fixed_size_binary[1])]

        Raises TypeError or ValueError for what is no type, InvalidArgumentError and ClosedError. An item that does not fit
        ends the stream with an error that names its row.
        """
        types = tables.arrow_type(key_type, "key_type"), tables.arrow_type(value_type, "value_type")
        limits = tables.limits(batch_rows)
        return tables.ArrowStream(
            lambda: _native.snapshot_stream(self, *types, *limits), ("key", "value"), f"version {self.version}"
        )

    def to_pandas(self, key_type: ColumnType = None, value_type: ColumnType = None) -> pandas.DataFrame:
        """A frame of pandas with the columns ``key`` and ``value``, in key order; types as for ``to_arrow``. Bytes and lists
        are objects; pyarrow is not needed.

        >>> store.latest().to_pandas("utf8")["key"].tolist()
        ['a', 'b']

        Raises ImportError where pandas is not installed, InvalidArgumentError for an item that does not fit, and what
        ``to_arrow`` raises.
        """
        return tables.to_pandas(lambda: tables.snapshot_columns(self, key_type, value_type))

    def to_polars(self, key_type: ColumnType = None, value_type: ColumnType = None) -> polars.DataFrame:
        """A frame of polars with the columns ``key`` and ``value``, in key order; types as for ``to_arrow``. pyarrow is not
        needed.

        >>> store.latest().to_polars("utf8")["key"].to_list()
        ['a', 'b']

        Raises ImportError where polars is not installed, InvalidArgumentError for an item that does not fit, and what
        ``to_arrow`` raises.
        """
        return tables.to_polars(self.to_arrow(key_type, value_type))

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self.to_arrow().__arrow_c_schema__()

    def __repr__(self) -> str:
        start, stop = self.bounds
        run = "" if start is None and stop is None else f" [{start!r}:{stop!r}]"
        return f"<icecore.Snapshot version {self.version} of {self.path!r}{run}>"

    def _repr_html_(self) -> str:
        try:
            shown = list(self.keys(limit=html.ROWS_MAX + 1))
            rows = [(html.shortened(key), html.shortened(self.view(key))) for key in shown[: html.ROWS_MAX]]
            tag = self.tag
        except ClosedError:
            return html.paragraph(f"{self!r}, whose store is closed")
        caption = f"version {self.version}" + (f", tag {tag.name!r}" if tag and tag.name else "")
        return html.table(("key", "value"), rows, caption, -1 if len(shown) > len(rows) else 0)

    def __copy__(self) -> Snapshot:
        return self  # it never changes

    def __deepcopy__(self, memo: object) -> Snapshot:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """A snapshot is sent to other processes as the store's path and options and its version: each opens the store for
        reading, when it first uses the snapshot."""
        from .store import _snapshot_of

        opening = self._source._opening
        if opening.mode == "attached":
            raise TypeError(
                f"{self!r} is of a store that another process shares: it cannot be pickled. Send the version, and in the "
                "other process attach the store, too: icecore.open(path, 'attached', shared_as=...).at(version)"
            )
        return _snapshot_of, (opening.for_reading(), self.version, *self.bounds)
