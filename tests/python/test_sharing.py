"""One open store, several processes: shared_as and the mode "attached"."""

import multiprocessing
import os
import signal

import pytest

import icecore

WORKERS, KEYS = 4, 200


@pytest.fixture
def common():
    path = f"/dev/shm/icecore-python-{os.getpid()}"
    yield path
    if os.path.exists(path):
        os.remove(path)


def fill(path, common, worker):
    with icecore.open(path, "attached", shared_as=common) as store:
        for i in range(KEYS):
            store[f"{worker} {i}".encode()] = b"value"
            assert store[f"{worker} {i}".encode()] == b"value"
        with store.batch() as batch:
            batch[f"batch {worker}".encode()] = b"whole"
            batch[b"of all"] = str(worker).encode()
        assert b"from the first" in store.latest()


def write_until_killed(path, common, ready):
    store = icecore.open(path, "attached", shared_as=common)
    i = 0
    while True:
        store[f"endless {i}".encode()] = b"value"
        i += 1
        if i == 100:
            ready.set()


def test_processes_read_and_write_at_once_and_a_killed_one_stops_none(path, common):
    spawn = multiprocessing.get_context("spawn")
    with icecore.open(path, "x", index="persistent", shared_as=common) as store:
        store[b"from the first"] = b"value"
        ready = spawn.Event()
        killed = spawn.Process(target=write_until_killed, args=(path, common, ready))
        killed.start()
        assert ready.wait(60)
        os.kill(killed.pid, signal.SIGKILL)
        killed.join()
        workers = [spawn.Process(target=fill, args=(path, common, n)) for n in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0] * WORKERS
        for n in range(WORKERS):
            assert sum(key.startswith(f"{n} ".encode()) for key in store) == KEYS
            assert store[f"batch {n}".encode()] == b"whole"
        assert store[b"endless 99"] == b"value" and store[b"of all"] in b"0123"
        store.tag("together")
        assert store.verify().ok
    assert not os.path.exists(common), "it goes with the store that was shared"
    with icecore.open(path, "r") as store:
        assert store.stats().recovered_instantly and len(store.at(tag="together")) > WORKERS * KEYS


def test_what_is_the_first_ones_alone_is_refused_and_closing_is_reported(path, common):
    with icecore.open(path, "x", index="persistent", shared_as=common) as store:
        other = icecore.open(path, "attached", shared_as=common)
        with pytest.raises(icecore.InvalidArgumentError, match="attached"):
            other.pause_compaction()
        store.tag("the first one's", note="told")
        assert [(tag.name, tag.note) for tag in other.tags()] == [("the first one's", "told")]
        other.tag("the other's")
        other.sync()
        with pytest.raises(icecore.TagExistsError):
            store.tag("the other's")
        assert [tag.name for tag in store.tags()] == ["the first one's", "the other's"]
        assert other.verify().ok
        assert other.stats().tags == store.stats().tags == 2
        assert "<table" in other._repr_html_()
        store[b"k"] = b"v"
        assert other[b"k"] == b"v"
    with pytest.raises(icecore.ClosedError):
        other[b"k"]
    other.close()


def test_an_attached_process_has_the_store_packed(path, common):
    with icecore.open(path, "x", shared_as=common) as store:
        store[b"k"] = b"v"
        other = icecore.open(path, "attached", shared_as=common)
        told = []
        report = other.compact(on_progress=lambda *said: told.append(said))
        assert report.packed and report.records == 1 and told
        assert other[b"k"] == store[b"k"] == b"v"
        assert store.stats().packed_records == 1

        def fails(*said):
            raise KeyError("its own")

        other[b"k"] = b"w"
        with pytest.raises(KeyError, match="its own"):
            other.compact(on_progress=fails)
        with pytest.raises(icecore.InvalidArgumentError, match="compression_level"):
            other.compact(compression_level=0)
        other.close()


def test_what_cannot_be_shared_or_attached_to_is_refused(path, common):
    with pytest.raises(icecore.InvalidArgumentError, match="shared_as"):
        icecore.open(path, "attached")
    with pytest.raises(icecore.NoSuchStoreError):
        icecore.open(path, "attached", shared_as=common)
    with pytest.raises(icecore.InvalidArgumentError, match="for writing"):
        icecore.open(path, "r", shared_as=common)
    with pytest.raises(icecore.InvalidArgumentError, match="not one of 'r', 'r\\+', 'a', 'x', 'attached'"):
        icecore.open(path, "attach")
