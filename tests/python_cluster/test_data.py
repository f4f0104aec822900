"""Writing and reading: one key, whole columns, batches, histories."""

import numpy as np
import pytest
from conftest import RANK, RANKS
from mpi4py import MPI

import icecore

ALL = range(RANKS)


def test_every_rank_reads_what_every_rank_wrote(c):
    c[f"text {RANK}"] = f"value {RANK}"
    c[b"array %d" % RANK] = (np.arange(3, dtype="<i4") + RANK).tobytes()
    with pytest.raises(TypeError, match="would lose its type and shape"):
        c[b"array"] = np.arange(3)
    version = c.insert(bytearray(b"empty %d" % RANK), b"")
    assert version == c.clock
    assert c[f"text {RANK}"] == b"value %d" % RANK, "the writer's own is seen at once"
    c.barrier()
    for r in ALL:
        assert c[b"text %d" % r] == b"value %d" % r
        assert np.array_equal(np.frombuffer(c[b"array %d" % r], "<i4"), np.arange(3) + r)
        assert c[f"empty {r}"] == b"" and f"empty {r}" in c
        assert c.get(f"text {r}") == b"value %d" % r


def test_a_key_that_is_not_there_is_what_it_is_in_a_dict(c):
    with pytest.raises(KeyError) as raised:
        c[b"nobody's"]
    assert raised.value.args == (b"nobody's",)
    assert b"nobody's" not in c
    assert c.get(b"nobody's") is None and c.get(b"nobody's", 7) == 7 and c.find(b"nobody's") is None
    assert c.pop(b"nobody's", 7) == 7
    with pytest.raises(KeyError):
        c.pop(b"nobody's")
    del c[b"nobody's"]  # only the owner knows, later
    with pytest.raises(TypeError):
        c[5]
    with pytest.raises(TypeError):
        c[b"a"] = 5


def test_removed_keys_are_gone_on_all_ranks(c):
    c[f"{RANK}/a"] = c[f"{RANK}/b"] = b"1"
    before = c.tag()
    del c[f"{RANK}/a"]
    assert c.pop(f"{RANK}/b") == b"1"
    c.barrier()
    for r in ALL:
        assert f"{r}/a" not in c and f"{r}/b" not in c
        assert c.find(f"{r}/a", at=before) == b"1"


def test_lists_go_and_come_at_once(c):
    mine = [f"{RANK}/{i}" for i in range(500)]
    c.put_many(mine, [f"value {key}" for key in mine])
    c.update({f"{RANK}/more": b"1"}, keyword=b"2")
    version = c.tag("lists")
    for r in ALL:
        keys = [f"{r}/{i}" for i in range(500)] + ["nobody's", f"{r}/more"]
        expected = [f"value {key}".encode() for key in keys[:-2]] + [None, b"1"]
        assert c.find_many(keys) == expected
        assert c.find_many(keys, at=version) == expected
        assert c.at(version).find_many(keys, default=b"")[-2:] == [b"", b"1"]
    MPI.COMM_WORLD.Barrier()
    c.put_many(mine, ["changed"] * 500)
    assert c.find_many(mine) == [b"changed"] * 500
    assert c.find_many(mine, at="lists") == [f"value {key}".encode() for key in mine]
    assert c.find_many([]) == [] and c[b"keyword"] == b"2"
    with pytest.raises(ValueError):
        c.put_many([b"a"], [b"b", b"c"])


def test_arrays_go_and_come_at_once(c):
    ids = np.arange(RANK, 1000, RANKS, dtype=">u8")
    c.put_many(ids, np.stack([ids, ids * 2], axis=1).astype("<f8"))
    c.tag()
    everyone = np.arange(1001, dtype=">u8")
    for source in (c, c.latest()):
        vectors, found = source.find_many(everyone, ("<f8", (2,)))
        assert found.tolist() == [True] * 1000 + [False]
        assert np.array_equal(vectors[:1000, 1], np.arange(1000) * 2.0) and not vectors[1000].any()
    column = icecore.ByteColumn(np.array([0, 8, 8, 16]), np.frombuffer(ids[:1].tobytes() * 2, np.uint8))
    values, found = c.find_many(column, "V16")
    assert found.tolist() == [True, False, True]
    with pytest.raises(icecore.InvalidArgumentError, match="16 bytes, but the dtype has 8"):
        c.find_many(ids, "<f8")
    with pytest.raises(TypeError):
        c.find_many(b"one key")


def test_a_batch_takes_effect_at_its_one_owner(c, key_of):
    owner = (RANK + 1) % RANKS
    key = key_of(owner)
    with c.batch() as b:
        b[key] = b"1"
        b[key] = b"2"
    assert c[key] == b"2" and b.version == c.clock
    if RANKS > 1:
        with pytest.raises(icecore.InvalidArgumentError), c.batch() as b:
            b[key] = b"3"
            b[key_of(RANK)] = b"3"
    with pytest.raises(ZeroDivisionError), c.batch() as b:
        b[key] = b"4"
        1 / 0
    assert c[key] == b"2"


def test_a_history_runs_newest_first(c):
    if RANK == RANKS - 1:
        c[b"key"] = b"1"
    first = c.tag()
    if RANK == RANKS - 1:
        del c[b"key"]
    c.barrier()
    assert c.history("key") == [(first + 1, None), (first, b"1")]
    assert c.history("key")[1] == icecore._types.Change(first, b"1")
    assert c.history("nobody's") == []
