"""A connection whose calls are awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import grpc
import grpc.aio

from ..errors import ClosedError, Errc, error_of
from ._blocking import stub_of
from ._calls import Attempts, Call, error_from
from ._messages import METHODS
from ._server_calls import CHANNEL_OPTIONS, ServerCalls, Tls, credentials_of, metadata_of, target_of

T = TypeVar("T")


class Connection:
    """Connects again by itself, and logs in again when its token has ended."""

    def __init__(
        self,
        address: str,
        user: str | None,
        password: str | None,
        tls: Tls | bool | None,
        timeout: float | None,
        request_id: str | None,
    ) -> None:
        self.address = address
        self.timeout = timeout
        self._user = user
        self._password = password
        self._request_id = request_id
        self._token: str | None = None
        self._login = asyncio.Lock()
        self._closed = False
        target, credentials = target_of(address), credentials_of(tls)
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(target, CHANNEL_OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(target, credentials, CHANNEL_OPTIONS)
        self._stubs: dict[str, Any] = {}

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._channel.close(None)

    async def call(self, call: Call[T], timeout: float | None = None) -> T:
        attempts = Attempts(self.timeout if timeout is None else timeout, call.repeatable)
        while True:
            token = await self._token_now(call, attempts)
            try:
                response = await self._stub(call.method)(
                    call.request,
                    timeout=attempts.left(),
                    metadata=metadata_of(token, self._request_id),
                    wait_for_ready=not call.repeatable,
                )
            except grpc.RpcError as failure:
                error = error_from(failure)
            else:
                return call.read(response)
            if attempts.count > 0 and call.settles is not None and (settled := call.settles(error)) is not None:
                return settled
            if token is not None and attempts.must_log_in(error):
                self._forget(token)
                continue
            await asyncio.sleep(attempts.pause_after(error))

    async def stream(self, state: Any, timeout: float | None = None) -> AsyncIterator[Any]:
        attempts = Attempts(self.timeout, True)
        ends = None if timeout is None else time.monotonic() + timeout
        while not state.over:
            token = await self._token_now(None, attempts)
            left = None if ends is None else max(0.0, ends - time.monotonic())
            running = self._stub(state.method)(
                state.request(), timeout=left, metadata=metadata_of(token, self._request_id)
            )
            told = False
            try:
                async for rows in running:
                    told = True
                    for one in state.take(rows):
                        yield one
                return
            except grpc.RpcError as failure:
                error = error_from(failure)
            finally:
                running.cancel()
            if told:  # even if it told nothing new, or was read slowly: until now there was a connection
                attempts = Attempts(self.timeout, True)
            if token is not None and attempts.must_log_in(error):
                self._forget(token)
                continue
            await asyncio.sleep(attempts.pause_after(error))

    async def exchange(self, method: str, request: Any, timeout: float | None = None) -> Any:
        attempts = Attempts(self.timeout if timeout is None else timeout, True)
        while True:
            token = await self._token_now(None, attempts)
            running = self._stub(method)(
                iter([request]), timeout=attempts.left(), metadata=metadata_of(token, self._request_id)
            )
            try:
                if not METHODS[method].streams_responses:
                    return await running
                async for answer in running:
                    return answer
                raise error_of(int(Errc.IO), f"{method} ended without an answer")
            except grpc.RpcError as failure:
                error = error_from(failure)
            finally:
                running.cancel()
            if token is not None and attempts.must_log_in(error):
                self._forget(token)
                continue
            await asyncio.sleep(attempts.pause_after(error))

    async def log_out(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            metadata = metadata_of(token, self._request_id)
            await self._stub("Users.LogOut")(ServerCalls.log_out().request, timeout=self.timeout, metadata=metadata)

    def _forget(self, token: str | None) -> None:
        if self._token == token:
            self._token = None

    async def _token_now(self, call: Call[Any] | None, attempts: Attempts) -> str | None:
        if self._closed:
            raise ClosedError(f"the connection to {self.address} was closed")
        if self._user is None or (call is not None and call.method == "Users.LogIn"):
            return None
        async with self._login:
            if self._token is None:
                if self._password is None:
                    raise ValueError(f"user {self._user!r} needs a password")
                self._token = await self.call(ServerCalls.log_in(self._user, self._password), attempts.left())
            return self._token

    def _stub(self, name: str) -> Any:
        found = self._stubs.get(name)
        if found is None:
            found = self._stubs[name] = stub_of(self._channel, name)
        return found
