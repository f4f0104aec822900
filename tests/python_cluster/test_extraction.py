"""All pairs of a version: as arrays and columns by every method, streamed, and the find that asks all ranks."""

import threading

import numpy as np
import pytest
from conftest import RANK, RANKS
from mpi4py import MPI

import icecore
from icecore.mpi import Cluster, Ownership

WORLD = MPI.COMM_WORLD
LAST = RANKS - 1
MERGING = ("naive_merge", "opt_merge")
METHODS = ("gather", *MERGING, "distributed")

# keys of one size and of several, values likewise
WORDS = {i.to_bytes(8, "big"): np.float64(i).tobytes() for i in range(500)}
TEXTS = {b"key %d" % i: b"v" * (i % 50) for i in range(500)}


def filled(c, pairs):
    """A snapshot of these pairs, written by all ranks; something else is written later."""
    mine = list(pairs.items())[RANK::RANKS]
    c.put_many([key for key, _ in mine], [value for _, value in mine])
    c.tag("filled")
    c.put_many([b"later %d" % RANK], [b"1"])
    c.tag()
    return c.at("filled")


def pairs_of(columns):
    """What columns hold."""

    def items(column):
        offsets, data = column
        return [data[a:b].tobytes() for a, b in zip(offsets[:-1], offsets[1:])]

    return list(zip(items(columns.keys), items(columns.values)))


def ordered(pairs):
    return sorted(pairs.items())


def joined(stretch):
    """The stretches of all ranks, one behind the other."""
    return [pair for part in WORLD.allgather(stretch) for pair in part]


def test_arrays_of_fixed_size_come_in_order_to_the_root(c):
    snapshot = filled(c, WORDS)
    for method in MERGING:
        for root in (0, LAST):
            keys, values = snapshot.to_numpy(">u8", "<f8", method=method, root=root, threads=2, linear_scan=True)
            assert (keys.dtype, values.dtype) == (np.dtype(">u8"), np.dtype("<f8"))
            expected = np.arange(500) if RANK == root else []
            assert keys.tolist() == list(expected) and values.tolist() == list(expected)


def test_arrays_are_the_memory_that_was_received_and_outlive_the_cluster(folder):
    with Cluster(WORLD, f"{folder}/c") as c:
        snapshot = filled(c, WORDS)
        keys, values = snapshot.to_numpy(">u8", "<f8")
        matrix = snapshot.to_numpy("V8", ("<f4", (2,)))[1]
        byte_keys, byte_values = snapshot.to_columns()
    if RANK == 0:
        assert not keys.flags.owndata and not values.flags.owndata and not byte_values.bytes.flags.owndata
        assert matrix.shape == (500, 2) and matrix.dtype == "<f4"
        values += 1  # nobody else has them
        assert values[499] == 500 and keys[499] == 499
        assert byte_keys.offsets.tolist() == list(range(0, 501 * 8, 8))
    else:
        assert len(keys) == len(values) == 0 and matrix.shape == (0, 2)
        assert byte_keys.offsets.tolist() == [0] and len(byte_keys.bytes) == 0


def test_pairs_of_any_size_come_as_objects_and_as_columns(c):
    snapshot = filled(c, TEXTS)
    expected = ordered(TEXTS) if RANK == LAST else []
    for method in MERGING:
        keys, values = snapshot.to_numpy(method=method, root=LAST)
        assert keys.dtype == values.dtype == object and list(zip(keys, values)) == expected
        columns = snapshot.to_columns(method=method, root=LAST)
        assert isinstance(columns, icecore.Columns) and pairs_of(columns) == expected
    keys, values = snapshot.to_numpy("S10", None)
    assert keys.tolist() == ([key for key, _ in ordered(TEXTS)] if RANK == 0 else [])


def test_gathered_pairs_are_all_of_them(c):
    snapshot = filled(c, TEXTS)
    keys, values = snapshot.to_numpy(method="gather")
    assert dict(zip(keys, values)) == (TEXTS if RANK == 0 else {}) and len(keys) == len(set(keys))


