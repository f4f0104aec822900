"""A store is a MutableMapping and a snapshot a Mapping: what holds of a sorted dict holds of them."""

from collections.abc import ItemsView, KeysView, Mapping, MutableMapping, ValuesView

import numpy as np
import pytest
from conftest import open_store
from hypothesis import given, settings
from hypothesis import strategies as st

import icecore

ABC = {b"a": b"1", b"b": b"22", b"c": b"", b"": b"empty key", b"\x00\xff": b"\x00"}


@pytest.fixture
def abc(store):
    store.update(ABC)
    return store


def test_huge_pages_are_counted_for_the_process_by_a_function_of_its_own(tmp_path):
    with icecore.open(tmp_path / "model.ice") as store:
        assert icecore.process_huge_page_bytes() % (2 << 20) == 0
        assert not hasattr(store.stats(), "huge_page_bytes")


def test_store_and_snapshot_are_mappings_by_type(store):
    assert isinstance(store, MutableMapping)
    assert isinstance(store.latest(), Mapping)
    assert not isinstance(store.latest(), MutableMapping)
    assert isinstance(store.keys(), KeysView)
    assert isinstance(store.values(), ValuesView)
    assert isinstance(store.items(), ItemsView)


def test_subscription_reads_what_was_written(store):
    store[b"k"] = b"v"
    assert store[b"k"] == b"v"
    store[b"k"] = b"w"
    assert store[b"k"] == b"w"
    del store[b"k"]
    assert b"k" not in store
    store[b"k"] = b""
    assert store[b"k"] == b""


@pytest.mark.parametrize("key", [b"missing", "missing", bytearray(b"missing")])
def test_missing_keys_raise_plain_key_error_with_the_key(abc, key):
    for read in (abc.__getitem__, abc.__delitem__, abc.latest().__getitem__, abc.pop):
        with pytest.raises(KeyError) as raised:
            read(key)
        assert raised.value.args == (key,)
        assert type(raised.value) is KeyError


def test_get_pop_setdefault_popitem_and_clear_are_those_of_a_dict(abc):
    model = dict(ABC)
    assert abc.get(b"a") == b"1"
    assert abc.get(b"nope") is None
    assert abc.get(b"nope", 7) == 7
    assert abc.latest().get(b"nope", 7) == 7
    assert abc.setdefault(b"a", b"x") == model.setdefault(b"a", b"x")
    assert abc.setdefault(b"d", b"x") == model.setdefault(b"d", b"x")
    assert abc.pop(b"a") == model.pop(b"a")
    assert abc.pop(b"a", None) is None
    key, value = abc.popitem()
    assert model.pop(key) == value
    assert abc == model
    assert bool(abc)
    before = abc.latest()
    abc.clear()
    assert abc == {}
    assert len(abc) == 0
    assert not abc
    assert before == model
    with pytest.raises(KeyError):
        abc.popitem()


def test_update_takes_mappings_pairs_and_keywords(store):
    store.update({b"a": b"1"})
    store.update([(b"b", b"2")])
    store.update(c=b"3")
    assert store == {b"a": b"1", b"b": b"2", b"c": b"3"}


def test_equality_is_by_content_and_there_is_no_hash(abc):
    assert abc == ABC
    assert abc == abc.latest()
    assert abc.latest() == ABC
    assert abc != {b"a": b"1"}
    for unhashable in (abc, abc.latest()):
        with pytest.raises(TypeError):
            hash(unhashable)


def test_length_iteration_and_reversal_are_in_key_order(abc):
    ordered = sorted(ABC)
    assert len(abc) == len(abc.latest()) == len(ABC)
    assert list(abc) == ordered
    assert list(reversed(abc)) == ordered[::-1]
    assert list(abc.keys()) == ordered
    assert list(abc.values()) == [ABC[k] for k in ordered]
    assert list(abc.items()) == [(k, ABC[k]) for k in ordered]
    assert list(reversed(abc.items())) == [(k, ABC[k]) for k in reversed(ordered)]
    assert list(reversed(abc.values())) == [ABC[k] for k in reversed(ordered)]


