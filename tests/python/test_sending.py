"""Stores open for reading, and snapshots, in other processes: pickled for spawned ones, inherited by forked ones."""

import copy
import gc
import multiprocessing
import os
import pickle
from pathlib import Path

import pytest
from conftest import open_store

import icecore

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
METHODS = ("spawn", "fork")


@pytest.fixture
def filled(path):
    with open_store(path) as store:
        store.update({f"{i:03}": str(i) for i in range(100)})
        store.tag("first")
        store["000"] = "changed"
        store.tag("second")
    return path


class Rows:
    """As a data set of a data loader is: made in one process, read in others."""

    def __init__(self, source):
        self.source = source

    def __getitem__(self, i):
        return os.getpid(), self.source[f"{i:03}"]


def row(asked):
    rows, i = asked
    return rows[i]


def read_in_process(source, key, told):
    told.put((os.getpid(), source[key]))


@pytest.mark.parametrize("method", METHODS)
def test_workers_read_what_they_are_sent(filled, method):
    with open_store(filled, "r") as store, multiprocessing.get_context(method).Pool(2) as pool:
        for source, first in ((store, b"changed"), (store.at("first"), b"0"), (store.at("first")["000":"050"], b"0")):
            rows = Rows(source)
            read = pool.map(row, [(rows, i) for i in range(50)], chunksize=5)
            assert [value for _, value in read] == [first, *(b"%d" % i for i in range(1, 50))]
            assert os.getpid() not in {pid for pid, _ in read}
        assert store["001"] == b"1"


@pytest.mark.parametrize("method", METHODS)
def test_a_process_reads_what_it_was_started_with(filled, method):
    context = multiprocessing.get_context(method)
    with open_store(filled, "r") as store:
        for source, expected in ((store, b"changed"), (store.at("first"), b"0")):
            told = context.Queue()
            process = context.Process(target=read_in_process, args=(source, "000", told))
            process.start()
            pid, value = told.get(timeout=60)
            process.join(60)
            assert (pid, value, process.exitcode) == (process.pid, expected, 0)
            assert source["000"] == expected, "the parent goes on"


@pytest.mark.parametrize("method", METHODS)
def test_snapshots_of_the_writer_are_read_beside_it(path, method):
    with open_store(path) as store:
        store["k"] = "1"
        then = store.latest()
        store["k"] = "2"
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.apply(dict, (then,)) == {b"k": b"1"}
        told = multiprocessing.get_context(method).Queue()
        process = multiprocessing.get_context(method).Process(target=read_in_process, args=(then, "k", told))
        process.start()
        assert told.get(timeout=20) == (process.pid, b"1")
        process.join(60)
        store["k"] = "3"
        assert then["k"] == b"1" and store["k"] == b"3"


def test_what_is_sent_is_opened_at_the_first_use(filled, tmp_path):
    with open_store(filled, "r") as store:
        sent = [pickle.dumps(one) for one in (store, store.latest(), store.latest()["001":"003"])]
    aside = tmp_path / "aside"
    filled.rename(aside)
    whole, latest, part = map(pickle.loads, sent)
    assert not whole.closed and Path(whole.path) == filled and part.bounds == (b"001", b"003")
    for use in (lambda: whole["000"], lambda: len(latest), lambda: list(part)):
        with pytest.raises(icecore.NoSuchStoreError):
            use()
    aside.rename(filled)
    assert whole["000"] == latest["000"] == b"changed"
    assert list(part.items()) == [(b"001", b"1"), (b"002", b"2")] and len(part) == 2
    assert whole.read_only and whole.at("first")["000"] == b"0"
    whole.close()
    with pytest.raises(icecore.ClosedError):
        whole["000"]
    assert latest["000"] == b"changed", "snapshots have a store of their own"
    never_used = pickle.loads(sent[0])
    never_used.close()
    with pytest.raises(icecore.ClosedError):
        never_used["000"]


