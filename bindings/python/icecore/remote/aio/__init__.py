"""icecore.remote for asyncio: the same names, to be awaited; iterators are asynchronous.

    from icecore.remote import aio

    async with await aio.connect("icecore://localhost:7480") as server:
        store = await server.create("weights", rule="write")
        await store.put(b"layer1/bias", b"0.5")
        async for key, value in store.items(prefix=b"layer1/"):
            ...

``aio.connect_group`` makes one client of several independent servers. Cancelling a task cancels the call that it awaits;
a write may still take effect then. One event loop uses a client.
"""

from .client import Client, connect
from .group import GroupClient, GroupSnapshot, GroupStore, connect_group
from .store import Snapshot, Store

__all__ = [
    "Client",
    "GroupClient",
    "GroupSnapshot",
    "GroupStore",
    "Snapshot",
    "Store",
    "connect",
    "connect_group",
]
