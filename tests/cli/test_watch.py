"""watch: changes as they happen, beside the processes that write."""

import json
import signal
import subprocess
import threading
import time

from conftest import command, dump_of, filled, insert, lines, run, tag, to_bytes


class watching:
    """A watch that runs, and what it has printed so far."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [command(), "watch", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def await_line(self, wanted):
        deadline = time.monotonic() + 60
        while not any(wanted in line for line in self.lines):
            assert time.monotonic() < deadline, (wanted, self.lines)
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.01)

    def await_word(self, wanted):
        """On standard error."""
        line = self.process.stderr.readline()
        assert wanted in line, line

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end(signal.SIGKILL)


def test_it_shows_what_writers_change_that_come_and_go(store):
    run("put", store, "before", "x")
    run("tag", store, "begin")
    with watching(store, "--since", "begin") as seen:
        run("put", store, "layer1/a", "1")
        seen.await_line("+\tlayer1/a\t1")
        run("put", store, "layer1/a", "2")
        run("tag", store, "epoch-1")
        seen.await_line("#\tepoch-1")
        run("del", store, "layer1/a")
        seen.await_line("-\tlayer1/a")
        assert seen.end(signal.SIGINT) == 130
    changes = [line.split("\t")[1:] for line in seen.lines]
    assert changes == [
        ["+", "layer1/a", "1"],
        ["+", "layer1/a", "2"],
        ["#", "epoch-1"],
        ["-", "layer1/a", ""],
    ]
    versions = [int(line.split("\t")[0]) for line in seen.lines]
    assert versions == sorted(versions)


def test_it_shows_what_a_process_closes_that_keeps_the_store_open(store, tmp_path):
    # `load` keeps its store open until its standard input ends
    keys = [insert(v, b"key %d" % v, b"value") for v in range(1, 20)]
    dump = dump_of(21, [line for v, key in enumerate(keys, 1) for line in (key, tag(v, f"tag {v}"))])
    loaded = str(tmp_path / "loaded.ice")
    with subprocess.Popen([command(), "load", loaded], stdin=subprocess.PIPE) as writer:
        writer.stdin.write(b"".join(dump.splitlines(keepends=True)[:-1]))
        writer.stdin.flush()
        with watching(loaded + ".loading", "key 1", "--since", "0", "-o", "json") as seen:
            seen.await_line("key 19")
            writer.stdin.write(dump.splitlines(keepends=True)[-1])
            writer.stdin.close()
            assert writer.wait() == 0
            assert seen.end() == 130
    told = [json.loads(line) for line in seen.lines]
    keys = [to_bytes(each["key"]) for each in told if "key" in each]
    assert keys == [b"key %d" % v for v in (1, *range(10, 20))]
    assert [each["version"] for each in told if "key" in each] == [1, *range(10, 20)]


def test_it_goes_on_when_the_store_was_packed(store):
    run("put", store, "a", "1")
    with watching(store, "--since", "0") as seen:
        seen.await_line("+\ta\t1")
        for turn in range(2):
            run("compact", store)
            run("put", store, f"b{turn}", "2")
            run("tag", store, f"epoch-{turn}")
            seen.await_line(f"#\tepoch-{turn}")
        assert seen.end(signal.SIGINT) == 130
    changes = [line.split("\t")[1:] for line in seen.lines]
    assert changes == [
        ["+", "a", "1"],
        ["+", "b0", "2"],
        ["#", "epoch-0"],
        ["+", "b1", "2"],
        ["#", "epoch-1"],
    ]


def test_a_script_asks_once(store):
    filled(store, {b"a": b"1", b"b": b"2"}, clock=3, tags=[tag(1, "one")])
    run("put", store, "c", "3")
    assert [to_bytes(c["key"]) for c in lines("watch", store, "--since", "one", "--once", "--json")] == [b"c"]
    told = lines("watch", store, "--since", "0", "--once", "--json")
    assert [(t.get("key"), t.get("tag")) for t in told] == [("a", None), ("b", None), (None, "one"), ("c", None)]
    assert run("watch", store, "--since", "0", "--once", "--max", "1").stdout == b"1\t+\ta\t1\n"
    assert run("watch", store, "b", "--since", "0", "--once", "-o", "csv").stdout == (
        b"version,change,key,value\n1,insert,b,2\n"
    )
    assert run("watch", store, "62", "--hex-key", "--since", "0", "--once").stdout == b"1\t+\t62\t2\n1\t#\tone\n"
    assert run("watch", store, "--since", "0", "--once", "--where", "value = '2'").stdout.startswith(b"1\t+\tb\t2\n")
    assert run("watch", store, "--once", code=1).stdout == b""
    assert run("watch", store, "--timeout", "0", code=1).stdout == b""


def test_it_waits_for_a_store_that_is_not_there_yet(store):
    with watching(store, "--since", "0", "--max", "1") as seen:
        seen.await_word("no store there")
        run("put", store, "a", "1")
        seen.reader.join(timeout=60)
        assert seen.process.wait(timeout=60) == 0
    assert seen.lines == ["1\t+\ta\t1"]
    assert b"no store there" in run("watch", store + ".none", "--once", code=3).stderr


def test_what_cannot_be_is_refused(store, tmp_path):
    run("put", store, "a", "1")
    assert b"no version or tag" in run("watch", store, "--since", "none", "--once", code=11).stderr
    assert b"--timeout" in run("watch", store, "--once", "--timeout", "1", code=2).stderr
    broken = tmp_path / "broken.ice"
    broken.write_bytes(b"no store" * 20000)
    assert b"not an icecore store" in run("watch", str(broken), "--once", code=3).stderr


def test_it_ends_when_its_reader_ends(store):
    run("put", store, "a", "1")
    process = subprocess.Popen([command(), "watch", store], stdout=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(timeout=60) == 0
