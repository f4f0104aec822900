"""A server, and what is on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._blocking import Connection
from ._requests import DatabaseSettings
from ._server_calls import Permission, ServerCalls, ServerStatus, SnapshotPart, Tls, User, VerifyResult
from .store import Store

if TYPE_CHECKING:
    from typing_extensions import Self


class Client:
    """A connection to a server: ``connect`` makes it. Any number of threads may use it.

    To close it, call ``close()`` or leave its ``with`` block. ``timeout``: the seconds that a call may take, waiting for
    a server that is away included; each call may have one of its own.
    """

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Stores of it cannot be used any more."""
        self._connection.close()

    def log_out(self) -> None:
        """Ends the client's token. The next call logs in again."""
        self._connection.log_out()

    def status(self, *, timeout: float | None = None) -> ServerStatus:
        """Who the server is, and what it does not serve."""
        return self._connection.call(ServerCalls.status(), timeout)

    # ---- Databases ---------------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        *,
        rule: str = "",
        interval_ms: int = 0,
        durability: str = "",
        index: str = "",
        compression: str = "",
        quota_bytes: int = 0,
        owner: str = "",
        timeout: float | None = None,
    ) -> Store:
        """Makes a database; what is left out is the server's default.

        ``rule``: what closes versions: ``"write"`` (each transaction is one), ``"every"`` (a timer, each ``interval_ms``)
        or ``"tag"`` (only clients). DatabaseExistsError if the name is taken.
        """
        settings = DatabaseSettings(name, owner, rule, interval_ms, durability, index, compression, quota_bytes)
        self._connection.call(ServerCalls.create(settings), timeout)
        return Store(self._connection, name)

    def open(self, name: str, *, timeout: float | None = None) -> Store:
        """The database of this name. DeniedError if there is none, or the user may do nothing with it."""
        store = Store(self._connection, name)
        store.status(timeout=timeout)
        return store

    def databases(self, *, timeout: float | None = None) -> list[DatabaseSettings]:
        """The databases that the user may do something with, by name."""
        return self._connection.call(ServerCalls.databases(), timeout)

    def copy(self, source: str, name: str, *, at: Any = None, timeout: float | None = None) -> Store:
        """Makes the database ``name`` with the state of one version of another (by default the present)."""
        self._connection.call(ServerCalls.copy(source, DatabaseSettings(name), at), timeout)
        return Store(self._connection, name)

    def drop(self, name: str, *, timeout: float | None = None) -> None:
        """Drops the database; its space is free when its last reader is done."""
        self._connection.call(ServerCalls.drop(name), timeout)

    def snapshot(self, to: str, *, timeout: float | None = None) -> list[SnapshotPart]:
        """Writes all databases, as they are at one instant, into a new folder of the server."""
        return self._connection.call(ServerCalls.snapshot(to), timeout)

    def verify(self, name: str, *, timeout: float | None = None) -> VerifyResult:
        """Checks every structure of a database against its checksums."""
        return self._connection.call(ServerCalls.verify(name), timeout)

    # ---- Users -------------------------------------------------------------------------------------------------------

    def users(self) -> list[User]:
        """All users of the server, with their roles."""
        return self._connection.call(ServerCalls.users())

    def roles(self) -> dict[str, list[Permission]]:
        """All roles, with what they allow."""
        return self._connection.call(ServerCalls.roles())

    def add_user(self, name: str, password: str | None = None) -> None:
        """Adds a user; one without a password is known by a client certificate alone."""
        self._connection.call(ServerCalls.add_user(name, password))

    def remove_user(self, name: str) -> None:
        """Takes the user away, and what the user may do."""
        self._connection.call(ServerCalls.remove_user(name))

    def set_password(self, name: str, password: str) -> None:
        """Users may change their own."""
        self._connection.call(ServerCalls.set_password(name, password))

    def grant(self, user: str, role: str) -> None:
        """Gives the role to the user."""
        self._connection.call(ServerCalls.grant(user, role))

    def withdraw(self, user: str, role: str) -> None:
        """Takes the role from the user."""
        self._connection.call(ServerCalls.withdraw(user, role))

    def set_role(self, name: str, permissions: Iterable[Permission]) -> None:
        """Makes the role, or replaces what it allows."""
        self._connection.call(ServerCalls.set_role(name, permissions))

    def remove_role(self, name: str) -> None:
        """Takes the role away, from all users who have it."""
        self._connection.call(ServerCalls.remove_role(name))

    def __repr__(self) -> str:
        return f"<icecore.remote.Client of {self._connection.address}{' closed' if self._connection.closed else ''}>"


def connect(
    address: str,
    *,
    user: str | None = None,
    password: str | None = None,
    tls: Tls | bool | None = None,
    timeout: float | None = 30.0,
    request_id: str | None = None,
) -> Client:
    """Connects to a server and asks who it is, logging in if a user is given.

        with icecore.remote.connect("icecore://localhost:7480") as server:
            store = server.create("weights", rule="write")
            store[b"layer1/bias"] = b"0.5"

    ``tls``: a ``Tls``, or True for a server whose certificate the system's authorities signed. ``timeout``: the seconds
    that a call may take (None: any). ``request_id``: the server's slow log tells it. UnavailableError if there is no
    server, UnauthenticatedError if it does not know the user.
    """
    client = Client(Connection(address, user, password, tls, timeout, request_id))
    try:
        client.status()
    except BaseException:
        client.close()
        raise
    return client
