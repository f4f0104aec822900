"""A database of a server, as a mapping from bytes to bytes that keeps all its versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .._types import Change, Difference
from ..errors import TagExistsError
from ..information import Tag, Tags
from ..mapping import OrderedMapping
from ..metrics import note_with
from ..versions import HasVersion, number_of, require_one
from ._batch import Batch
from ._leases import kept
from ._requests import LOAD_MESSAGE_BYTES, DatabaseCalls, DatabaseSettings, DatabaseStatus, Lease
from ._streams import ChangesStream, DiffStream, HistoryStream, KeyChange, Scan, VersionChanges, WatchStream
from ._values import Bounds, as_bytes, point_of
from .operations import Condition, Operation, Outcome, Result, append, increment, put, remove, update, version_is

if TYPE_CHECKING:
    from .._types import BytesLike, VersionLike
    from ._blocking import Connection

    class _Base(OrderedMapping, MutableMapping[bytes, bytes]):
        pass

else:
    _Base = OrderedMapping

_RAISE = object()


class _Reader(OrderedMapping):
    """What stores and snapshots read: a point of time and bounds."""

    __slots__ = ("_bounds", "_calls", "_connection", "_point")

    def __init__(self, connection: Connection, calls: DatabaseCalls, point: Any, bounds: Bounds) -> None:
        self._connection = connection
        self._calls = calls
        self._point = point
        self._bounds = bounds

    def _snapshot(self) -> Any:
        return self

    def find(self, key: BytesLike, *, timeout: float | None = None) -> bytes | None:
        """The value, or None."""
        if as_bytes(key) not in self._bounds:
            return None
        return self._connection.call(self._calls.find(key, self._point), timeout)

    def find_many(
        self, keys: Iterable[BytesLike], *, default: Any = None, timeout: float | None = None
    ) -> list[Any]:
        """The values of many keys, at most 65,536, all of one version; ``default`` for those that are not there."""
        return self._connection.call(self._calls.find_many(keys, self._point, default), timeout)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._slice(key)
        found = self.find(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        try:
            return self.find(key) is not None  # type: ignore[arg-type]
        except TypeError:
            return False

    def __len__(self) -> int:
        """The number of keys. O(keys), at the server."""
        if self._bounds.empty:
            return 0
        return self._connection.call(self._calls.count(self._bounds.message(), self._point))

    def _narrowed(self, start: BytesLike | None, stop: BytesLike | None, prefix: BytesLike | None) -> Any:
        if start is None and stop is None and prefix is None:
            return self
        bounds = self._bounds.within(start, stop, prefix)
        return _Reader(self._connection, self._calls, self._point, bounds)

    def _run(self, part: int, reverse: bool, limit: int) -> Iterator[Any]:
        state = Scan(self._calls.name, part, self._bounds, self._point, reverse, limit)
        return self._connection.stream(state)


class Snapshot(_Reader, HasVersion):
    """One version of a database; it never changes. ``store.at(...)`` makes it."""

    __slots__ = ("_version",)

    def __init__(self, connection: Connection, calls: DatabaseCalls, version: int, bounds: Bounds) -> None:
        super().__init__(connection, calls, point_of(version), bounds)
        self._version = version

    @property
    def version(self) -> int:
        """The version's number."""
        return self._version

    def _narrowed(self, start: BytesLike | None, stop: BytesLike | None, prefix: BytesLike | None) -> Any:
        if start is None and stop is None and prefix is None:
            return self
        return Snapshot(self._connection, self._calls, self.version, self._bounds.within(start, stop, prefix))

    def history(self, key: BytesLike) -> Iterator[Change]:
        """The key's records up to this version, newest first."""
        return self._connection.stream(HistoryStream(self._calls.name, as_bytes(key), self._point))

    def __repr__(self) -> str:
        return f"<icecore.remote.Snapshot version {self.version} of {self._calls.name!r}>"


