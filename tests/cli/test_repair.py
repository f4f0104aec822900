"""repair, verify and reading of damaged stores."""

import os

import pytest
from conftest import dump_of, filled, insert, items, lines, remove, run, tag


def damage(store, text):
    """Flips a bit in the only place where the store has this."""
    with open(store, "r+b") as file:
        content = file.read()
        assert content.count(text) == 1
        file.seek(content.index(text))
        file.write(bytes([text[0] ^ 1]))


@pytest.fixture
def damaged(store):
    """A store in which the value "changed" of the key b, in version 2, is damaged."""
    contents = [insert(1, key, b"first " + key) for key in (b"a", b"b", b"c")]
    contents += [tag(1, "one"), insert(2, b"b", b"changed"), remove(2, b"c"), tag(2, "two")]
    contents += [insert(4, b"b", b"newest"), insert(4, b"d", b"new")]
    run("load", store, stdin=dump_of(5, contents))
    damage(store, b"changed")
    return store


def test_a_sound_store_repairs_to_an_equal_one(store, tmp_path):
    filled(store, {str(i).encode(): b"value %d" % i for i in range(100)}, tags=[tag(1, "name", 5, "note")])
    new = tmp_path / "new.ice"
    assert b"nothing is lost" in run("repair", store, new).stdout
    assert run("dump", new).stdout == run("dump", store).stdout
    assert lines("repair", store, tmp_path / "other.ice", "-o", "json")[-1]["complete"] is True


def test_what_is_lost_is_named_and_the_rest_is_there(damaged, tmp_path):
    new = tmp_path / "new.ice"
    before = open(damaged, "rb").read()
    reported = lines("repair", damaged, new, "-o", "json", code=6)
    assert open(damaged, "rb").read() == before
    lost = [line["lost"] for line in reported if "lost" in line]
    assert [(one["key"], one["version"]) for one in lost] == [("b", 2)]
    assert [line["unknown"] for line in reported if "unknown" in line] == [{"key": "b", "first": 2, "last": 3}]
    assert reported[-1]["complete"] is False and reported[-1]["records"] == 6 and reported[-1]["clock"] == 5
    run("verify", new)
    assert items(new, "--at=1") == [(b"a", b"first a"), (b"b", b"first b"), (b"c", b"first c")]
    assert items(new, "--at=two") == [(b"a", b"first a")]
    assert items(new) == [(b"a", b"first a"), (b"b", b"newest"), (b"d", b"new")]


def test_verify_names_key_version_and_place(damaged):
    reported = lines("verify", damaged, "-o", "json", code=6)
    place = open(damaged, "rb").read().index(b"bhanged")
    (found,) = [line["damage"] for line in reported if "damage" in line]
    assert (found["key"], found["version"]) == ("b", 2) and place - 64 <= found["offset"] <= place
    assert "versions 2 to 3" in found["what"]


def test_a_table_shows_the_same(damaged, tmp_path):
    text = run("repair", damaged, tmp_path / "new.ice", code=6).stdout.decode()
    assert "Lost:" in text and "1 losses" in text and "are unknown" in text


def test_a_damaged_store_is_read_only_when_that_is_accepted(damaged):
    for verb in (("get", "a"), ("scan",), ("log",), ("history", "a"), ("diff", "1"), ("stat",), ("dump",)):
        run(verb[0], damaged, *verb[1:], code=5)
    accept = "--accept-damage"
    assert run("get", damaged, "a", accept).stdout == b"first a"
    assert run("get", damaged, "b", accept).stdout == b"newest"
    assert run("get", damaged, "b", "--at=1", accept).stdout == b"first b"
    failed = run("get", damaged, "b", "--at=two", accept, code=5)
    assert b"'b'" in failed.stderr and b"version 2" in failed.stderr
    for verb in (("scan", "--at=two"), ("history", "b"), ("dump",), ("diff", "1", "two")):
        run(verb[0], damaged, *verb[1:], accept, code=5)
    assert len(lines("log", damaged, accept, "-o", "json")) == 2
    run("stat", damaged, accept)
    run("scan", damaged, accept)


def test_a_new_store_never_takes_the_place_of_anything(damaged, tmp_path):
    for taken in (damaged, tmp_path):
        assert b"exists already; a repaired store needs a new path" in run("repair", damaged, taken, code=3).stderr
    run("repair", tmp_path / "nothing.ice", tmp_path / "new.ice", code=3)
    assert os.listdir(tmp_path) == [os.path.basename(damaged)]