def test_every_rank_gets_a_stretch_of_what_is_distributed(c):
    snapshot = filled(c, TEXTS)
    keys, values = snapshot.to_numpy(method="distributed")
    assert joined(list(zip(keys, values))) == ordered(TEXTS)
    assert joined(pairs_of(snapshot.to_columns(method="distributed"))) == ordered(TEXTS)
    assert len(keys) < 500 or RANKS == 1


def test_ranges_are_put_behind_each_other(folder):
    splits = [(500 * r // RANKS).to_bytes(8, "big") for r in range(1, RANKS)]
    with Cluster(WORLD, f"{folder}/c", ownership=Ownership.by_ranges(splits)) as c:
        keys, _ = filled(c, WORDS).to_numpy(">u8", method="concatenate")
        assert keys.tolist() == (list(range(500)) if RANK == 0 else [])


def test_runs_of_keys_are_extracted(c):
    snapshot = filled(c, TEXTS)

    def keys_of(source, **run):
        found = source.to_numpy(**run)[0].tolist()
        streamed = []
        source.stream(lambda block: streamed.extend(key for key, _ in block), **run)
        assert streamed == found == [key for key, _ in pairs_of(source.to_columns(**run))]
        return found

    def expected(wanted):
        return [key for key, _ in ordered(TEXTS) if wanted(key)] if RANK == 0 else []

    assert keys_of(snapshot, prefix="key 4") == expected(lambda key: key.startswith(b"key 4"))
    assert keys_of(snapshot, start="key 2", stop=b"key 30") == expected(lambda key: b"key 2" <= key < b"key 30")
    run = snapshot["key 2":"key 30"]
    assert keys_of(run) == expected(lambda key: b"key 2" <= key < b"key 30")
    assert keys_of(run, prefix="key 25") == expected(lambda key: key.startswith(b"key 25"))
    for nothing in (run["key 5":], snapshot["b":"a"], snapshot["x":]):
        assert keys_of(nothing) == []


def test_an_item_that_does_not_fit_its_dtype_is_an_error_on_all_ranks(c):
    snapshot = filled(c, {**WORDS, b"\xffodd": b"twelve bytes"})
    owner = c.owner_of(b"\xffodd")
    for root in (0, LAST):
        with pytest.raises(ValueError, match=rf"rank {owner}: the key '\\xffodd' has 4 bytes, but the dtype has 8"):
            snapshot.to_numpy(">u8", None, root=root)
        with pytest.raises(icecore.InvalidArgumentError, match=r"the value of the key '\\xffodd' has 12 bytes"):
            snapshot.to_numpy(None, "<f8", root=root)
    with pytest.raises(ValueError, match="NUL"):
        snapshot.to_numpy(None, "S12")
    for wrong in ("U8", object, "S"):
        with pytest.raises(ValueError):
            snapshot.to_numpy(wrong)
    assert len(snapshot.to_numpy("S8", "V8", stop=b"\xff", prefix=b"\0\0\0\0\0\0\0\x01")[0]) == (RANK == 0)


def test_arguments_that_are_none_are_refused_on_all_ranks(c):
    snapshot = filled(c, TEXTS)
    for wrong in ({"method": "best"}, {"method": "concatenate"}, {"root": RANKS}, {"root": -1}, {"threads": -1}):
        with pytest.raises(ValueError):
            snapshot.to_numpy(**wrong)
        with pytest.raises(ValueError):
            snapshot.to_columns(**wrong)
    with pytest.raises(icecore.InvalidArgumentError, match="100 bytes"):
        snapshot.to_columns(memory_bytes_max=100)
    with pytest.raises(icecore.InvalidArgumentError):
        snapshot.stream(print, memory_bytes_max=100)
    with pytest.raises(icecore.InvalidArgumentError):
        snapshot.stream(print, root=RANKS)
    if RANKS > 1:
        with pytest.raises(icecore.InvalidArgumentError, match="different extractions"):
            snapshot.to_columns(root=0 if RANK == 0 else 1)
    assert len(snapshot.to_numpy()[0]) == (500 if RANK == 0 else 0)


def small_blocks():
    return {"memory_bytes_max": 1024 * (2 * RANKS + 2)}


def test_a_stream_hands_all_pairs_in_order_to_the_root(c):
    snapshot = filled(c, TEXTS)
    for root in (0, LAST):
        blocks = []
        snapshot.stream(blocks.append, root=root, **small_blocks())
        assert [pair for block in blocks for pair in block] == (ordered(TEXTS) if RANK == root else [])
        assert len(blocks) > 5 or RANK != root
        columns = []
        snapshot.stream(columns.append, as_columns=True, root=root, **small_blocks())
        assert all(isinstance(block, icecore.Columns) for block in columns)
        assert [pair for block in columns for pair in pairs_of(block)] == (ordered(TEXTS) if RANK == root else [])


def test_the_sink_of_a_stream_may_use_the_cluster_but_not_close_it(c):
    snapshot = filled(c, TEXTS)

    def sink(block):
        key, value = block[0]
        assert snapshot[key] == value
        c[key] = b"changed"
        assert c[key] == b"changed"
        with pytest.raises(icecore.InvalidArgumentError, match="sink"):
            c.close()

    snapshot.stream(sink, **small_blocks())


def test_what_a_sink_raises_comes_out_at_the_root_and_is_reported_to_the_others(c):
    snapshot = filled(c, TEXTS)

    class Enough(Exception):
        def __str__(self):
            raise ZeroDivisionError

    for raised, reported in ((LookupError("enoµgh"), "LookupError: enoµgh"), (Enough(), "whose text cannot be read")):
        blocks = []

        def sink(block):
            blocks.append(block)
            if len(blocks) == 3:
                raise raised

        with pytest.raises(type(raised) if RANK == LAST else icecore.InvalidArgumentError) as caught:
            snapshot.stream(sink, root=LAST, **small_blocks())
        if RANK == LAST:
            assert caught.value is raised and len(blocks) == 3
        else:
            assert reported in str(caught.value) and f"rank {LAST}" in str(caught.value)
        assert snapshot.to_numpy()[0].tolist() == ([key for key, _ in ordered(TEXTS)] if RANK == 0 else [])


def test_a_find_by_broadcast_answers_the_root(c):
    snapshot = filled(c, TEXTS)
    for i, (key, value) in enumerate(list(TEXTS.items())[::50]):
        root = i % RANKS
        found = snapshot.find_by_broadcast(key if RANK == root else None, root=root)
        assert found == (value if RANK == root else None)
    assert snapshot.find_by_broadcast("later 0") is None
    assert snapshot["key 1":"key 2"].find_by_broadcast(b"key 3") is None
    assert snapshot["key 1":"key 2"].find_by_broadcast(b"key 1") == (TEXTS[b"key 1"] if RANK == 0 else None)
    with pytest.raises(icecore.InvalidArgumentError):
        snapshot.find_by_broadcast(b"a", root=RANKS)
    if RANK == 0:
        with pytest.raises(TypeError):
            snapshot.find_by_broadcast(5)
    else:  # they do not wait for a root that cannot ask
        assert snapshot.find_by_broadcast(5) is None
    with pytest.raises(icecore.KeyTooLongError):
        snapshot.find_by_broadcast(b"k" * 70_000)


@pytest.mark.skipif(MPI.Query_thread() < MPI.THREAD_MULTIPLE, reason="this MPI allows one thread")
def test_other_threads_run_while_a_rank_waits_in_a_collective_call(c):
    snapshot = filled(c, TEXTS)
    for collective in (snapshot.to_numpy, lambda: snapshot.stream(id), lambda: snapshot.find_by_broadcast(b"key 1")):
        if RANK == 0:  # the others come when a thread beside the waiting one has called them
            call = threading.Timer(0.1, lambda: [WORLD.send(None, dest=other) for other in range(1, RANKS)])
            call.start()
        else:
            WORLD.recv(source=0)
        collective()
        if RANK == 0:
            call.join()


def test_nothing_is_extracted_of_a_closed_cluster(folder):
    with Cluster(WORLD, f"{folder}/c") as c:
        snapshot = filled(c, TEXTS)
    for use in (snapshot.to_numpy, snapshot.to_columns, lambda: snapshot.stream(print)):
        with pytest.raises(icecore.ClosedError):
            use()
    with pytest.raises(icecore.ClosedError):
        snapshot.find_by_broadcast(b"a")
