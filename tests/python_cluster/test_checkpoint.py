"""Checkpoints: all of an instant, restored on any number of ranks."""

import os

import pytest
from conftest import RANK, RANKS
from mpi4py import MPI

import icecore.mpi
from icecore.mpi import Cluster, Ownership

WORLD = MPI.COMM_WORLD


@pytest.fixture
def written(folder):
    """A checkpoint of keys '0', '1', ... with '1' in version 1 and '2' when it was made."""
    with Cluster(WORLD, f"{folder}/cluster") as c:
        c[f"{RANK}"] = b"1"
        c.tag("one")
        c[f"{RANK}"] = b"2"
        writing = c.checkpoint(f"{folder}/checkpoint")
        c[f"{RANK}"] = b"3"
        writing.wait()
        done, total = writing.progress
        assert writing.done and done == total > 0
        WORLD.Barrier()
    assert writing.done
    writing.wait()
    return f"{folder}/checkpoint"


def expect(c):
    for r in range(RANKS):
        assert c[f"{r}"] == b"2"
        assert c.at("one")[f"{r}"] == b"1"
        assert [change.value for change in c.history(f"{r}")] == [b"2", b"1"]


def test_a_checkpoint_is_restored_with_every_version_and_tag(written, folder):
    for redistribute in (False, True):
        with Cluster.restore(WORLD, written, f"{folder}/{redistribute}", redistribute=redistribute) as c:
            expect(c)
            c.tag()
        with Cluster(WORLD, f"{folder}/{redistribute}", "r+") as c:
            expect(c)
    with pytest.raises(icecore.StoreExistsError):
        Cluster.restore(WORLD, written, f"{folder}/True")


def test_a_checkpoint_is_restored_on_other_ranks_with_another_ownership(written, folder):
    with Cluster.restore(MPI.COMM_SELF, written, f"{folder}/alone-{RANK}") as c:
        assert c.size == 1
        expect(c)
    ownership = Ownership.by_ranges([b"%d" % r for r in range(1, RANKS)])
    with Cluster.restore(WORLD, written, f"{folder}/ranges", ownership=ownership, consistency="sequential") as c:
        expect(c)
        assert c.owner_of(f"{RANK}") == RANK and c.consistency == "sequential"


def test_what_is_no_whole_checkpoint_is_refused(written, folder):
    with pytest.raises(icecore.OtherClusterError):
        Cluster.restore(WORLD, f"{folder}/nowhere", f"{folder}/other")
    WORLD.Barrier()
    if RANK == 0:
        os.remove(f"{written}/checkpoint")
    WORLD.Barrier()
    with pytest.raises(icecore.OtherClusterError):
        Cluster.restore(WORLD, written, f"{folder}/other")
