"""What changes from one version to another, and from a version on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native, checks, columns, tables

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    import polars  # type: ignore[import-not-found, unused-ignore]

    from ._types import BytesLike
    from .tables import ArrowStream, ColumnType

_BLOCK = 256


class KeyChange(NamedTuple):
    """One insert or removal of a key.

    >>> change = next(iter(store.changes(0, "epoch-1")))
    >>> change.key, change.value, change.before, change.first
    (b'a', b'1', None, True)

    Raises nothing.
    """

    key: bytes
    version: int
    value: bytes | None  #: None: the key was removed
    before: bytes | None  #: what the key showed before; None: it was not there
    first: bool  #: the key never had a value before


class Changes(_native.Changes):
    """All that was written between two versions, by key, then by version: ``store.changes(...)`` makes it.

    >>> [change.key for change in store.changes(0, "epoch-1")]
    [b'a', b'b']

    Raises DamagedError and ClosedError.
    """

    __slots__ = ()

    def __init__(self, store: _native.Store, after: int, up_to: int, where: _native.Filter, /) -> None:
        if not isinstance(store, _native.Store):
            raise TypeError("Changes are made by store.changes(after, up_to)")
        super().__init__(store, after, up_to, where)

    def __iter__(self) -> Iterator[KeyChange]:
        self._begin()
        while some := self._some(_BLOCK):
            yield from (KeyChange(*one) for one in some)

    def count(self, threads: int = 0) -> int:
        """How many there are. ``threads``: 0 for all cores.

        >>> store.changes(0, "epoch-1").count()
        2

        Raises InvalidArgumentError for negative threads, DamagedError and ClosedError.
        """
        return self._count(columns.thread_count(threads))

    def to_arrow(
        self, key_type: ColumnType = None, value_type: ColumnType = None, *, batch_rows: int = 65536
    ) -> ArrowStream:
        """The columns ``key``, ``version``, ``value``, ``before`` and ``first``, by key, then by version, for any library
        that reads Arrow; ``value`` is null where the key was removed, ``before`` where it was not there. Types as for
        ``Snapshot.to_arrow``.

        >>> pyarrow.table(store.changes(0, "epoch-1").to_arrow("utf8", "utf8")).to_pylist()[0]
        {'key': 'a', 'version': 1, 'value': '1', 'before': None, 'first': True}

        Raises what ``Snapshot.to_arrow`` raises.
        """
        types = tables.arrow_type(key_type, "key_type"), tables.arrow_type(value_type, "value_type")
        limits = tables.limits(batch_rows)
        return tables.ArrowStream(lambda: _native.changes_stream(self, *types, *limits), KeyChange._fields, "changes")

    def to_pandas(self, key_type: ColumnType = None, value_type: ColumnType = None) -> pandas.DataFrame:
        """A frame of pandas with the columns of ``to_arrow``; None in place of null.

        >>> store.changes(0, "epoch-1").to_pandas("utf8", "utf8")["value"].tolist()
        ['1', '2']

        Raises what ``Snapshot.to_pandas`` raises.
        """
        return tables.to_pandas(lambda: tables.change_columns(self, key_type, value_type))

    def to_polars(self, key_type: ColumnType = None, value_type: ColumnType = None) -> polars.DataFrame:
        """A frame of polars with the columns of ``to_arrow``.

        >>> store.changes(0, "epoch-1").to_polars("utf8", "utf8")["value"].to_list()
        ['1', '2']

        Raises what ``Snapshot.to_polars`` raises.
        """
        return tables.to_polars(self.to_arrow(key_type, value_type))

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self.to_arrow().__arrow_c_schema__()


class FeedBatch(NamedTuple):
    """What a feed told at once.

    >>> feed = store.feed(after=0)
    >>> store.sync()
    >>> feed.next().told == store.clock - 1
    True

    Raises nothing.
    """

    changes: list[KeyChange]
    told: int  #: all changes of the versions up to this one are told with this batch; 0 while a snapshot is told
    is_snapshot: bool  #: the changes are items of the snapshot
    token: bytes  #: the place behind this batch


class FeedInfo(NamedTuple):
    """A feed that the store keeps.

    >>> feed = store.feed("mirror", after=0)
    >>> store.feeds()
    [FeedInfo(name='mirror', after=0, acknowledged=0, snapshot=False)]

    Raises nothing.
    """

    name: str
    after: int  #: the version behind which it began
    acknowledged: int  #: all versions up to this one are acknowledged
    snapshot: bool  #: whether it began with a snapshot


class Feed(_native.Feed):
    """What changes from a version on, told once, in the order of the versions: ``store.feed(...)`` makes it.

    One thread at a time may use it.

    >>> feed = store.feed("mirror", after=0)
    >>> store.sync()
    >>> batch = feed.next()
    >>> len(batch.changes)
    3
    >>> feed.acknowledge(batch.token)

    Raises DamagedError and ClosedError.
    """

    __slots__ = ()

    def __init__(self, store: _native.Store, /, *what: Any) -> None:
        if not isinstance(store, _native.Store):
            raise TypeError("a Feed is made by store.feed(name)")
        super().__init__(store, *what)

    def next(self, limit: int = 1000, timeout: float = 0) -> FeedBatch:
        """At most so many changes, those that follow the ones before. If there are none it waits for them, at most so
        many seconds; the batch is then empty. Ctrl-C ends the waiting.

        >>> store.feed("mirror").next(timeout=0).changes
        []

        Raises TypeError, InvalidArgumentError for a negative limit or timeout, DamagedError and ClosedError.
        """
        changes, *rest = self._next(checks.whole_number(limit, "limit"), checks.microseconds(timeout, "timeout"))
        return FeedBatch([KeyChange(*one) for one in changes], *rest)

    @property
    def token(self) -> bytes:
        """The place behind the last batch, or where the feed began.

        >>> feed = store.feed(after=0)
        >>> store.sync()
        >>> batch = feed.next()
        >>> store.feed(token=batch.token).next().changes
        []

        Raises ClosedError.
        """
        return self._token()

    @property
    def name(self) -> str:
        """Its name in the store; "" of one whose place the caller keeps.

        >>> store.feed("mirror").name
        'mirror'

        Raises nothing.
        """
        return self._name

    def acknowledge(self, token: BytesLike) -> None:
        """Notes durably that the consumer has done with all up to the end of this token's batch.

        >>> feed = store.feed("mirror", after=0)
        >>> store.sync()
        >>> feed.acknowledge(feed.next().token)
        >>> store.feed("mirror").next().changes
        []

        Raises BadTokenError for a token of another feed, InvalidArgumentError if the feed has no name, TypeError,
        ReadOnlyError and ClosedError.
        """
        self._acknowledge(token)

    def drop(self) -> None:
        """Takes a feed with a name out of the store.

        >>> store.feed("mirror").drop()
        >>> store.feeds()
        []

        Raises InvalidArgumentError if it has no name, ReadOnlyError and ClosedError.
        """
        self._drop()


def feeds_of(store: _native.Store) -> list[FeedInfo]:
    """All feeds that the store keeps, oldest first."""
    return [FeedInfo(*one) for one in _native.feed_names(store)]
