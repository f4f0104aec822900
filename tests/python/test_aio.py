"""icecore.aio: a local store's calls, awaited, on other threads than the event loop's."""

import asyncio
import inspect
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import open_store

import icecore
from icecore import aio


def run(test):
    return asyncio.run(asyncio.wait_for(test, 60))


def test_the_module_is_there_without_an_import_of_its_own():
    program = "import sys, icecore; assert 'asyncio' not in sys.modules; print(icecore.aio.open.__module__); icecore.nothing"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "icecore.aio\n"
    assert "module 'icecore' has no attribute 'nothing'" in done.stderr


def test_stores_are_written_and_read(store):
    async def test():
        a = store.aio
        first = await a.put(b"a", b"1")
        await a.tag()
        await asyncio.gather(*(a.put(b"%03d" % i, b"v") for i in range(200)))
        assert await a.get(b"a") == b"1" and await a.get(b"x", b"-") == b"-" and await a.get("a", at=first) == b"1"
        assert await a.find(b"a") == b"1" and await a.find(b"x") is None
        latest = await a.latest()
        assert await latest.find(b"a") == b"1" and await latest.get("x", 5) == 5 and await latest.count(prefix="00") == 10
        assert [k async for k in a.keys(prefix=b"00")] == [b"%03d" % i for i in range(10)]
        assert [i async for i in a.items(reverse=True, limit=1)] == [(b"a", b"1")]
        assert [v async for v in a.values(start="a")] == [b"1"]
        assert await a.count() == 201 and await a.find_many([b"a", b"x"]) == [b"1", None]
        assert await latest.find_many(["a"]) == [b"1"]
        async with a.batch() as b:
            b[b"a"] = b"2"
            del b[b"000"]
        assert b.applied and await (await a.at(first)).get(b"a") == b"1"
        assert await a.tag("t", metrics={"loss": 1}) >= b.version and (await a.tags())[0].name == "t"
        assert (await a.find_tag("t")).metrics == {"loss": 1}
        assert [c.value async for c in a.history(b"a")] == [b"2", b"1"]
        assert [c.value async for c in (await a.at(first)).history(b"a")] == [b"1"]
        assert [d async for d in a.diff(latest, "t")] == [(b"000", b"v", None), (b"a", b"1", b"2")]
        assert len([c async for c in a.changes(latest, "t")]) == 2
        assert [k async for k, _ in a.where("key > '198'")] == [b"199", b"a"]
        assert await a.insert_new(b"a", b"") is None and await a.remove(b"a") is not None
        version = await a.put("r", "1")
        assert await a.replace("r", "2", version) and await a.replace("r", "3", 1) is None
        await a.clear()
        await a.update({"x": "1"})
        await a.put_many(np.arange(5, dtype=">u8"), np.arange(5.0))
        assert (await a.find_many(np.arange(5, dtype=">u8"), "<f8"))[0].tolist() == [0, 1, 2, 3, 4]
        await a.clear()
        await a.put_array("w", np.ones(3))
        assert (await a.get_array("w")).sum() == (await (await a.latest()).get_array("w")).sum() == 3
        assert bytes((await a.view("w"))[:6]) == bytes((await (await a.latest()).view("w"))[:6]) == b"\x93NUMPY"
        await a.save_state("m", {"w": np.ones(2)})
        assert (await a.load_state("m"))["w"].sum() == (await (await a.latest()).load_state("m"))["w"].sum() == 2
        assert (await a.to_numpy())[0].tolist() == [b"m", b"m/w", b"w"]
        feed = await a.feed("f", after=0)
        await a.sync()
        batch = await feed.next(limit=1)
        assert len(batch.changes) == 1 and feed.token == batch.token and feed.name == "f"
        await feed.acknowledge(batch.token)
        await feed.drop()
        assert (await a.verify()).ok and (await a.stats()).keys > 0 and await a.refresh() == store.clock - 1

    run(test())


def test_opening_closing_and_copying_are_awaited(path, tmp_path):
    async def test():
        async with await aio.open(path, "x", durability="none") as opened:
            await opened.put("k", "v")
            assert await opened.checkpoint(tmp_path / "copy.ice") > 0
        with pytest.raises(icecore.ClosedError):
            await opened.get("k")
        async with await aio.open(tmp_path / "copy.ice", "r") as copy:
            assert await copy.get("k") == b"v"
            with pytest.raises(icecore.ReadOnlyError):
                await copy.put("k", "w")
        with pytest.raises(icecore.NoSuchStoreError):
            await aio.open(tmp_path / "nothing.ice", "r")

    run(test())


