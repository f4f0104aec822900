"""Packing: a packed store gives the same answers, arrays are still used in place, and what it tells is typed."""

import os
import threading
import time

import numpy as np
import pytest
from conftest import open_store

import icecore

STEPS = 4


def weights(step, layer):
    """Of several types and shapes, some of them small."""
    shape, dtype = (((3, 5), "<f4"), ((40,), "<f8"), ((7, 11, 3), "<i2"), ((100, 30), "<f4"))[layer]
    return (np.arange(np.prod(shape)) * (step + 1) + layer).reshape(shape).astype(dtype)


@pytest.fixture
def trained(path):
    """A closed store with a training history: arrays, tags with metrics, a removal."""
    with open_store(path) as store:
        for step in range(STEPS):
            for layer in range(4):
                store.put_array(f"layer{layer}", weights(step, layer))
            if step == 2:
                del store["note"]
            else:
                store["note"] = f"step {step}"
            store.tag(f"step-{step}", note="a note", metrics={"loss": 1 / (step + 1)}, time=step)
    return path


def content(store):
    """Everything, by version."""
    versions = range(store.clock)
    return (
        [dict(store.at(v).items()) for v in versions],
        {key: [(change.version, change.value) for change in store.history(key)] for key in store.at(1)},
        [[tuple(d) for d in store.diff(v - 1, v)] for v in versions if v > 0],
        store.tags(),
    )


def test_arrays_and_tags_of_a_packed_store_are_those_of_before(trained):
    with open_store(trained, "r") as store:
        before = content(store)
    report = icecore.compact(trained)
    assert report and report.packed is True and (report.strata, report.keys, report.up_to) == (1, 5, STEPS)
    with open_store(trained, "r") as store:
        assert content(store) == before
        for step in range(STEPS):
            snapshot = store.at(f"step-{step}")
            for layer in range(4):
                array = snapshot.get_array(f"layer{layer}")
                given = weights(step, layer)
                assert np.array_equal(array, given) and array.dtype == given.dtype and array.shape == given.shape
        assert store.find_tag("step-3").metrics == {"loss": 0.25}
        assert store.at(time=2)["layer0"] == before[0][3][b"layer0"]


def test_packed_arrays_are_used_in_place_and_are_aligned(trained):
    icecore.compact(trained)
    with open_store(trained, "r") as store:
        arrays = [store.at(f"step-{s}").get_array(f"layer{n}") for s in range(STEPS) for n in range(4)]
        for array in arrays:
            assert not array.flags.owndata and not array.flags.writeable
            assert array.flags.aligned and array.ctypes.data % 8 == 0
        view = store.at("step-1").view("layer3")
        assert np.frombuffer(view, np.uint8).ctypes.data % 8 == 0
    assert np.array_equal(arrays[-1], weights(3, 3)), "what was read stays valid"


def test_statistics_say_what_is_packed(path):
    with open_store(path) as store:
        store.update({f"{i:05}": "value" for i in range(1_000)})
        store.tag()
        now = store.stats()
        assert (now.packed_keys, now.packed_records, now.packed_bytes, now.strata) == (0, 0, 0, 0)
    report = icecore.compact(path, threads=1)
    assert (report.keys, report.records) == (1_000, 1_000) and report.bytes_written > 0
    assert report.bytes_after == os.stat(path).st_blocks * 512
    with open_store(path) as store:
        now = store.stats()
        assert (now.packed_keys, now.packed_records, now.strata, now.records) == (1_000, 1_000, 1, 1_000)
        assert now.keys == now.keys_at_least == 1_000
        assert 0 < now.free_bytes < now.file_bytes
        assert 1_000 * len("00000value") < now.packed_bytes <= report.bytes_written
        assert now.format[0] == 7 and "packed_records" in now._repr_html_()
        store["00000"] = "second"
    assert icecore.compact(path).strata == 2, "the large stratum stays as it is"
    report = icecore.compact(path, whole=True)
    assert (report.strata, report.keys, report.records) == (1, 1_000, 1_001)
    again = icecore.compact(path, whole=True)
    assert not again and (again.keys, again.records, again.strata, again.up_to) == (0, 0, 1, 2)


def test_statistics_say_what_is_garbage_what_holds_it_and_what_was_written(path):
    with open_store(path) as store:
        for value in (b"first", b"other"):
            store.update({f"{i:05}": value for i in range(1_000)})
        now = store.stats()
        assert (now.garbage_bytes, now.waiting_bytes) == (5_000, 0) and now.live_bytes == now.used_bytes - 5_000
        assert (now.oldest_pin, now.oldest_pin_seconds, now.oldest_held) == (None, 0, None)
        assert now.given_bytes == 2 * 1_000 * 10 and now.written_bytes > now.given_bytes
        assert now.write_amplification == now.written_bytes / now.given_bytes
        store.tag()
        store.stats()
        before = store.latest()
        now = store.stats()
        assert now.oldest_pin == 2 and now.oldest_pin_seconds > 0
        assert not store.compact().erased
        now = store.stats()
        assert now.garbage_bytes == now.waiting_bytes > 10_000 and now.live_bytes == now.used_bytes - now.waiting_bytes
        assert before["00000"] == b"other"
        del before
        store.start("held", at=1)
        assert store.stats().oldest_held == 1


