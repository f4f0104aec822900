"""Threads: a store is shared freely, the GIL is given away where it should be, and snapshots hold still."""

import itertools
import os
import sys
import threading
import time

import numpy as np
import pytest
from conftest import open_store

import icecore


def run_threads(*bodies):
    """Runs each body on a thread of its own; raises what one of them raised."""
    failures = []

    def guarded(body):
        try:
            body()
        except BaseException as e:  # re-raised below
            failures.append(e)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


@pytest.fixture(autouse=True)
def quick_switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_readers_of_a_tag_never_see_later_writes(store):
    """Four writers, and two readers that tag: each snapshot is read several times over and must not change."""
    done = threading.Event()
    stamps = [b"%d" % i for i in range(100)]
    keys = [[b"%d/%d" % (number, key) for key in range(5)] for number in range(4)]
    for key in sum(keys, []):
        store[key] = b"first"
    overtaken = []  # whether the store was another one when a snapshot was read for the last time

    def write(number):
        for stamp in itertools.cycle(stamps):
            if done.is_set():
                return
            for key in keys[number]:
                store[key] = stamp

    def tag_and_read():
        for _ in range(50):
            snapshot = store.at(store.tag())
            first = dict(snapshot)
            assert len(first) == 20
            for _ in range(3):
                assert dict(snapshot) == first
                assert {k: snapshot[k] for k in first} == first
            overtaken.append(dict(store) != first)

    def read_all():
        try:
            run_threads(tag_and_read, tag_and_read)
        finally:
            done.set()

    run_threads(read_all, *(lambda n=n: write(n) for n in range(4)))
    assert len(overtaken) == 100
    assert any(overtaken)
    assert store.verify().ok


def test_batches_are_never_seen_half(store):
    done = threading.Event()
    keys = [b"%d" % i for i in range(10)]
    seen = set()

    def write():
        for i in itertools.count():
            if done.is_set():
                return
            with store.batch() as b:
                for key in keys:
                    b[key] = b"%d" % i

    def read():
        end = time.monotonic() + 60
        while len(seen) < 50:
            assert time.monotonic() < end, f"only {len(seen)} batches were seen"
            found = dict(store.latest())
            assert sorted(found) in ([], keys)
            assert len(set(found.values())) <= 1, found
            seen.update(found.values())

    def read_all():
        try:
            run_threads(read, read)
        finally:
            done.set()

    run_threads(read_all, write)


def test_threads_insert_and_find_what_they_inserted(store):
    def work(number):
        for i in range(2000):
            key = b"%d/%d" % (number, i)
            store[key] = key
            assert store[key] == key
        assert sum(1 for _ in store.keys(prefix=b"%d/" % number)) == 2000

    run_threads(*(lambda n=n: work(n) for n in range(4)))
    assert len(store) == 8000


def longest_pause_during(call):
    """The longest time another thread had to wait for the GIL while `call` ran, and how long `call` took."""
    done, ready, pauses = threading.Event(), threading.Event(), []

    def tick():
        last = time.perf_counter()
        while not done.is_set():
            ready.set()
            time.sleep(0.0005)
            now = time.perf_counter()
            pauses.append(now - last)
            last = now

    ticking = threading.Thread(target=tick)
    ticking.start()
    ready.wait()
    start = time.perf_counter()
    call()
    took = time.perf_counter() - start
    done.set()
    ticking.join()
    return max(pauses, default=took), took


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    with open_store(tmp_path_factory.mktemp("large") / "store.ice", durability="none") as store:
        numbers = np.random.default_rng(0).permutation(1_000_000).astype(">u8")
        store.put_many(numbers, numbers)
        store[b"big"] = bytes(1 << 28)
        yield store


def checkpoint(store):
    copy = store.path + ".copy"
    store.checkpoint(copy)
    os.remove(copy)


CALLS = {
    "len": lambda s: len(s),
    "put_many": lambda s: s.put_many(np.arange(500_000, dtype=">u8"), np.arange(500_000, dtype=">u8")),
    "find_many": lambda s: s.find_many(np.arange(1_000_000, dtype=">u8"), ">u8"),
    "to_numpy": lambda s: s[:b"\xff"][:b"b"].to_numpy(">u8", ">u8"),
    "to_columns": lambda s: s.latest().to_columns(),
    "verify": lambda s: s.verify(),
    "diff": lambda s: list(s.diff(0, s.latest(), b"a")),
    "checkpoint": checkpoint,
    "a large value into a batch": lambda s: icecore.Batch().__setitem__(b"big", bytes(1 << 28)),
    "a large value out": lambda s: s[b"big"],
    "a large value in": lambda s: s.__setitem__(b"big", bytes(1 << 28)),
}


