"""Help, version, pipes that close, progress, bench."""

import json
import os
import pty
import re
import select
import subprocess
import time

import pytest
from conftest import PROJECT, command, dump_of, filled, insert, lines, run

VERBS = ("put", "get", "del", "scan", "tag", "log", "history", "diff", "stat", "verify", "dump", "load", "bench")


def test_version_is_that_of_the_project():
    version = re.search(r"^project\(icecore VERSION ([0-9.]+)", (PROJECT / "CMakeLists.txt").read_text(), re.MULTILINE)
    assert run("--version").stdout.decode().split() == ["icecore", version[1]]


def test_help_lists_every_verb_and_the_exit_codes():
    text = run("--help").stdout.decode()
    assert all(f"\n  {verb} " in text for verb in VERBS)
    assert "Exit codes" in text


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb_has_examples_that_it_understands(verb):
    options, examples = run(verb, "--help").stdout.decode().split("Examples:\n")
    assert f"  icecore {verb}" in examples
    used = set()
    for command_line in re.findall(rf"icecore {verb} ([^|#\n]*)", examples):
        used |= set(re.findall(r"(?<=\s)(--?[a-z][a-z-]*|-0)(?=[\s=]|$)", command_line))
    known = set(re.findall(r"(?<=[\s,])(--?[a-z][a-z-]*|-0)(?=[\s,]|$)", options))
    assert used <= known, used - known


def test_a_wrong_verb_says_how_to_get_help():
    assert b"icecore --help" in run("frobnicate", code=2).stderr


@pytest.mark.parametrize(
    "verb", [("scan",), ("scan", "-o", "json"), ("dump",), ("get", "0"), ("diff", "0", "--values")]
)
def test_a_closed_pipe_ends_quietly(store, verb):
    filled(store, {str(i).encode(): b"v" * 1_000_000 for i in range(3)})
    with subprocess.Popen(
        [command(), verb[0], store, *verb[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reader:
        reader.stdout.read(10)
        reader.stdout.close()
        assert reader.stderr.read() == b""
        assert reader.wait() == 0


def read_terminal(parent, seconds):
    out = b""
    end = time.monotonic() + seconds
    while time.monotonic() < end and select.select([parent], [], [], 0.05)[0]:
        try:
            out += os.read(parent, 65536)
        except OSError:  # all was read, and the other side is closed
            break
    return out


def load_slowly(store, stderr):
    """A load that takes more than a second because its input does."""
    text = dump_of(2, [insert(1, str(i).encode(), b"value") for i in range(10)]).splitlines(keepends=True)
    with subprocess.Popen(
        [command(), "load", store], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr
    ) as load:
        for line in text[:6]:
            load.stdin.write(line)
        load.stdin.flush()
        time.sleep(1.2)
        for line in text[6:]:
            load.stdin.write(line)
            load.stdin.flush()
            time.sleep(0.15)
        load.stdin.close()
        assert load.wait() == 0


def test_what_takes_over_a_second_shows_progress_on_a_terminal(store):
    parent, child = pty.openpty()
    load_slowly(store, child)
    os.close(child)
    shown = read_terminal(parent, 2)
    os.close(parent)
    assert b"loading [" in shown and b" %" in shown and b"records/s" in shown and b"left" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_progress_is_never_shown_elsewhere(store, tmp_path):
    with open(tmp_path / "stderr", "wb") as file:
        load_slowly(store, file)
    assert (tmp_path / "stderr").read_bytes() == b""


def test_bench_measures_every_operation_and_removes_its_store(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = lines("bench", "--keys", "2000", "--threads", "2", "--durability", "none", "-o", "json")
    assert [r["operation"].split()[0] for r in found] == [
        "insert,",
        "find",
        "find_many",
        "snapshot",
        "remove,",
        "reopen",
    ]
    assert all(r["seconds"] > 0 and r["keys"] == 2000 and r["threads"] == 2 for r in found)
    assert all(r["operations_per_second"] > 0 for r in found if r["operation"].split()[0] not in ("snapshot", "reopen"))
    assert os.listdir(tmp_path) == []
    assert b"M/s" in run("bench", "--keys", "100", "--durability", "none").stdout


def test_bench_never_touches_a_store_that_is_there(store):
    filled(store, {b"key": b"value"})
    run("bench", "--keys", "100", "--path", store, code=3)
    assert run("get", store, "key").stdout == b"value"


def test_json_output_is_one_object_a_line(store):
    filled(store, {b"key": b"value"})
    for verb in (("scan",), ("stat",), ("verify",), ("get", "key"), ("history", "key")):
        out = run(verb[0], store, *verb[1:], "-o", "json").stdout
        assert out.endswith(b"\n") and isinstance(json.loads(out), dict)
