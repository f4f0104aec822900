"""Arrays that are too long for one value: pieces, which nobody who uses put_array and get_array sees."""

import os
import re
import threading

import numpy as np
import pytest
from conftest import open_store

from icecore import array_pieces


@pytest.fixture
def small(monkeypatch):
    """Values have at most 1,000 bytes, pieces 300."""
    monkeypatch.setattr(array_pieces, "VALUE_BYTES_MAX", 1_000)
    monkeypatch.setattr(array_pieces, "PIECE_BYTES", 300)


LONG = [
    np.arange(5_000, dtype="<u2"),
    np.arange(1_200, dtype="<f4").reshape(30, 40),
    np.asfortranarray(np.arange(1_200, dtype="<f8").reshape(3, 20, 20)),
    np.arange(6_000, dtype="<i4").reshape(60, 100)[::2, ::5],
    np.zeros(100, [("a", "<f8"), ("b", "S9")]),
]


@pytest.mark.parametrize("array", LONG, ids=range(len(LONG)))
def test_an_array_in_pieces_comes_back(store, small, array):
    assert store.put_array("long", array) == store.clock
    assert len(store) == 1 + -(-array.nbytes // 300)
    for found in (store.get_array("long"), store.latest().get_array(b"long"), store.get_array("long", store.latest())):
        assert np.array_equal(found, array)
        assert (found.dtype, found.flags.f_contiguous) == (array.dtype, array.flags.f_contiguous)
        assert not found.flags.writeable


def test_the_longest_value_is_one_value(store, small):
    header = len(store.view("one")) - 8 if store.put_array("one", np.zeros(1)) else 0
    most = 1_000 - header
    store.put_array("most", np.zeros(most, np.uint8))
    assert len(store.view("most")) == 1_000
    store.put_array("more", np.zeros(most + 1, np.uint8))
    assert len(store.view("more")) < 300
    assert store.get_array("more").shape == (most + 1,)


def test_each_version_keeps_its_array(store, small):
    versions = []
    for number in range(4):
        store.put_array("a", np.full((number + 1) * 700, number, "<u4"))
        versions.append(store.tag())
    store.put_array("a", np.arange(3))
    versions.append(store.tag())
    assert [store.get_array("a", at)[0] for at in versions[:4]] == [0, 1, 2, 3]
    assert [store.at(at).get_array("a").size for at in versions[:4]] == [700, 1_400, 2_100, 2_800]
    assert store.get_array("a").tolist() == [0, 1, 2]
    assert list(store) == [b"a"], "pieces of what was replaced are removed"


def test_an_array_in_pieces_is_there_after_reopening(path, small):
    array = np.arange(4_000.0)
    with open_store(path, durability="tag") as store:
        store.put_array("a", array)
        store.tag()
    with open_store(path) as store:
        assert np.array_equal(store.get_array("a"), array)


def test_a_batch_puts_all_pieces_at_one_instant(store, small):
    with store.batch() as batch:
        batch.put_array("a", np.arange(1_000))
        assert len(batch) == 1 + 27
        assert "a" not in store
    assert np.array_equal(store.get_array("a"), np.arange(1_000))


def test_states_of_models_have_long_arrays(store, small):
    store.save_state("model", {"weight": np.arange(900.0)})
    store.save_state("model", {"weight": np.arange(901.0)})
    assert np.array_equal(store.load_state("model")["weight"], np.arange(901.0))


def test_a_piece_that_is_missing_or_of_another_size_is_named(store, small):
    store.put_array("a", np.arange(500))
    piece = array_pieces.told_by(store.view("a")).keys(b"a")[2]
    whole = store[piece]
    store[piece] = whole + b"x"
    said = f"array of 'a' is not whole: piece 2 of 14, key {piece!r}, has 301 bytes and not 300"
    with pytest.raises(ValueError, match=re.escape(said)):
        store.get_array("a")
    del store[piece]
    with pytest.raises(ValueError, match="piece 2 of 14.*is not there; put it again"):
        store.get_array("a")
    store[piece] = whole
    assert np.array_equal(store.get_array("a"), np.arange(500))


def test_a_value_that_claims_pieces_it_has_not_takes_no_memory(store, small):
    store["a"] = array_pieces.Pieces(b"n" * 16, 2**40, 2**60, b"").value()
    with pytest.raises(ValueError, match="piece 0 of 1048576.*is not there"):
        store.get_array("a")
    store["b"] = array_pieces.Pieces(b"n" * 16, 1, 2**63, b"").value()
    with pytest.raises(ValueError, match="not an array that put_array stored"):
        store.get_array("b")
    with pytest.raises(KeyError):
        store.get_array("nothing")


def test_pieces_that_are_no_array_are_refused(store, small):
    store.put_array("a", np.arange(500))
    pieces = array_pieces.told_by(store.view("a"))
    store["a"] = pieces._replace(header=pieces.header.replace(b"(500,)", b"(501,)")).value()
    with pytest.raises(ValueError, match="the pieces of 'a' are not an array that put_array stored: its 4000 bytes"):
        store.get_array("a")


def test_a_reader_never_sees_half_of_an_array(store, small):
    store.put_array("a", np.full(1_000, 0))
    wrong, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            found = store.get_array("a")
            if found.min() != found.max() or found.size != 1_000:
                wrong.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(100):
            store.put_array("a", np.full(1_000, number))
    finally:
        stop.set()
        reader.join()
    assert not wrong


def test_a_key_without_room_for_a_number_is_refused(store, small):
    with pytest.raises(ValueError, match="65,?535"):
        store.put_array(b"k" * 65_530, np.arange(1_000))
    store.put_array(b"k" * 65_514, np.arange(1_000))
    assert np.array_equal(store.get_array(b"k" * 65_514), np.arange(1_000))


@pytest.mark.skipif("ICECORE_LONG_ARRAYS" not in os.environ, reason="takes 5 GB of disk and 10 of memory")
def test_an_array_of_more_than_4_gib(path):
    array = np.arange(2**29 + 12_345, dtype="<u8")
    assert array.nbytes > 2**32
    with open_store(path, durability="tag") as store:
        store.put_array("a", array)
        store.tag()
    with open_store(path) as store:
        assert len(store) == 1 + 5
        assert np.array_equal(store.get_array("a"), array)