def test_every_way_of_reading_opens_a_snapshot_that_was_sent(filled):
    with open_store(filled, "r") as store:
        sent = pickle.dumps(store.at("first"))
    for read in (
        lambda s: s["000"],
        lambda s: s.get("000"),
        lambda s: bytes(s.view("000")),
        lambda s: s.find_many(["000"])[0],
        lambda s: next(iter(s.values())),
        lambda s: next(iter(s[:"001"].values())),
        lambda s: next(iter(s.history("000"))).value,
        lambda s: s.to_numpy()[1][0],
        lambda s: s.to_columns().values.bytes.tobytes()[:1],
        lambda s: s.find_many(["000"], "S1")[0][0],
        lambda s: next(iter(s.where("true")))[1],
        lambda s: {"first": b"0"}[s.tag.name],
        lambda s: {True: b"0"}["000" in s and len(s) == 100],
    ):
        assert read(pickle.loads(sent)) == b"0"
        gc.collect()


def test_options_and_working_directory_go_with_it(filled, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(filled.parent)
    with icecore.open(filled.name, "r", lookup_cache_bytes=0, recovery_threads=1) as store:
        sent = pickle.dumps(store)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    again = pickle.loads(sent)
    assert again["000"] == b"changed"
    assert again._opening.options["lookup_cache_bytes"] == 0
    again.close()


def test_snapshots_that_were_sent_share_one_opening(filled):
    with open_store(filled, "r") as store:
        first, second = pickle.loads(pickle.dumps((store.at("first"), store.at("second"))))
    assert first._source is second._source
    assert first["000"] == b"0" and second["000"] == b"changed"


def test_a_store_open_for_writing_is_not_sent_and_says_what_to_send(store):
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="open for writing .*Send a Snapshot of it, or its path"):
            act(store)
    then = store.latest()
    assert copy.copy(then) is then and copy.deepcopy([then])[0] is then


def test_a_snapshot_of_a_shared_store_is_not_sent(path, tmp_path):
    shared = "/dev/shm/" + tmp_path.name + str(os.getpid())
    with open_store(path, index="persistent", shared_as=shared), icecore.open(path, "attached", shared_as=shared) as other:
        for one in (other, other.latest()):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(one)


def test_what_cannot_be_opened_now_is_an_error_at_the_first_use_and_is_tried_again(filled):
    with open_store(filled, "r", beside_writer=False) as store:
        sent = pickle.loads(pickle.dumps(store))
    with open_store(filled), pytest.raises(icecore.LockedError):
        sent["001"]
    assert sent["001"] == b"1"


@pytest.mark.parametrize("index", ["btree", "persistent"])
def test_a_forked_child_reads_snapshots_of_the_writer_beside_it(path, index):
    with open_store(path, index=index) as store:
        store.update({f"{i:03}": str(i) for i in range(100)})
        first = store.latest()
        store["000"] = "changed"
        second, part = store.latest(), store.latest()["001":"003"]
        reads = (
            lambda: first["000"] == b"0" and second["000"] == b"changed",
            lambda: first.find_many(["000"]) == [b"0"],
            lambda: first.find_many(["000"], "S1")[0][0] == b"0",
            lambda: list(part) == [b"001", b"002"],
            lambda: first.where("key = '000'").count() == 1,
            lambda: [change.value for change in second.history("000")] == [b"changed", b"0"],
            lambda: first.tag is None and len(first) == 100,
            lambda: len(first.to_numpy()[0]) == 100,
        )
        for read in reads:
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    code = 0 if read() else 2
                    with pytest.raises(icecore.ForkedError):
                        store["000"]
                    grandchild = os.fork()
                    if grandchild == 0:
                        os._exit(0 if read() else 3)
                    code = code or os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1])
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        store["000"] = "again"
        assert first["000"] == b"0" and store.verify().ok


def test_a_forked_child_reads_what_was_open_for_reading(filled):
    with open_store(filled, "r") as store:
        then, view = store.at("first"), store.view("001")
        found, iterator = store.latest().where("true"), iter(store)
        next(iterator)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                assert store["000"] == b"changed" and then["000"] == b"0" and then.to_numpy()[1][0] == b"0"
                assert bytes(view) == b"1" and len(store) == found.count() == len(list(found)) == 100
                with pytest.raises(icecore.ForkedError):
                    next(iterator)
                store.close()
                with pytest.raises(icecore.ClosedError):
                    then["000"]
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert store["000"] == b"changed" and found.count() == 100 and next(iterator) == b"001"
    with open_store(filled) as store:  # the child left no lock
        store["k"] = "v"
