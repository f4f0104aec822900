"""What changes from one version to another, and from a version on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from . import _native, columns

if TYPE_CHECKING:
    from .store import Store

_BLOCK = 256


class KeyChange(NamedTuple):
    """One insert or removal of a key."""

    key: bytes
    version: int
    value: bytes | None  #: None: the key was removed
    before: bytes | None  #: what the key showed before; None: it was not there
    first: bool  #: the key never had a value before


class Changes(_native.Changes):
    """All that was written between two versions, by key, then by version: ``store.changes(...)`` makes it."""

    __slots__ = ()

    def __iter__(self) -> Iterator[KeyChange]:
        self._begin()
        while some := self._some(_BLOCK):
            yield from (KeyChange(*one) for one in some)

    def count(self, threads: int = 0) -> int:
        """How many there are. ``threads``: 0 for all cores."""
        return self._count(columns.thread_count(threads))


class FeedBatch(NamedTuple):
    """What a feed told at once."""

    changes: list[KeyChange]
    told: int  #: all changes of the versions up to this one are told with this batch; 0 while a snapshot is told
    is_snapshot: bool  #: the changes are items of the snapshot
    token: bytes  #: the place behind this batch


class FeedInfo(NamedTuple):
    """A feed that the store keeps."""

    name: str
    after: int  #: the version behind which it began
    acknowledged: int  #: all versions up to this one are acknowledged
    snapshot: bool  #: whether it began with a snapshot


class Feed(_native.Feed):
    """What changes from a version on, told once, in the order of the versions: ``store.feed(...)`` makes it.

    One thread at a time may use it.
    """

    __slots__ = ()

    def next(self, limit: int = 1000, timeout: float = 0) -> FeedBatch:
        """At most so many changes, those that follow the ones before. If there are none it waits for them, at most so
        many seconds; the batch is then empty. Ctrl-C ends the waiting."""
        changes, *rest = self._next(limit, int(timeout * 1e6))
        return FeedBatch([KeyChange(*one) for one in changes], *rest)

    @property
    def token(self) -> bytes:
        """The place behind the last batch, or where the feed began."""
        return self._token()


def feeds_of(store: Store) -> list[FeedInfo]:
    """All feeds that the store keeps, oldest first."""
    return [FeedInfo(*one) for one in _native.feed_names(store)]
