"""A store may be closed while views of it live: they stay right, and the file belongs to the next process at once."""

import contextlib
import gc
import os
import threading

import numpy as np
import pytest
from conftest import open_store

import icecore

OLD = bytes(range(256)) * 1000

# Opens the store for writing, changes and removes what is there, and adds so much that the file grows.
WRITER = """
    import icecore, sys
    with icecore.open(sys.argv[1], "r+", emulate_durability=True) as store:
        for i in range(100):
            store[b"k"] = b"%d" % i * 100_000
        store[b"array"] = b"another"
        del store[b"small"]
        store.put_many([b"%d" % i for i in range(30_000)], [b"new" * 300] * 30_000)
        store.tag("by the other process")
        assert store.verify().ok
"""


def mapped(path):
    """Whether this process has any part of the file in its memory."""
    with open("/proc/self/maps") as maps:
        return any(line.rstrip("\n").endswith(str(path)) for line in maps)


def filled(path, mode="a"):
    with open_store(path) as store:
        store[b"k"] = OLD
        store[b"small"] = b"small"
        store.put_array(b"array", np.arange(10_000, dtype="<u8"))
        store.tag("first")
    return open_store(path, mode)


def all_kinds(store):
    """Everything that shows bytes of the store without a copy, and what each has to show for ever."""
    then = store.at(tag="first")
    return [
        (store.view(b"k"), OLD),
        (store.view(b"small"), b"small"),
        (then.view(b"k"), OLD),
        (store.view(b"k")[1:100:3], OLD[1:100:3]),
        (store.get_array(b"array"), np.arange(10_000, dtype="<u8")),
        (then.get_array(b"array")[5:10].reshape(5, 1), np.arange(5, 10, dtype="<u8").reshape(5, 1)),
        (np.frombuffer(store.view(b"k"), np.uint8)[1000:].view("<u4"), np.frombuffer(OLD, "<u4")[250:]),
        (next(store.history(b"k").views()).value, OLD),
        (next(store.history(b"k").views(oldest_first=True)).value, OLD),
        (next(then.history(b"small").views()).value, b"small"),
        (list(store.diff(0, "first").views())[1].after, OLD),
    ]


def assert_right(views):
    for shown, expected in views:
        assert np.array_equal(np.asarray(shown), expected) if isinstance(shown, np.ndarray) else shown == expected


def test_everything_but_views_refuses_a_closed_store(path):
    store = open_store(path)
    store.update({b"%d" % i: b"v" for i in range(100)})
    store.tag("t")
    snapshot, iterator, history = store.latest(), iter(store.items()), iter(store.history(b"1"))
    next(iterator)
    diff = iter(store.diff(0, "t"))
    view = store.view(b"1")  # keeps memory mapped, so that a use of it would not crash but lie
    store.close()
    store.close()
    uses = [
        lambda: store[b"1"],
        lambda: store.get(b"1"),
        lambda: store.view(b"1"),
        lambda: store.__setitem__(b"1", b""),
        lambda: store.__delitem__(b"1"),
        lambda: b"1" in store,
        lambda: len(store),
        lambda: list(store),
        lambda: store.tag(),
        lambda: store.tags(),
        lambda: store.sync(),
        lambda: store.clock,
        lambda: store.stats(),
        lambda: store.verify(),
        lambda: store.at(1),
        lambda: store.put_many([b"a"], [b"b"]),
        lambda: store.find_many([b"a"]),
        lambda: snapshot[b"1"],
        lambda: snapshot.get(b"1"),
        lambda: snapshot.view(b"1"),
        lambda: len(snapshot),
        lambda: snapshot.to_numpy(),
        lambda: snapshot.to_columns(),
        lambda: snapshot.find_many([b"1"]),
        lambda: next(iterator),
        lambda: next(history),
        lambda: next(diff),
    ]
    for use in uses:
        with pytest.raises(icecore.ClosedError) as raised:
            use()
        assert isinstance(raised.value, ValueError)
        assert "closed" in str(raised.value)
    with pytest.raises(icecore.ClosedError), store:
        len(store)
    assert view == b"v"
    assert "closed" in repr(store)
    assert store.path.endswith("store.ice")


