"""Queries that are kept in the store, and that a crash does not set back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native, columns, html
from .errors import InvalidArgumentError
from .filtered import ArrowColumns, numpy_arrays
from .filters import functions_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from .filters import FilterLike

KEEPS = ("", "count", "keys", "rows")
"""What a query keeps, in the order of ``icecore::query_keeps``."""

_AGGREGATES = ("", "count", "sum", "min", "max")
"""How expressions are folded, in the order of ``icecore::aggregate``."""

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


class QueryTotal(NamedTuple):
    """What an aggregate of a query has come to."""

    how: str  #: "count", "sum", "min" or "max"
    expression: str  #: in normal form
    value: int | float | None  #: None: nothing to fold, or a whole number out of 64 bits


class QueryFailure(NamedTuple):
    """A key that a query could not examine."""

    key: bytes
    message: str  #: what a function raised, or what is damaged
    damaged: bool  #: the store's record is


class QueryColumns:
    """The rows of a query that keeps columns, from one on: those whose numbers are final when they are read."""

    __slots__ = ("_from_row", "_query", "_where")

    def __init__(self, query: Query, from_row: int, where: str | None = None) -> None:
        self._query = query
        self._from_row = from_row
        self._where = where

    def where(self, expression: str) -> QueryColumns:
        """Those of them that match a condition over the columns by their names. The store's keys are not looked at."""
        joined = expression if self._where is None else f"({self._where}) and ({expression})"
        return QueryColumns(self._query, self._from_row, joined)

    def to_arrow(self, rows: int | None = None) -> ArrowColumns:
        """The selected columns for Arrow; at most ``rows`` rows are looked at."""
        return ArrowColumns(self._query._kept_columns(self._from_row, rows, self._where))

    def to_numpy(self, rows: int | None = None) -> dict[str, npt.NDArray[Any]]:
        """The same as arrays by name."""
        return numpy_arrays(self._query._kept_columns(self._from_row, rows, self._where))

    def count(self, threads: int = 0) -> int:
        """How many rows match. ``threads``, here and below: 0 for all cores. Totals are of all rows:
        InvalidArgumentError if these begin behind the first one."""
        return self._whole()._kept_count(self._where, columns.thread_count(threads))

    def sum(self, expression: str, threads: int = 0) -> int | float | None:
        """The sum of an expression over the columns by their names; as that of a snapshot. Doubles are the same to the
        last bit for any number of threads."""
        return self._whole()._kept_sum(expression, self._where, columns.thread_count(threads))

    def min(self, expression: str, threads: int = 0) -> int | float | None:
        """The least value of an expression over the columns; None if it is null everywhere."""
        return self._whole()._kept_min(expression, self._where, columns.thread_count(threads))

    def max(self, expression: str, threads: int = 0) -> int | float | None:
        """The greatest value of an expression over the columns; None if it is null everywhere."""
        return self._whole()._kept_max(expression, self._where, columns.thread_count(threads))

    def _whole(self) -> Query:
        if self._from_row != 0:
            raise InvalidArgumentError(f"totals are of all rows, and these begin at row {self._from_row}")
        return self._query

    def __repr__(self) -> str:
        where = "" if self._where is None else f" where {self._where}"
        return f"<icecore.QueryColumns of {self._query.name!r} from row {self._from_row}{where}>"


