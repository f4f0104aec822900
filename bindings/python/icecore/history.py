"""The history of one key, and the differences between two versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from . import _native, html, tables
from ._types import Change, Difference
from .errors import ClosedError

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    import polars  # type: ignore[import-not-found, unused-ignore]

    from ._types import BytesLike
    from .tables import ArrowStream, ColumnType


class History(Iterable[Change]):
    """The history of one key: ``Change(version, value)`` for every insert and remove of it.

    Iterates newest first; ``reversed()`` iterates oldest first. Each iteration reads the store anew as it goes on, so
    it reads only the part of a long history that is used. ``store.history(key)`` makes one.

    >>> list(store.history("a"))
    [Change(version=2, value=b'3'), Change(version=1, value=b'1')]
    >>> len(store.history("a"))
    2

    Raises ClosedError when it is read after the store was closed.
    """

    __slots__ = ("_key", "_source")

    def __init__(self, source: _native.Store | _native.Snapshot, key: BytesLike) -> None:
        if not isinstance(source, (_native.Store, _native.Snapshot)):
            raise TypeError("a History is made by store.history(key) or snapshot.history(key)")
        self._source = source
        self._key = key
        _native.HistoryIterator(source, key, False, True)  # raises errors of the key now, not when it is read

    def __iter__(self) -> Iterator[Change]:
        return map(Change._make, _native.HistoryIterator(self._source, self._key, False, False))

    def __reversed__(self) -> Iterator[Change]:
        return map(Change._make, _native.HistoryIterator(self._source, self._key, True, False))

    def views(self, *, oldest_first: bool = False) -> Iterator[Change]:
        """The same with values as read-only memoryviews, so that large values are not copied.

        >>> [bytes(change.value) for change in store.history("a").views(oldest_first=True)]
        [b'1', b'3']

        Raises ClosedError.
        """
        return map(Change._make, _native.HistoryIterator(self._source, self._key, bool(oldest_first), True))

    def to_arrow(self, value_type: ColumnType = None, *, batch_rows: int = 65536) -> ArrowStream:
        """The columns ``version`` (uint64) and ``value``, newest first, for any library that reads Arrow; the value of a
        removal is null. ``value_type`` as for ``Snapshot.to_arrow``.

        >>> pyarrow.table(store.history("a").to_arrow("utf8"))["value"].to_pylist()
        ['3', '1']

        Raises what ``Snapshot.to_arrow`` raises.
        """
        made, limits = tables.arrow_type(value_type, "value_type"), tables.limits(batch_rows)
        return tables.ArrowStream(
            lambda: _native.history_stream(self._source, self._key, made, *limits),
            ("version", "value"),
            f"the history of {self._key!r}",
        )

    def to_pandas(self, value_type: ColumnType = None) -> pandas.DataFrame:
        """A frame of pandas with the columns ``version`` and ``value``, newest first; the value of a removal is None.

        >>> store.history("a").to_pandas("utf8")["value"].tolist()
        ['3', '1']

        Raises what ``Snapshot.to_pandas`` raises.
        """
        return tables.to_pandas(lambda: tables.history_columns(self, value_type))

    def to_polars(self, value_type: ColumnType = None) -> polars.DataFrame:
        """A frame of polars with the columns ``version`` and ``value``, newest first; the value of a removal is null.

        >>> store.history("a").to_polars("utf8")["value"].to_list()
        ['3', '1']

        Raises what ``Snapshot.to_polars`` raises.
        """
        return tables.to_polars(self.to_arrow(value_type))

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self.to_arrow().__arrow_c_schema__()

    def __len__(self) -> int:
        """The number of records. O(records)."""
        return sum(1 for _ in _native.HistoryIterator(self._source, self._key, False, True))

    def __repr__(self) -> str:
        return f"<icecore.History of {self._key!r} in {self._source!r}>"

    def _repr_html_(self) -> str:
        try:
            shown = list(islice(self.views(), html.ROWS_MAX + 1))
        except ClosedError:
            return html.paragraph(repr(self))
        rows = [(c.version, "removed" if c.value is None else html.shortened(c.value)) for c in shown[: html.ROWS_MAX]]
        return html.table(("version", "value"), rows, f"history of {self._key!r}", -1 if len(shown) > len(rows) else 0)


class Diff(Iterable[Difference]):
    """The differences between two versions: ``Difference(key, before, after)`` in key order.

    Each iteration reads the store anew as it goes on. O(keys of the store). ``store.diff(...)`` makes one.

    >>> diff = store.diff("epoch-1", store.latest())
    >>> [difference.key for difference in diff]
    [b'a']

    Raises VersionNotClosedError, VersionLostError, and ClosedError when it is read after the store was closed.
    """

    __slots__ = {  # with what help() says of them
        "_arguments": None,
        "_store": None,
        "after": "The number of the version that it leads to.",
        "before": "The number of the version that it begins with.",
    }

    def __init__(self, store: _native.Store, before: int, after: int, *bounds: BytesLike | None) -> None:
        if not isinstance(store, _native.Store):
            raise TypeError("a Diff is made by store.diff(before, after)")
        self._store = store
        self._arguments = bounds
        self.before = before
        self.after = after
        self._run(True)  # raises errors of unknown versions now, not when the first difference is read

    def _run(self, as_views: bool) -> Iterator[Any]:
        start, stop, prefix = self._arguments
        return _native.DiffIterator(self._store, self.before, self.after, start, stop, prefix, as_views)

    def __iter__(self) -> Iterator[Difference]:
        return map(Difference._make, self._run(False))

    def views(self) -> Iterator[Difference]:
        """The same with values as read-only memoryviews, so that large values are not copied.

        >>> [bytes(difference.after) for difference in store.diff("epoch-1", store.latest()).views()]
        [b'3']

        Raises ClosedError.
        """
        return map(Difference._make, self._run(True))

    def to_arrow(
        self, key_type: ColumnType = None, value_type: ColumnType = None, *, batch_rows: int = 65536
    ) -> ArrowStream:
        """The columns ``key``, ``before`` and ``after``, in key order, for any library that reads Arrow; null means that the
        key is not there. Types as for ``Snapshot.to_arrow``.

        >>> pyarrow.table(store.diff("epoch-1", store.latest()).to_arrow("utf8", "utf8")).to_pylist()
        [{'key': 'a', 'before': '1', 'after': '3'}]

        Raises what ``Snapshot.to_arrow`` raises.
        """
        types = tables.arrow_type(key_type, "key_type"), tables.arrow_type(value_type, "value_type")
        start, stop, prefix = self._arguments
        limits = tables.limits(batch_rows)
        return tables.ArrowStream(
            lambda: _native.diff_stream(self._store, self.before, self.after, start, stop, prefix, *types, *limits),
            ("key", "before", "after"),
            f"differences from version {self.before} to {self.after}",
        )

    def to_pandas(self, key_type: ColumnType = None, value_type: ColumnType = None) -> pandas.DataFrame:
        """A frame of pandas with the columns ``key``, ``before`` and ``after``; None means that the key is not there.

        >>> store.diff("epoch-1", store.latest()).to_pandas("utf8", "utf8").values.tolist()
        [['a', '1', '3']]

        Raises what ``Snapshot.to_pandas`` raises.
        """
        return tables.to_pandas(lambda: tables.diff_columns(self, key_type, value_type))

    def to_polars(self, key_type: ColumnType = None, value_type: ColumnType = None) -> polars.DataFrame:
        """A frame of polars with the columns ``key``, ``before`` and ``after``; null means that the key is not there.

        >>> store.diff("epoch-1", store.latest()).to_polars("utf8", "utf8").rows()
        [('a', '1', '3')]

        Raises what ``Snapshot.to_polars`` raises.
        """
        return tables.to_polars(self.to_arrow(key_type, value_type))

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self.to_arrow().__arrow_c_schema__()

    def __repr__(self) -> str:
        return f"<icecore.Diff from version {self.before} to {self.after} of {self._store!r}>"

    def _repr_html_(self) -> str:
        try:
            shown = list(islice(self.views(), html.ROWS_MAX + 1))
        except ClosedError:
            return html.paragraph(repr(self))
        rows = [tuple(html.shortened(part) for part in d) for d in shown[: html.ROWS_MAX]]
        caption = f"from version {self.before} to {self.after}"
        return html.table(("key", "before", "after"), rows, caption, -1 if len(shown) > len(rows) else 0)
