"""What a call asks, how its answer is read, and what follows from a failure: shared by both kinds of clients, neither of
which does more than wait."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import grpc

from ..errors import Errc, Error, UnauthenticatedError, UnavailableError, error_of

T = TypeVar("T")

_BACKOFF_SECONDS_LEAST = 0.02
_BACKOFF_SECONDS_MOST = 1.0

# What a status means that does not say icecore's code: gRPC itself made it.
_OF_STATUS = {
    grpc.StatusCode.DEADLINE_EXCEEDED: Errc.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED: Errc.UNAVAILABLE,  # not by us: the server stops, or has cut the call
    grpc.StatusCode.UNAVAILABLE: Errc.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN: Errc.UNAVAILABLE,  # a stream that ended with its connection
    grpc.StatusCode.UNAUTHENTICATED: Errc.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED: Errc.DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Errc.LIMIT_REACHED,
    grpc.StatusCode.INVALID_ARGUMENT: Errc.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED: Errc.UNSUPPORTED_FORMAT,
}


@dataclass(frozen=True)
class Call(Generic[T]):
    """A unary call: its answer is ``read(response)``.

    ``repeatable``: the call may be sent again when the connection broke, since doing it twice leads to the same state.
    ``settles``: of a call that was sent again and failed, whether that error shows that an earlier one had succeeded;
    then it is the answer.
    """

    method: str
    request: Any
    read: Callable[[Any], T]
    repeatable: bool = True
    settles: Callable[[Error], T | None] | None = None


def error_from(failure: Any) -> Error:
    """The error of icecore that a ``grpc.RpcError`` stands for."""
    code: int = 0
    for name, value in failure.trailing_metadata() or ():
        if name == "icecore-code":
            code = int(value)
    status = failure.code()
    details = failure.details() or status.name
    if code == 0:
        code = int(_OF_STATUS.get(status, Errc.IO))
        error = error_of(code, details)
        error.__dict__["_is_of_transport"] = True
        return error
    return error_of(code, details)


def _is_of_transport(error: Error) -> bool:
    """Whether gRPC made it, not the server."""
    return bool(error.__dict__.get("_is_of_transport", False))


@dataclass
class Attempts:
    """Decides about one call: how long it may take, whether it is sent again, when."""

    timeout: float | None
    repeatable: bool
    began: float = field(default_factory=time.monotonic)
    count: int = 0
    logged_in_again: bool = False

    def left(self) -> float | None:
        """Seconds that are left. DeadlineExceededError if there are none."""
        if self.timeout is None:
            return None
        left = self.began + self.timeout - time.monotonic()
        if left <= 0:
            raise error_of(int(Errc.DEADLINE_EXCEEDED), f"the call took longer than its {self.timeout:g} seconds")
        return left

    def must_log_in(self, error: Error) -> bool:
        """Whether the token has ended, so that the client logs in and calls again. The server did nothing yet."""
        if not isinstance(error, UnauthenticatedError) or self.logged_in_again:
            return False
        self.logged_in_again = True
        return True

    def pause_after(self, error: Error) -> float:
        """Seconds to wait before the call is sent again; raises what the caller is told if it is not."""
        if not isinstance(error, UnavailableError):
            raise error
        if _is_of_transport(error) and not self.repeatable:
            raise error_of(
                int(Errc.OUTCOME_UNKNOWN),
                f"the connection broke during a write that cannot be repeated; read whether it took effect ({error})",
            ) from error
        if not _is_of_transport(error) and not self.repeatable:
            raise error  # the server refused it, so it has not taken effect
        self.count += 1
        pause: float = min(_BACKOFF_SECONDS_MOST, _BACKOFF_SECONDS_LEAST * 2**self.count) * random.uniform(0.5, 1.0)
        if self.timeout is not None and time.monotonic() + pause >= self.began + self.timeout:
            raise error
        return pause

