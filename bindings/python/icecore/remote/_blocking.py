"""A connection whose calls wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import grpc

from ..errors import ClosedError
from ._calls import Attempts, Call, error_from
from ._messages import METHODS
from ._server_calls import CHANNEL_OPTIONS, ServerCalls, Tls, credentials_of, metadata_of, target_of

T = TypeVar("T")


class Connection:
    """Any number of threads may use it. It connects again by itself, and logs in again when its token has ended."""

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
        self._login = threading.Lock()
        self._closed = False
        target, credentials = target_of(address), credentials_of(tls)
        if credentials is None:
            self._channel = grpc.insecure_channel(target, CHANNEL_OPTIONS)
        else:
            self._channel = grpc.secure_channel(target, credentials, CHANNEL_OPTIONS)
        self._stubs: dict[str, Any] = {}

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._channel.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def call(self, call: Call[T], timeout: float | None = None) -> T:
        attempts = Attempts(self.timeout if timeout is None else timeout, call.repeatable)
        while True:
            token = self._token_now(call, attempts)
            try:
                response = self._stub(call.method)(
                    call.request,
                    timeout=attempts.left(),
                    metadata=metadata_of(token, self._request_id),
                    # What cannot be repeated is sent only when there is a connection.
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
            time.sleep(attempts.pause_after(error))

    def stream(self, state: Any, timeout: float | None = None) -> Iterator[Any]:
        """What the stream tells, over as many connections as it takes. The time limit is that of being without any."""
        attempts = Attempts(self.timeout, True)
        ends = None if timeout is None else time.monotonic() + timeout
        while not state.over:
            token = self._token_now(None, attempts)
            left = None if ends is None else max(0.0, ends - time.monotonic())
            running = self._stub(state.method)(
                state.request(), timeout=left, metadata=metadata_of(token, self._request_id)
            )
            told = False
            try:
                for rows in running:
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
            time.sleep(attempts.pause_after(error))

    def exchange(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """One request and one answer of a stream in both directions, or the answer to a stream of one request."""
        attempts = Attempts(self.timeout if timeout is None else timeout, True)
        while True:
            token = self._token_now(None, attempts)
            try:
                answer = self._stub(method)(
                    iter([request]), timeout=attempts.left(), metadata=metadata_of(token, self._request_id)
                )
                return next(answer) if METHODS[method].streams_responses else answer
            except grpc.RpcError as failure:
                error = error_from(failure)
            if token is not None and attempts.must_log_in(error):
                self._forget(token)
                continue
            time.sleep(attempts.pause_after(error))

    def log_out(self) -> None:
        with self._login:
            if self._token is not None:
                metadata = metadata_of(self._token, self._request_id)
                self._stub("Users.LogOut")(ServerCalls.log_out().request, timeout=self.timeout, metadata=metadata)
            self._token = None

    def _forget(self, token: str | None) -> None:
        with self._login:
            if self._token == token:
                self._token = None

    def _token_now(self, call: Call[Any] | None, attempts: Attempts) -> str | None:
        if self._closed:
            raise ClosedError(f"the connection to {self.address} was closed")
        if self._user is None or (call is not None and call.method == "Users.LogIn"):
            return None
        with self._login:
            if self._token is None:
                if self._password is None:
                    raise ValueError(f"user {self._user!r} needs a password")
                self._token = self.call(ServerCalls.log_in(self._user, self._password), attempts.left())
            return self._token

    def _stub(self, name: str) -> Any:
        found = self._stubs.get(name)
        if found is None:
            found = self._stubs[name] = stub_of(self._channel, name)
        return found


def stub_of(channel: Any, name: str) -> Any:
    """What calls a method on a channel, of either kind."""
    method = METHODS[name]
    kinds = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, False): channel.stream_unary,
        (True, True): channel.stream_stream,
    }
    kind = kinds[method.streams_requests, method.streams_responses]
    return kind(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
