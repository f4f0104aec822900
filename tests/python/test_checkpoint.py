"""Checkpoints: a store as it was at one instant, in a file of its own, while others write."""

import os
import threading

import pytest
from conftest import open_store

import icecore


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("store.ice") as opened:
        opened[b"a"] = b"1"
        opened.tag("one")
        opened[b"a"] = b"2"
        yield opened


def test_a_checkpoint_is_a_store_with_every_version_and_tag(store):
    assert store.checkpoint("copy.ice") == 2
    store[b"a"] = b"3"
    with icecore.open("copy.ice", "r") as copy:
        assert copy[b"a"] == b"2" and copy.at(tag="one")[b"a"] == b"1"
        assert copy.clock == 3 and copy.tags() == store.tags()
    with icecore.open("copy.ice", "r+") as copy:  # goes on by itself
        copy[b"a"] = b"4"
        assert copy.verify().ok
    assert store[b"a"] == b"3"


def test_an_untouched_version_stays_open(store):
    assert store.checkpoint(b"first.ice") == 2
    assert store.checkpoint("second.ice") == 2 and store.clock == 3
    with icecore.open("second.ice", "r") as copy:
        assert copy.checkpoint("third.ice") == 2
    assert icecore.verify_file("third.ice").ok


def test_of_a_store_that_is_read_the_open_version_stays_open(store):
    store.close()
    with icecore.open("store.ice", "r") as reading:
        assert reading.clock == 2 and reading.checkpoint("copy.ice") == 1
    with icecore.open("copy.ice", "r") as copy:
        assert copy.clock == 2 and copy[b"a"] == b"2"


def test_nothing_is_replaced_and_nothing_is_left_behind(store):
    store.checkpoint("copy.ice")
    with open("copy.ice", "rb") as file:
        before = file.read()
    os.symlink("nothing.ice", "link.ice")
    for taken in ("copy.ice", "store.ice", ".", "link.ice"):
        with pytest.raises(icecore.StoreExistsError):
            store.checkpoint(taken)
    with pytest.raises(icecore.StorageError):
        store.checkpoint("nowhere/copy.ice")
    with pytest.raises(icecore.InvalidArgumentError, match="NUL"):
        store.checkpoint("a\0b")
    with pytest.raises(TypeError):
        store.checkpoint(5)
    with open("copy.ice", "rb") as file:
        assert file.read() == before
    assert sorted(os.listdir()) == ["copy.ice", "link.ice", "store.ice"]


def test_a_closed_store_has_no_checkpoints(store):
    store.close()
    with pytest.raises(icecore.ClosedError):
        store.checkpoint("copy.ice")
    assert not os.path.exists("copy.ice")


def test_progress_is_reported_and_what_it_raises_comes_out(store):
    reported = []
    store.checkpoint("copy.ice", on_progress=lambda *what: reported.append(what))
    assert reported and reported[-1][1] == reported[-1][2] == os.path.getsize("copy.ice") and reported[-1][3] == "bytes"

    def fail(*what):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        store.checkpoint("other.ice", fail)


def test_others_write_while_it_is_written(store):
    """The call would wait for ever if it kept writers waiting."""
    wrote = threading.Event()

    def write():
        store[b"later"] = b"1"
        wrote.set()

    def on_progress(*what):
        if not wrote.is_set():
            threading.Thread(target=write).start()
            assert wrote.wait(60)

    store.checkpoint("copy.ice", on_progress)
    assert wrote.is_set() and store[b"later"] == b"1"
    with icecore.open("copy.ice", "r") as copy:
        assert b"later" not in copy