def test_a_copy_of_an_open_store_is_read_when_that_is_accepted(store, tmp_path):
    filled(store, {b"key": b"value"})
    assert run("get", store, "key", "--accept-copy").stdout == b"value"


def test_a_store_of_several_files_is_reported_and_each_damage_names_its_file(tmp_path):
    store, secondary = tmp_path / "store.ice", tmp_path / "secondary.ice"
    run("put", store, "a", "value of a", "--placement", secondary, "--placement", f"{store}@0")
    # every verb but these is one thread's: the first file has all but what a loader of many threads writes
    reported = lines("stat", store, "-o", "json")
    assert [line["file"]["path"] for line in reported[1:]] == [str(store), str(secondary)]
    assert reported[1]["file"]["node"] == 0 and "node" not in reported[2]["file"]
    assert run("get", store, "a").stdout == b"value of a"
    assert b"is file 2 of 2 of a store" in run("get", secondary, "a", code=3).stderr

    moved = tmp_path / "moved.ice"
    os.rename(secondary, moved)
    assert b"secondary.ice: file 2 of the store" in run("get", store, "a", code=5).stderr
    assert [line["damage"]["file"] for line in lines("verify", store, "-o", "json", code=6)[:-1]] == [str(secondary)]
    assert run("get", store, "a", "--placement", moved).stdout == b"value of a"
    assert lines("verify", store, "--placement", moved, "-o", "json")[-1]["ok"]
    run("put", store, "b", "2", "--placement", moved)
    assert run("get", store, "b").stdout == b"2"

    copy = tmp_path / "copy.ice"
    run("checkpoint", store, copy)
    assert (tmp_path / "copy.ice.1").exists()
    assert run("dump", copy).stdout == run("dump", store).stdout
    os.remove(moved)
    new = tmp_path / "new.ice"
    reported = lines("repair", store, new, "--placement", tmp_path / "new-1.ice", "-o", "json", code=6)
    assert reported[0]["lost"]["file"] == str(moved) and reported[-1]["keys"] == 2
    assert run("get", new, "a").stdout == b"value of a"
    assert b"the path is missing" in run("put", tmp_path / "x.ice", "k", "v", "--placement", "@1", code=2).stderr


def test_what_lies_in_the_second_file_is_read_copied_indexed_checked_and_missed_as_all_else(tmp_path):
    store, secondary = tmp_path / "store.ice", tmp_path / "secondary.ice"
    put_there = ("--placement", f"{secondary}@0")  # the first file has no node, so a thread of node 0 writes to the second
    contents = []
    for version in range(1, 4):
        contents += [insert(version, b"key %d" % i, b"%d of %d " % (version, i) + b"v" * 200) for i in range(40)]
        contents += [tag(version, f"tag {version}")]
    run("load", store, *put_there, stdin=dump_of(4, contents))
    assert secondary.read_bytes().count(b"v" * 200) == 120
    dump = run("dump", store).stdout
    assert dump.count(b"\n") > 120

    for index in ("persistent", "skip_list", "persistent", "btree"):
        run("reindex", store, "--index", index)
        assert run("dump", store).stdout == dump
        assert lines("verify", store, "-o", "json")[-1]["ok"]
    run("checkpoint", store, tmp_path / "copy.ice")
    assert run("dump", tmp_path / "copy.ice").stdout == dump
    run("load", tmp_path / "loaded.ice", "--placement", f"{tmp_path / 'loaded-1.ice'}@0", stdin=dump)
    assert run("dump", tmp_path / "loaded.ice").stdout == dump

    damage(secondary, b"2 of 7 vvv")
    reported = lines("verify", store, "-o", "json", code=6)
    assert {line["damage"]["file"] for line in reported[:-1]} == {str(secondary)}
    reported = lines("repair", store, tmp_path / "whole.ice", "-o", "json", code=6)
    assert reported[0]["lost"]["file"] == str(secondary) and reported[-1]["keys"] == 40
    os.remove(secondary)
    reported = lines("repair", store, tmp_path / "rest.ice", "-o", "json", code=6)
    assert str(secondary) in [line["lost"]["file"] for line in reported if "lost" in line] and reported[-1]["keys"] < 40
