"""Where a stream is, so that another connection can go on with it: shared by both kinds of clients.

A state gives the request of the next attempt, and turns messages into what the caller gets. What was given is not given
again: a scan goes on behind its last key at the version that it reads; a watch behind the last version that was told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .._types import Change, Difference
from ._messages import new
from ._values import Bounds, cells

_KEY, _VALUE, _BOTH = 0, 1, 2
NO_LIMIT = 2**64 - 1

# How often the server tells a watch how far it came, though nothing was written between its bounds: a watch that goes on
# over another connection begins there, and what is compacted meanwhile is behind it.
PROGRESS_MS = 5000


class KeyChange(NamedTuple):
    """One insert or removal of a key."""

    key: bytes
    version: int
    value: bytes | None  #: None: the key was removed
    before: bytes | None  #: what the key showed before, if it was asked for; None: it was not there


class VersionChanges(NamedTuple):
    """All changes of one version, within the bounds that were asked for."""

    version: int
    changes: list[KeyChange]


class Scan:
    """Keys, values or both of one version, in order."""

    method = "Store.Scan"

    def __init__(self, database: str, part: int, bounds: Bounds, at: Any, reverse: bool, limit: int) -> None:
        self._database = database
        self._part = part
        self._start = bounds.start
        self._stop = bounds.stop
        self._at = at
        self._reverse = reverse
        self._left = limit

    @property
    def over(self) -> bool:
        empty = self._start is not None and self._stop is not None and self._start >= self._stop
        return self._left == 0 or empty

    def request(self) -> Any:
        return new(
            "ScanRequest",
            database=self._database,
            bounds=new("Bounds", **{"from": self._start}, to=self._stop),
            at=self._at,
            reverse=self._reverse,
            limit=0 if self._left == NO_LIMIT else self._left,
            keys_only=self._part == _KEY,
        )

    def take(self, rows: Any) -> Iterator[Any]:
        self._at = new("Point", version=rows.version)
        keys = list(cells(rows.keys))
        if not keys:
            return
        if self._reverse:
            self._stop = keys[-1]
        else:
            self._start = keys[-1] + b"\0"
        if self._left != NO_LIMIT:
            self._left -= len(keys)
        if self._part == _KEY:
            yield from keys
        elif self._part == _VALUE:
            yield from cells(rows.values)
        else:
            yield from zip(keys, cells(rows.values))


class _Resumed:
    """A stream of rows that goes on at the version that it reads, at its last place: of the rows there, as many are left
    out as were given already."""

    method: str
    over = False

    def __init__(self) -> None:
        self._version: int | None = None  # that is read
        self._place: Any = None
        self._given = 0  # rows of the place
        self._skip = 0

    def _up_to(self, asked: Any) -> Any:
        self._skip = self._given
        return asked if self._version is None else new("Point", version=self._version)

    def _rows(self, rows: Any) -> Iterator[tuple[Any, Any]]:
        """Pairs of a row's place, in order, and the row."""
        raise NotImplementedError

    def take(self, rows: Any) -> Iterator[Any]:
        self._version = rows.version
        for place, row in self._rows(rows):
            if self._skip > 0:
                self._skip -= 1
                continue
            self._given = self._given + 1 if place == self._place else 1
            self._place = place
            yield row


def _removed(rows: Any, i: int) -> bool:
    return bool(rows.removed and rows.removed[i])


class HistoryStream(_Resumed):
    """Records of a key, newest first."""

    method = "Store.History"

    def __init__(self, database: str, key: bytes, up_to: Any) -> None:
        super().__init__()
        self._database = database
        self._key = key
        self._asked = up_to

    def request(self) -> Any:
        up_to = self._up_to(self._asked)
        if self._place is not None:
            up_to = new("Point", version=self._place)
        return new("HistoryRequest", database=self._database, key=self._key, up_to=up_to)

    def _rows(self, rows: Any) -> Iterator[tuple[int, Change]]:
        for i, (version, value) in enumerate(zip(rows.versions, cells(rows.values))):
            yield version, Change(version, None if _removed(rows, i) else value)


def _befores(rows: Any) -> Iterator[bytes | None]:
    if not rows.HasField("before"):
        while True:
            yield None
    for i, value in enumerate(cells(rows.before)):
        yield None if rows.before_absent and rows.before_absent[i] else value


class DiffStream(_Resumed):
    """What differs between two versions, in key order."""

    method = "Store.Diff"

    def __init__(self, database: str, before: int, after: Any, bounds: Bounds) -> None:
        super().__init__()
        self._database = database
        self._before = before
        self._asked = after
        self._bounds = bounds

    def request(self) -> Any:
        bounds = self._bounds if self._place is None else self._bounds.within(self._place, None, None)
        return new(
            "DiffRequest",
            database=self._database,
            before=self._before,
            after=self._up_to(self._asked),
            bounds=bounds.message(),
        )

    def _rows(self, rows: Any) -> Iterator[tuple[bytes, Difference]]:
        for i, (key, value, before) in enumerate(zip(cells(rows.keys), cells(rows.values), _befores(rows))):
            yield key, Difference(key, before, None if _removed(rows, i) else value)


def _changes_of(rows: Any) -> Iterator[KeyChange]:
    columns = zip(cells(rows.keys), rows.versions, cells(rows.values), _befores(rows))
    for i, (key, version, value, before) in enumerate(columns):
        yield KeyChange(key, version, None if _removed(rows, i) else value, before)


class ChangesStream(_Resumed):
    """All that was written between two versions, by version, then by key."""

    method = "Store.Changes"

    def __init__(self, database: str, after: int, up_to: Any, bounds: Bounds, before: bool) -> None:
        super().__init__()
        self._database = database
        self._after = after
        self._asked = up_to
        self._bounds = bounds
        self._before = before

    def request(self) -> Any:
        return new(
            "ChangesRequest",
            database=self._database,
            after=self._after if self._place is None else self._place - 1,
            up_to=self._up_to(self._asked),
            bounds=self._bounds.message(),
            before=self._before,
        )

    def _rows(self, rows: Any) -> Iterator[tuple[int, KeyChange]]:
        return ((change.version, change) for change in _changes_of(rows))


class WatchStream:
    """What comes, a whole version at a time."""

    method = "Store.Watch"
    over = False

    def __init__(
        self,
        database: str,
        after: int | None,
        bounds: Bounds,
        before: bool,
        progress_ms: int | None = None,
        look: Callable[[], None] | None = None,
    ) -> None:
        self._database = database
        self._bounds = bounds
        self._before = before
        self._progress_ms = PROGRESS_MS if progress_ms is None else progress_ms
        self._look = look  # called with each message
        self._pending: list[KeyChange] = []
        self.told: int | None = after

    def request(self) -> Any:
        self._pending = []  # parts of a version that was not complete come again
        return new(
            "WatchRequest",
            database=self._database,
            after=self.told,
            bounds=self._bounds.message(),
            before=self._before,
            progress_ms=self._progress_ms,
        )

    def take(self, rows: Any) -> Iterator[VersionChanges]:
        if self._look is not None:
            self._look()
        self._pending.extend(_changes_of(rows))
        count = 0
        while count < len(self._pending) and self._pending[count].version <= rows.told:
            count += 1
        complete, self._pending = self._pending[:count], self._pending[count:]
        begin = 0
        for i in range(1, count + 1):
            if i == count or complete[i].version != complete[begin].version:
                version = complete[begin].version
                # Told before it is given: whoever takes it and stops will not get it again.
                self.told = version
                yield VersionChanges(version, complete[begin:i])
                begin = i
        self.told = rows.told
