"""checkpoint: a copy of a store that has its name only when it is whole."""

import os

from conftest import dump_of, insert, lines, remove, run, tag


def made(store):
    """A store with three closed versions and an open one, two tags and a removed key."""
    contents = [insert(1, b"a", b"1"), insert(1, b"b", b"x" * 100_000), tag(1, "one"), remove(2, b"b")]
    contents += [tag(2, "two", 5, "note"), insert(3, b"c", b"3"), insert(4, b"c", b"open")]
    run("load", store, stdin=dump_of(4, contents))
    return store


def test_a_checkpoint_has_every_version_and_tag(store, tmp_path):
    made(store)
    before = open(store, "rb").read()
    copy = tmp_path / "copy.ice"
    assert f"{copy}: all versions up to 4".encode() in run("checkpoint", store, copy).stdout
    assert open(store, "rb").read() == before
    assert run("dump", copy).stdout == run("dump", store).stdout
    run("verify", copy)
    other = tmp_path / "other.ice"
    (reported,) = lines("checkpoint", copy, other, "-o", "json")
    assert reported == {"clock": 4, "bytes": os.path.getsize(other)}
    run("put", copy, "d", "4")  # a store of its own
    assert run("dump", other).stdout == run("dump", store).stdout


def test_a_checkpoint_never_takes_the_place_of_anything(store, tmp_path):
    made(store)
    os.symlink("nothing", tmp_path / "link")
    listed = sorted(os.listdir(tmp_path))
    for taken in (store, tmp_path, tmp_path / "link"):
        assert b"exists already; a checkpoint needs a new path" in run("checkpoint", store, taken, code=3).stderr
    assert run("checkpoint", store, tmp_path / "nowhere" / "copy.ice", code=9).stderr.startswith(b"icecore: ")
    run("checkpoint", tmp_path / "nothing.ice", tmp_path / "copy.ice", code=3)
    run("checkpoint", store, code=2)
    assert sorted(os.listdir(tmp_path)) == listed


def test_a_damaged_store_has_no_checkpoint(store, tmp_path):
    made(store)
    with open(store, "r+b") as file:
        file.seek(file.read().index(b"note"))
        file.write(b"N")
    run("checkpoint", store, tmp_path / "copy.ice", code=5)
    assert os.listdir(tmp_path) == [os.path.basename(store)]
