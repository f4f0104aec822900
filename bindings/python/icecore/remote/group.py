"""Several independent servers as one: each has the keys that a hash gives it.

    import icecore.remote

    servers = ["icecore://a:7480", "icecore://b:7480"]          # all of the group, in the order of their numbers
    with icecore.remote.connect_group(servers) as group:
        store = group.create("weights", rule="tag")
        store[b"layer1/bias"] = b"0.5"
        store.tag("epoch-1")
        list(store.at(tag="epoch-1").items())                   # of all servers, in key order

Servers count their versions by themselves, so a point in time is a version of each: a snapshot has them (``versions``),
and ``diff``, ``changes`` and ``watch`` begin and end at snapshots, or at such lists. The present of several servers is
not one instant: each shows its own. What has to happen at one instant has one key, or keys of one server.
"""

from __future__ import annotations

import heapq
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from .._types import Change, Difference
from ..errors import Error
from ..versions import require_one, tag_name
from ._group import ServerChanges, owner_of, places_of, require_member, version_of_each
from ._leases import any_number, kept
from ._requests import Lease
from ._server_calls import SnapshotPart, Tls
from ._streams import KeyChange, VersionChanges
from ._values import as_bytes
from .client import Client, connect
from .store import Snapshot, Store

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Self

    from .._types import BytesLike


def _ask_all(stores: Sequence[Store], ask: Any) -> list[Any]:
    """Asks all, whatever one of them answers; then raises the first error."""
    answers: list[Any] = []
    failed: Error | None = None
    for store in stores:
        try:
            answers.append(ask(store))
        except Error as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return answers


class _Reader:
    """What stores and snapshots of a group read."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = list(parts)

    def _of(self, key: BytesLike) -> Any:
        return self._parts[owner_of(key, len(self._parts))]

    def find(self, key: BytesLike, *, timeout: float | None = None) -> bytes | None:
        """The value, or None."""
        found: bytes | None = self._of(key).find(key, timeout=timeout)
        return found

    def get(self, key: BytesLike, default: Any = None) -> Any:
        """The value, or ``default`` if the key is not there."""
        found = self.find(key)
        return default if found is None else found

    def find_many(self, keys: Iterable[BytesLike], *, default: Any = None, timeout: float | None = None) -> list[Any]:
        """The values of many keys; ``default`` for those that are not there."""
        wanted = [as_bytes(key) for key in keys]
        found = [default] * len(wanted)
        for part, mine in zip(self._parts, places_of(wanted, len(self._parts))):
            if mine:
                values = part.find_many([wanted[place] for place in mine], default=default, timeout=timeout)
                for place, value in zip(mine, values):
                    found[place] = value
        return found

    def keys(self, **bounds: Any) -> Iterator[bytes]:
        """In key order, or ``reverse``; ``start``, ``stop``, ``prefix`` and ``limit`` as those of ``Store.keys``."""
        return (key for key, _ in self.items(**bounds))

    def values(self, **bounds: Any) -> Iterator[bytes]:
        """The values of ``keys(...)``, in the same order."""
        return (value for _, value in self.items(**bounds))

    def items(self, **bounds: Any) -> Iterator[tuple[bytes, bytes]]:
        """The (key, value) pairs of ``keys(...)``, in the same order."""
        rows = heapq.merge(
            *(iter(part.items(**bounds)) for part in self._parts),
            key=lambda row: row[0],
            reverse=bool(bounds.get("reverse", False)),
        )
        limit = bounds.get("limit")
        for count, row in enumerate(rows):
            if limit is not None and count >= limit:
                return
            yield row

    def history(self, key: BytesLike) -> Iterator[Change]:
        """The key's records, newest first, with the versions of its server."""
        records: Iterator[Change] = self._of(key).history(key)
        return records

    def __getitem__(self, key: BytesLike) -> bytes:
        found = self.find(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        try:
            return self.find(key) is not None  # type: ignore[arg-type]
        except TypeError:
            return False

    def __iter__(self) -> Iterator[bytes]:
        return self.keys()

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)


class GroupSnapshot(_Reader, Mapping[bytes, bytes]):
    """A version of each server. ``store.at(...)`` makes it."""

    __slots__ = ("versions",)

    def __init__(self, parts: Sequence[Snapshot]) -> None:
        super().__init__(parts)
        self.versions = [part.version for part in parts]

    get = _Reader.get
    keys = _Reader.keys  # type: ignore[assignment]
    values = _Reader.values  # type: ignore[assignment]
    items = _Reader.items  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<icecore.remote.GroupSnapshot versions {self.versions}>"


class _Ended(Exception):
    """Nobody reads a watch any more."""


