"""A connection to a server, awaited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import client as blocking
from .._awaiting import Connection
from .._requests import DatabaseSettings
from .._server_calls import Permission, ServerCalls, ServerStatus, SnapshotPart, Tls, User, VerifyResult
from ._documented import documented_as
from .store import Store

if TYPE_CHECKING:
    from typing_extensions import Self


@documented_as(blocking.Client)
class Client:
    """A connection to a server. ``icecore.remote.Client`` says what each function does."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connection.close()

    async def log_out(self) -> None:
        await self._connection.log_out()

    async def status(self, *, timeout: float | None = None) -> ServerStatus:
        return await self._connection.call(ServerCalls.status(), timeout)

    async def create(
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
        settings = DatabaseSettings(name, owner, rule, interval_ms, durability, index, compression, quota_bytes)
        await self._connection.call(ServerCalls.create(settings), timeout)
        return Store(self._connection, name)

    async def open(self, name: str, *, timeout: float | None = None) -> Store:
        store = Store(self._connection, name)
        await store.status(timeout=timeout)
        return store

    async def databases(self, *, timeout: float | None = None) -> list[DatabaseSettings]:
        return await self._connection.call(ServerCalls.databases(), timeout)

    async def copy(self, source: str, name: str, *, at: Any = None, timeout: float | None = None) -> Store:
        await self._connection.call(ServerCalls.copy(source, DatabaseSettings(name), at), timeout)
        return Store(self._connection, name)

    async def drop(self, name: str, *, timeout: float | None = None) -> None:
        await self._connection.call(ServerCalls.drop(name), timeout)

    async def snapshot(self, to: str, *, timeout: float | None = None) -> list[SnapshotPart]:
        return await self._connection.call(ServerCalls.snapshot(to), timeout)

    async def verify(self, name: str, *, timeout: float | None = None) -> VerifyResult:
        return await self._connection.call(ServerCalls.verify(name), timeout)

    async def users(self) -> list[User]:
        return await self._connection.call(ServerCalls.users())

    async def roles(self) -> dict[str, list[Permission]]:
        return await self._connection.call(ServerCalls.roles())

    async def add_user(self, name: str, password: str | None = None) -> None:
        await self._connection.call(ServerCalls.add_user(name, password))

    async def remove_user(self, name: str) -> None:
        await self._connection.call(ServerCalls.remove_user(name))

    async def set_password(self, name: str, password: str) -> None:
        await self._connection.call(ServerCalls.set_password(name, password))

    async def grant(self, user: str, role: str) -> None:
        await self._connection.call(ServerCalls.grant(user, role))

    async def withdraw(self, user: str, role: str) -> None:
        await self._connection.call(ServerCalls.withdraw(user, role))

    async def set_role(self, name: str, permissions: Iterable[Permission]) -> None:
        await self._connection.call(ServerCalls.set_role(name, permissions))

    async def remove_role(self, name: str) -> None:
        await self._connection.call(ServerCalls.remove_role(name))


async def connect(
    address: str,
    *,
    user: str | None = None,
    password: str | None = None,
    tls: Tls | bool | None = None,
    timeout: float | None = 30.0,
    request_id: str | None = None,
) -> Client:
    """Connects to a server: see ``icecore.remote.connect``."""
    client = Client(Connection(address, user, password, tls, timeout, request_id))
    try:
        await client.status()
    except BaseException:
        await client.close()
        raise
    return client