class QueryResults:
    """The rows of a query from one on: iterates over ``QueryRow(number, key, value)`` in key order, up to the last row
    whose number is final. Each iteration begins anew, and also shows rows that were found since."""

    __slots__ = ("_from_row", "_query", "_values")

    def __init__(self, query: Query, from_row: int, values: bool) -> None:
        self._query = query
        self._from_row = from_row
        self._values = values
        if query.keep != "rows":
            _native.RowIterator(query, from_row, values)  # raises now if there are no rows to iterate over

    def __iter__(self) -> Iterator[QueryRow]:
        return map(QueryRow._make, _native.RowIterator(self._query, self._from_row, self._values))

    def to_arrow(self) -> ArrowColumns:
        """All of them as columns ``number``, ``key`` and ``value`` for Arrow; or the selected columns."""
        return ArrowColumns(self._found())

    def to_numpy(self) -> dict[str, npt.NDArray[Any]]:
        """All of them as arrays ``number``, ``key`` and ``value``; or the selected columns."""
        return numpy_arrays(self._found())

    def _found(self) -> _native.ResultColumns:
        if self._query.keep == "rows":
            return self._query._kept_columns(self._from_row, None, None)
        return self._query._columns(self._from_row, self._values)

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
        """What it keeps of each match: "keys", "rows" (selected columns), or "count" for only how many there are."""
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

    @property
    def totals(self) -> list[QueryTotal]:
        """Its aggregates over all rows whose numbers are final; once it is finished, over all matches. Doubles are the
        same to the last bit for any number of threads, whatever crashed."""
        return [QueryTotal(_AGGREGATES[how], text, value) for how, text, value in self._totals()]

    @property
    def failure(self) -> QueryFailure | None:
        """The key before which a failure has paused it, if one has; later processes see it, too."""
        return next((QueryFailure(*told) for told in self._failures()), None)

    @property
    def skipped(self) -> list[QueryFailure]:
        """The keys that were passed, in key order."""
        return [QueryFailure(*told) for told in self._skipped()]

    def rebind(self, functions: FilterLike | Sequence[FilterLike]) -> None:
        """Accepts functions whatever their revisions, for runs of this process; ``rebound`` tells ever after."""
        self._rebind(functions_of(functions))

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
        skip_failed: bool = False,
        skip_damaged: bool = False,
        on_progress: Callable[[QueryProgress], object] | None = None,
    ) -> QueryProgress:
        """Runs it, or goes on, until it is finished, paused or cancelled, and returns the progress then.

        ``threads``: 0 for all cores. It pauses after so many ``seconds`` or ``keys``. Progress is durable every
        ``every`` seconds (default: 1 ms on memory, 100 ms on block devices; 0: with each key), and at most
        ``keys_per_second`` are looked at (0: no limit). ``on_progress`` is called some ten times a second.

        Ctrl-C, and whatever ``on_progress`` or a function of the filter raises, pauses the query and is raised; the
        rows are kept, and ``run()`` goes on. With ``skip_failed`` keys for which a function raises each time are passed
        and listed in ``skipped``, with ``skip_damaged`` those whose records are damaged. QueryBusyError, naming the pid, if it runs already.
        """
        report = None if on_progress is None else lambda told: on_progress(QueryProgress._of(told))
        time_us = None if seconds is None else _microseconds(seconds)
        every_us = 0 if every is None else _microseconds(every)
        told = self._run(
            columns.thread_count(threads), every_us, every == 0, time_us, keys, keys_per_second, skip_failed, skip_damaged, report
        )
        return QueryProgress._of(told)

    def columns(self, from_row: int = 0) -> QueryColumns:
        """The rows from this number on of a query that keeps columns. InvalidArgumentError if it keeps none."""
        if self.keep != "rows":
            raise InvalidArgumentError(f"query {self.name!r} keeps no columns: it was started without select")
        return QueryColumns(self, from_row)

    def results(self, from_row: int = 0, *, values: bool = True) -> QueryResults:
        """The rows from this number on, in key order; without values if you do not need them. Rows can be read while
        the query runs. InvalidArgumentError if it keeps none. Of a query that keeps columns, ``to_arrow()`` and
        ``to_numpy()`` give those."""
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


def aggregate_list(aggregates: Sequence[tuple[str, str]]) -> list[tuple[int, str]]:
    made = []
    for how, expression in aggregates:
        if how not in _AGGREGATES[1:]:
            raise InvalidArgumentError(f"aggregate {how!r} is not one of {', '.join(_AGGREGATES[1:])}")
        made.append((_AGGREGATES.index(how), expression))
    return made


def _microseconds(seconds: float) -> int:
    if not seconds >= 0:
        raise InvalidArgumentError(f"a query cannot run for {seconds} seconds")
    return int(seconds * 1e6)
