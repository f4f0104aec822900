"""Reading beside the process that writes."""

import pickle
import subprocess
import sys
import time

import pytest

import icecore

WRITER = """
import sys, icecore
store = icecore.open(sys.argv[1], index=sys.argv[2])
for line in sys.stdin:
    what, *words = line.split()
    if what == "insert":
        store[words[0].encode()] = words[1].encode()
    elif what == "tag":
        store.tag(*words)
    elif what == "compact":
        store.compact()
    print("done", flush=True)
"""


class Writer:
    def __init__(self, path, index="btree"):
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), index], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.mark.parametrize("index", ["btree", "persistent"])
def test_a_reader_shows_what_another_process_has_closed(tmp_path, index):
    path = tmp_path / "written.ice"
    with Writer(path, index) as writer:
        writer.do("insert a 1")
        writer.do("tag one")
        writer.do("insert a 2")
        with icecore.open(path, "r") as store:
            assert store.beside_writer and store.read_only
            assert dict(store.items()) == {b"a": b"1"}
            then = store.at(tag="one")
            writer.do("tag two")
            assert store.refresh() == 2
            assert store[b"a"] == b"2" and then[b"a"] == b"1"
            assert [tag.name for tag in store.tags()] == ["one", "two"]
            writer.do("insert b 3")
            writer.do("tag")
            deadline = time.monotonic() + 60
            while store.refresh() < 3:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert store[b"b"] == b"3"
            with pytest.raises(icecore.ReadOnlyError):
                store[b"c"] = b"4"
            writer.process.kill()
            writer.process.wait()
            assert store.refresh() == 3 and store[b"b"] == b"3"
    with icecore.open(path) as store:
        assert not store.beside_writer and store[b"b"] == b"3"


@pytest.mark.parametrize("index", ["btree", "persistent"])
def test_a_reader_goes_on_with_what_is_packed(tmp_path, index):
    path = tmp_path / "packed.ice"
    with Writer(path, index) as writer:
        writer.do("insert a 1")
        writer.do("tag one")
        with icecore.open(path, "r") as reader:
            one = reader.at(tag="one")
            for packed in range(3):
                writer.do(f"insert b {packed}")
                writer.do("compact")
                writer.do(f"insert c {packed}")
                writer.do(f"tag packed-{packed}")
                reader.refresh()
                assert reader.at(tag=f"packed-{packed}")["c"] == str(packed).encode()
                assert dict(reader.items()) == {b"a": b"1", b"b": str(packed).encode(), b"c": str(packed).encode()}
                assert reader.stats().strata > 0
                assert dict(one.items()) == dict(reader.at(tag="one").items()) == {b"a": b"1"}


def test_a_reader_can_ask_to_be_alone(tmp_path):
    path = tmp_path / "written.ice"
    with Writer(path) as writer:
        writer.do("tag one")
        with pytest.raises(icecore.LockedError):
            icecore.open(path, "r", beside_writer=False)


def test_a_reader_that_never_locks_keeps_no_writer_out(tmp_path):
    path = tmp_path / "written.ice"
    with icecore.open(path) as store:
        store["a"] = "1"
    with icecore.open(path, "r"), pytest.raises(icecore.LockedError):
        icecore.open(path)
    with icecore.open(path, "r", never_locks=True) as reader:
        assert reader["a"] == b"1"
        with icecore.open(path) as store:
            store["a"] = "2"
            store.tag("two")
            assert reader["a"] == b"1"
            reader.refresh()
            assert reader["a"] == b"2"
        again = pickle.loads(pickle.dumps(reader))
        assert again["a"] == b"2"
        with icecore.open(path) as store:  # what was sent never locks either
            store["a"] = "3"
        again.close()
    with pytest.raises(icecore.InvalidArgumentError, match="never locks"):
        icecore.open(path, "r", never_locks=True, accept_damage=True)
