"""Leases that are kept alive while a ``with`` block runs: of one server, or of all servers of a group."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any


def any_number() -> int:
    """A lease's number that nobody else takes: all servers of a group are to have the same one."""
    return secrets.randbits(63) | 1


@contextmanager
def kept(by: Any, seconds: float, timeout: float | None) -> Iterator[int]:
    """A lease that ``by``, a store, grants, keeps alive three times in its time, and revokes at the end."""
    granted = by.grant(seconds, timeout=timeout)
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(granted.granted / 3):
            by.keep_alive(granted.number)

    keeper = threading.Thread(target=keep, name="icecore lease", daemon=True)
    keeper.start()
    try:
        yield granted.number
    finally:
        ended.set()
        keeper.join()
        by.revoke(granted.number)


@asynccontextmanager
async def kept_awaiting(by: Any, seconds: float, timeout: float | None) -> AsyncIterator[int]:
    """The same of a store whose calls are awaited."""
    granted = await by.grant(seconds, timeout=timeout)

    async def keep() -> None:
        while True:
            await asyncio.sleep(granted.granted / 3)
            await by.keep_alive(granted.number)

    keeper = asyncio.create_task(keep())
    try:
        yield granted.number
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])
        await by.revoke(granted.number)
