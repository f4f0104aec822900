"""icecore.remote.aio: the same calls, awaited."""

import asyncio

import pytest
from remote_server import Proxy, Server, needs_server

from icecore import errors

remote = pytest.importorskip("icecore.remote")
from icecore.remote import _streams, aio  # noqa: E402

pytestmark = needs_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


def test_stores_are_written_and_read(server):
    async def test():
        async with await aio.connect(server.address) as client:
            store = await client.create("basic", rule="write")
            first = await store.put(b"a", b"1")
            await asyncio.gather(*(store.put(b"%03d" % i, b"v") for i in range(200)))
            assert await store.get(b"a") == b"1" and await store.get(b"x", b"-") == b"-"
            assert await store.find(b"a") == b"1" and await store.find(b"x") is None
            assert await (await store.latest()).find(b"a") == b"1"
            assert [k async for k in store.keys(prefix=b"00")] == [b"%03d" % i for i in range(10)]
            assert [i async for i in store.items(reverse=True, limit=1)] == [(b"a", b"1")]
            assert await store.count() == 201 and await store.find_many([b"a", b"x"]) == [b"1", None]
            async with store.batch() as b:
                b[b"a"] = b"2"
                del b[b"000"]
            assert b.applied and await (await store.at(first)).get(b"a") == b"1"
            assert await store.tag("t") > b.version and (await store.tags())[0].name == "t"
            assert [c.value async for c in store.history(b"a")] == [b"2", b"1"]
            assert [d async for d in store.diff(b.version - 1, b.version)] == [(b"000", b"v", None), (b"a", b"1", b"2")]
            assert len([c async for c in store.changes(b.version - 1, b.version)]) == 2
            assert await store.append(b"log", b"x") == 1 and await store.increment(b"n", 3) == 3
            assert (await store.transaction([remote.absent(b"q")], [remote.put(b"q", b"")])).succeeded
            assert await store.insert_new(b"q", b"") is None and await store.remove(b"q") is not None
            assert await store.load({b"l%d" % i: b"" for i in range(1000)}) == 1000
            assert await store.remove_range(b"l", b"m") == 1001  # and the log
            async with store.lease(5) as lease:
                await store.put(b"leased", b"", lease=lease)
                assert (await store.lease_info(lease)).keys == [b"leased"] and await store.keep_alive(lease) > 1
            assert await store.get(b"leased") is None
            assert (await store.status()).settings.rule == "write" and (await client.databases())[0].name == "basic"
            await client.drop("basic")
            with pytest.raises(errors.DeniedError):
                await client.open("basic")

    run(test())


def test_watches_go_on_over_broken_connections(server):
    async def test():
        with Proxy(server.port) as proxy:
            async with await aio.connect(server.address) as client, await aio.connect(proxy.address) as proxied:
                store = await client.create("watched", rule="write")
                watch = (await proxied.open("watched")).watch(after=0)
                told = []
                for i in range(100):
                    await store.put(b"k", b"%d" % i)
                    if i % 30 == 10:
                        proxy.cut()
                    told += [c.value for c in (await anext(watch)).changes]
                assert told == [b"%d" % i for i in range(100)]
                await watch.aclose()

    run(test())


def test_a_quiet_watch_goes_on_behind_what_it_was_told(server, monkeypatch):
    monkeypatch.setattr(_streams, "PROGRESS_MS", 100)

    async def test():
        with Proxy(server.port) as proxy:
            async with await aio.connect(server.address) as client, await aio.connect(proxy.address, timeout=0.5) as proxied:
                store = await client.create("quiet", rule="write")
                watch = (await proxied.open("quiet")).watch(prefix=b"watched")
                first = asyncio.ensure_future(anext(watch))
                await asyncio.sleep(0.7)  # quiet for longer than the client may be without a connection
                version = await store.put(b"other", b"")
                await store.compact(version)
                await asyncio.sleep(0.7)  # until it was told that the version is not for it
                proxy.cut()
                await store.put(b"watched", b"1")
                assert [c.value for c in (await first).changes] == [b"1"]
                await watch.aclose()

    run(test())


def test_unrepeatable_writes_are_not_repeated(server):
    async def test():
        with Proxy(server.port) as proxy:
            async with await aio.connect(proxy.address) as client:
                store = await client.create("once", rule="write")
                proxy.swallow_replies()
                with pytest.raises(errors.OutcomeUnknownError):
                    await store.append(b"log", b"x")
                proxy.swallow_replies()
                await store.put(b"a", b"1")
                assert await store.get(b"log") == b"x"

    run(test())


def test_a_cancelled_task_cancels_its_call(tmp_path):
    async def test(server):
        async with await aio.connect(server.address) as client:
            store = await client.create("db")
            server.pause()
            task = asyncio.create_task(store.get(b"a"))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(errors.DeadlineExceededError):
                await store.get(b"a", timeout=0.2)

    with Server(tmp_path) as server:
        run(test(server))
