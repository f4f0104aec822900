"""Queries that are kept in the store, and that a crash does not set back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from . import _native, checks, columns, html
from .errors import InvalidArgumentError
from .filters import functions_of
from .query_results import QueryColumns, QueryFailure, QueryProgress, QueryResults, QueryTotal
from .versions import EPOCH

if TYPE_CHECKING:
    from .filters import FilterLike

KEEPS = ("", "count", "keys", "rows")
"""What a query keeps, in the order of ``icecore::query_keeps``."""

_AGGREGATES = ("", "count", "sum", "min", "max")
"""How expressions are folded, in the order of ``icecore::aggregate``."""


class Query(_native.Query):
    """A filter over one closed version, whose progress and rows are in the store and survive a crash.

    ``store.start(...)`` makes one, ``store.query(name)`` finds it again, in this process or a later one, and ``run()``
    goes on where it was. Any number of threads may use a query; one of them, or of another process, runs it at a time.

    >>> query = store.start("audit", "value > '2'")
    >>> query.run().state, len(query)
    ('finished', 1)

    Raises NoSuchQueryError once it was dropped, DamagedError and ClosedError.
    """

    __slots__ = ()

    def __init__(self, store: _native.Store, name: str, /, *how: Any) -> None:
        if not isinstance(store, _native.Store):
            raise TypeError("a Query is made by store.start(name, where) or store.query(name)")
        super().__init__(store, name, *how)

    @property
    def name(self) -> str:
        """Its name in the store.

        >>> store.start("audit").name
        'audit'

        Raises nothing.
        """
        return self._name

    @property
    def version(self) -> int:
        """The version whose answer it gives.

        >>> store.start("audit", at="epoch-1").version == store.at("epoch-1").version
        True

        Raises nothing.
        """
        return self._version

    @property
    def keep(self) -> str:
        """What it keeps of each match: "keys", "rows" (selected columns), or "count" for only how many there are.

        >>> store.start("audit", keep="count").keep
        'count'

        Raises nothing.
        """
        return KEEPS[self._keep()]

    @property
    def created(self) -> datetime:
        """When it was started, in UTC.

        >>> store.start("audit").created <= datetime.now(timezone.utc)
        True

        Raises nothing.
        """
        return EPOCH + timedelta(microseconds=self._created_ns() // 1_000)

    @property
    def progress(self) -> QueryProgress:
        """How far it is; nothing is read again for it.

        >>> store.start("audit").progress.expected
        2

        Raises DamagedError and ClosedError.
        """
        return QueryProgress._of(self._progress_tuple())

    @property
    def state(self) -> str:
        """The state of its progress: "ready", "running", "paused", "finished" or "cancelled".

        >>> store.start("audit").state
        'ready'

        Raises DamagedError and ClosedError.
        """
        return self.progress.state

    @property
    def totals(self) -> list[QueryTotal]:
        """Its aggregates over all rows whose numbers are final; once it is finished, over all matches. Doubles are the
        same to the last bit for any number of threads, whatever crashed.

        >>> query = store.start("totals", aggregates=[("count", "true")])
        >>> done = query.run()
        >>> query.totals[0].value
        2

        Raises DamagedError and ClosedError.
        """
        return [QueryTotal(_AGGREGATES[how], text, value) for how, text, value in self._totals()]

    @property
    def failure(self) -> QueryFailure | None:
        """The key before which a failure has paused it, if one has; later processes see it, too.

        >>> store.start("audit").failure is None
        True

        Raises DamagedError and ClosedError.
        """
        return next((QueryFailure(*told) for told in self._failures()), None)

    @property
    def skipped(self) -> list[QueryFailure]:
        """The keys that were passed, in key order.

        >>> store.start("audit").skipped
        []

        Raises DamagedError and ClosedError.
        """
        return [QueryFailure(*told) for told in self._skipped()]

    def rebind(self, functions: FilterLike | Sequence[FilterLike]) -> None:
        """Accepts functions whatever their revisions, for runs of this process; ``rebound`` tells ever after.

        >>> def odd(keys, values):
        ...     return [value in (b"1", b"3") for value in values]
        >>> started = store.start("audit", icecore.filter_function(odd, name="odd", revision=1))
        >>> query = store.query("audit", icecore.filter_function(odd, name="odd", revision=1))
        >>> query.rebind(icecore.filter_function(odd, name="odd", revision=2))
        >>> query.run().rows, query.rebound
        (1, True)

        Raises UnknownFunctionError if none of them has the name that the filter needs, TypeError for what is no function,
        QueryBusyError while the query runs, and ClosedError.
        """
        self._rebind(functions_of(functions))

    @property
    def rebound(self) -> bool:
        """Whether functions of other revisions were accepted at some time.

        >>> store.start("audit").rebound
        False

        Raises DamagedError and ClosedError.
        """
        return self._rebound

    def restart_part(self, part: int) -> None:
        """Forgets what a part has kept, which is damaged (the error names it), so that ``run()`` computes it again.

        >>> query = store.start("audit")
        >>> done = query.run()
        >>> query.restart_part(0)
        >>> query.run().rows
        2

        Raises InvalidArgumentError if there is no such part, QueryBusyError while the query runs, and ClosedError.
        """
        self._restart_part(checks.whole_number(part, "part"))

    def explain(self) -> str:
        """The expression of its filter in normal form, the ranges of keys that are sought, and the order of evaluation.

        >>> print(store.start("audit", "key = 'a'").explain().splitlines()[0])
        key = 'a'

        Raises DamagedError and ClosedError.
        """
        return self._explain()

    def pause(self) -> None:
        """Asks the runner, in whatever thread or process, to stop within 10 ms and a block of evaluations.

        >>> query = store.start("audit")
        >>> query.pause()
        >>> query.run().state
        'finished'

        Raises NoSuchQueryError once it was dropped, and ClosedError.
        """
        self._pause()

    def cancel(self) -> None:
        """The same, and it will not go on. The rows stay.

        >>> query = store.start("audit")
        >>> query.cancel()
        >>> query.state
        'cancelled'

        Raises NoSuchQueryError once it was dropped, and ClosedError.
        """
        self._cancel()

    def drop(self) -> None:
        """Takes the query out of the store and gives its space back.

        >>> store.start("audit").drop()
        >>> store.queries()
        []

        Raises QueryBusyError while it runs, NoSuchQueryError if it was dropped before, and ClosedError.
        """
        self._drop()

    def acknowledge(self, row: int) -> None:
        """Notes durably that the consumer has done with all rows before this one.

        >>> query = store.start("audit")
        >>> done = query.run()
        >>> query.acknowledge(2)
        >>> query.acknowledged
        2

        Raises InvalidArgumentError for a row that is not there, TypeError, and ClosedError.
        """
        self._acknowledge(checks.whole_number(row, "row"))

    @property
    def acknowledged(self) -> int:
        """The row that was acknowledged last; 0 if none was.

        >>> store.start("audit").acknowledged
        0

        Raises DamagedError and ClosedError.
        """
        return self._acknowledged

    def __len__(self) -> int:
        """The number of rows so far.

        >>> len(store.start("audit"))
        0

        Raises DamagedError and ClosedError.
        """
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
        and listed in ``skipped``, with ``skip_damaged`` those whose records are damaged.

        >>> query = store.start("audit")
        >>> query.run(keys=1).state
        'paused'
        >>> query.run().rows
        2

        Raises QueryBusyError, naming the pid, if it runs already, UnknownFunctionError, DamagedError, TypeError,
        InvalidArgumentError and ClosedError.
        """
        report = None if on_progress is None else lambda told: on_progress(QueryProgress._of(told))
        every_us = None if every is None else checks.microseconds(every, "every")
        told = self._run(
            columns.thread_count(threads),
            every_us or 0,
            every_us == 0,
            None if seconds is None else checks.microseconds(seconds, "seconds"),
            None if keys is None else checks.whole_number(keys, "keys"),
            checks.whole_number(keys_per_second, "keys_per_second"),
            bool(skip_failed),
            bool(skip_damaged),
            report,
        )
        return QueryProgress._of(told)

    def columns(self, from_row: int = 0) -> QueryColumns:
        """The rows from this number on of a query that keeps columns.

        >>> query = store.start("columns", select="key")
        >>> done = query.run()
        >>> query.columns(1).to_numpy()["key"].tolist()
        [b'b']

        Raises InvalidArgumentError if it keeps none, and TypeError.
        """
        if self.keep != "rows":
            raise InvalidArgumentError(f"query {self.name!r} keeps no columns: it was started without select")
        return QueryColumns(self, checks.whole_number(from_row, "from_row"))

    def results(self, from_row: int = 0, *, values: bool = True) -> QueryResults:
        """The rows from this number on, in key order; without values if you do not need them. Rows can be read while
        the query runs. Of a query that keeps columns, ``to_arrow()`` and ``to_numpy()`` give those.

        >>> query = store.start("audit")
        >>> done = query.run()
        >>> [row.value for row in query.results(1)]
        [b'2']

        Raises InvalidArgumentError if it keeps none, TypeError, DamagedError and ClosedError.
        """
        return QueryResults(self, checks.whole_number(from_row, "from_row"), bool(values))

    def __repr__(self) -> str:
        return f"<icecore.Query {self.name!r} of version {self.version}>"

    def _repr_html_(self) -> str:
        now = self.progress
        return html.table(("", ""), zip(now._fields, now), f"query {self.name!r} of version {self.version}")

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a query cannot be pickled or copied: send the store's path and the query's name")


class Queries(list[Query]):
    """Queries, oldest first: a list that notebooks show as a table. ``store.queries()`` makes one.

    >>> started = store.start("audit")
    >>> store.queries()[0].name
    'audit'

    Raises ClosedError when a query is read after the store was closed.
    """

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
        made.append((_AGGREGATES.index(how), checks.text(expression, "an aggregate's expression")))
    return made
