"""What a store keeps besides its keys: queries, and feeds of changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import _native, checks
from .feed import Changes, Feed, FeedInfo, feeds_of
from .filters import FilterLike, as_filter, functions_of
from .query import Queries, Query, aggregate_list, keep_number
from .store_writing import WritableStore

if TYPE_CHECKING:
    from ._types import BytesLike, VersionLike


class KeepingStore(WritableStore):
    """What of ``icecore.Store`` is about queries that are kept, changes and feeds."""

    __slots__ = ()

    def start(
        self,
        name: str,
        where: FilterLike | None = None,
        *,
        at: VersionLike | None = None,
        keep: str = "keys",
        select: str | Sequence[str] = (),
        aggregates: Sequence[tuple[str, str]] = (),
        layout: str | None = None,
    ) -> Query:
        """Starts a query: when this returns, the version and the query are durable. ``Query.run()`` runs it.

        ``where``: an expression (``layout`` names the columns of a value), a ``Filter`` or a function; by default all
        keys match. ``at``: a closed version, by default the present. ``keep``: ``"keys"``, whose values are looked up
        when rows are read, or ``"count"``. ``select``: expressions whose values are kept as columns in place of keys.
        ``aggregates``: totals that are kept, such as ``[("sum", "price * qty"), ("count", "true")]``.

        >>> query = store.start("audit", "starts_with(key, 'a')", at="epoch-1")
        >>> query.run().rows
        1

        Raises QueryExistsError if the name is taken, BadInputError for an expression that cannot be read, what ``at()``
        raises, TypeError, InvalidArgumentError (also in an attached process, unless every write is durable by itself),
        ReadOnlyError and ClosedError.
        """
        version = self._version_or_present(at)
        expressions = [select] if isinstance(select, str) else select
        columns = [checks.text(one, "an expression of select") for one in expressions]
        given = checks.text(name, "a query's name")
        return Query(
            self, given, as_filter(where, layout), version, keep_number(keep), columns, aggregate_list(aggregates)
        )

    def query(self, name: str, functions: FilterLike | Sequence[FilterLike] = ()) -> Query:
        """The query of this name, in whatever state. ``functions``: the functions that its filter calls, if another
        process started it.

        >>> started = store.start("audit")
        >>> store.query("audit").state
        'ready'

        Raises NoSuchQueryError (a KeyError), UnknownFunctionError if none of the functions has the name and revision that
        it needs, TypeError and ClosedError.
        """
        return Query(self, checks.text(name, "a query's name"), functions_of(functions))

    def queries(self) -> Queries:
        """All queries, oldest first; a list, which notebooks show as a table.

        >>> started = store.start("audit")
        >>> [query.name for query in store.queries()]
        ['audit']

        Raises DamagedError and ClosedError.
        """
        return Queries(Query(self, name, []) for name in _native.query_names(self))

    def prune_queries(self, *, older_than: float | None = None, finished: bool = True) -> int:
        """Drops queries that are finished or cancelled, and returns how many. ``older_than``: only those that were
        started more seconds ago. ``finished=False``: all that do not run.

        >>> started = store.start("audit")
        >>> store.prune_queries(), store.prune_queries(finished=False)
        (0, 1)

        Raises TypeError, InvalidArgumentError for negative seconds, ReadOnlyError and ClosedError.
        """
        seconds = None if older_than is None else checks.microseconds(older_than, "older_than") // 1_000_000
        return _native.prune_queries(self, seconds, bool(finished))

    def changes(
        self, after: VersionLike, up_to: VersionLike, where: FilterLike | None = None, *, layout: str | None = None
    ) -> Changes:
        """All that was written in the versions behind ``after`` up to ``up_to``, by key, then by version. In ``where``
        ``before.value``, ``removed`` and ``first`` tell what a change is. O(keys).

        >>> [(change.key, change.value, change.first) for change in store.changes(0, "epoch-1")]
        [(b'a', b'1', True), (b'b', b'2', True)]

        Raises what ``at()`` raises for either version, InvalidArgumentError if ``up_to`` is older than ``after``,
        BadInputError for an expression that cannot be read, and TypeError.
        """
        return Changes(self, self._version_of(after), self._version_of(up_to), as_filter(where, layout))

    def feed(
        self,
        name: str = "",
        *,
        after: VersionLike | None = None,
        where: FilterLike | None = None,
        layout: str | None = None,
        snapshot: bool = False,
        unsynced: bool = False,
        token: BytesLike = b"",
        secret: BytesLike = b"",
    ) -> Feed:
        """What changes from a version on. The feed of this ``name`` goes on where it was acknowledged; if there is none,
        it is made, and begins behind the closed version ``after`` (by default the newest), with its items first if a
        ``snapshot`` is asked for. Without a name the caller keeps the place: the ``token`` of a batch. ``unsynced``:
        tells versions as soon as they are closed, which a power cut may take. With a ``secret`` tokens are signed, and
        others are refused: for tokens that go through hands that must not choose where the feed goes on.

        >>> feed = store.feed("mirror", after=0)
        >>> store.sync()
        >>> [change.key for change in feed.next().changes]
        [b'a', b'b', b'a']

        Raises what ``at()`` raises, BadTokenError for a token that is damaged or another store's or not signed with the
        secret, BadInputError for an expression that cannot be read, TypeError, InvalidArgumentError and ClosedError.
        """
        given = checks.text(name, "a feed's name")
        version = self._version_or_present(after)
        return Feed(self, given, version, as_filter(where, layout), bool(snapshot), bool(unsynced), token, secret)

    def feeds(self) -> list[FeedInfo]:
        """The feeds that the store keeps, oldest first.

        >>> feed = store.feed("mirror", after="epoch-1")
        >>> [(info.name, info.after == store.at("epoch-1").version) for info in store.feeds()]
        [('mirror', True)]

        Raises DamagedError and ClosedError.
        """
        return feeds_of(self)
