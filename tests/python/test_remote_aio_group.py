"""Several independent servers as one, awaited."""

import asyncio
import dataclasses

import pytest
from remote_server import independent_servers, needs_server

from icecore import errors

remote = pytest.importorskip("icecore.remote")
from icecore.remote import aio  # noqa: E402

pytestmark = needs_server

KEYS = [b"key%03d" % i for i in range(120)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with independent_servers(tmp_path_factory, 3) as running:
        yield running


@pytest.fixture
def on_store(servers, request):
    """Runs a test with a client of the group and a database of it."""

    def run(test):
        async def whole():
            async with await aio.connect_group([server.address for server in servers], group="g") as group:
                store = await group.create(request.node.name)
                try:
                    await test(group, store)
                finally:
                    await group.drop(store.name)

        asyncio.run(asyncio.wait_for(whole(), 120))

    return run


async def put_all(store, keys, value):
    await asyncio.gather(*(store.put(key, value) for key in keys))


async def all_of(rows):
    return [row async for row in rows]


def test_a_list_that_is_not_the_group_is_refused(servers, monkeypatch):
    a, b, c = (server.address for server in servers)

    async def refused(addresses, **how):
        with pytest.raises(errors.OtherClusterError) as why:
            await aio.connect_group(addresses, **how)
        return str(why.value)

    async def test():
        for wrong in ([a, b], [b, a, c], [a, b, c, c], [a, a, a]):
            await refused(wrong)
        await refused([a, b, c], group="another")
        told = aio.Client.status

        async def dependent(client):
            return dataclasses.replace(await told(client), dependent=True)

        monkeypatch.setattr(aio.Client, "status", dependent)
        assert "dependent" in await refused([a, b, c])

    asyncio.run(asyncio.wait_for(test(), 60))


def test_keys_are_at_their_servers_and_scans_are_merged(on_store):
    async def test(group, store):
        await put_all(store, KEYS, b"1")
        for number, client in enumerate(group.clients):
            part = await all_of((await client.open(store.name)).keys())
            assert part == [key for key in KEYS if remote.owner_of(key, 3) == number] != []
        assert await all_of(store.keys()) == KEYS and await store.count() == len(KEYS)
        assert await all_of(store.items(start=b"key010", stop=b"key015")) == [(key, b"1") for key in KEYS[10:15]]
        assert await all_of(store.keys(reverse=True, limit=3)) == KEYS[:-4:-1]
        assert await all_of(store.keys(limit=0)) == []
        assert await all_of(store.values(prefix=b"key00")) == [b"1"] * 10
        assert await store.count(prefix=b"key00") == 10
        assert await store.find_many([KEYS[3], b"none", KEYS[1]]) == [b"1", None, b"1"]
        assert await store.remove(KEYS[0]) is not None and await store.get(KEYS[0], b"-") == b"-"
        assert await store.increment(b"sum", 3) == 3 and await store.insert_new(b"sum", b"") is None
        assert await store.server(b"log").append(b"log", b"x") == 1
        assert [change.value async for change in store.history(KEYS[0])] == [None, b"1"]
        async for key in store.keys():  # one that is left early ends its streams
            assert key == KEYS[1]
            break

    on_store(test)


def test_versions_differences_and_changes_of_all(on_store):
    async def test(group, store):
        await put_all(store, KEYS, b"1")
        await store.tag("first")
        await put_all(store, KEYS[::2], b"2")
        await store.latest()
        await store.put(KEYS[0], b"3")
        await store.remove(KEYS[1])
        assert len(await store.tag("second")) == 3
        first, second = await store.at(tag="first"), await store.at(tag="second")
        assert await first.get(KEYS[0]) == b"1" and await second.get(KEYS[0]) == b"3"
        assert await all_of((await store.at(first.versions)).items()) == [(key, b"1") for key in KEYS]
        found = await all_of(store.diff(first, second))
        assert [row.key for row in found] == sorted([*KEYS[::2], KEYS[1]])
        assert found[1].after is None and found[0].before == b"1"
        assert await all_of(store.diff(first)) == found, "the present"
        changes = await all_of(store.changes(first, second))
        assert [change.value for change in changes if change.key == KEYS[0]] == [b"2", b"3"]
        assert len(changes) == len(KEYS[::2]) + 2
        assert [change.version for change in changes] == sorted(change.version for change in changes)
        for wrong in (lambda: store.diff([1], second), lambda: store.watch(after=[1, 2]), lambda: store.changes(1)):
            with pytest.raises((errors.InvalidArgumentError, TypeError)):
                wrong()
        with pytest.raises(TypeError):
            await store.at()
        with pytest.raises(errors.UnknownTagError):
            await store.at(tag="never")
        await store.sync()
        await store.compact(second)
        with pytest.raises(errors.VersionExpiredError):
            await first.get(KEYS[0])

    on_store(test)


def test_a_watch_tells_what_all_servers_tell_once_and_goes_on(on_store):
    async def test(group, store):
        versions = list((await store.latest()).versions)
        told = {}

        async def read(count):
            watch = store.watch(after=list(versions), prefix=b"key")
            async for server, version, changes in watch:
                assert version > versions[server]
                versions[server] = version
                for change in changes:
                    assert remote.owner_of(change.key, 3) == server
                    told.setdefault(change.key, []).append(change.value)
                if sum(len(values) for values in told.values()) >= count:
                    break
            await watch.aclose()

        for round_, value in enumerate((b"1", b"2", b"3"), 1):
            reader = asyncio.create_task(read(30 * round_))
            await put_all(store, KEYS[:30], value)
            await store.put(b"other", value)
            await store.tag()
            await reader
            assert not [task for task in asyncio.all_tasks() if task.get_name() == "icecore watch"]
        assert told == {key: [b"1", b"2", b"3"] for key in KEYS[:30]}

    on_store(test)


def test_a_watch_ends_with_the_task_that_reads_it(on_store):
    async def test(group, store):
        reader = asyncio.create_task(all_of(store.watch()))

        def following():
            return [task for task in asyncio.all_tasks() if task.get_name() == "icecore watch"]

        while len(following()) < 3:
            await asyncio.sleep(0.01)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        while following():  # the generator's end is awaited by the loop
            await asyncio.sleep(0.01)

    on_store(test)


def test_a_watch_of_a_server_that_is_gone_fails(tmp_path_factory):
    async def test():
        with independent_servers(tmp_path_factory, 1) as servers:
            async with await aio.connect_group([servers[0].address], timeout=2) as group:
                watch = (await group.create("some")).watch()
                reader = asyncio.create_task(anext(watch))
                while not [task for task in asyncio.all_tasks() if task.get_name() == "icecore watch"]:
                    await asyncio.sleep(0.01)
                servers[0].kill()
                with pytest.raises(errors.UnavailableError):
                    await reader

    asyncio.run(asyncio.wait_for(test(), 120))


def test_a_lease_is_kept_by_all_servers(on_store):
    async def test(group, store):
        async with store.lease(10) as lease:
            await asyncio.gather(*(store.put(key, b"1", lease=lease) for key in KEYS[:20]))
            assert await store.keep_alive(lease) <= 10
        assert await store.count() == 0
        there = await group.clients[2].open(store.name)
        await there.grant(10, number=77)
        with pytest.raises(errors.Error):
            await store.grant(10, number=77)
        assert await (await group.clients[0].open(store.name)).leases() == []

    on_store(test)


def test_each_server_writes_a_snapshot(on_store, tmp_path):
    async def test(group, store):
        await store.put(KEYS[0], b"1")
        parts = await group.snapshot(str(tmp_path / "snapshot"))
        assert [[part.database for part in each] for each in parts] == [[store.name]] * 3
        assert sorted(path.name for path in tmp_path.iterdir()) == ["snapshot.0", "snapshot.1", "snapshot.2"]

    on_store(test)
