"""Verbs that read a store while another process writes it."""

import subprocess
import time

from conftest import command, filled, run


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
