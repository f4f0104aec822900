"""The history of one key, and the differences between two versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from . import _native, html
from ._types import Change, Difference
from .errors import ClosedError

if TYPE_CHECKING:
    from ._types import BytesLike


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

    __slots__ = ("_arguments", "_store", "after", "before")

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
