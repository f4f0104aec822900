"""Packing the stores of all ranks, which share them where they run on one node: the same versions expire on all."""

from datetime import timedelta

import pytest
from conftest import RANK, RANKS
from mpi4py import MPI

import icecore.mpi
from icecore.mpi import Cluster

WORLD = MPI.COMM_WORLD


def test_a_packed_cluster_shows_what_it_did_and_expires_alike(folder):
    with Cluster(WORLD, f"{folder}/cluster") as c:
        for v in ("1", "2", "3"):
            c[f"{RANK}"] = v.encode()
            c.tag("two" if v == "2" else None)
        c.set_retention(tagged=True)
        assert c.retention() == icecore.Retention(True, 0, timedelta(0), 0, 0, 0)
        assert c.hold("one", 1) == 1
        assert [(hold.name, hold.version) for hold in c.holds()] == [("one", 1)]
        held = c.compact(dry_run=True, only_if_expiring=True).versions_expired
        c.release("one")
        assert c.holds() == []
        with pytest.raises(icecore.NoSuchQueryError):
            c.release("one")
        told = c.compact(dry_run=True)
        assert told.versions_expired == held + 1
        assert not told.packed and told.versions_expired == 1
        seen = []
        done = c.compact(whole=True, compression="zstd", on_progress=lambda *now: seen.append(now))
        assert done.packed and done.versions_expired == 1 and done.keys == RANKS and done.up_to == 3
        key = f"{(RANK + 1) % RANKS}"
        with pytest.raises(icecore.VersionExpiredError):
            c.at(1)
        assert c.at("two")[key] == b"2" and c[key] == b"3"
        with pytest.raises(icecore.InvalidArgumentError, match="compression_level must be from 1 to 19"):
            c.compact(compression_level=20)
        with pytest.raises(TypeError, match="tagged must be a bool"):
            c.set_retention(tagged=1)


def test_what_all_ranks_forget_is_erased_by_the_next_compaction(folder):
    with Cluster(WORLD, f"{folder}/cluster") as c:
        c[f"user/{RANK}"] = b"the secret"
        c[f"other/{RANK}"] = b"the secret"
        before = c.tag()
        gone = c.forget("other/0", prefixes=["user/"], note="case 4711")
        assert gone == icecore.ForgetReport(up_to=before + 1, keys=RANKS + 1, tag="forgotten-1")
        assert c.find_tag("forgotten-1").note == f"{RANKS + 1} keys: case 4711"
        assert "user/0" not in c and "other/0" not in c and c.at(before)["user/0"] == b"the secret"
        # on a busy machine another rank may look at it for longer than its owner waits
        assert any(c.compact().erased for _ in range(50))
        assert "user/0" not in c.at(before) and ("other/1" in c) == (RANKS > 1)
        with pytest.raises(icecore.InvalidArgumentError, match="no key and no prefix is named"):
            c.forget()
        with pytest.raises(TypeError, match="prefixes must be a list or the like of prefixes, not str"):
            c.forget(prefixes="user/")


def test_an_exception_of_the_progress_function_is_raised_on_its_rank_when_all_are_done(folder):
    def stop(*_):
        raise ZeroDivisionError("enough")

    with Cluster(WORLD, f"{folder}/cluster") as c:
        c[f"{RANK}"] = b"value"
        c[f"{RANK + RANKS}"] = b"value"
        c.tag()
        if c.owner_of("0") == RANK:
            with pytest.raises(ZeroDivisionError, match="enough"):
                c.compact(on_progress=stop)
        else:
            c.compact()
        assert not c.compact().packed  # it was packed
        assert c["0"] == b"value"
