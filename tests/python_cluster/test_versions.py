"""Tags and snapshots: one cut of all ranks, read as a mapping."""

import copy
import pickle
from collections.abc import Mapping, MutableMapping
from datetime import datetime, timezone

import pytest
from conftest import RANK, RANKS
from mpi4py import MPI

import icecore.mpi


def fill(c):
    """100 items, by all ranks."""
    for i in range(RANK, 100, RANKS):
        c[f"item {i:02}"] = str(i)
    return c.tag("filled", "of all ranks")


EXPECTED = {b"item %02d" % i: b"%d" % i for i in range(100)}


def test_a_tag_is_the_same_cut_on_all_ranks(c):
    first = c.tag()
    assert MPI.COMM_WORLD.allgather(first) == [first] * RANKS and c.clock == first + 1
    noon = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)
    c[f"{RANK}"] = b"old"
    second = c.tag("noon", note="warm", time=noon)
    c[f"{RANK}"] = b"new"
    assert second == first + 1
    (tag,) = c.tags()
    assert (tag.version, tag.name, tag.note, tag.time) == (second, "noon", "warm", noon)
    assert c.find_tag("noon") == tag and c.find_tag("night") is None
    with pytest.raises(icecore.TagExistsError):
        c.tag("noon")
    for snapshot in (c.at(second), c.at("noon"), c.at(tag="noon"), c.at(tag), c.at(c.at(second)), c.latest()):
        assert snapshot.version == second
        assert list(snapshot.values()) == [b"old"] * RANKS
    for name in (second, "noon", tag, c.at(second), noon):
        assert c.at(name).version == c.find_tag(name).version == second
        assert c.find(f"{RANK}", at=name) == c.get(f"{RANK}", at=name) == b"old"
        assert c.find_many([f"{RANK}"], at=name) == [b"old"]
    for wrong in (1.5, True, b"noon"):
        with pytest.raises(TypeError, match="a Tag, a Snapshot, or a datetime"):
            c.find(f"{RANK}", at=wrong)
    assert c.find_tag(datetime(1999, 1, 1, tzinfo=timezone.utc)) is None
    with pytest.raises(icecore.UnknownTagError):
        c.at("night")
    with pytest.raises(icecore.VersionNotClosedError):
        c.at(c.clock)
    with pytest.raises(TypeError):
        c.at()


def test_a_snapshot_is_an_ordered_mapping_of_all_ranks(c):
    snapshot = c.at(fill(c))
    assert isinstance(snapshot, Mapping)
    assert dict(snapshot) == EXPECTED and snapshot == EXPECTED
    assert list(snapshot) == list(EXPECTED) and list(snapshot.values()) == list(EXPECTED.values())
    assert len(snapshot) == 100 and bool(snapshot)
    assert snapshot["item 07"] == b"7" and b"item 07" in snapshot and "x" not in snapshot
    assert snapshot.get("x") is None and snapshot.find("item 99") == b"99"
    with pytest.raises(KeyError):
        snapshot["x"]
    assert list(snapshot.items("item 10", "item 13")) == [(b"item %d" % i, b"%d" % i) for i in (10, 11, 12)]
    assert list(snapshot.keys(prefix="item 9", limit=2)) == [b"item 90", b"item 91"]
    assert len(snapshot.items(prefix="item 9")) == 10
    assert (b"item 10", b"10") in snapshot.items() and b"item 10" not in snapshot.keys("item 11")


def test_a_snapshot_has_slices(c):
    run = c.at(fill(c))["item 20":"item 30"]
    assert list(run.values()) == [b"%d" % i for i in range(20, 30)] and len(run) == 10
    assert "item 30" not in run and run.get("item 30") is None
    assert run.find_many(["item 29", "item 30"]) == [b"29", None]
    assert list(run[:"item 22"]) == [b"item 20", b"item 21"] and run.bounds == (b"item 20", b"item 30")
    assert len(run["item 50":]) == 0 and not run["item 50":]


def test_a_snapshot_is_read_forwards_only(c):
    snapshot = c.at(fill(c))
    with pytest.raises(icecore.InvalidArgumentError, match="forwards"):
        list(snapshot.items(reverse=True))
    with pytest.raises(icecore.InvalidArgumentError, match="forwards"):
        reversed(snapshot.keys())
    assert list(reversed(list(snapshot)))[0] == b"item 99"


def test_what_needs_all_keys_is_asked_of_a_version(c):
    assert not isinstance(c, MutableMapping)
    for wrong in (iter, len, list, dict):
        with pytest.raises(TypeError):
            wrong(c)
    with pytest.raises(TypeError, match="latest"):
        c["a":"b"]
    with pytest.raises(TypeError):
        c["a":"b"] = b""


def test_an_iterator_goes_on_while_the_cluster_is_written(c):
    snapshot = c.at(fill(c))
    seen = []
    for key, value in snapshot.items():
        seen.append((key, value))
        c[key] = b"changed"
    assert dict(seen) == EXPECTED


def test_clusters_and_snapshots_are_not_copied(c):
    snapshot = c.at(c.tag())
    for thing in (c, snapshot):
        for copying in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                copying(thing)
    assert f"rank {RANK} of {RANKS}" in repr(c) and f"version {snapshot.version}" in repr(snapshot)