def test_a_packed_store_is_written_and_packed_again(trained):
    for turn in range(3):
        icecore.compact(trained, whole=turn == 2)
        with open_store(trained) as store:
            assert store.get("note") == f"step {STEPS - 1}".encode() or turn > 0
            store["note"] = f"turn {turn}"
            store.put_array("layer0", weights(turn, 1))
            with store.batch() as batch:
                batch["of a batch"] = f"{turn}"
                batch[f"new {turn}"] = "x"
                del batch["layer3"]
            store.tag(f"turn-{turn}")
            assert store.verify().ok
    icecore.compact(trained)
    with open_store(trained, "r") as store:
        assert [store.at(f"turn-{t}")["note"] for t in range(3)] == [b"turn 0", b"turn 1", b"turn 2"]
        assert np.array_equal(store.at("turn-1").get_array("layer0"), weights(1, 1))
        assert "layer3" not in store and np.array_equal(store.at("step-3").get_array("layer3"), weights(3, 3))
        keys, values = store.at("turn-2").to_columns()
        assert len(keys.offsets) - 1 == len(store.at("turn-2")) == 8
        assert store.at("turn-2").where("starts_with(key, 'new')").count() == 3


def test_a_store_that_is_open_is_not_packed(trained, run):
    with open_store(trained), pytest.raises(icecore.LockedError, match="close that Store first"):
        icecore.compact(trained)
    with open_store(trained, "r") as reader:
        with pytest.raises(icecore.LockedError):
            run_in_another_process(run, trained)
        assert reader.stats().strata == 0
    assert icecore.compact(trained).packed


def run_in_another_process(run, path):
    told = run("import icecore, sys\ntry: icecore.compact(sys.argv[1])\nexcept icecore.LockedError as e: print(e)", path)
    if "for reading" in told:
        raise icecore.LockedError(11, told)


def test_a_reader_beside_the_writer_keeps_what_it_has_and_its_space_comes_back_later(path):
    value = bytes(range(256)) * 16
    writer = open_store(path)
    writer.update({f"{i:05}": value for i in range(1_000)})
    writer.tag("one")
    with open_store(path, "r") as reader:
        assert reader.beside_writer
        views = [reader.view(f"{i:05}") for i in range(1_000)]
        writer.close()
        report = icecore.compact(path)
        assert report.packed and report.bytes_after > report.bytes_before, "nothing is given back beside the reader"
        with open_store(path, "r") as other:
            assert other["00999"] == value and other.stats().strata == 1
        assert all(view == value for view in views)
        assert reader["00000"] == value and reader.at("one")["00500"] == value
        del views
    open_store(path).close()
    assert os.stat(path).st_blocks * 512 < report.bytes_after - 3_000_000
    with open_store(path, "r") as store:
        assert store.verify().ok and store["00500"] == value


def test_the_memory_of_what_is_inflated_has_the_bound_that_is_asked_for(trained):
    icecore.compact(trained, compression="zstd")
    with open_store(trained, "r", block_cache_bytes=123_456) as store:
        assert store.stats().block_cache_bytes_max == 123_456
    with open_store(trained, "r") as store:
        assert store.stats().block_cache_bytes_max > 123_456
    with pytest.raises(icecore.InvalidArgumentError, match="block_cache_bytes"):
        open_store(trained, "r", block_cache_bytes=-1)
    with pytest.raises(TypeError, match="block_cache_bytes"):
        open_store(trained, "r", block_cache_bytes=1.5)


def test_progress_is_told_and_its_error_is_raised(path):
    count = 200_000
    with open_store(path) as store:
        store.put_many(np.arange(count, dtype=">u8"), np.zeros(count, "<u8"))
    told = []
    assert icecore.compact(path, threads=1, on_progress=lambda *said: told.append(said)).records == count
    assert told and all(total == count and 0 < done <= total for what, done, total, unit in told if what == "packing records")
    assert told == sorted(told, key=lambda said: said[1])

    def fails(what, done, total, unit):
        raise KeyError("of the caller")

    with open_store(path) as store:
        store.put_many(np.arange(count, dtype=">u8"), np.ones(count, "<u8"))
    with pytest.raises(KeyError, match="of the caller"):
        icecore.compact(path, threads=1, on_progress=fails)
    with open_store(path, "r") as store:
        assert len(store) == count and store.verify().ok


