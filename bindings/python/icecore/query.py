"""Queries that are kept in the store, and that a crash does not set back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native, columns, html
from .errors import InvalidArgumentError
from .filtered import ArrowColumns, numpy_arrays

if TYPE_CHECKING:
    import numpy.typing as npt

KEEPS = ("", "count", "keys")
"""What a query keeps, in the order of ``icecore::query_keeps``."""

_STATES = ("", "ready", "running", "paused", "finished", "cancelled")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class QueryProgress(NamedTuple):
    """How far a query is."""

    state: str  #: "ready", "running", "paused", "finished" or "cancelled"
    examined: int  #: keys looked at so far
    expected: int  #: keys of the store when the query was started: about as many are to be looked at
    rows: int  #: matches so far
    repeated: int  #: evaluations that happened again, because a crash came before they were durable
    runs: int  #: how often it was begun or continued
    worked_seconds: float  #: the time of all runs
    left_seconds: float | None  #: an estimate, if there is one

    @classmethod
    def _of(cls, told: tuple[Any, ...]) -> QueryProgress:
        state, examined, expected, rows, repeated, runs, worked, left = told
        left_seconds = None if left is None else left / 1e6
        return cls(_STATES[state], examined, expected, rows, repeated, runs, worked / 1e6, left_seconds)


class QueryRow(NamedTuple):
    """A row of a query."""

    number: int  #: from 0, in key order
    key: bytes
    value: bytes | None  #: None unless values were asked for


class QueryResults:
    """The rows of a query from one on: iterates over ``QueryRow(number, key, value)`` in key order, up to the last row
    whose number is final. Each iteration begins anew, and also shows rows that were found since."""

    __slots__ = ("_from_row", "_query", "_values")

    def __init__(self, query: Query, from_row: int, values: bool) -> None:
        self._query = query
        self._from_row = from_row
        self._values = values
        _native.RowIterator(query, from_row, values)  # raises now if there are no rows to iterate over

    def __iter__(self) -> Iterator[QueryRow]:
        return map(QueryRow._make, _native.RowIterator(self._query, self._from_row, self._values))

    def to_arrow(self) -> ArrowColumns:
        """All of them as columns ``number``, ``key`` and ``value`` for Arrow."""
        return ArrowColumns(self._query._columns(self._from_row, self._values))

    def to_numpy(self) -> dict[str, npt.NDArray[Any]]:
        """All of them as arrays ``number``, ``key`` and ``value``."""
        return numpy_arrays(self._query._columns(self._from_row, self._values))

    def __repr__(self) -> str:
        return f"<icecore.QueryResults of {self._query.name!r} from row {self._from_row}>"


class Query(_native.Query):
    """A filter over one closed version, whose progress and rows are in the store and survive a crash.

    ``store.start(...)`` makes one, ``store.query(name)`` finds it again, in this process or a later one, and ``run()``
    goes on where it was. Any number of threads may use a query; one of them, or of another process, runs it at a time.
    """

    __slots__ = ()

    @property
    def keep(self) -> str:
        """What it keeps of each match: "keys", or "count" for only how many there are."""
        return KEEPS[self._keep()]

    @property
    def created(self) -> datetime:
        """When it was started, in UTC."""
        return _EPOCH + timedelta(microseconds=self._created_ns() // 1_000)

    @property
    def progress(self) -> QueryProgress:
        """How far it is; nothing is read again for it."""
        return QueryProgress._of(self._progress_tuple())

    @property
    def state(self) -> str:
        """The state of its progress."""
        return self.progress.state

    def __len__(self) -> int:
        """The number of rows so far."""
        return self.progress.rows

    def __bool__(self) -> bool:
        return True

    def run(
        self,
        threads: int = 1,
        *,
        seconds: float | None = None,
        keys: int | None = None,
        every: float | None = None,
        keys_per_second: int = 0,
        on_progress: Callable[[QueryProgress], object] | None = None,
    ) -> QueryProgress:
        """Runs it, or goes on, until it is finished, paused or cancelled, and returns the progress then.

        ``threads``: 0 for all cores. It pauses after so many ``seconds`` or ``keys``. Progress is durable every
        ``every`` seconds (default: 1 ms on memory, 100 ms on block devices; 0: with each key), and at most
        ``keys_per_second`` are looked at (0: no limit). ``on_progress`` is called some ten times a second.

        Ctrl-C, and whatever ``on_progress`` or a function of the filter raises, pauses the query and is raised; the
        rows are kept, and ``run()`` goes on. QueryBusyError, naming the pid, if it runs already.
        """
        report = None if on_progress is None else lambda told: on_progress(QueryProgress._of(told))
        time_us = None if seconds is None else _microseconds(seconds)
        every_us = 0 if every is None else _microseconds(every)
        told = self._run(
            columns.thread_count(threads), every_us, every == 0, time_us, keys, keys_per_second, report
        )
        return QueryProgress._of(told)

    def results(self, from_row: int = 0, *, values: bool = True) -> QueryResults:
        """The rows from this number on, in key order; without values if you do not need them. Rows can be read while
        the query runs. InvalidArgumentError if it keeps none."""
        return QueryResults(self, from_row, values)

    def __repr__(self) -> str:
        return f"<icecore.Query {self.name!r} of version {self.version}>"

    def _repr_html_(self) -> str:
        now = self.progress
        return html.table(("", ""), zip(now._fields, now), f"query {self.name!r} of version {self.version}")

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a query cannot be pickled or copied: send the store's path and the query's name")


class Queries(list[Query]):
    """Queries, oldest first: a list that notebooks show as a table."""

    def _repr_html_(self) -> str:
        told = [(q, q.progress) for q in self[: html.ROWS_MAX]]
        rows = [(q.name, q.version, p.state, p.examined, p.expected, p.rows) for q, p in told]
        head = ("name", "version", "state", "examined", "of about", "rows")
        return html.table(head, rows, f"{len(self)} queries", len(self) - len(rows))


def keep_number(keep: str) -> int:
    if keep not in KEEPS[1:]:
        raise InvalidArgumentError(f"keep {keep!r} is not one of {', '.join(KEEPS[1:])}")
    return KEEPS.index(keep)


def _microseconds(seconds: float) -> int:
    if not seconds >= 0:
        raise InvalidArgumentError(f"a query cannot run for {seconds} seconds")
    return int(seconds * 1e6)
