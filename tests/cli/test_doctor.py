"""doctor: what the machine, and the place of a store, can give."""

import json
import os
import subprocess

import pytest
from conftest import command, filled, lines, run

PARTS = (
    "file system",
    "free space",
    "DAX",
    "huge pages",
    "NUMA",
    "size of files",
    "address space",
    "open files",
    "MPI",
)


def findings(*arguments, code=0):
    done = run("doctor", *arguments, "--json", code=code)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for one in found:
        assert one["light"] in ("green", "yellow", "red") and one["found"]
        # Whatever is not good comes with what to do about it.
        assert one["light"] == "green" or one["advice"], one
    return {one["part"]: one for one in found}


def limited(limit, *arguments):
    shell = ["sh", "-c", f'ulimit {limit} && exec "$@"', "sh", command(), "doctor", *arguments, "--json"]
    done = subprocess.run(shell, capture_output=True, check=False)
    return {one["part"]: one for one in map(json.loads, done.stdout.splitlines())}


def test_every_part_is_told_and_nothing_stays(tmp_path):
    found = findings(tmp_path)
    assert all(part in found for part in PARTS)
    assert os.listdir(tmp_path) == []
    free = os.statvfs(tmp_path)
    kind = found["file system"]["found"].split()[0]
    assert filesystem_of(tmp_path).startswith(kind[:3])  # stat says ext2/ext3 of ext4
    assert (free.f_bavail * free.f_frsize > 100e6) == (found["free space"]["light"] == "green")


def filesystem_of(path):
    done = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_the_page_says_in_words_what_the_colours_say(store, tmp_path):
    filled(store, {b"key": b"value"})
    text = run("doctor", store).stdout.decode()
    told = findings(store)
    for part, one in told.items():
        assert any(line.startswith(one["light"]) and part in line for line in text.splitlines()), part
    assert "\x1b" not in text and "0 red" in text and len(text.splitlines()) < 50
    coloured = run("doctor", store, "--color", "always").stdout.decode()
    assert "\x1b[32mgreen \x1b[0m" in coloured


def test_a_store_is_opened_and_stays_as_it_is(store):
    filled(store, {b"a": b"1", b"b": b"2"})
    with open(store, "rb") as file:
        before = file.read()
    assert "2 keys, 2 records" in findings(store)["store"]["found"]
    with open(store, "rb") as file:
        assert file.read() == before
    assert "icecore put makes one" in findings(store + ".none")["store"]["found"]


def test_what_is_no_store_or_a_damaged_one_is_red(store, tmp_path):
    (tmp_path / "text").write_text("no store " * 1000)
    assert findings(tmp_path / "text", code=1)["store"]["light"] == "red"
    filled(store, {b"key": b"a value that will be damaged"})
    with open(store, "r+b") as file:
        file.seek(file.read().index(b"a value that will be damaged"))
        file.write(b"A")
    found = findings(store, code=1)["store"]
    assert found["light"] == "red" and "icecore repair" in found["advice"]


def test_a_folder_that_is_not_there_is_red(tmp_path):
    assert findings(tmp_path / "no" / "store.ice", code=1)["file system"]["light"] == "red"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_red(tmp_path):
    os.chmod(tmp_path, 0o500)
    assert findings(tmp_path, code=1)["permission"]["light"] == "red"


def test_a_device_that_is_full_is_red(tmp_path):
    mounted = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        (tmp_path / "filler").write_bytes(b"x" * 65_536)
        found = findings(tmp_path, code=1)
        assert found["free space"]["light"] == "yellow" and found["writing a store"]["light"] == "red"
        assert os.listdir(tmp_path) == ["filler"]
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=False)


def test_a_memory_file_system_cannot_keep_anything():
    if filesystem_of("/dev/shm") != "tmpfs":
        pytest.skip("/dev/shm is no memory file system")
    found = findings("/dev/shm")
    assert found["file system"]["light"] == found["medium"]["light"] == "yellow"
    assert found["durability tag"]["light"] == found["durability operation"]["light"] == "yellow"
    assert "huge pages of memory files" in found


def test_the_modes_are_those_that_put_accepts(tmp_path):
    found = findings(tmp_path)
    for mode in ("tag", "operation"):
        done = run("put", tmp_path / f"{mode}.ice", "k", "v", "--durability", mode, code=None)
        assert (done.returncode == 0) == (found[f"durability {mode}"]["light"] == "green")
    best = lines("stat", tmp_path / "tag.ice", "--json")[0]["durability"]["best"]
    assert f"the best mode is {best}" in found["medium"]["found"]


def test_limits_are_told(tmp_path):
    assert limited("-f 100000", tmp_path)["size of files"]["light"] == "yellow"
    assert limited("-n 200", tmp_path)["open files"]["light"] == "yellow"
    assert limited("-n 2000", tmp_path)["open files"]["found"] == "2,000"
    assert limited("-v 100000000", tmp_path)["address space"]["light"] == "yellow"
    cores = len(os.sched_getaffinity(0))
    assert f"this process may use {cores} of" in findings(tmp_path)["NUMA"]["found"]
    one = subprocess.run(["taskset", "-c", "0", command(), "doctor", tmp_path], capture_output=True, check=True)
    assert b"may use 1 of" in one.stdout


def test_huge_pages_are_as_the_kernel_says(tmp_path):
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    found = findings(tmp_path)["huge pages"]
    if not os.path.exists(path):
        assert found["light"] == "yellow"
        return
    with open(path, encoding="ascii") as file:
        chosen = file.read().split("[")[1].split("]")[0]
    assert found["found"].startswith(chosen) and (found["light"] == "yellow") == (chosen == "never")
