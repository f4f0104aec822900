"""Whole columns of keys and values: fixed-size ones, any-size ones, in and out."""

import numpy as np
import pytest
from conftest import open_store
from hypothesis import given, settings
from hypothesis import strategies as st

import icecore
from icecore import ByteColumn


@pytest.fixture(scope="module")
def million(tmp_path_factory):
    """A snapshot of 1,000,000 pairs, inserted in random order, beside keys that were removed."""
    numbers = np.random.default_rng(1).permutation(1_000_000).astype(np.uint64)
    with open_store(tmp_path_factory.mktemp("million") / "store.ice", durability="none") as store:
        store.put_many(numbers.astype(">u8"), numbers.astype("<f8") / 2)
        snapshot = store.latest()
        with store.batch() as b:
            for number in range(0, 1_000_000, 100):
                del b[number.to_bytes(8, "big")]
        yield store, snapshot


@pytest.mark.parametrize("threads", [0, 1, 2, 5])
def test_a_million_pairs_become_two_arrays_in_key_order(million, threads):
    _, snapshot = million
    keys, values = snapshot.to_numpy(">u8", "<f8", threads=threads)
    assert keys.dtype == np.dtype(">u8")
    assert values.dtype == np.dtype("<f8")
    assert np.array_equal(keys, np.arange(1_000_000))
    assert np.array_equal(values, np.arange(1_000_000) / 2)


def test_removed_keys_are_not_in_later_columns(million):
    store, _ = million
    keys, values = store.latest().to_numpy(">u8", "<f8")
    expected = np.arange(1_000_000)[np.arange(1_000_000) % 100 != 0]
    assert np.array_equal(keys, expected)
    assert np.array_equal(values, expected / 2)
    assert keys.flags.owndata
    assert keys.flags.writeable


def test_a_million_pairs_as_columns_of_any_size(million):
    _, snapshot = million
    columns = snapshot.to_columns()
    assert np.array_equal(columns.keys.offsets, np.arange(1_000_001) * 8)
    assert np.array_equal(columns.keys.bytes.view(">u8"), np.arange(1_000_000))
    assert np.array_equal(columns.values.bytes.view("<f8"), np.arange(1_000_000) / 2)


def test_a_million_finds(million):
    _, snapshot = million
    wanted = np.random.default_rng(2).integers(0, 2_000_000, 1_000_000, dtype=np.uint64)
    values, found = snapshot.find_many(wanted.astype(">u8"), "<f8")
    assert np.array_equal(found, wanted < 1_000_000)
    assert np.array_equal(values[found], wanted[found] / 2)
    assert not values[~found].any()


def test_a_run_of_keys_becomes_arrays(million):
    _, snapshot = million
    run = snapshot[(500).to_bytes(8, "big") : (700).to_bytes(8, "big")]
    keys, values = run.to_numpy(">u8", "<f8")
    assert np.array_equal(keys, np.arange(500, 700))
    assert np.array_equal(values, np.arange(500, 700) / 2)
    assert len(run.to_columns().keys.offsets) == 201
    assert len(snapshot[b"b":b"a"].to_numpy(">u8", "<f8")[0]) == 0
    assert snapshot[b"b":b"a"].to_columns().values.offsets.tolist() == [0]
    values, found = run.find_many(np.array([499, 500, 699, 700], ">u8"), "<f8")
    assert found.tolist() == [False, True, True, False]
    assert run.find_many([(499).to_bytes(8, "big")]) == [None]


CONTENT = st.dictionaries(st.binary(max_size=6), st.binary(max_size=6), max_size=30)