def test_no_call_runs_on_the_thread_of_the_event_loop(store, monkeypatch):
    """Every method of the local store that a call of icecore.aio uses is seen on another thread."""
    here = threading.get_ident()
    seen = {}

    def watched(name, method):
        def call(self, *arguments, **named):
            seen.setdefault(name, set()).add(threading.get_ident())
            return method(self, *arguments, **named)

        return call

    names = ["find", "get", "view", "get_array", "find_many", "keys", "values", "items", "history", "insert", "insert_new",
             "replace", "remove", "put_array", "put_many", "update", "clear", "save_state", "load_state", "_apply", "tag",
             "tags", "find_tag", "latest", "at", "diff", "changes", "feed", "refresh", "sync", "stats", "verify",
             "checkpoint"]  # fmt: skip
    for name in names:
        monkeypatch.setattr(icecore.Store, name, watched(name, getattr(icecore.Store, name)))

    async def test(tmp_path):
        a = store.aio
        version = await a.put("k", "v")
        await a.tag("t")
        for call in (
            a.find("k"), a.get("k"), a.view("k"), a.find_many(["k"]), a.insert_new("n", ""), a.replace("k", "w", version),
            a.remove("n"), a.put_array("a", np.ones(1)), a.put_many(["m"], ["1"]), a.update({"u": "1"}), a.tags(),
            a.find_tag("t"), a.latest(), a.at("t"), a.feed(after=0), a.refresh(), a.sync(), a.stats(), a.verify(),
            a.save_state("s", {}), a.load_state("s"), a.get_array("a"), a.checkpoint(tmp_path), a.clear(),
        ):  # fmt: skip
            await call
        async with a.batch() as b:
            b["x"] = "1"
        for stream in (a.keys(), a.values(), a.items(), a.history("k"), a.diff(0, "t"), a.changes(0, "t"), a.where("true")):
            async for _ in stream:
                pass

    run(test(store.path + ".copy"))
    assert set(names) == seen.keys()
    assert {name: threads for name, threads in seen.items() if here in threads} == {}


def test_the_event_loop_goes_on_while_a_call_waits(store):
    """A feed waits for a change that a task of the same loop makes meanwhile."""

    async def test():
        a = store.aio
        feed = await a.feed(after=store.tag(), unsynced=True)
        waiting = asyncio.create_task(feed.next(timeout=50))
        await asyncio.sleep(0)
        await a.put("k", "v")
        await a.tag()
        assert [change.key for change in (await waiting).changes] == [b"k"]

    run(test())


def test_an_iterator_reads_one_version_while_others_write(store):
    async def test():
        a = store.aio
        await a.update({f"{i:05}": "1" for i in range(3000)})
        seen = 0
        async for _key, value in a.items():
            if seen % 500 == 0:
                await a.put(f"{seen + 400:05}", "2")
                await a.put(f"new{seen}", "2")
            assert value == b"1"
            seen += 1
        assert seen == 3000

    run(test())


def test_a_batch_with_an_exception_writes_nothing(store):
    async def test():
        with pytest.raises(KeyError):
            async with store.aio.batch() as b:
                b["x"] = "1"
                raise KeyError
        assert await store.aio.count() == 0 and not b.applied

    run(test())


def test_errors_are_those_of_the_store(store):
    async def test():
        for call, error in (
            (store.aio.get(5), TypeError),
            (store.aio.view("nothing"), KeyError),
            (store.aio.get("k", at="no tag"), icecore.UnknownTagError),
            (store.aio.put("k" * 70_000, ""), icecore.KeyTooLongError),
        ):
            with pytest.raises(error):
                await call
        with pytest.raises(icecore.BadInputError):
            async for _ in store.aio.where("nonsense ("):
                pass
        with pytest.raises(TypeError, match=r"aio\.open"):
            aio.Store("path")

    run(test())


def test_the_names_are_those_of_the_remote_client():
    """But for what only servers have."""
    remote = pytest.importorskip("icecore.remote.aio")
    of_servers = {"append", "update_part", "increment", "transaction", "load", "remove_range", "watch", "compact", "lease",
                  "grant", "keep_alive", "revoke", "lease_info", "leases", "status", "alter", "name"}  # fmt: skip
    for ours, theirs in ((aio.Store, remote.Store), (aio.Snapshot, remote.Snapshot)):
        wanted = {name for name, _ in inspect.getmembers(theirs) if not name.startswith("_")} - of_servers
        assert wanted <= {name for name, _ in inspect.getmembers(ours)}


def test_what_only_differs_by_await_has_the_same_parameters():
    for name, ours in inspect.getmembers(aio.Store, inspect.isfunction):
        local = getattr(icecore.Store, name, None)
        if name.startswith("_") or local is None or name in ("feed", "open", "update", "verify", "checkpoint"):
            continue
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(local).parameters), name