class GroupStore(_Reader, MutableMapping[bytes, bytes]):
    """A database of all servers. What concerns one key is as in ``icecore.remote.Store``."""

    __slots__ = ("name",)

    def __init__(self, parts: Sequence[Store], name: str) -> None:
        super().__init__(parts)
        self.name = name

    keys = _Reader.keys  # type: ignore[assignment]
    values = _Reader.values  # type: ignore[assignment]
    items = _Reader.items  # type: ignore[assignment]

    # ---- Reading: the present, or a version of each server, named as for at() ------------------------------------------

    def find(self, key: BytesLike, at: Any = None, *, timeout: float | None = None) -> bytes | None:
        """The newest value, or that of a version; None if the key is not there."""
        version = None if at is None else version_of_each(at, len(self._parts))[owner_of(key, len(self._parts))]
        return self.server(key).find(key, version, timeout=timeout)

    def get(self, key: BytesLike, default: Any = None, *, at: Any = None) -> Any:
        """The value, now or at a version; ``default`` if the key is not there."""
        found = self.find(key, at)
        return default if found is None else found

    def find_many(
        self, keys: Iterable[BytesLike], *, at: Any = None, default: Any = None, timeout: float | None = None
    ) -> list[Any]:
        """The values of many keys, now or at a version; ``default`` for those that are not there."""
        if at is None:
            return super().find_many(keys, default=default, timeout=timeout)
        return self.at(at, timeout=timeout).find_many(keys, default=default, timeout=timeout)

    # ---- Writing: one key, at its server -----------------------------------------------------------------------------

    def server(self, key: BytesLike) -> Store:
        """The store that has the key: for transactions, appends and the like, whose keys all have this server."""
        store: Store = self._of(key)
        return store

    def put(self, key: BytesLike, value: BytesLike, *, lease: int = 0, timeout: float | None = None) -> int:
        """Sets the key's value at its server and returns the version of the write there."""
        return self.server(key).put(key, value, lease=lease, timeout=timeout)

    def insert_new(
        self, key: BytesLike, value: BytesLike, *, lease: int = 0, timeout: float | None = None
    ) -> int | None:
        """Inserts the key at its server if it is not there, and returns the version there; else None."""
        return self.server(key).insert_new(key, value, lease=lease, timeout=timeout)

    def remove(self, key: BytesLike, *, timeout: float | None = None) -> int | None:
        """Removes the key at its server and returns the version there; None if it was not there."""
        return self.server(key).remove(key, timeout=timeout)

    def increment(self, key: BytesLike, by: int = 1, *, timeout: float | None = None) -> int:
        """Adds to the number that the key has at its server, and returns the sum: see ``Store.increment``."""
        return self.server(key).increment(key, by, timeout=timeout)

    def __setitem__(self, key: BytesLike, value: BytesLike) -> None:
        self.put(key, value)

    def __delitem__(self, key: BytesLike) -> None:
        del self.server(key)[key]

    # ---- Versions ----------------------------------------------------------------------------------------------------

    def tag(
        self,
        name: str | None = None,
        note: str = "",
        *,
        metrics: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> list[int]:
        """Closes the open version of each server, one after the other; returns their numbers."""
        return [part.tag(name, note, metrics=metrics, timeout=timeout) for part in self._parts]

    def latest(self, *, timeout: float | None = None) -> GroupSnapshot:
        """The present of each server: it holds everything that was acknowledged before the call."""
        return GroupSnapshot([part.latest(timeout=timeout) for part in self._parts])

    def at(
        self,
        versions: Any = None,
        /,
        *,
        tag: str | None = None,
        time: datetime | int | None = None,
        timeout: float | None = None,
    ) -> GroupSnapshot:
        """The snapshot of a version of each server: that of a tag that all servers have, of a time, of a GroupSnapshot, or
        of a list with a version of each. ``diff``, ``changes``, ``watch``, ``compact`` and all parameters called ``at``
        take the same."""
        require_one(versions, tag, time)
        if time is not None:
            return GroupSnapshot([part.at(time=time, timeout=timeout) for part in self._parts])
        named = version_of_each(tag_name(tag) if versions is None else versions, len(self._parts))
        return GroupSnapshot([part.at(version, timeout=timeout) for part, version in zip(self._parts, named)])

    def diff(self, before: Any, after: Any = None, **bounds: Any) -> Iterator[Difference]:
        """What differs between two snapshots (``after``: by default the present), in key order."""
        first, last = self._both(before, after)
        rows = (part.diff(a, b, **bounds) for part, a, b in zip(self._parts, first, last))
        return heapq.merge(*rows, key=lambda row: row.key)

    def changes(self, after: Any, up_to: Any = None, **bounds: Any) -> Iterator[KeyChange]:
        """All that was written between two snapshots, by number of version, then by key: the changes of one key are in
        their order."""
        first, last = self._both(after, up_to)
        rows = (part.changes(a, b, **bounds) for part, a, b in zip(self._parts, first, last))
        return heapq.merge(*rows, key=lambda row: (row.version, row.key))

    def watch(self, after: Any = None, **bounds: Any) -> Iterator[ServerChanges]:
        """What is written behind ``after`` (by default, from now on), as it comes: of each server one version at a time,
        with all its changes, each once, in order.

            for server, version, changes in store.watch(after=versions):
                apply(changes); versions[server] = version

        To end it, leave the loop, or ``close()`` the iterator."""
        if after is None:
            return self._watch(self.latest().versions, bounds)
        named = version_of_each(after, len(self._parts))
        return self._watch([part._number(version) for part, version in zip(self._parts, named)], bounds)

    def compact(self, oldest_kept: Any, *, timeout: float | None = None) -> None:
        """Gives up the versions before this snapshot."""
        for part, number in zip(self._parts, version_of_each(oldest_kept, len(self._parts))):
            part.compact(number, timeout=timeout)

    def sync(self, *, timeout: float | None = None) -> None:
        """Returns when everything that was acknowledged is durable at all servers."""
        _ask_all(self._parts, lambda part: part.sync(timeout=timeout))

    def _both(self, before: Any, after: Any) -> tuple[list[int], list[int]]:
        count = len(self._parts)
        return version_of_each(before, count), version_of_each(self.latest() if after is None else after, count)

    def _watch(self, versions: list[int], bounds: dict[str, Any]) -> Iterator[ServerChanges]:
        told: queue.Queue[ServerChanges | BaseException] = queue.Queue(maxsize=64)
        ended = threading.Event()

        def give(what: ServerChanges | BaseException) -> None:
            while not ended.is_set():
                try:
                    return told.put(what, timeout=0.2)
                except queue.Full:
                    continue

        def follow(server: int, changes: Iterator[VersionChanges]) -> None:
            try:
                for one in changes:
                    give(ServerChanges(server, one.version, one.changes))
            except _Ended:
                pass
            except BaseException as error:  # raised where the watch is read
                give(error)

        def look() -> None:  # each time that a server tells anything, if only that it is there
            if ended.is_set():
                raise _Ended

        for server, part in enumerate(self._parts):
            following = (server, part._follow(versions[server], look, **bounds))
            threading.Thread(target=follow, args=following, name="icecore watch", daemon=True).start()
        try:
            while True:
                what = told.get()
                if isinstance(what, BaseException):
                    raise what
                yield what
        finally:
            ended.set()

    # ---- Leases: kept by each server for its own keys, by its own clock ----------------------------------------------

    def lease(self, seconds: float, *, timeout: float | None = None) -> AbstractContextManager[int]:
        """As ``Store.lease``, at all servers."""
        return kept(self, seconds, timeout)

    def grant(self, seconds: float, *, number: int = 0, timeout: float | None = None) -> Lease:
        """A lease of all servers; one that not all could grant is taken back."""
        number = number or any_number()
        done: list[Store] = []
        granted: Lease | None = None
        try:
            for part in self._parts:
                granted = part.grant(seconds, number=number, timeout=timeout)
                done.append(part)
        except Error:
            for part in done:
                try:
                    part.revoke(number, timeout=timeout)
                except Error:
                    continue  # it ends by itself
            raise
        assert granted is not None
        return granted

    def keep_alive(self, number: int, *, timeout: float | None = None) -> float:
        """Begins the lease's time anew at all servers; returns the least of the seconds that are left."""
        return float(min(_ask_all(self._parts, lambda part: part.keep_alive(number, timeout=timeout))))

    def revoke(self, number: int, *, timeout: float | None = None) -> int:
        """Ends the lease and removes its keys; returns how many."""
        return sum(_ask_all(self._parts, lambda part: part.revoke(number, timeout=timeout)))

    def __repr__(self) -> str:
        return f"<icecore.remote.GroupStore {self.name!r} of {len(self._parts)} servers>"


class GroupClient:
    """Connections to all servers of an independent group: ``connect_group`` makes it."""

    __slots__ = ("clients",)

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients = list(clients)  #: of each server, for what concerns one of them

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections to all servers."""
        for client in self.clients:
            client.close()

    def create(self, name: str, **settings: Any) -> GroupStore:
        """Makes the database at all servers: see ``Client.create``."""
        return GroupStore([client.create(name, **settings) for client in self.clients], name)

    def open(self, name: str, *, timeout: float | None = None) -> GroupStore:
        """The database of this name, which all servers have."""
        return GroupStore([client.open(name, timeout=timeout) for client in self.clients], name)

    def drop(self, name: str, *, timeout: float | None = None) -> None:
        """Takes the database away at all servers: see ``Client.drop``."""
        for client in self.clients:
            client.drop(name, timeout=timeout)

    def snapshot(self, to: str, *, timeout: float | None = None) -> list[list[SnapshotPart]]:
        """Each server writes its own, at an instant of its own, into a folder with its number behind the name."""
        return [client.snapshot(f"{to}.{i}", timeout=timeout) for i, client in enumerate(self.clients)]


def connect_group(
    addresses: Sequence[str],
    *,
    group: str | None = None,
    user: str | None = None,
    password: str | None = None,
    tls: Tls | bool | None = None,
    timeout: float | None = 30.0,
) -> GroupClient:
    """Connects to all servers of an independent group, in the order of their numbers. ``group``: the name that it must
    have. OtherClusterError if the list is not exactly the group: one is missing, added, or exchanged."""
    clients: list[Client] = []
    try:
        for number, address in enumerate(addresses):
            client = connect(address, user=user, password=password, tls=tls, timeout=timeout)
            clients.append(client)
            group = require_member(client.status(), address, number, len(addresses), group)
    except BaseException:
        for client in clients:
            client.close()
        raise
    return GroupClient(clients)