@settings(max_examples=80, deadline=None)
@given(content=CONTENT)
def test_columns_of_any_size_hold_what_the_snapshot_holds(tmp_path_factory, content):
    with open_store(tmp_path_factory.mktemp("columns") / "s") as store:
        store.put_many(list(content), list(content.values()))
        snapshot = store.latest()
        expected = sorted(content.items())
        keys, values = snapshot.to_numpy()
        assert keys.dtype == values.dtype == object
        assert list(zip(keys, values)) == expected
        columns = snapshot.to_columns()
        for column, side in ((columns.keys, 0), (columns.values, 1)):
            bounds = column.offsets.astype(int)
            items = [column.bytes[a:b].tobytes() for a, b in zip(bounds[:-1], bounds[1:])]
            assert items == [pair[side] for pair in expected]
        for column in (columns.keys, keys, list(keys)):
            assert store.find_many(column) == list(values)
        with open_store(tmp_path_factory.mktemp("copy") / "s") as copy:
            copy.put_many(*columns)
            assert copy == content


def test_items_of_different_sizes_fit_dtype_s_and_no_other(store):
    store.update({b"a": b"1", b"bb": b"22", b"": b""})
    keys, values = store.latest().to_numpy("S4", "S2")
    assert keys.tolist() == [b"", b"a", b"bb"]
    assert values.tolist() == [b"", b"1", b"22"]
    assert store.latest().to_numpy("S4", None)[1].tolist() == [b"", b"1", b"22"]
    with pytest.raises(icecore.InvalidArgumentError, match="item 2 has 2 bytes"):
        store.latest().to_numpy("S1", "S2")
    with pytest.raises(icecore.InvalidArgumentError):
        store.latest().to_numpy("V2", "S2")
    with pytest.raises(icecore.InvalidArgumentError):
        store.latest().to_numpy("V1", "V2")
    store.clear()
    store.update({b"k\0": b"v"})
    with pytest.raises(ValueError, match="NUL.*'V2'"):
        store.latest().to_numpy("S2", "S1")
    assert store.latest().to_numpy("V2", "V1")[0].tobytes() == b"k\0"


def test_values_may_be_vectors_and_structures(store):
    vectors = np.arange(12, dtype="<f4").reshape(4, 3)
    names = np.array([b"a", b"b", b"c", b"d"])
    store.put_many(names, vectors)
    keys, values = store.latest().to_numpy("S1", ("<f4", (3,)))
    assert keys.tolist() == names.tolist()
    assert np.array_equal(values, vectors)
    structured = store.latest().to_numpy("S1", [("x", "<f4"), ("yz", "<f4", (2,))])[1]
    assert structured["yz"].tolist() == vectors[:, 1:].tolist()
    values, found = store.find_many([b"c", b"z"], ("<f4", (3,)))
    assert values.tolist() == [vectors[2].tolist(), [0, 0, 0]]
    assert found.tolist() == [True, False]


def test_wrong_dtypes_are_refused(store):
    store[b"k"] = b"v"
    for wrong, match in [("O", "objects"), ("S", "size"), ("V", "size"), ("U4", "UTF-32")]:
        with pytest.raises(ValueError, match=match):
            store.latest().to_numpy(wrong, "S1")
        with pytest.raises(ValueError, match=match):
            store.find_many([b"k"], wrong)
    with pytest.raises(ValueError, match="threads"):
        store.latest().to_numpy("S1", "S1", threads=-1)


@pytest.mark.parametrize("threads", [1, 3, 0])
@pytest.mark.parametrize("count", [0, 1, 2, 1000, 200_000])
def test_put_many_puts_all(store, threads, count):
    keys = np.arange(count, dtype=">u4")
    store.put_many(keys, keys[::-1].astype("<u2"), threads=threads)
    out_keys, out_values = store.latest().to_numpy(">u4", "<u2")
    assert np.array_equal(out_keys, keys)
    assert np.array_equal(out_values, keys[::-1].astype("<u2"))


