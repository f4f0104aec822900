"""What queries tell: how far they are, their rows, columns and totals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native, checks, columns
from .errors import InvalidArgumentError
from .filtered import ArrowColumns, numpy_arrays

if TYPE_CHECKING:
    import numpy.typing as npt

    from .query import Query

_STATES = ("", "ready", "running", "paused", "finished", "cancelled")


class QueryProgress(NamedTuple):
    """How far a query is.

    >>> store.start("audit").progress.state
    'ready'

    Raises nothing.
    """

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
    """A row of a query.

    >>> query = store.start("audit")
    >>> query.run().state
    'finished'
    >>> next(iter(query.results()))
    QueryRow(number=0, key=b'a', value=b'3')

    Raises nothing.
    """

    number: int  #: from 0, in key order
    key: bytes
    value: bytes | None  #: None unless values were asked for


class QueryTotal(NamedTuple):
    """What an aggregate of a query has come to.

    >>> query = store.start("totals", aggregates=[("count", "true")])
    >>> query.run().state
    'finished'
    >>> query.totals
    [QueryTotal(how='count', expression='true', value=2)]

    Raises nothing.
    """

    how: str  #: "count", "sum", "min" or "max"
    expression: str  #: in normal form
    value: int | float | None  #: None: nothing to fold, or a whole number out of 64 bits


class QueryFailure(NamedTuple):
    """A key that a query could not examine.

    >>> def fails(keys, values):
    ...     raise RuntimeError("no")
    >>> query = store.start("audit", icecore.filter_function(fails, name="fails", revision=1))
    >>> query.run(skip_failed=True).state
    'finished'
    >>> query.skipped[0].key, "no" in query.skipped[0].message
    (b'a', True)

    Raises nothing.
    """

    key: bytes
    message: str  #: what a function raised, or what is damaged
    damaged: bool  #: the store's record is


class QueryColumns:
    """The rows of a query that keeps columns, from one on: those whose numbers are final when they are read.
    ``query.columns()`` makes one.

    >>> query = store.start("columns", select=["key"])
    >>> query.run().rows, query.columns().count()
    (2, 2)

    Raises BadInputError for an expression that cannot be read, DamagedError and ClosedError.
    """

    __slots__ = ("_from_row", "_query", "_where")

    def __init__(self, query: Query, from_row: int, where: str | None = None) -> None:
        if not isinstance(query, _native.Query):
            raise TypeError("QueryColumns are made by query.columns()")
        self._query = query
        self._from_row = from_row
        self._where = where

    def where(self, expression: str) -> QueryColumns:
        """Those of them that match a condition over the columns by their names. The store's keys are not looked at.

        >>> query = store.start("columns", select=["key", "length(value) as n"])
        >>> done = query.run()
        >>> query.columns().where("key = 'b'").count()
        1

        Raises BadInputError, when the rows are read, for an expression that cannot be read, and TypeError.
        """
        checks.text(expression, "a condition")
        joined = expression if self._where is None else f"({self._where}) and ({expression})"
        return QueryColumns(self._query, self._from_row, joined)

    def to_arrow(self, rows: int | None = None) -> ArrowColumns:
        """The selected columns for Arrow; at most ``rows`` rows are looked at.

        >>> query = store.start("columns", select=["key", "length(value) as n"])
        >>> done = query.run()
        >>> len(query.columns().to_arrow(rows=1))
        1

        Raises BadInputError, InvalidArgumentError, DamagedError and ClosedError.
        """
        return ArrowColumns(self._rows(rows))

    def to_numpy(self, rows: int | None = None) -> dict[str, npt.NDArray[Any]]:
        """The same as arrays by name.

        >>> query = store.start("columns", select=["key", "length(value) as n"])
        >>> done = query.run()
        >>> query.columns().to_numpy()["key"].tolist()
        [b'a', b'b']

        Raises BadInputError, InvalidArgumentError, DamagedError and ClosedError.
        """
        return numpy_arrays(self._rows(rows))

    def _rows(self, rows: int | None) -> _native.ResultColumns:
        most = None if rows is None else checks.whole_number(rows, "rows")
        return self._query._kept_columns(self._from_row, most, self._where)

    def count(self, threads: int = 0) -> int:
        """How many rows match. ``threads``, here and below: 0 for all cores. Totals are of all rows.

        >>> query = store.start("columns", select=["key", "length(value) as n"])
        >>> done = query.run()
        >>> query.columns().count()
        2

        Raises InvalidArgumentError if the rows begin behind the first one, BadInputError, DamagedError and ClosedError.
        """
        return self._whole()._kept_count(self._where, columns.thread_count(threads))

    def sum(self, expression: str, threads: int = 0) -> int | float | None:
        """The sum of an expression over the columns by their names; as that of a snapshot. Doubles are the same to the
        last bit for any number of threads.

        >>> query = store.start("columns", select=["key", "length(value) as n"])
        >>> done = query.run()
        >>> query.columns().sum("n")
        2

        Raises what ``count`` raises.
        """
        return self._whole()._kept_sum(checks.text(expression, "an expression"), self._where, columns.thread_count(threads))

    def min(self, expression: str, threads: int = 0) -> int | float | None:
        """The least value of an expression over the columns; None if it is null everywhere.

        >>> query = store.start("columns", select=["key", "length(value) as n"])
        >>> done = query.run()
        >>> query.columns().min("n")
        1

        Raises what ``count`` raises.
        """
        return self._whole()._kept_min(checks.text(expression, "an expression"), self._where, columns.thread_count(threads))

    def max(self, expression: str, threads: int = 0) -> int | float | None:
        """The greatest value of an expression over the columns; None if it is null everywhere.

        >>> query = store.start("columns", select=["key", "length(value) as n"])
        >>> done = query.run()
        >>> query.columns().max("n")
        1

        Raises what ``count`` raises.
        """
        return self._whole()._kept_max(checks.text(expression, "an expression"), self._where, columns.thread_count(threads))

    def _whole(self) -> Query:
        if self._from_row != 0:
            raise InvalidArgumentError(f"totals are of all rows, and these begin at row {self._from_row}")
        return self._query

    def __repr__(self) -> str:
        where = "" if self._where is None else f" where {self._where}"
        return f"<icecore.QueryColumns of {self._query.name!r} from row {self._from_row}{where}>"


class QueryResults:
    """The rows of a query from one on: iterates over ``QueryRow(number, key, value)`` in key order, up to the last row
    whose number is final. Each iteration begins anew, and also shows rows that were found since. ``query.results()``
    makes one.

    >>> query = store.start("audit")
    >>> done = query.run()
    >>> [row.key for row in query.results()]
    [b'a', b'b']

    Raises InvalidArgumentError if the query keeps no rows, DamagedError and ClosedError.
    """

    __slots__ = ("_from_row", "_query", "_values")

    def __init__(self, query: Query, from_row: int, values: bool) -> None:
        if not isinstance(query, _native.Query):
            raise TypeError("QueryResults are made by query.results()")
        self._query = query
        self._from_row = from_row
        self._values = values
        if query.keep != "rows":
            _native.RowIterator(query, from_row, values)  # raises now if there are no rows to iterate over

    def __iter__(self) -> Iterator[QueryRow]:
        return map(QueryRow._make, _native.RowIterator(self._query, self._from_row, self._values))

    def to_arrow(self) -> ArrowColumns:
        """All of them as columns ``number``, ``key`` and ``value`` for Arrow; or the selected columns.

        >>> query = store.start("audit")
        >>> done = query.run()
        >>> query.results().to_arrow().names
        ['number', 'key', 'value']

        Raises DamagedError and ClosedError.
        """
        return ArrowColumns(self._found())

    def to_numpy(self) -> dict[str, npt.NDArray[Any]]:
        """All of them as arrays ``number``, ``key`` and ``value``; or the selected columns.

        >>> query = store.start("audit")
        >>> done = query.run()
        >>> query.results().to_numpy()["value"].tolist()
        [b'3', b'2']

        Raises DamagedError and ClosedError.
        """
        return numpy_arrays(self._found())

    def _found(self) -> _native.ResultColumns:
        if self._query.keep == "rows":
            return self._query._kept_columns(self._from_row, None, None)
        return self._query._columns(self._from_row, self._values)

    def __repr__(self) -> str:
        return f"<icecore.QueryResults of {self._query.name!r} from row {self._from_row}>"
