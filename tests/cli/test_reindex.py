"""reindex: another index for a store that is there; what it holds stays as it is."""

import itertools
import os

import pytest
from conftest import dump_of, filled, history, insert, lines, remove, run, tag

KINDS = ("btree", "skip_list", "persistent")


def stat(store):
    return lines("stat", store, "-o", "json")[0]


def with_a_past(store, kind):
    """Makes a store with this index: keys with several records, removals, tags with notes, a large value."""
    keys = [b"key %04d" % i for i in range(2_000)]
    contents = [insert(1, key, b"first " + key) for key in keys]
    contents += [tag(1, "one", 5, "a note")]
    contents += [insert(2, key, b"second " + key) for key in keys[::3]]
    contents += [remove(2, key) for key in keys[1::3]]
    contents += [insert(2, b"large", b"x" * 10_000), tag(2, "two")]
    contents += [insert(3, key, b"third " + key) for key in keys[::5]]
    run("load", store, "--index", kind, stdin=dump_of(3, contents))
    assert stat(store)["index"] == kind
    return store


LISTS = (("btree", "hash"), ("hash", "list"), ("list", "hash"), ("hash", "persistent"), ("persistent", "list"))


@pytest.mark.parametrize("before, after", [*itertools.product(KINDS, KINDS), *LISTS])
def test_contents_tags_and_histories_stay_whatever_the_direction(store, before, after):
    with_a_past(store, before)
    dump = run("dump", store).stdout
    past = history(store, b"key 0000")
    log = run("log", store).stdout
    (reported,) = lines("reindex", store, "--index", after, "-o", "json")
    assert reported["index"] == after and reported["keys"] == 2_001
    assert reported["index_bytes"] > 0 and reported["seconds"] >= 0
    now = stat(store)
    assert (now["index"], now["keys"], now["tags"]) == (after, 2_001, 2)
    assert now["recovered_instantly"] == (after == "persistent")
    assert run("dump", store).stdout == dump
    assert history(store, b"key 0000") == past and len(past) == 3
    assert run("log", store).stdout == log
    assert lines("verify", store, "-o", "json")[-1]["ok"]


def test_a_store_is_written_as_before_after_each_change(store):
    filled(store, {b"%d" % i: b"value" for i in range(100)})
    for i, kind in enumerate((*KINDS, *reversed(KINDS))):
        run("reindex", store, "--index", kind)
        run("put", store, f"new {i}", kind)
        run("tag", store, f"with {kind} {i}")
        assert run("get", store, f"new {i}", "--at", f"with {kind} {i}").stdout == kind.encode()
    assert stat(store)["keys"] == 106 and len(lines("log", store, "-o", "json")) == 6
    assert lines("verify", store, "-o", "json")[-1]["ok"]


def test_a_persistent_index_is_packed_anew_and_leaves_no_room_lost(store):
    run("put", store, "first", "value", "--index", "persistent")
    for i in range(30):
        run("put", store, f"key {i * 7919 % 30}", "value")
    dump = run("dump", store).stdout
    sizes = []
    for _ in range(4):
        run("reindex", store, "--index", "persistent")
        sizes.append(os.path.getsize(store))
    assert len(set(sizes[1:])) == 1, sizes
    assert run("dump", store).stdout == dump


def test_an_index_that_splits_have_left_half_full_is_packed_densely(store):
    count, rounds = 20_000, 20
    contents = []
    for version in range(1, rounds + 1):  # each one's keys lie between those of the others
        contents += [insert(version, b"%08d" % i, b"v") for i in range(count) if i * 7919 % rounds == version - 1]
        contents += [tag(version, f"{version}")]
    run("load", store, "--index", "persistent", stdin=dump_of(rounds + 1, contents))
    before = stat(store)["index_bytes"]
    (reported,) = lines("reindex", store, "--index", "persistent", "-o", "json")
    assert reported["keys"] == count
    assert reported["index_bytes"] < 0.85 * before, reported
    pairs_of_node, node_bytes = 27 * 9 // 10, 512
    segment_bytes = 2 * 65_536  # of nodes
    assert reported["index_bytes"] < 1.2 * count / pairs_of_node * node_bytes + 2 * segment_bytes, reported
    size = os.path.getsize(store)
    run("reindex", store, "--index", "persistent")
    assert os.path.getsize(store) <= size + 65_536, "the old index's space is given to what comes"


def test_a_table_says_the_same_in_one_line(store):
    filled(store, {b"a": b"1", b"b": b"2"})
    text = run("reindex", store, "--index", "persistent").stdout.decode()
    assert text.count("\n") == 1 and "persistent index of 2 keys" in text
    assert "instant recovery" in run("stat", store).stdout.decode()


def test_the_durability_is_that_of_this_writer(store):
    filled(store, {b"a": b"1"})
    run("reindex", store, "--index", "persistent", "--durability", "operation", "--emulate-durability")
    assert stat(store)["durability"]["mode"] == "operation"


def test_what_is_refused_changes_nothing(store, tmp_path):
    run("reindex", tmp_path / "missing.ice", "--index", "btree", code=3)
    assert not (tmp_path / "missing.ice").exists()
    filled(store, {b"a": b"1"})
    before = open(store, "rb").read()
    assert b"--index" in run("reindex", store, code=2).stderr
    run("reindex", store, "--index", "heap", code=2)
    assert open(store, "rb").read() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write any file")
def test_a_file_that_may_only_be_read_keeps_its_index(store):
    filled(store, {b"a": b"1"})
    os.chmod(store, 0o400)
    run("reindex", store, "--index", "persistent", code=9)
    assert stat(store)["index"] == "btree"


def flip(store, place):
    with open(store, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def test_a_damaged_store_keeps_its_index(store):
    filled(store, {b"a": b"damage this"})
    flip(store, open(store, "rb").read().index(b"damage this"))
    run("reindex", store, "--index", "persistent", code=5)
    assert lines("stat", store, "--accept-damage", "-o", "json")[0]["index"] == "btree"


def test_a_damaged_index_is_made_anew(store):
    run("put", store, "key", "value", "--index", "persistent")
    content = open(store, "rb").read()
    granule = 65_536
    anchor, nodes, *_ = [at for at in range(granule, len(content), granule) if content[at : at + 4] == b"IIDX"]
    assert anchor < nodes
    flip(store, nodes + 64 + 64)  # in the only pair of the only leaf
    assert b"reindex" in run("get", store, "key", code=5).stderr
    run("reindex", store, "--index", "persistent")
    assert run("get", store, "key").stdout == b"value"
    assert lines("verify", store, "-o", "json")[-1]["ok"]
