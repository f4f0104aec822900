"""Opening and closing, ownership, consistency, protection, signals, threads."""

import os
import threading

import pytest
from conftest import RANK, RANKS
from mpi4py import MPI

import icecore.mpi
from icecore.mpi import Cluster, Ownership

WORLD = MPI.COMM_WORLD


def test_a_cluster_is_what_it_was_when_it_is_opened_again(folder):
    with Cluster(WORLD, f"{folder}/c", "x", consistency="sequential", progress_thread=False) as c:
        assert (c.rank, c.size, c.path) == (RANK, RANKS, f"{folder}/c")
        assert c.consistency == "sequential" and not c.has_progress_thread and not c.closed
        assert c.reaches_directly(RANK) and c.group_of(0) == 0
        c[f"{RANK}"] = b"1"
    assert c.closed and "closed" in repr(c)
    with Cluster(WORLD, os.fsencode(f"{folder}/c"), "r") as c:
        assert [c[f"{r}"] for r in range(RANKS)] == [b"1"] * RANKS
        with pytest.raises(icecore.ReadOnlyError):
            c[f"{RANK}"] = b"2"
            c.fence()
    with pytest.raises(icecore.StoreExistsError):
        Cluster(WORLD, f"{folder}/c", "x")
    with pytest.raises(icecore.NoSuchStoreError):
        Cluster(WORLD, f"{folder}/nowhere", "r+")


def test_arguments_that_are_none_are_refused(folder):
    for wrong in ({"mode": "w"}, {"durability": "x"}, {"index": ""}, {"consistency": "strict"}):
        with pytest.raises(icecore.InvalidArgumentError):
            Cluster(WORLD, f"{folder}/c", **wrong)
    with pytest.raises(TypeError, match="communicator"):
        Cluster(folder, f"{folder}/c")
    with pytest.raises(icecore.InvalidArgumentError):
        Cluster(MPI.COMM_NULL, f"{folder}/c")


def test_any_communicator_will_do(folder):
    with Cluster(MPI.COMM_SELF, f"{folder}/{RANK}") as c:
        assert (c.rank, c.size) == (0, 1)
    halves = WORLD.Split(RANK % 2)
    with Cluster(halves, f"{folder}/half-{RANK % 2}") as c:
        halves.Free()  # it has its own
        c[f"{c.rank}"] = b"1"
        c.barrier()
        assert all(f"{r}" in c for r in range(c.size))


def test_keys_belong_to_whom_the_program_says(folder):
    by_last = Ownership.by_function("by_last_byte", lambda key, ranks: key[-1] % ranks)
    with Cluster(WORLD, f"{folder}/c", ownership=by_last) as c:
        assert [c.owner_of(bytes([b])) for b in range(20)] == [b % RANKS for b in range(20)]
        c.put_many([b"%d" % i for i in range(100)], [b"1"] * 100)
        assert len(c.at(c.tag())) == 100
    with pytest.raises(icecore.OtherClusterError):
        Cluster(WORLD, f"{folder}/c")
    splits = [b"%d" % r for r in range(1, RANKS)]
    with Cluster(WORLD, f"{folder}/ranges", ownership=Ownership.by_ranges(splits)) as c:
        assert [c.owner_of(b"%dx" % r) for r in range(min(RANKS, 9))] == list(range(min(RANKS, 9)))


def test_an_ownership_function_that_fails_is_reported(folder):
    for wrong in (lambda key, ranks: 1 / 0, lambda key, ranks: "0", lambda key, ranks: ranks):
        with Cluster(WORLD, f"{folder}/c", ownership=Ownership.by_function("wrong", wrong)) as c:
            with pytest.raises(icecore.InvalidArgumentError):
                c.owner_of(b"key")


def test_consistency_and_protection_change_on_all_ranks(c):
    following = f"{(RANK + 1) % RANKS}"
    c[f"{RANK}"] = b"1"
    c.set_consistency("sequential")
    assert c.consistency == "sequential" and c[following] == b"1"
    c.set_consistency("relaxed")
    c.protect("write_only")
    with pytest.raises(icecore.ProtectionError):
        c[following]
    c.protect("read_only")
    assert c.protection == "read_only" and c[following] == b"1"
    with pytest.raises(icecore.ProtectionError):
        c[following] = b"2"
    c.protect("update_only")
    c[following] = b"2"
    with pytest.raises(icecore.ProtectionError):
        c[f"new {RANK}"] = b"2"
    c.protect("read_write")
    assert c[f"{RANK}"] == b"2"
    for wrong in (c.protect, c.set_consistency, c.barrier):
        with pytest.raises(icecore.InvalidArgumentError):
            wrong("nothing")


def test_a_storage_barrier_closes_what_was_written(c):
    c[f"{RANK}"] = b"1"
    c.fence()
    c.barrier("storage")
    assert len(c.latest()) == RANKS


def test_a_signal_carries_what_was_written_before(c):
    following, previous = (RANK + 1) % RANKS, (RANK - 1) % RANKS
    for i in range(20):
        c[f"of {RANK}"] = str(i)
        c.signal_notify(7, [following])
        c.signal_wait(7, [previous])
        assert c[f"of {previous}"] == b"%d" % i
        c.signal_notify(8, previous)
        c.signal_wait(8, following)
    with pytest.raises(icecore.InvalidArgumentError):
        c.signal_notify(7, RANKS)


def test_a_call_that_waits_lets_other_threads_run(c):
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        pytest.skip("this MPI allows one thread")
    waiting = threading.Thread(target=c.signal_wait, args=(5, RANK))
    waiting.start()
    c[f"{RANK}"] = b"1"
    c.signal_notify(5, RANK)
    waiting.join(60)
    assert not waiting.is_alive()


def test_threads_write_at_once(c):
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        pytest.skip("this MPI allows one thread")

    def write(thread):
        for i in range(100):
            c[f"{RANK}/{thread}/{i}"] = b"1"

    threads = [threading.Thread(target=write, args=(t,)) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(c.at(c.tag())) == 300 * RANKS


def test_nothing_of_a_closed_cluster_can_be_used(folder):
    c = Cluster(WORLD, f"{folder}/c")
    c[f"{RANK}"] = b"1"
    snapshot = c.at(c.tag())
    items = iter(snapshot.items())
    c.close()
    c.close()
    uses = (lambda: c[b"0"], lambda: c.tag(), lambda: snapshot[b"0"], lambda: len(snapshot), lambda: next(items))
    for use in (*uses, lambda: c.clock, lambda: c.put_many([b"a"], [b"b"]), lambda: snapshot.find_many([b"a"])):
        with pytest.raises(icecore.ClosedError):
            use()


def test_an_exception_leaves_the_block_as_it_is(folder):
    with pytest.raises(ZeroDivisionError), Cluster(WORLD, f"{folder}/c") as c:
        c[f"{RANK}"] = b"1"
        1 / 0
    assert c.closed


@pytest.mark.skipif(RANKS == 1, reason="nobody is left to notice")
def test_a_rank_that_an_exception_takes_out_of_its_block_is_noticed_by_the_others(folder):
    with pytest.raises(ZeroDivisionError if RANK == 0 else icecore.MPIError), Cluster(WORLD, f"{folder}/c") as c:
        if RANK == 0:
            1 / 0
        c.barrier()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_cannot_use_the_cluster(c):
    child = os.fork()
    if child == 0:
        try:
            c[b"a"]
            os._exit(1)
        except icecore.ForkedError:
            c.close()
            os._exit(0)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    c[f"{RANK}"] = b"goes on"
    c.barrier()
    assert c[b"0"] == b"goes on"