def test_views_are_sets_as_those_of_a_dict(abc):
    assert b"a" in abc.keys()
    assert b"nope" not in abc.keys()
    assert (b"a", b"1") in abc.items()
    assert (b"a", b"2") not in abc.items()
    assert (b"nope", b"1") not in abc.items()
    assert b"a" not in abc.items()
    assert b"22" in abc.values()
    assert b"nope" not in abc.values()
    assert abc.keys() & {b"a", b"z"} == {b"a"}
    assert abc.keys() | {b"z"} == set(ABC) | {b"z"}
    assert abc.items() - {(b"a", b"1")} == set(ABC.items()) - {(b"a", b"1")}
    assert abc.keys() == ABC.keys()


def test_views_of_a_store_follow_it_and_views_of_a_snapshot_do_not(abc):
    live, still = abc.keys(), abc.latest().keys()
    abc[b"new"] = b""
    assert b"new" in live
    assert len(live) == len(ABC) + 1
    assert b"new" not in still
    assert len(still) == len(ABC)


def test_writing_while_iterating_does_not_disturb_the_iteration(abc):
    seen = []
    for key in abc:
        seen.append(key)
        abc[key + b"!"] = b"new"
        del abc[key]
    assert seen == sorted(ABC)
    assert list(abc) == sorted(k + b"!" for k in ABC)


def test_limits_and_directions(store):
    store.update({b"%03d" % i: b"%d" % i for i in range(100)})
    assert list(store.keys(limit=3)) == [b"000", b"001", b"002"]
    assert list(store.keys(limit=0)) == []
    assert list(store.keys(reverse=True, limit=2)) == [b"099", b"098"]
    assert list(reversed(store.keys(limit=3))) == [b"002", b"001", b"000"]
    assert list(reversed(store.keys(reverse=True, limit=2))) == [b"098", b"099"]
    assert len(store.keys(limit=3)) == 3
    assert len(store.keys(limit=1000)) == 100
    assert b"050" not in store.keys(limit=3)
    assert b"001" in store.keys(limit=3)
    assert (b"050", b"50") not in store.items(limit=3)
    assert list(store.keys(b"010", b"012")) == [b"010", b"011"]
    assert list(store.keys(b"097", reverse=True)) == [b"099", b"098", b"097"]
    assert list(store.items(prefix=b"09", stop="092")) == [(b"090", b"90"), (b"091", b"91")]
    assert list(store.values(prefix="02", limit=1)) == [b"20"]
    with pytest.raises(ValueError, match="limit"):
        store.keys(limit=-1)


KEYS = st.binary(max_size=3)
BOUND = st.none() | KEYS


@settings(max_examples=60, deadline=None)
@given(content=st.dictionaries(KEYS, st.binary(max_size=4), max_size=40), data=st.data())
def test_ranges_are_those_of_a_sorted_dict(tmp_path_factory, content, data):
    with open_store(tmp_path_factory.mktemp("ranges") / "s") as store:
        store.update(content)
        snapshot = store.latest()
        for _ in range(10):
            start, stop, prefix = data.draw(st.tuples(BOUND, BOUND, BOUND))
            reverse = data.draw(st.booleans())
            limit = data.draw(st.none() | st.integers(0, 50))
            expected = [
                (k, v)
                for k, v in sorted(content.items())
                if (start is None or k >= start)
                and (stop is None or k < stop)
                and (prefix is None or k.startswith(prefix))
            ]
            narrowed = snapshot[start:stop]
            run = {
                k: v for k, v in content.items() if (start is None or k >= start) and (stop is None or k < stop)
            }
            assert dict(narrowed) == run
            assert {k for k in content if k in narrowed} == run.keys()
            unlimited = snapshot.items(start, stop, prefix=prefix)
            assert len(unlimited) == len(expected)
            if reverse:
                expected.reverse()
            expected = expected[:limit]
            for source in (store, snapshot):
                assert list(source.items(start, stop, prefix=prefix, reverse=reverse, limit=limit)) == expected
                assert list(source.keys(start, stop, prefix=prefix, reverse=reverse, limit=limit)) == [
                    k for k, _ in expected
                ]