def test_what_is_refused_changes_nothing(tmp_path, trained):
    with pytest.raises(icecore.NoSuchStoreError):
        icecore.compact(tmp_path / "missing.ice")
    assert not (tmp_path / "missing.ice").exists()
    other = tmp_path / "other"
    other.write_bytes(b"no store" * 10_000)
    with pytest.raises(icecore.NotAStoreError):
        icecore.compact(other)
    content = trained.read_bytes()
    for wrong in ({"threads": -1}, {"threads": 2**40}, {"crash": "both"}, {"placements": [("x", "y")]}):
        with pytest.raises(icecore.InvalidArgumentError):
            icecore.compact(trained, **wrong)
    for wrong in ({"whole": 1}, {"threads": 1.5}):
        with pytest.raises(TypeError):
            icecore.compact(trained, **wrong)
    assert trained.read_bytes() == content


def test_repair_of_a_packed_store_rescues_what_is_intact(trained, tmp_path):
    icecore.compact(trained)
    with open_store(trained) as store:
        store["young"] = "value"
        store.tag("young")
        before = content(store)
    report = icecore.repair(trained, tmp_path / "new.ice")
    assert report.complete
    with open_store(tmp_path / "new.ice") as store:
        assert content(store) == before and store.stats().strata == 0


def test_a_checkpoint_of_a_packed_store_is_a_packed_store(trained, tmp_path):
    icecore.compact(trained)
    with open_store(trained) as store:
        store["young"] = "value"
        store.tag("young")
        store.checkpoint(tmp_path / "copy.ice")
        before = content(store)
    with icecore.open(tmp_path / "copy.ice", "r") as copy:
        assert content(copy) == before and copy.stats().strata == 1
    assert icecore.verify_file(tmp_path / "copy.ice").ok


def test_an_open_store_is_packed_while_a_thread_writes(path):
    with open_store(path, durability="none") as store:
        ends = threading.Event()

        def write():
            n = 0
            while not ends.is_set():
                store[f"key {n % 50}"] = str(n)
                n += 1
                time.sleep(0.0005)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            store["kept"] = "1"
            version = store.tag("kept")
            for n in range(5):
                store[f"more {n}"] = "x" * 100
                report = store.compact(threads=1, compression=("none", "zstd")[n % 2])
                assert report and report.up_to >= version and report.writers_stopped >= 0
        finally:
            ends.set()
            writer.join()
        assert store.at("kept")["kept"] == b"1" and store["more 4"] == b"x" * 100
        assert store.verify()
        with pytest.raises(icecore.InvalidArgumentError, match="compression_level"):
            store.compact(compression_level=0)


@pytest.mark.parametrize("is_open", [False, True])
def test_a_store_is_packed_by_ranges(tmp_path, is_open):
    def written_by(name, **how):
        """How much a compaction writes of a packed store of which a tenth was written anew."""
        at = tmp_path / name
        with open_store(at) as store:
            store.update({f"{i:04}": "v" * 200 for i in range(1_000)})
        icecore.compact(at, threads=1, bytes_at_once=16_384)
        with open_store(at) as store:
            store.update({f"{i:04}": "w" * 200 for i in range(0, 1_000, 10)})
            if is_open:
                report = store.compact(whole=True, threads=1, bytes_per_second=2**40, **how)
        if not is_open:
            report = icecore.compact(at, whole=True, threads=1, bytes_per_second=2**40, **how)
        with open_store(at, "r") as store:
            assert store["0000"] == b"w" * 200 and store["0001"] == b"v" * 200
        assert report and report.strata == 1
        return report.bytes_written

    # what was not packed yet is written twice
    assert written_by("ranges.ice", bytes_at_once=16_384) > written_by("at once.ice") + 100 * 200
    assert written_by("zero.ice", bytes_at_once=0) == written_by("none.ice")


@pytest.mark.parametrize("name", ["bytes_at_once", "bytes_per_second"])
def test_a_number_of_bytes_is_none_below_zero(trained, name):
    for call in (lambda how: icecore.compact(trained, **how), lambda how: open_store(trained).compact(**how)):
        with pytest.raises(icecore.InvalidArgumentError, match=f"{name} must be 0 or more, not -1"):
            call({name: -1})
        with pytest.raises(TypeError, match=f"{name} must be an int, not float"):
            call({name: 1.5})


def test_a_store_packs_itself_when_enough_was_written(path):
    with open_store(path, durability="none", compaction="automatic", compaction_young_bytes=100_000) as store:
        store.pause_compaction()
        store.resume_compaction()
        until = time.monotonic() + 30
        while store.stats().compactions == 0:
            assert time.monotonic() < until, store.stats().compaction_failure
            store["k"] = b"v" * 1000
            time.sleep(0.001)
        assert store.stats().packed_records > 0 and store.stats().compaction_failure == ""
    with pytest.raises(icecore.InvalidArgumentError, match="compaction"):
        open_store(path, compaction="sometimes")
    with pytest.raises(icecore.InvalidArgumentError, match="for writing"):
        open_store(path, "r", compaction="automatic")
    with open_store(path, "r") as reader, pytest.raises(icecore.ReadOnlyError):
        reader.pause_compaction()
    for name in ("compaction_threads", "recovery_threads"):
        with pytest.raises(icecore.InvalidArgumentError, match=f"{name} must be 0 or more, not -1"):
            open_store(path, **{name: -1})
