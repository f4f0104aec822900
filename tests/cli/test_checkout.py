"""checkout: the keys of a version as files below a folder, and nothing anywhere else."""

import json
import os

import pytest
from conftest import filled, items, lines, run


def message(*arguments, code):
    text = run(*arguments, code=code).stderr.decode()
    assert text.startswith("icecore") and text.endswith("\n") and text.count("\n") == 1
    return text


def tree_of(folder):
    found = []
    for root, _, names in os.walk(os.fsencode(folder)):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                found.append((os.path.relpath(path, os.fsencode(folder)), file.read()))
    return sorted(found)


def everything_below(folder):
    return sorted(os.path.join(root, name) for root, folders, names in os.walk(folder) for name in folders + names)


def test_each_key_is_a_file(store, tmp_path, rng):
    names = [
        b"a",
        b"a.b",
        b"d/e",
        b"d/f/g",
        b"d-",
        b"\xff\n",
        "ü".encode(),
        b" ",
        b"-x",
        b"..a",
        b"a..",
        b"d/...",
        b"z" * 255,
    ]
    wanted = {name: rng.randbytes(rng.choice([0, 3, 5000])) for name in names}
    filled(store, wanted)
    told = lines("checkout", store, tmp_path / "out", "--json")[0]
    assert told["files"] == len(names) and told["bytes"] == sum(map(len, wanted.values())) and told["passed_over"] == 0
    assert tree_of(tmp_path / "out") == items(store) == sorted(wanted.items())


def test_any_version_and_part_is_checked_out(store, tmp_path):
    for value in ("one", "two"):
        run("put", store, "a/x", value)
        run("put", store, "b/x", value)
        run("tag", store, value)
    run("checkout", store, tmp_path / "one", "--at", "one")
    assert tree_of(tmp_path / "one") == [(b"a/x", b"one"), (b"b/x", b"one")]
    run("checkout", store, tmp_path / "part", "--at", "latest~1", "--prefix", "b/")
    assert tree_of(tmp_path / "part") == [(b"b/x", b"one")]
    assert b"2 files of version" in run("checkout", store, tmp_path / "two").stdout


UNFIT = [
    (b"../escaped", "a part of it is .."),
    (b"a/../../escaped", "a part of it is .."),
    (b"..", "a part of it is .."),
    (b".", "a part of it is ."),
    (b"a/./b", "a part of it is ."),
    (b"/etc/escaped", "it begins with /"),
    (b"a//b", "two slashes in a row"),
    (b"a/", "it ends with /"),
    (b"", "it is empty"),
    (b"a\0b", "a zero byte"),
    (b"n" * 256, "a part of it has 256 bytes"),
    (b"ab/" * 2000 + b"c", "a path at most"),
    (b"file/inner", "the key 'file' is a file"),
    (b"file/x/deep", "the key 'file' is a file"),
    (b".icecore-checkout", "being written"),
]


@pytest.mark.parametrize("key, why", UNFIT)
def test_a_key_that_cannot_be_a_file_ends_the_checkout_before_anything_is_written(store, tmp_path, key, why):
    filled(store, {key: b"bad", b"file": b"good", b"last": b"good"})
    before = everything_below(tmp_path)
    text = message("checkout", store, tmp_path / "out", code=2)
    assert why in text and "nothing was written" in text
    assert everything_below(tmp_path) == before
    done = run("checkout", store, tmp_path / "out", "--skip-unfit", "--json", code=1)
    assert json.loads(done.stdout)["passed_over"] == 1 and why.encode() in done.stderr
    assert tree_of(tmp_path / "out") == [(b"file", b"good"), (b"last", b"good")]
    assert everything_below(tmp_path) == sorted(
        [*before, *(str(tmp_path / p) for p in ("out", "out/file", "out/last"))]
    )


def test_a_file_and_a_folder_of_one_name_are_found_when_others_are_between(store, tmp_path):
    filled(store, {b"a": b"1", b"a-": b"2", b"a.b/c": b"3", b"a/b": b"4", b"a/c": b"5", b"b": b"6"})
    assert "and 1 others" in message("checkout", store, tmp_path / "out", code=2)
    run("checkout", store, tmp_path / "part", "--prefix", "a/")  # without the key 'a' there is no clash
    assert tree_of(tmp_path / "part") == [(b"a/b", b"4"), (b"a/c", b"5")]


def test_files_that_are_there_stay_unless_they_are_to_be_replaced(store, tmp_path):
    filled(store, {b"a": b"new", b"d/e": b"new", b"z": b"new"})
    os.makedirs(tmp_path / "out" / "d")
    (tmp_path / "out" / "d" / "e").write_text("old")
    (tmp_path / "out" / "other").write_text("other")
    assert "--force" in message("checkout", store, tmp_path / "out", code=2)
    assert tree_of(tmp_path / "out") == [(b"d/e", b"old"), (b"other", b"other")]
    run("checkout", store, tmp_path / "out", "--force")
    assert tree_of(tmp_path / "out") == [(b"a", b"new"), (b"d/e", b"new"), (b"other", b"other"), (b"z", b"new")]


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_no_symbolic_link_leads_out(store, tmp_path, force):
    filled(store, {b"link/file": b"bad"})
    os.mkdir(tmp_path / "elsewhere")
    os.mkdir(tmp_path / "out")
    os.symlink(tmp_path / "elsewhere", tmp_path / "out" / "link")
    assert "symbolic link" in message("checkout", store, tmp_path / "out", *force, code=2)
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(store, tmp_path):
    filled(store, {b"file": b"new"})
    (tmp_path / "precious").write_text("precious")
    os.mkdir(tmp_path / "out")
    os.symlink(tmp_path / "precious", tmp_path / "out" / "file")
    os.symlink(tmp_path / "precious", tmp_path / "out" / ".icecore-checkout")
    message("checkout", store, tmp_path / "out", code=2)
    run("checkout", store, tmp_path / "out", "--force")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not os.path.islink(tmp_path / "out" / "file") and (tmp_path / "out" / "file").read_bytes() == b"new"


def test_what_is_in_the_way_is_named(store, tmp_path):
    filled(store, {b"a/b": b"1", b"c": b"2"})
    (tmp_path / "file").write_text("no folder")
    assert "file" in message("checkout", store, tmp_path / "file", code=9)
    os.makedirs(tmp_path / "out" / "c")
    assert "a folder of this name" in message("checkout", store, tmp_path / "out", "--force", code=2)
    os.rmdir(tmp_path / "out" / "c")
    (tmp_path / "out" / "a").write_text("no folder")
    assert "is no folder" in message("checkout", store, tmp_path / "out", "--force", code=2)
    assert "no/such" in message("checkout", store, tmp_path / "no" / "such", code=9)