def test_slices_are_snapshots_of_a_run_of_keys(abc):
    run = abc[b"a":b"c"]
    assert isinstance(run, icecore.Snapshot)
    assert run == {b"a": b"1", b"b": b"22"}
    assert len(run) == 2
    assert b"c" not in run
    assert run.get(b"c") is None
    with pytest.raises(KeyError):
        run[b"c"]
    with pytest.raises(KeyError):
        run.view(b"c")
    assert run[b"b":] == {b"b": b"22"}
    assert run["b":"z"] == {b"b": b"22"}, "narrowing never widens"
    assert list(run.items(b"", b"b")) == [(b"a", b"1")]
    assert abc[b"x":b"a"] == {}
    assert len(abc[b"x":b"a"]) == 0
    assert abc[:] == ABC
    assert run.bounds == (b"a", b"c")
    abc[b"aa"] = b"later"
    assert b"aa" not in run
    with pytest.raises(ValueError, match="step"):
        abc[b"a":b"c":2]
    with pytest.raises(TypeError, match="slice"):
        abc[b"a":b"c"] = b""
    with pytest.raises(TypeError, match="slice"):
        del abc[b"a":b"c"]


def test_str_means_its_utf8_bytes(store):
    store["schlüssel"] = "wert"
    assert store["schlüssel".encode()] == b"wert"
    assert "schlüssel" in store
    assert list(store) == ["schlüssel".encode()]
    with pytest.raises(UnicodeEncodeError):
        store["\ud800"] = b""


@pytest.mark.parametrize(
    "value",
    [
        bytearray(b"12345678"),
        memoryview(b"12345678"),
        np.frombuffer(b"12345678", np.uint8),
        np.bytes_(b"12345678"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_bytes_like_objects_are_keys_and_values(store, value):
    store[b"k"] = value
    assert store[b"k"] == b"12345678"
    store[value] = b"v"
    assert store[value] == store[b"12345678"] == b"v"
    assert value in store
    del store[value]
    assert value not in store


def test_other_types_are_refused_with_what_is_accepted(store):
    for wrong in (5, None, 1.5, ["a"], object()):
        with pytest.raises(TypeError, match="a key must be bytes, str or a bytes-like object"):
            store[wrong] = b""
        with pytest.raises(TypeError, match="a key must be"):
            store[wrong]
        with pytest.raises(TypeError, match="a key must be"):
            wrong in store
        with pytest.raises(TypeError, match="a value must be bytes, str or a bytes-like object"):
            store[b"k"] = wrong
    with pytest.raises((ValueError, BufferError), match="contiguous"):
        store[b"k"] = np.arange(10, dtype=np.uint8)[::2]
    assert store == {}


def test_keys_may_be_arrays_of_any_items(store):
    key = np.frombuffer(b"12345678", "<u4").reshape(2, 1)
    store[key] = b"v"
    assert store[b"12345678"] == store[key] == b"v"


def test_structural_pattern_matching_sees_a_mapping(abc):
    match abc:
        case {b"a": value}:
            assert value == b"1"
        case _:
            raise AssertionError("a store is no mapping to match")


def test_an_iterator_of_many_blocks_misses_nothing(store):
    count = 20_000
    store.put_many(np.arange(count, dtype=">u4"), np.arange(count, dtype="<u4"))
    assert list(store) == [i.to_bytes(4, "big") for i in range(count)]
    assert [int.from_bytes(v, "little") for v in store.values(reverse=True)] == list(range(count))[::-1]
    iterator = iter(store.items())
    assert iter(iterator) is iterator
    assert next(iterator) == (bytes(4), bytes(4))
    assert sum(1 for _ in iterator) == count - 1
    assert next(iterator, None) is None
    assert next(iterator, None) is None