@pytest.mark.parametrize(
    "keys",
    [
        np.array([b"a", b"bcd", b"ef"]),
        np.array(["a", "bcd", "ef"]),
        np.array([b"a", b"bcd", b"ef"], object),
        [b"a", b"bcd", b"ef"],
        ("a", "bcd", "ef"),
        [bytearray(b"a"), memoryview(b"bcd"), np.frombuffer(b"ef", np.uint8)],
        ByteColumn(np.array([0, 1, 4, 6]), np.frombuffer(b"abcdef", np.uint8)),
    ],
    ids=["S", "U", "object", "bytes", "str", "buffers", "ByteColumn"],
)
def test_every_kind_of_column_means_the_same_bytes(store, keys):
    store.put_many(keys, keys)
    assert store == {b"a": b"a", b"bcd": b"bcd", b"ef": b"ef"}
    assert store.find_many(keys) == [b"a", b"bcd", b"ef"]


def test_arrays_that_are_not_contiguous_are_taken_item_by_item(store):
    table = np.arange(20, dtype=">u2").reshape(10, 2)
    store.put_many(table[:, 0], table[::-1, 1])
    assert store.find_many(table[:, 0], ">u2")[0].tolist() == table[::-1, 1].tolist()


def test_wrong_columns_are_refused_before_anything_is_written(store):
    array = np.arange(3, dtype=">u4")
    for keys, values, error in [
        (array, array[:2], ValueError),
        ([b"a", 5], [b"1", b"2"], TypeError),
        (b"abc", b"abc", TypeError),
        ("abc", "abc", TypeError),
        (5, 5, TypeError),
        (np.array(5), np.array(5), ValueError),
        (np.zeros((2, 0)), np.zeros((2, 0)), ValueError),
        (ByteColumn(np.array([0, 2, 1]), np.zeros(2, np.uint8)), [b"a", b"b"], ValueError),
        (ByteColumn(np.array([0, 3]), np.zeros(2, np.uint8)), [b"a"], ValueError),
        (ByteColumn(np.array([-1, 2]), np.zeros(2, np.uint8)), [b"a"], ValueError),
        (ByteColumn(np.array([], int), np.zeros(2, np.uint8)), [], ValueError),
        (ByteColumn(np.array([0.0, 1.0]), np.zeros(2, np.uint8)), [b"a"], TypeError),
    ]:
        with pytest.raises(error):
            store.put_many(keys, values)
    assert store == {}


def test_a_failing_put_many_names_the_item(store):
    with pytest.raises(icecore.KeyTooLongError, match="item 2 of 4"):
        store.put_many([b"a", b"b", b"x" * 70_000, b"c"], [b""] * 4)
    assert dict(store) == {b"a": b"", b"b": b""}
    with pytest.raises(icecore.KeyTooLongError), store.batch() as b:
        b.put_many([b"y", b"x" * 70_000], [b"", b""])
    assert b"y" not in store


def test_find_many_at_versions(store):
    for i in range(10):
        store[b"k"] = bytes([i])
        store.tag()
    versions = np.array([1, 5, 9, 0], np.uint64)
    first = store.find_many([b"k"] * 4, at=versions)
    assert first == [b"\x00", b"\x04", b"\x08", None]
    values, found = store.find_many([b"k"] * 4, np.uint8, at=versions.astype(np.int32))
    assert found.tolist() == [True, True, True, False]
    assert values.tolist() == [0, 4, 8, 0]
    assert store.find_many([b"k", b"x"], at=3, default=b"!") == [b"\x02", b"!"]
    assert store.find_many([]) == []
    with pytest.raises(icecore.InvalidArgumentError):
        store.find_many([b"k"], at=[1, 2])
    with pytest.raises(icecore.InvalidArgumentError):
        store.find_many([b"k"], at=[-1])
    with pytest.raises(icecore.VersionNotClosedError):
        store.find_many([b"k"], at=[store.clock])
    with pytest.raises(icecore.InvalidArgumentError, match="array of versions"):
        store.find_many([b"k"], at=np.array([1.5]))
    store[b"long"] = b"12"
    with pytest.raises(icecore.InvalidArgumentError, match="key 1 has 2 bytes"):
        store.find_many([b"k", b"long"], np.uint8)
