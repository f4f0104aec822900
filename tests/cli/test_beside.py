"""Verbs that read a store while another process writes it."""

import subprocess
import time
from pathlib import Path

from conftest import command, filled, lines, run


def test_every_verb_that_reads_shows_what_the_process_that_writes_has_closed(store, tmp_path):
    filled(store, {b"key": b"old"})
    run("tag", store, "one")
    run("put", store, "key", "new")
    run("tag", store, "two")
    dumped = run("dump", store).stdout
    loaded = str(tmp_path / "loaded.ice")
    loading = loaded + ".loading"
    with subprocess.Popen([command(), "load", loaded], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        # all but the line that ends the dump: the writer waits for it, with the store open
        writer.stdin.write(b"".join(dumped.splitlines(keepends=True)[:-1]))
        writer.stdin.flush()
        deadline = time.monotonic() + 60
        while run("get", loading, "key", "--at", "tag:two", code=None).returncode != 0:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert run("get", loading, "key").stdout == b"new"
        assert run("get", loading, "key", "--at", "tag:one").stdout == b"old"
        assert b"one" in run("log", loading).stdout and b"two" in run("log", loading).stdout
        assert b"key" in run("scan", loading).stdout
        assert b"old" in run("history", loading, "key").stdout
        assert b"key" in run("diff", loading, "one", "two", code=1).stdout
        assert b"keys" in run("stat", loading).stdout
        assert run("dump", loading).stdout.count(b"\n") > 3
        copy = str(tmp_path / "copy.ice")
        run("checkpoint", loading, copy)
        assert run("get", copy, "key", "--at", "tag:one").stdout == b"old"
        assert run("put", loading, "key", "x", code=None).returncode == 4
        writer.stdin.close()
        writer.wait()


def test_a_reader_that_never_locks_keeps_no_writer_out(store):
    filled(store, {b"%06d" % i: b"v" * 100 for i in range(5000)})  # more than a pipe holds: the scan waits for us
    for option in ([], ["--never-locks"]):
        with subprocess.Popen([command(), "scan", store, *option], stdout=subprocess.PIPE) as reader:
            assert reader.stdout.readline() == b"000000\t" + b"v" * 100 + b"\n"
            written = run("put", store, "new", "value", code=None)
            assert written.returncode == (0 if option else 4), written.stderr
            shown = reader.stdout.read()
        assert reader.returncode == 0 and shown.count(b"\n") == 4999 and b"new" not in shown
    assert run("get", store, "new", "--never-locks").stdout == b"value"
    refused = run("get", store, "new", "--never-locks", "--accept-damage", code=2).stderr
    assert b"--never-locks" in refused and b"--accept-damage" in refused


class Writing:
    """A process that has the store open for writing: `icecore shell --write`."""

    def __init__(self, store):
        self.store = store
        self.times = 0
        self.shell = subprocess.Popen(
            [command(), "shell", "--write", store], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.shell.stdin.close()
        assert self.shell.wait(timeout=60) == 0 or what[0]

    def does(self, *lines):
        """Returns when all of them are done, and a tag behind them is shown."""
        self.times += 1
        self.shell.stdin.write("\n".join((*lines, f"tag done-{self.times}", "")).encode())
        self.shell.stdin.flush()
        deadline = time.monotonic() + 60
        while f"done-{self.times}".encode() not in run("log", self.store, "--never-locks").stdout:
            assert self.shell.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)


def test_what_checks_and_counts_works_beside_the_writer(store):
    filled(store, {b"key %d" % i: b"value-%d;" % i for i in range(100)})
    run("tag", store, "one")
    with Writing(store) as writer:
        writer.does("put more x", "tag two", "query start some \"value ~ '7'\" --at one --run")
        assert b"no damage" in run("verify", store).stdout
        told = lines("verify", store, "-o", "json")[-1]
        assert told["ok"] and told["records"] == 101 and told["tags"] == 3 and told["queries"] == 1
        counted = lines("compact", store, "--dry-run", "-o", "json")[0]
        assert counted["records"] == 101 and counted["up_to"] == 4 and not counted["packed"]
        assert b"nothing expires" in run("expire", store, "--dry-run").stdout
        for verb in ("compact", "expire"):
            assert run(verb, store, code=4).stderr
        assert b"open for writing by process" in run("repair", store, store + ".new", code=4).stderr
        damaged = Path(store).read_bytes().find(b"value-50;")
        with open(store, "r+b") as file:
            file.seek(damaged)
            file.write(b"X")
        assert b"damaged places" in run("verify", store, code=6).stdout
        with open(store, "r+b") as file:
            file.seek(damaged)
            file.write(b"v")
    assert lines("verify", store, "-o", "json")[-1]["ok"]


def test_kept_queries_and_feeds_are_read_beside_the_writer(store):
    filled(store, {b"key %d" % i: b"value %d" % i for i in range(20)})
    run("tag", store, "one")
    with Writing(store) as writer:
        writer.does(
            "query start sevens \"value ~ '7'\" --at one --run", "feed mirror --after 0 --snapshot", "put late x", "tag two"
        )
        listed = lines("query", "list", store, "-o", "json")
        assert [(q["name"], q["state"], q["rows"]) for q in listed] == [("sevens", "finished", 2)]
        assert b"finished" in run("query", "show", store, "sevens").stdout
        assert run("query", "results", store, "sevens").stdout == b"key 17\tvalue 17\nkey 7\tvalue 7\n"
        assert lines("feed", store, "--list", "-o", "json")[0]["name"] == "mirror"
        feed = subprocess.run([command(), "feed", store, "--after", "one", "--unsynced"], capture_output=True, check=True)
        assert b"late" in feed.stdout and b"key 1" not in feed.stdout and b"--token" in feed.stderr
        refused = run("feed", store, "mirror", code=4).stderr
        assert b"--list" in refused and b"--after" in refused and b"--attach" in refused
        assert run("query", "drop", store, "sevens", code=4).stderr
        writer.does("query drop sevens")
        assert run("query", "list", store, "-o", "json").stdout == b""


def test_holds_are_shown_beside_the_writer(store):
    filled(store, {b"key": b"value"})
    run("hold", store, "paper")
    with Writing(store) as writer:
        writer.does("put key new")
        assert lines("holds", store, "-o", "json")[0]["name"] == "paper"
        assert run("retention", store).stdout == b"all versions\nversion 1, held as 'paper'\n"
        assert b"  holds               version 1, as 'paper'\n" in run("stat", store).stdout
        assert lines("stat", store, "-o", "json")[0]["oldest_held"] == 1
        copy = store + ".copy"
        run("checkpoint", store, copy)
    assert run("holds", copy, "-o", "json").stdout == b"", "a checkpoint that a reader took has none"