def test_close_waits_for_calls_in_other_threads(path):
    """A call that runs without the GIL keeps the store open until it is done: no crash, and a right or no answer."""
    with open_store(path) as store:
        store.put_many(np.arange(200_000, dtype=">u8"), np.arange(200_000, dtype="<u8"))
    store = open_store(path, "r")  # a reader has nothing to sync: it would be closed at once
    snapshot = store.latest()
    started, sizes, refused = threading.Barrier(5), [], []

    def read():
        started.wait()
        try:
            while True:
                keys, values = snapshot.to_numpy(">u8", "<u8", threads=1)
                sizes.append((len(keys), int(values.sum())))
        except icecore.ClosedError as e:
            refused.append(e)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for t in threads:
        t.start()
    started.wait()
    while not sizes:
        pass
    store.close()
    for t in threads:
        t.join()
    assert len(refused) == 4
    assert set(sizes) == {(200_000, 200_000 * 199_999 // 2)}


@pytest.mark.parametrize("mode", ["r+", "r"])
def test_views_stay_right_after_close_while_another_process_writes(path, run, mode):
    store = filled(path, mode)
    views = all_kinds(store)
    store.close()
    assert mapped(path), "the views show this memory"
    run(WRITER, path)
    assert_right(views)
    del views
    assert not mapped(path)
    with open_store(path, "r") as again:
        assert again.at(tag="first")[b"k"] == OLD
        assert again[b"array"] == b"another"
        assert len(again) == 30_002


@pytest.mark.parametrize("number", range(11))
def test_each_view_alone_keeps_the_memory_mapped(path, number):
    store = filled(path)
    view = all_kinds(store)[number]
    store.close()
    assert mapped(path)
    assert_right([view])
    del view
    assert not mapped(path)


def test_this_process_opens_the_store_again_while_it_has_views_of_before(path):
    store = filled(path)
    for i in range(20):
        views = all_kinds(store)
        store.close()
        store = open_store(path)
        assert not store.stats().recovered_from_crash
        store[b"other"] = b"%d" % i
    assert_right(views)
    store[b"k"] = b"new"
    assert_right(views)
    store.close()
    assert_right(views)


def test_a_snapshot_keeps_memory_mapped_but_reads_no_more(path, run):
    store = filled(path)
    held = [store.latest(), iter(store.items()), iter(store.history(b"k")), iter(store.diff(0, "first"))]
    store.close()
    assert mapped(path)
    run(WRITER, path)
    for iterator in held[1:]:
        with pytest.raises(icecore.ClosedError):
            next(iterator)
    with pytest.raises(icecore.ClosedError):
        held[0][b"k"]
    del held, iterator
    assert not mapped(path)


def test_what_was_copied_out_before_close_needs_no_memory(path):
    store = filled(path)
    _, values = store.at(tag="first").to_columns()
    items, found = dict(store), store.find_many([b"k", b"nope"])
    store.close()
    assert not mapped(path)
    assert items[b"k"] == found[0] == bytes(values.bytes[-len(OLD) - 5 : -5]) == OLD


def test_views_alone_do_not_keep_a_store_open(path, run):
    """Without close(), the store is closed with the last object that can read it."""
    store = filled(path)
    views, snapshot, iterator = all_kinds(store), store.latest(), iter(store)
    del store
    gc.collect()
    assert snapshot[b"small"] == b"small"
    del snapshot
    assert list(iterator) == [b"array", b"k", b"small"]
    del iterator
    gc.collect()
    run(WRITER, path)
    assert_right(views)
    del views
    assert not mapped(path)
    with open_store(path) as again:
        assert not again.stats().recovered_from_crash


@pytest.mark.parametrize("closes", [True, False])
def test_cycles_let_the_memory_go_when_they_are_collected(path, closes):
    class Node:
        pass

    store = filled(path)
    gc.disable()
    try:
        node = Node()
        node.itself = node
        node.held = [store, store.latest(), iter(store), *all_kinds(store)]
        node.held.append(node.held)
        if closes:
            store.close()
        del node, store
        assert mapped(path)
        gc.collect()
    finally:
        gc.enable()
    assert not mapped(path)
    with open_store(path) as again:
        assert not again.stats().recovered_from_crash


def test_threads_let_views_go_while_another_closes(path):
    filled(path).close()
    for _ in range(30):
        store = open_store(path, "r")
        started = threading.Barrier(5)
        shared = [store.view(b"k") for _ in range(1000)]
        wrong = []

        def let_go(store=store, started=started, shared=shared, wrong=wrong):
            own = [np.frombuffer(store.view(b"k"), np.uint8) for _ in range(500)]
            copies = [memoryview(view) for view in shared[::4]]
            started.wait()
            with contextlib.suppress(IndexError):  # they take turns until nothing is left
                while True:
                    view = shared.pop()
                    if view[-1] != 255 or own[0][-1] != 255:
                        wrong.append(view)
                    if own[1:]:
                        own.pop()
                    view.release()
            for copy in copies:
                copy.release()

        threads = [threading.Thread(target=let_go) for _ in range(4)]
        for thread in threads:
            thread.start()
        started.wait()
        store.close()
        for thread in threads:
            thread.join()
        del thread, threads, let_go, shared
        assert not wrong
        assert not mapped(path)


def test_finds_and_iterators_that_close_interrupts_give_right_answers_or_refuse(path):
    """Copying a large value lets other threads run: the store may be closed before the next one is copied."""
    pairs = {b"%03d" % i: b"%03d" % i * (10_000 if i % 2 else 10) for i in range(300)}
    with open_store(path) as store:
        store.update(pairs)
    versions = [0] * len(pairs)
    reads = [
        lambda store: dict(store.items()),
        lambda store: {key: store[key] for key in pairs},
        lambda store: {key: bytes(store.view(key)) for key in pairs},
        lambda store: dict(zip(pairs, store.find_many(list(pairs)))),
        lambda store: dict(zip(pairs, store.find_many(list(pairs), at=versions))),
        lambda store: dict(zip(pairs, store.latest().to_numpy()[1].tolist())),
    ]
    for read in reads * 3:
        store = open_store(path, "r")
        versions[:] = [store.latest().version] * len(pairs)
        started, wrong = threading.Event(), []

        def go_on(store=store, read=read, started=started, wrong=wrong):
            with contextlib.suppress(icecore.ClosedError):
                while True:
                    if read(store) != pairs:
                        wrong.append(read)
                    started.set()

        reading = threading.Thread(target=go_on)
        reading.start()
        assert started.wait(60)
        store.close()
        reading.join()
        del go_on, reading
        assert not wrong
        assert not mapped(path)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_the_views_of_its_parent(path, run):
    store = filled(path)
    views = all_kinds(store)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(writing)
            os.read(reading, 1)  # the parent has closed the store, and another process has written
            assert_right(views)
            store.close()
            with open_store(path) as again:
                again[b"child"] = b"was here"
                assert_right(views)
            assert_right(views)
            code = 0
        finally:
            os._exit(code)
    os.close(reading)
    try:
        store.close()
        run(WRITER, path)
        assert_right(views)
    finally:
        os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert_right(views)
    del views
    assert not mapped(path)
    with open_store(path, "r") as again:
        assert again[b"child"] == b"was here"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_lets_its_views_go_and_the_parent_keeps_its_own(path):
    store = filled(path)
    views = all_kinds(store)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert_right(views)
            del views, store
            gc.collect()
            assert not mapped(path)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert_right(views)
    store[b"after"] = b"the child"
    store.close()
    assert_right(views)
    with open_store(path) as again:
        assert not again.stats().recovered_from_crash


@pytest.mark.parametrize("end", ["closed", "open", "dropped"])
def test_views_that_are_alive_at_exit_do_no_harm(path, run, end):
    filled(path).close()
    reported = run(
        """
        import icecore, numpy, os, sys, threading
        store = icecore.open(sys.argv[1], emulate_durability=True)
        view = store.view(b"k")
        class Late:
            def __init__(self, view):
                self.view = view
            def __del__(self, write=os.write):  # what has a name in a module is gone by then
                write(1, b"%d %d " % (self.view.nbytes, self.view[255]))
        cycle = Late(view)
        cycle.itself = cycle
        sys.late = [numpy.frombuffer(view, numpy.uint8), store.get_array(b"array"), Late(view), cycle]
        del cycle
        kept = threading.local()
        kept.view = store.view(b"small")
        snapshot, iterator, history = store.latest(), iter(store), store.history(b"k").views()
        next(history)
        def read():
            own = store.view(b"k")
            while bytes(own)[255] == 255:
                pass
        for _ in range(3):
            threading.Thread(target=read, daemon=True).start()
        if sys.argv[2] == "closed":
            store.close()
        elif sys.argv[2] == "dropped":
            del store, snapshot, iterator, history
        """,
        path,
        end,
    )
    assert reported.split() == ["256000", "255"] * 2
    with open_store(path) as again:
        assert not again.stats().recovered_from_crash
        assert again[b"k"] == OLD
