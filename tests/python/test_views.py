"""Views into the store: no copies, and read-only. test_closing.py is about how long they live."""

import ctypes

import numpy as np
import pytest

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