class Store(_Reader, _Base):
    """A database: a ``MutableMapping`` from bytes to bytes that keeps all its versions. ``Client.open`` makes it.

    Its mapping methods read and write the present; ``at()``, ``history()``, ``diff()`` and ``changes()`` read older
    versions, ``watch()`` what comes. Any number of threads may use it. Reads, puts and removes are repeated when the
    connection breaks; ``append``, ``update_part``, ``increment`` and the like raise OutcomeUnknownError.
    """

    __slots__ = ()

    def __init__(self, connection: Connection, name: str) -> None:
        super().__init__(connection, DatabaseCalls(name), None, Bounds())

    @property
    def name(self) -> str:
        """The database's name at the server."""
        return self._calls.name

    # ---- Reading -----------------------------------------------------------------------------------------------------

    def find(self, key: BytesLike, at: VersionLike | None = None, *, timeout: float | None = None) -> bytes | None:
        """The newest value, or that of a closed version, named as for ``at()``; None if the key is not there."""
        return self._connection.call(self._calls.find(key, point_of(at)), timeout)

    def get(self, key: BytesLike, default: Any = None, *, at: VersionLike | None = None) -> Any:
        """The value, now or at a closed version; ``default`` if the key is not there."""
        found = self.find(key, at)
        return default if found is None else found

    def find_many(
        self,
        keys: Iterable[BytesLike],
        *,
        at: VersionLike | None = None,
        default: Any = None,
        timeout: float | None = None,
    ) -> list[Any]:
        """The values of many keys, at most 65,536, all of one version, by default the present; ``default`` for those that
        are not there."""
        return self._connection.call(self._calls.find_many(keys, point_of(at), default), timeout)

    # ---- Writing -----------------------------------------------------------------------------------------------------

    def put(self, key: BytesLike, value: BytesLike, *, lease: int = 0, timeout: float | None = None) -> int:
        """Sets the key's value; returns the version. With a ``lease`` the key ends when the lease does."""
        return self._connection.call(self._calls.put(key, value, lease), timeout)

    def insert_new(
        self, key: BytesLike, value: BytesLike, *, lease: int = 0, timeout: float | None = None
    ) -> int | None:
        """Sets the key's value if the key is not there; returns the version, or None."""
        return self._connection.call(self._calls.insert_new(key, value, lease), timeout)

    def replace(
        self, key: BytesLike, value: BytesLike, expected_version: int, *, timeout: float | None = None
    ) -> int | None:
        """Sets the key's value if its newest record has this version; returns the new version, or None."""
        outcome = self.transaction([version_is(key, expected_version)], [put(key, value)], timeout=timeout)
        return outcome.version if outcome.succeeded else None

    def remove(self, key: BytesLike, *, timeout: float | None = None) -> int | None:
        """Removes the key; returns the version, or None if it was not there. If the connection broke and the removal
        was repeated, None may mean that the first attempt removed it."""
        return self._connection.call(self._calls.remove(key), timeout)

    def remove_range(self, start: BytesLike, stop: BytesLike | None = None, *, timeout: float | None = None) -> int:
        """Removes the keys from ``start`` to before ``stop`` at one instant; returns how many."""
        return self._connection.call(self._calls.remove_range(start, stop), timeout)

    def append(self, key: BytesLike, part: BytesLike, *, timeout: float | None = None) -> int:
        """Adds to the value's end; a key that is not there begins empty. Returns the value's new size."""
        return self._one(append(key, part), timeout).size

    def update_part(
        self,
        key: BytesLike,
        offset: int,
        part: BytesLike,
        *,
        rule: str = "in_place",
        or_put: bool = False,
        timeout: float | None = None,
    ) -> int:
        """Changes a part of the value: see ``icecore.remote.update``. Returns its new size. KeyError if the key is not
        there, ValueError if the part does not fit."""
        result = self._one(update(key, offset, part, rule=rule, or_put=or_put), timeout)
        return checked(result, key).size

    def increment(self, key: BytesLike, by: int = 1, *, timeout: float | None = None) -> int:
        """Adds to the value, a decimal number of 64 bits; a key that is not there counts as 0. Returns the sum.
        ValueError if the value is no such number."""
        return checked(self._one(increment(key, by), timeout), key).number

    def transaction(
        self,
        conditions: Iterable[Condition] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        timeout: float | None = None,
    ) -> Outcome:
        """If all conditions hold, executes ``then``, else ``otherwise``: at one instant, as one version where each
        write is one. ``icecore.remote`` has the functions that make conditions and operations."""
        return self._connection.call(self._calls.transaction(conditions, then, otherwise), timeout)

    @contextmanager
    def batch(self, *, timeout: float | None = None) -> Iterator[Batch]:
        """Collects writes and applies them at one instant at the end of the ``with`` block; an exception discards them.
        Afterwards ``b.version`` is the version they belong to."""
        collected = Batch()
        yield collected
        if len(collected) > 0:
            operations = collected._operations.values()
            collected._outcome = self.transaction(collected._conditions, operations, timeout=timeout)

    def load(
        self,
        keys: Any,
        values: Any = None,
        *,
        keep: bool = False,
        message_bytes: int = LOAD_MESSAGE_BYTES,
        timeout: float | None = None,
    ) -> int:
        """Puts many rows, fast: two columns (NumPy arrays, ``ByteColumn``s or sequences), a mapping, or pairs. All take
        effect, but not at one instant. ``keep``: keys that are there keep their values. Returns how many were written.
        ``message_bytes``: the rows travel in requests of at most so many bytes, which a server's ``limits.request_bytes``
        must allow. ``timeout``: for each of them. LimitReachedError if one, or one row, is longer than the server takes;
        the rows before it are written."""
        written = 0
        for request in self._calls.load_requests(keys, values, keep, message_bytes):
            written += self._connection.exchange("Store.Load", request, timeout).written
        return written

    def __setitem__(self, key: BytesLike, value: BytesLike) -> None:
        self.put(key, value)

    def __delitem__(self, key: BytesLike) -> None:
        if self._one(remove(key), None).state == "absent":
            raise KeyError(key)

    def clear(self) -> None:
        """Removes all keys at one instant. Their histories stay."""
        self.remove_range(b"")

    def pop(self, key: BytesLike, default: Any = _RAISE) -> Any:
        """Removes the key and returns its value, at one instant. If it is not there, returns ``default``, or raises
        KeyError."""
        found = self._one(remove(key, previous=True), None).previous
        if found is not None:
            return found.value
        if default is _RAISE:
            raise KeyError(key)
        return default

    if not TYPE_CHECKING:
        popitem = MutableMapping.popitem
        setdefault = MutableMapping.setdefault
        update = MutableMapping.update

    def _one(self, operation: Operation, timeout: float | None) -> Result:
        return self.transaction((), [operation], timeout=timeout).results[0]

    # ---- Versions ----------------------------------------------------------------------------------------------------

    def tag(
        self,
        name: str | None = None,
        note: str = "",
        time: datetime | int | None = None,
        *,
        metrics: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> int:
        """Closes the open version and returns its number; stores the name, note, time and metrics with it, as
        ``icecore.Store.tag`` does. TagExistsError if the name is taken."""
        call = self._calls.tag(name, note_with(note, metrics), time)
        try:
            return self._connection.call(call, timeout)
        except TagExistsError:
            found = self.find_tag(name) if name else None
            if found is not None and self._calls.is_own_tag(call.request, found):
                return found.version  # an attempt whose answer was lost has made it
            raise

    def tags(self, *, timeout: float | None = None) -> Tags:
        """Named and timed tags, oldest version first."""
        return self._connection.call(self._calls.tags(), timeout)

    def find_tag(self, at: VersionLike, *, timeout: float | None = None) -> Tag | None:
        """The tag of a version, named as for ``at()``, or None if it has none."""
        return self._connection.call(self._calls.find_tag(at), timeout)

    def latest(self, *, timeout: float | None = None) -> Snapshot:
        """The present, as a snapshot: it holds everything that was acknowledged before the call."""
        return self._at(None, timeout)

    def at(
        self,
        version: VersionLike | None = None,
        /,
        *,
        tag: str | None = None,
        time: datetime | int | None = None,
        timeout: float | None = None,
    ) -> Snapshot:
        """The snapshot of a closed version, which is named as for ``icecore.Store.at``: by its number, a tag's name, a Tag,
        a Snapshot, or a datetime with a time zone (the newest tag not after it). ``diff``, ``changes``, ``watch``,
        ``compact`` and all parameters called ``at`` take the same.

            store.at(tag="epoch-1")[b"layer1/bias"]

        UnknownTagError (a KeyError), VersionNotClosedError or VersionExpiredError (ValueErrors)."""
        require_one(version, tag, time)
        return self._at(point_of(version, tag, time), timeout)

    def _at(self, point: Any, timeout: float | None) -> Snapshot:
        version = self._connection.call(self._calls.resolve(point), timeout)
        return Snapshot(self._connection, self._calls, version, Bounds())

    def history(self, key: BytesLike) -> Iterator[Change]:
        """All records of the key, newest first: ``Change(version, value)``; the value of a removal is None."""
        return self._connection.stream(HistoryStream(self._calls.name, as_bytes(key), None))

    def diff(
        self,
        before: Any,
        after: Any = None,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
    ) -> Iterator[Difference]:
        """What differs between two versions (``after``: by default the present), in key order."""
        bounds = Bounds(start, stop, prefix)
        stream = DiffStream(self._calls.name, self._number(before), point_of(after), bounds)
        return self._connection.stream(stream)

    def changes(
        self,
        after: Any,
        up_to: Any = None,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        *,
        before: bool = False,
    ) -> Iterator[KeyChange]:
        """All that was written in the versions behind ``after`` up to ``up_to`` (by default the present), by version,
        then by key. ``before``: with what each key showed before."""
        bounds = Bounds(start, stop, prefix)
        stream = ChangesStream(self._calls.name, self._number(after), point_of(up_to), bounds, before)
        return self._connection.stream(stream)

    def watch(
        self,
        after: Any = None,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        *,
        before: bool = False,
        timeout: float | None = None,
    ) -> Iterator[VersionChanges]:
        """What is written in the versions behind ``after`` (by default, from now on), as it comes: one version at a time,
        with all its changes, each once, in order. The iterator waits; it goes on over new connections, behind what it was
        told, and every few seconds it is told of versions in which nothing between its bounds was written.

            for version, changes in store.watch(after=last):
                apply(changes); last = version

        To end it, leave the loop, or ``close()`` the iterator. ``timeout``: DeadlineExceededError after so many seconds.
        """
        version = self.latest().version if after is None else self._number(after)
        stream = WatchStream(self._calls.name, version, Bounds(start, stop, prefix), before)
        return self._connection.stream(stream, timeout)

    def _follow(
        self,
        after: int,
        look: Callable[[], None],
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        *,
        before: bool = False,
    ) -> Iterator[VersionChanges]:
        """A watch that calls ``look`` with each message, of which there are at least two a second; what it raises ends
        the watch."""
        stream = WatchStream(self._calls.name, after, Bounds(start, stop, prefix), before, 500, look)
        return self._connection.stream(stream)

    def compact(self, oldest_kept: Any, *, timeout: float | None = None) -> None:
        """Gives up the versions before this one: reading them is VersionExpiredError from now on."""
        self._connection.call(self._calls.compact(self._number(oldest_kept)), timeout)

    def sync(self, *, timeout: float | None = None) -> None:
        """Returns when everything that was acknowledged is durable, in any mode."""
        self._connection.call(self._calls.sync(), timeout)

    def _number(self, version: Any) -> int:
        return self.at(version).version if isinstance(version, (str, datetime)) else number_of(version)

    # ---- Leases ------------------------------------------------------------------------------------------------------

    def lease(self, seconds: float, *, timeout: float | None = None) -> AbstractContextManager[int]:
        """A lease that is kept alive as long as the ``with`` block runs, and the process; then its keys are removed.

            with store.lease(10) as lease:
                store.put(b"workers/7", b"here", lease=lease)
                work()
        """
        return kept(self, seconds, timeout)

    def grant(self, seconds: float, *, number: int = 0, timeout: float | None = None) -> Lease:
        """A lease of 1 second to 10 years. ``number``: 0 for one that is free."""
        return self._connection.call(self._calls.grant(seconds, number), timeout)

    def keep_alive(self, number: int, *, timeout: float | None = None) -> float:
        """Begins the lease's time anew; returns the seconds that are left. NoSuchLeaseError if it is over."""
        kept = self._connection.exchange("Leases.KeepAlive", self._calls.lease_request(number), timeout)
        return float(kept.left_ms) / 1000

    def revoke(self, number: int, *, timeout: float | None = None) -> int:
        """Ends the lease and removes its keys; returns how many."""
        return self._connection.call(self._calls.revoke(number), timeout)

    def lease_info(self, number: int, *, keys: bool = True, timeout: float | None = None) -> Lease:
        """A lease's time and keys."""
        return self._connection.call(self._calls.lease(number, keys), timeout)

    def leases(self, *, timeout: float | None = None) -> list[int]:
        """The numbers of all leases."""
        return self._connection.call(self._calls.leases(), timeout)

    # ---- The database itself -----------------------------------------------------------------------------------------

    def status(self, *, timeout: float | None = None) -> DatabaseStatus:
        """Its settings, versions, sizes and counts: of dependent servers, those of the one that is asked."""
        return self._connection.call(self._calls.describe(), timeout)

    def alter(
        self,
        *,
        rule: str | None = None,
        interval_ms: int | None = None,
        quota_bytes: int | None = None,
        owner: str | None = None,
        timeout: float | None = None,
    ) -> DatabaseSettings:
        """Changes the settings that are given."""
        return self._connection.call(self._calls.alter(rule, interval_ms, quota_bytes, owner), timeout)

    def __repr__(self) -> str:
        return f"<icecore.remote.Store {self.name!r} at {self._connection.address}>"

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a remote store cannot be pickled or copied: connect in the other process")


def checked(result: Result, key: BytesLike) -> Result:
    """The result of an update, if it was applied."""
    if result.state == "absent":
        raise KeyError(key)
    if not result.done:
        why = {
            "too_large": "the part lies outside the value",
            "overlap": "the part reaches over the value's end",
            "no_number": "the value, or the sum, is no decimal number of 64 bits",
        }.get(result.state, result.state)
        raise ValueError(f"{key!r} was not changed: {why}")
    return result


Mapping.register(Snapshot)
MutableMapping.register(Store)
