"""Each class of failure has its exit code and a message that says what, where and what to do."""

import os
import subprocess

import pytest
from conftest import command, filled, run, tag, wait_for


def message(*arguments, code, **options):
    text = run(*arguments, code=code, **options).stderr.decode()
    assert text.startswith("icecore") and text.endswith("\n") and text.count("\n") == 1
    return text


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("fly",),
        ("get",),
        ("get", "store"),
        ("scan", "store", "--limit", "many"),
        ("scan", "store", "-o", "xml"),
        ("put", "store", "key"),
        ("put", "store", "key", "value", "--file", "file"),
        ("put", "store", "key", "value", "more"),
        ("get", "store", "key", "--at", "1", "--at-time", "2024-01-01"),
        ("put", "store", "k", "v", "--durability", "much"),
        ("put", "--hex", "store", "0", "00"),
        ("put", "--hex", "store", "0g", "00"),
        ("load", "store", "--ref", "main"),
        ("load", "store", "file", "--git", "repository"),
        ("diff", "store"),
        ("bench", "--keys", "0"),
    ],
)
def test_2_is_a_command_line_that_cannot_be_understood(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message(*arguments, code=2)
    assert os.listdir(tmp_path) == []


def test_2_is_an_argument_out_of_range(store):
    assert "65535" in message("put", store, "k" * 65_536, "value", code=2).replace(",", "")
    run("put", store, "key", "value")
    assert "2024-13-01" in message("get", store, "key", "--at-time", "2024-13-01", code=2)
    for time in ("yesterday", "2024-02-30", "2024-01-01T25:00", "@", "2024-01-01T00:00:00+99:00", "2024-01-01x", ""):
        run(
            "tag", store, "name", f"--time={time}" if time else "--time", *([] if time else [""]), code=2 if time else 0
        )


@pytest.mark.parametrize(
    "verb",
    [
        ("get", "key"),
        ("del", "key"),
        ("scan",),
        ("tag",),
        ("log",),
        ("history", "key"),
        ("diff", "1"),
        ("stat",),
        ("verify",),
        ("dump",),
    ],
)
def test_3_is_a_store_that_is_not_there(store, verb):
    assert store in message(verb[0], store, *verb[1:], code=3)
    assert not os.path.exists(store)


def test_3_is_a_file_that_is_no_store(tmp_path):
    path = tmp_path / "text"
    path.write_text("This is no store. " * 10_000)
    before = path.read_bytes()
    for verb in (("get", "key"), ("put", "key", "value"), ("stat",), ("verify",), ("load",)):
        assert str(path) in message(verb[0], path, *verb[1:], code=3)
    assert path.read_bytes() == before
    message("scan", tmp_path, code=3)


def test_4_is_a_store_that_another_process_writes(store):
    loading = store + ".loading"
    with subprocess.Popen([command(), "load", store], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        wait_for(loading)
        # The last one, a second load of the same store, does not destroy what the first is making.
        for args in (("put", loading, "key", "value"), ("compact", loading), ("load", store)):
            # The file exists a moment before it is locked, and is locked a moment before it tells by whom.
            for _ in range(100):
                done = run(*args, code=None)
                if str(writer.pid) in done.stderr.decode():
                    break
            assert done.returncode == 4 and str(writer.pid) in done.stderr.decode(), (args, done)
        writer.stdin.close()
        assert writer.wait() == 10
    assert not os.path.exists(loading) and not os.path.exists(store)


def test_5_is_damage_met_on_the_way(store):
    filled(store, {b"key": b"a value that will be damaged"})
    with open(store, "r+b") as file:
        file.seek(file.read().index(b"a value that will be damaged"))
        file.write(b"A")
    assert store in message("get", store, "key", code=5)
    message("dump", store, code=5)


def test_5_is_a_store_that_was_cut_off(store):
    filled(store, {str(i).encode(): b"x" * 1000 for i in range(1000)})
    os.truncate(store, os.path.getsize(store) // 2)
    message("scan", store, code=5)
    run("verify", store, code=6)


def test_7_is_a_device_without_space(store):
    filled(store, {b"key": b"v" * 100_000})
    with open("/dev/full", "wb") as full:
        done = subprocess.run([command(), "scan", store], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 7 and b"standard output" in done.stderr


def test_7_is_a_store_that_cannot_grow(tmp_path):
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", tmp_path], capture_output=True, check=False
    ).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        store = tmp_path / "store.ice"
        run("put", store, "small", "value")
        assert "store.ice" in message("put", store, "large", "-", stdin=b"v" * 5_000_000, code=7)
        assert run("get", store, "small").stdout == b"value"
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=False)


def test_7_is_a_file_that_may_not_grow(store):
    run("put", store, "small", "value")
    limited = ["sh", "-c", 'ulimit -f 4096 && exec "$@"', "sh", command(), "put", store, "large", "-"]
    done = subprocess.run(limited, input=b"v" * 5_000_000, capture_output=True, check=False)
    assert done.returncode == 7 and b"store.ice" in done.stderr
    assert run("get", store, "small").stdout == b"value"


def test_what_ended_a_session_is_said_of_any_store(store):
    filled(store, {b"key": b"value"})
    for crash in ("process", "machine"):
        assert run("get", store, "key", "--crash", crash).stdout == b"value"
        run("put", store, "other", "value", "--crash", crash)
        run("checkpoint", store, f"{store}.{crash}", "--crash", crash)
        run("repair", store, f"{store}.{crash}-repaired", "--crash", crash)
    assert "--crash" in message("get", store, "key", "--crash", "unknown", code=2)


def test_8_is_a_durability_that_the_device_cannot_give(tmp_path):
    if (
        subprocess.run(["stat", "-f", "-c", "%T", "/dev/shm"], capture_output=True, check=False).stdout.strip()
        != b"tmpfs"
    ):
        pytest.skip("/dev/shm is no memory file system")
    store = f"/dev/shm/icecore-test-{os.getpid()}.ice"
    try:
        assert "durab" in message("put", store, "key", "value", "--durability", "operation", code=8)
        assert not os.path.exists(store)
        # Told before the dump is read, which is none.
        assert "durab" in message("load", store, "--durability", "tag", stdin=b"no dump", code=8)
        assert not os.path.exists(store) and not os.path.exists(store + ".loading")
        run("put", store, "key", "value", "--durability", "operation", "--emulate-durability")
        run("put", store, "key", "value", "--durability", "none")
        run("put", store, "key", "value", "--durability", "best")
        assert run("get", store, "key").stdout == b"value"
    finally:
        if os.path.exists(store):
            os.remove(store)


def test_9_is_a_file_that_cannot_be_read(store, tmp_path):
    assert "nothing-here" in message("put", store, "key", "--file", tmp_path / "nothing-here", code=9)
    message("load", store, tmp_path / "nothing-here", code=9)
    assert not os.path.exists(store)
    run("put", store, "key", "value")
    message("dump", store, "--output", tmp_path / "no" / "folder", code=9)


def test_10_is_input_that_cannot_be_understood(store):
    assert "standard input, line 1" in message("load", store, stdin=b"hello\n", code=10)
    assert not os.path.exists(store)


def test_11_is_a_version_or_tag_that_does_not_exist(store):
    filled(store, {b"key": b"value"}, tags=[tag(1, "name")])
    for at in ("nothing", "tag:1", str(2**48), str(2**70), "-1", "NAME", "name "):
        assert "icecore log" in message("scan", store, f"--at={at}", code=11)
    assert "no version 9 yet; the newest is 2" in message("scan", store, "--at=9", code=11)
    message("diff", store, "1", "nothing", code=11)
    message("get", store, "key", "--at-time", "1969-01-01", code=11)
    assert "name" in message("tag", store, "name", code=11)
