"""Views into the store: no copies, read-only, and alive for as long as anybody looks at them."""

import ctypes
import gc
import threading

import numpy as np
import pytest
from conftest import open_store

import icecore


def address(buffer):
    return np.frombuffer(buffer, np.uint8).ctypes.data


def test_a_view_is_a_read_only_memoryview_of_the_value(store):
    store[b"k"] = b"value"
    view = store.view(b"k")
    assert type(view) is memoryview
    assert view.readonly
    assert view == b"value"
    with pytest.raises(TypeError):
        view[0] = 0
    with pytest.raises(ValueError, match="WRITEABLE|read-only"):
        np.frombuffer(view, np.uint8).flags.writeable = True
    store[b"empty"] = b""
    assert bytes(store.view(b"empty")) == b""


def test_views_of_one_value_are_the_same_memory(store):
    store[b"k"] = b"x" * 100_000
    v = store.tag()
    places = {address(m) for m in (store.view(b"k"), store.view(b"k", v), store.at(v).view(b"k"))}
    places |= {address(c.value) for c in store.history(b"k").views()}
    places |= {address(d.after) for d in store.diff(0, v).views()}
    assert len(places) == 1
    assert store[b"k"] is not store[b"k"]


def test_missing_keys_have_no_view(store):
    v = store.tag()
    for read in (store.view, store.at(v).view, store.get_array, lambda k: store.view(k, v)):
        with pytest.raises(KeyError):
            read(b"nope")


def test_a_view_never_changes(store):
    store[b"k"] = b"old"
    view = store.view(b"k")
    for i in range(1000):
        store[b"k"] = b"new %d" % i
    del store[b"k"]
    store.tag()
    assert view == b"old"


def test_views_outlive_close_and_the_last_one_lets_the_file_go(path):
    store = open_store(path)
    store[b"k"] = b"v" * 50_000
    first, second = store.view(b"k"), np.frombuffer(store.view(b"k"), np.uint8)[10:20]
    store.close()
    assert store.closed
    assert first == b"v" * 50_000
    assert second.tobytes() == b"v" * 10
    with pytest.raises(icecore.LockedError, match=r"this process closed it, but 2 views"):
        open_store(path)
    del first
    with pytest.raises(icecore.LockedError, match=r"1 views"):
        open_store(path)
    assert second.tobytes() == b"v" * 10
    del second
    with open_store(path) as again:
        assert again[b"k"] == b"v" * 50_000
        assert not again.stats().recovered_from_crash


def test_a_store_that_is_dropped_without_close_stays_for_its_views_and_snapshots(path):
    store = open_store(path)
    store[b"k"] = b"value"
    view, snapshot, iterator = store.view(b"k"), store.latest(), iter(store)
    del store
    gc.collect()
    assert view == b"value"
    assert snapshot[b"k"] == b"value"
    assert list(iterator) == [b"k"]
    del view, snapshot, iterator
    gc.collect()
    with open_store(path) as again:
        assert not again.stats().recovered_from_crash


def test_everything_but_views_refuses_a_closed_store(path):
    store = open_store(path)
    store.update({b"%d" % i: b"v" for i in range(100)})
    store.tag("t")
    snapshot, iterator, history = store.latest(), iter(store.items()), iter(store.history(b"1"))
    next(iterator)
    diff = iter(store.diff(0, "t"))
    view = store.view(b"1")  # keeps the memory, so that a use of it would not crash but lie
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
    """A call that runs without the GIL keeps the memory mapped until it is done: no crash, and a right or no answer."""
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


@pytest.mark.filterwarnings("ignore:nanobind")
def test_objects_made_without_init_are_refused():
    for made, use in [
        (icecore.Store, lambda s: s[b"k"]),
        (icecore.Store, lambda s: s.__setitem__(b"k", b"v")),
        (icecore.Store, lambda s: s.find(b"k")),
        (icecore.Snapshot, lambda s: b"k" in s),
    ]:
        with pytest.raises(TypeError):
            use(made.__new__(made))


def test_a_view_can_be_read_through_any_buffer_consumer(store):
    store[b"k"] = b"abcdef"
    view = store.view(b"k")
    assert bytes(view[1:3]) == b"bc"
    assert int.from_bytes(view, "big") == int.from_bytes(b"abcdef", "big")
    assert ctypes.string_at(address(view), 6) == b"abcdef"
    store[b"copy"] = view
    assert store[b"copy"] == b"abcdef"