@pytest.mark.parametrize("name", CALLS)
def test_long_calls_let_other_threads_run(large, name):
    for _ in range(8):  # a busy machine may pause a thread by itself
        longest, took = longest_pause_during(lambda: CALLS[name](large))
        if longest < max(took / 2, 0.003):
            return
    pytest.fail(f"{name} took {took:.3f} s and kept the GIL for {longest:.3f} s of them")


FINDS = {
    "store[key]": lambda store, snapshot: store[b"big"],
    "key in store": lambda store, snapshot: b"big" in store,
    "store.find": lambda store, snapshot: store.find(b"big"),
    "store.find at": lambda store, snapshot: store.find(b"big", snapshot.version),
    "store.view": lambda store, snapshot: store.view(b"big"),
    "snapshot[key]": lambda store, snapshot: snapshot[b"big"],
    "key in snapshot": lambda store, snapshot: b"big" in snapshot,
    "snapshot.get": lambda store, snapshot: snapshot.get(b"big"),
    "snapshot.view": lambda store, snapshot: snapshot.view(b"big"),
}


@pytest.fixture(scope="module")
def stores_of_large_values(tmp_path_factory):
    """One of large values only, and one that has a large value, known to have it, among many small ones."""
    folder = tmp_path_factory.mktemp("unread")
    with open_store(folder / "large.ice", "x", durability="none") as store:
        store[b"big"] = bytes(1 << 28)
    with open_store(folder / "mixed.ice", "x", durability="none") as store:
        store.put_many(np.arange(200_000, dtype=">u4"), np.zeros(200_000, "u1"))
        store[b"big"] = bytes(1 << 28)
        store[b"large"] = bytes(1 << 20)
    return folder


@pytest.mark.parametrize("name", FINDS)
@pytest.mark.parametrize("kind", ["large", "mixed"])
def test_the_first_look_at_a_large_value_lets_other_threads_run(stores_of_large_values, kind, name):
    """The first look checks all of it: only a store that was just opened has values nobody has looked at."""
    for _ in range(8):  # a busy machine may pause a thread by itself
        with open_store(stores_of_large_values / f"{kind}.ice", "r") as store:
            snapshot = store.latest()
            if kind == "mixed":
                assert len(store[b"large"]) == 1 << 20
            longest, took = longest_pause_during(lambda: FINDS[name](store, snapshot))
        if longest < max(took / 4, 0.003):  # checking is a third of what checking and copying take
            return
    pytest.fail(f"{name} took {took:.3f} s and kept the GIL for {longest:.3f} s of them")


def test_a_store_closed_during_a_find_gives_the_value_or_refuses(stores_of_large_values):
    for _ in range(5):
        store = open_store(stores_of_large_values / "large.ice", "r")
        started, found = threading.Event(), []

        def find():
            started.set()
            try:
                found.append(len(store[b"big"]))
            except icecore.ClosedError:
                found.append(None)

        finding = threading.Thread(target=find)
        finding.start()
        started.wait()
        time.sleep(0.002)
        store.close()
        finding.join()
        assert found in ([1 << 28], [None])


def test_an_iterator_shared_by_threads_gives_each_item_once_or_says_no(store):
    count = 50_000
    store.put_many(np.arange(count, dtype=">u4"), np.zeros(count, "u1"))
    iterator, seen, lock = iter(store), [], threading.Lock()

    def take():
        mine = []
        while True:
            try:
                key = next(iterator)
            except StopIteration:
                break
            except ValueError as e:
                assert "another thread" in str(e)
                continue
            mine.append(key)
        with lock:
            seen.extend(mine)

    run_threads(take, take, take)
    assert len(seen) == count
    assert len(set(seen)) == count


def test_closing_under_writers_and_readers_loses_nothing_that_returned(path):
    store = open_store(path)
    written = [[] for _ in range(4)]

    def write(number):
        try:
            for i in range(10**9):
                key = b"%d/%d" % (number, i)
                store[key] = b"x" * 100 if i % 100 else b"x" * 100_000
                written[number].append(key)
        except icecore.ClosedError:
            pass

    def close_soon():
        while min(map(len, written)) < 100:
            time.sleep(0.001)
        store.close()

    run_threads(close_soon, *(lambda n=n: write(n) for n in range(4)))
    with open_store(path) as again:
        assert set(again) == {key for keys in written for key in keys}


@pytest.mark.parametrize("on", [True, False])
def test_a_large_store_grows_on_a_thread_that_can_be_turned_off(tmp_path, on):
    before = len(os.listdir("/proc/self/task"))
    with icecore.open(tmp_path / "grows.ice", grow_in_background=on, publish_settled=False) as store:
        for i in range(100):
            store[b"%d" % i] = bytes(100_000)
        assert len(os.listdir("/proc/self/task")) == before + on
