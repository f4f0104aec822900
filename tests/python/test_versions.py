"""Tags, snapshots, histories and differences: the past, from Python."""

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest
from conftest import open_store

import icecore
from icecore import Change, Difference


@pytest.fixture
def epochs(store):
    for i in range(1, 6):
        store[b"w"] = b"%d" % i
        store[b"epoch %d" % i] = b""
        if i == 4:
            del store[b"w"]
        store.tag(f"epoch-{i}", note=f"loss {1 / i:.2f}", time=i * 1_000_000_000)
    return store


def test_a_tag_reads_the_same_for_ever(epochs, path):
    expected = {f"epoch-{t}": dict(epochs.at(tag=f"epoch-{t}")) for t in range(1, 6)}
    assert [bytes(e.get(b"w", b"-")) for e in expected.values()] == [b"1", b"2", b"3", b"-", b"5"]
    epochs.clear()
    assert {t: dict(epochs.at(tag=t)) for t in expected} == expected
    epochs.close()
    with open_store(path, "r") as again:
        assert {t: dict(again.at(tag=t)) for t in expected} == expected
        assert dict(again) == {}


UTC = timezone.utc


def names_of(store, name):
    """All names of the version that a tag has."""
    tag = store.find_tag(name)
    return {
        "number": tag.version,
        "a NumPy number": np.uint64(tag.version),
        "tag's name": name,
        "Tag": tag,
        "Snapshot": store.at(tag.version),
        "time": tag.time,
        "later time in another zone": (tag.time + timedelta(milliseconds=900)).astimezone(timezone(timedelta(hours=-7))),
        "local time": tag.time.astimezone(),
    }


READERS = {
    "at": lambda store, at: store.at(at)["w"],
    "find": lambda store, at: store.find("w", at=at),
    "get": lambda store, at: store.get("w", at=at),
    "view": lambda store, at: bytes(store.view("w", at=at)),
    "get_array": lambda store, at: store.get_array("array", at=at).tobytes(),
    "find_many": lambda store, at: store.find_many(["w"], at=at)[0],
    "find_many of a list": lambda store, at: store.find_many(["w", "w"], at=[0, at])[1],
    "find_many with a dtype": lambda store, at: store.find_many(["w"], "S1", at=at)[0][0],
    "diff, after": lambda store, at: next(d for d in store.diff(0, at) if d.key == b"w").after,
    "diff, before": lambda store, at: next(d for d in store.diff(at, "epoch-5") if d.key == b"w").before,
    "changes, up_to": lambda store, at: [c for c in store.changes(0, at) if c.key == b"w"][-1].value,
    "changes, after": lambda store, at: next(c for c in store.changes(at, "epoch-5") if c.key == b"w").before,
    "feed": lambda store, at: next(c for c in store.feed(after=at, unsynced=True).next().changes if c.key == b"w").before,
    "start": lambda store, at: store.at(store.start("q", at=at).version)["w"],
    "find_tag": lambda store, at: store.at(store.find_tag(at))["w"],
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_every_call_takes_every_name_of_a_version(epochs, read):
    epochs.put_array("array", np.array(b"5"))
    epochs.tag("array")
    for name, value in {"epoch-2": b"2", "epoch-3": b"3"}.items():
        for kind, at in names_of(epochs, name).items():
            if read is READERS["get_array"]:
                at = epochs.find_tag("array").version if kind == "number" else names_of(epochs, "array")[kind]
                value = b"5"
            assert read(epochs, at) == value, kind
            for query in epochs.queries():
                query.drop()


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_names_no_version_is_refused_with_what_is_accepted(epochs, read):
    epochs.put_array("array", np.array(b"5"))
    for wrong in (1.5, True, b"epoch-1", object(), date(2020, 1, 1), np.datetime64("2020-01-01"), {}, epochs):
        with pytest.raises(TypeError, match=r"int \(its number\), a str \(a tag's name\), a Tag, a Snapshot, or a datetime"):
            read(epochs, wrong)
    for wrong in (-1, 2**48, 2**70, np.int64(-1)):
        with pytest.raises(icecore.InvalidArgumentError, match="range"):
            read(epochs, wrong)
    for wrong in ("epoch-9", datetime(1970, 1, 1, tzinfo=UTC)):
        if read is READERS["find_tag"]:
            assert epochs.find_tag(wrong) is None
        else:
            with pytest.raises(icecore.UnknownTagError, match="tags\\(\\) lists them"):
                read(epochs, wrong)
    with pytest.raises(icecore.InvalidArgumentError, match="has no time zone: use datetime.now"):
        read(epochs, datetime(2020, 1, 1))
    with pytest.raises(icecore.InvalidArgumentError, match="surrogate"):
        read(epochs, "\ud800")
    if read is not READERS["find_tag"]:
        with pytest.raises(icecore.VersionNotClosedError):
            read(epochs, epochs.clock + 1)


def test_a_version_is_that_of_the_newest_tag_at_or_before_a_time(epochs):
    tag = epochs.find_tag("epoch-2")
    for time in (2_000_000_000, 2_999_999_999, tag.time, datetime(1970, 1, 1, 0, 0, 2, 500_000, UTC)):
        assert epochs.at(time=time).tag == tag
    assert epochs.at(time=3_000_000_000).tag.name == "epoch-3"
    assert epochs.at(datetime.max.replace(tzinfo=UTC)).tag.name == "epoch-5"
    assert epochs.at(0) == {}
    assert epochs.find("w", at=0) is None
    assert epochs.find_tag(tag.version) == epochs.find_tag(epochs.at(tag)) == tag
    assert epochs.find_tag(epochs.tag()) is None


def test_pandas_times_are_exact(store):
    pandas = pytest.importorskip("pandas")
    store.tag("one", time=1_700_000_000_123_456_700)
    store.tag("two", time=1_700_000_000_123_456_800)
    assert store.at(pandas.Timestamp(1_700_000_000_123_456_799, tz="UTC")).tag.name == "one"
    assert store.at(pandas.Timestamp(1_700_000_000_123_456_800, tz="Asia/Tokyo")).tag.name == "two"
    store.tag("three", time=pandas.Timestamp(1_700_000_000_123_456_900, tz="UTC"))
    assert store.find_tag("three").time_ns == 1_700_000_000_123_456_900


def test_the_name_of_a_tag_that_is_no_text_names_it(store):
    version = store.tag(b"\xff\xfe", note=b"\x80")
    (tag,) = store.tags()
    assert tag.name == "\udcff\udcfe" and tag.note == "\udc80"
    assert store.at(tag.name).version == store.find_tag(tag.name).version == version


def test_a_tag_keeps_time_to_the_nanosecond_and_is_found_by_its_datetime(store):
    store.tag("exact", time=1_700_000_000_123_456_789)
    tag = store.find_tag("exact")
    assert tag.time_ns == 1_700_000_000_123_456_789
    assert tag.time == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=timezone.utc)
    assert store.at(time=tag.time).tag == tag
    assert store.at(time=tag.time_ns).tag == tag
    with pytest.raises(icecore.UnknownTagError):
        store.at(time=tag.time_ns - 1)


def test_a_tag_given_a_datetime_keeps_it(store):
    east = timezone(timedelta(hours=9))
    store.tag(time=datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=east))
    (tag,) = store.tags()
    assert tag.time == datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=east)
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    store.tag("now")
    assert before < store.find_tag("now").time < datetime.now(timezone.utc) + timedelta(seconds=1)


def test_a_tag_without_label_closes_the_version_and_is_not_listed(store):
    clock = store.clock
    assert store.tag() == clock
    assert store.clock == clock + 1
    assert store.tags() == []
    assert store.at(clock).tag is None
    assert store.find_tag(clock) is None
    assert store.find_tag("nothing") is None


def test_tags_are_listed_oldest_first_with_name_note_and_time(epochs):
    tags = epochs.tags()
    assert [t.name for t in tags] == [f"epoch-{i}" for i in range(1, 6)]
    assert [t.note for t in tags][:2] == ["loss 1.00", "loss 0.50"]
    assert [t.version for t in tags] == sorted(t.version for t in tags)
    assert tags[0].time_ns == 1_000_000_000


PRESENT = {
    "len": len,
    "iter": list,
    "bool": bool,
    "latest": lambda store: store.latest(),
    "slice": lambda store: store["a":"b"],
    "keys": lambda store: len(store.keys(limit=1)),
    "reversed": lambda store: list(reversed(store)),
    "==": lambda store: store == {},
    "find_many": lambda store: store.find_many(["k"]),
    "find": lambda store: (store.find("k"), store.get("k"), "k" in store, store.view("k")),
    "history": lambda store: list(store.history("k")),
    "stats": lambda store: (store.stats(), store.tags(), store.durability(), store.queries(), store.feeds()),
    "table": lambda store: (store._repr_html_(), store._ipython_key_completions_()),
}


@pytest.mark.parametrize("index", ["btree", "skip_list", "persistent"])
@pytest.mark.parametrize("durability", ["none", "tag", "operation"])
def test_reading_the_present_spends_no_versions_where_nothing_was_written(path, index, durability):
    def reads(store):
        for name, read in PRESENT.items():
            clock = store.clock
            read(store)
            assert store.clock == clock, name

    with open_store(path, index=index, durability=durability) as store:
        store["k"] = "v"
        len(store)  # closes the version in which something was written
        reads(store)
        version = store.tag("named", note="which is a record, too")
        reads(store)
        assert store.tag("next") == version + 1, "whoever counts tags counts no reads"
        store.sync()
        reads(store)
        written = store.insert("k", "w")
        assert [store.latest().version for _ in range(5)] == [written] * 5, "one for all reads that follow a write"
        reads(store)
    with open_store(path) as store:
        len(store)
        reads(store)


def test_wrong_versions_are_distinguished(epochs):
    with pytest.raises(icecore.VersionNotClosedError) as raised:
        epochs.at(epochs.clock)
    assert isinstance(raised.value, ValueError)
    with pytest.raises(icecore.UnknownTagError, match="epoch-9") as raised:
        epochs.at(tag="epoch-9")
    assert isinstance(raised.value, KeyError)
    assert "epoch-9" in str(raised.value)
    with pytest.raises(icecore.UnknownTagError):
        epochs.at(time=999_999_999)
    with pytest.raises(icecore.TagExistsError):
        epochs.tag("epoch-1")
    for given, named in (((), {}), ((1,), {"tag": "epoch-1"}), ((), {"tag": "epoch-1", "time": 5})):
        with pytest.raises(TypeError, match="exactly one"):
            epochs.at(*given, **named)
    for wrong in (1.5, "2020-01-01", True):
        with pytest.raises(TypeError, match="a time must be a datetime with a time zone, or an int of nanoseconds"):
            epochs.at(time=wrong)
        with pytest.raises(TypeError, match="a time must be"):
            epochs.tag(time=wrong)
    with pytest.raises(icecore.InvalidArgumentError, match="no time zone"):
        epochs.tag(time=datetime(2020, 1, 1))
    with pytest.raises(TypeError, match="tag must be a str"):
        epochs.at(tag=5)
    for wrong in ({"name": 5}, {"note": {"loss": 0.1}}):
        with pytest.raises(TypeError, match="must be a str"):
            epochs.tag(**wrong)


def test_a_history_runs_both_ways_and_ends_at_its_snapshot(epochs):
    v = [t.version for t in epochs.tags()]
    expected = [Change(v[4], b"5"), Change(v[3], None), Change(v[3], b"4")]
    expected += [Change(v[i], b"%d" % (i + 1)) for i in (2, 1, 0)]
    history = epochs.history("w")
    assert list(history) == expected
    assert list(history) == expected, "a history can be run through again"
    assert list(reversed(history)) == expected[::-1]
    assert [(c.version, c.value if c.value is None else bytes(c.value)) for c in history.views()] == expected
    assert [c.version for c in history.views(oldest_first=True)] == [c.version for c in expected[::-1]]
    assert len(history) == 6
    assert list(epochs.at("epoch-2").history("w")) == expected[-2:]
    assert list(reversed(epochs.at("epoch-2").history("w"))) == expected[:-3:-1]
    assert list(epochs.history(b"never")) == []


def test_a_long_history_is_fetched_as_it_is_read(store):
    for i in range(5000):
        store[b"k"] = b"%d" % i
    assert [int(c.value) for c in store.history(b"k")] == list(range(5000))[::-1]
    assert [int(c.value) for c in reversed(store.history(b"k"))] == list(range(5000))
    assert int(next(iter(store.history(b"k"))).value) == 4999


def test_a_difference_tells_before_and_after_in_key_order(epochs):
    diff = epochs.diff("epoch-3", "epoch-5")
    expected = [
        Difference(b"epoch 4", None, b""),
        Difference(b"epoch 5", None, b""),
        Difference(b"w", b"3", b"5"),
    ]
    assert list(diff) == expected
    assert list(diff) == expected, "a difference can be run through again"
    assert [tuple(None if x is None else bytes(x) for x in d) for d in diff.views()] == expected
    backwards = epochs.diff(epochs.at("epoch-5"), epochs.find_tag("epoch-3").version)
    assert [(d.key, d.after, d.before) for d in backwards] == expected
    assert list(epochs.diff(0, "epoch-1")) == [Difference(b"epoch 1", None, b""), Difference(b"w", None, b"1")]
    assert list(epochs.diff("epoch-1", "epoch-1")) == []
    assert list(epochs.diff("epoch-3", "epoch-5", prefix="epoch")) == expected[:2]
    assert list(epochs.diff("epoch-3", "epoch-5", "epoch 5", "w")) == expected[1:2]
    assert list(epochs.diff("epoch-3", "epoch-5", "x", "a")) == []
    with pytest.raises(icecore.UnknownTagError):
        epochs.diff("epoch-1", "epoch-9")
    with pytest.raises(icecore.VersionNotClosedError):
        epochs.diff(1, epochs.clock)


def test_insert_and_remove_tell_the_version(store):
    clock = store.clock
    assert store.insert(b"k", b"v") == clock
    assert store.tag() == clock
    assert store.remove(b"k") == clock + 1
    assert store.remove(b"k") is None
    assert store.remove(b"never") is None


def test_a_batch_takes_effect_at_one_instant_or_not_at_all(store):
    store[b"old"] = b"1"
    before = store.tag()
    with store.batch() as b:
        b[b"x"] = b"1"
        b["y"] = "2"
        b[b"x"] = b"3"
        del b[b"old"]
        del b[b"never there"]
        b.put_array("a", [1.0, 2.0])
        b.put_many([b"m1", b"m2"], [b"1", b"2"])
        assert len(b) == 8
        assert dict(store) == {b"old": b"1"}
        with pytest.raises(ValueError, match="not been applied"):
            b.version
    assert b.version == store.clock == before + 1
    assert dict(store.at(before)) == {b"old": b"1"}
    assert store[b"x"] == b"3"
    assert b"old" not in store
    assert store.get_array(b"a").tolist() == [1.0, 2.0]
    assert store[b"m2"] == b"2"
    with pytest.raises(ValueError, match="applied already"):
        b[b"z"] = b""
    with pytest.raises(ZeroDivisionError), store.batch() as dropped:
        dropped[b"x"] = b"never"
        1 / 0
    assert store[b"x"] == b"3"
    with store.batch() as empty:
        empty[b"k"] = b"v"
        empty.clear()
    assert b"k" not in store


def test_conditions_decide_whether_a_write_happens(store):
    assert store.insert_new(b"k", b"1") == 1
    assert store.insert_new(b"k", b"2") is None
    store.tag()
    assert store.replace(b"k", b"3", expected_version=2) is None
    assert store.replace(b"absent", b"3", 1) is None
    assert store.replace(b"k", b"3", 1) == 2
    assert store[b"k"] == b"3"
    with pytest.raises(icecore.KeyTooLongError):
        store.insert_new(b"k" * 65_536, b"")


def test_a_batch_takes_effect_only_if_its_conditions_hold(store):
    version = store.insert(b"one", b"1")
    with store.batch() as b:
        b.replace(b"one", b"1a", version)
        b.insert_new(b"two", b"2")
        b[b"three"] = b"3"
    assert b.applied and b.version == version
    assert dict(store.items()) == {b"one": b"1a", b"two": b"2", b"three": b"3"}
    with store.batch() as b:
        b.insert_new(b"four", b"4")
        b.insert_new(b"two", b"4")
    assert not b.applied and b"four" not in store
    with pytest.raises(ValueError, match="condition"):
        b.version  # noqa: B018
    with pytest.raises(ValueError, match="applied already"):
        b[b"five"] = b"5"
    with pytest.raises(ValueError, match="version 0"), store.batch() as b:
        b.replace(b"one", b"", 0)


def test_a_store_keeps_the_index_it_was_made_with(path):
    with open_store(path, index="skip_list") as store:
        for i in range(1000):
            store[b"%d" % (i * 7919 % 1000)] = b"%d" % i
        assert store.stats().index == "skip_list"
    with open_store(path) as store:
        assert store.stats().index == "skip_list"
        assert list(store) == sorted(b"%d" % i for i in range(1000))
    with pytest.raises(ValueError, match="'heap' is not one of btree, skip_list, persistent, list, hash"):
        open_store(path, index="heap")


def test_a_store_gets_another_index_and_holds_what_it_held(path):
    with open_store(path) as store:
        store.update({b"%d" % i: b"first" for i in range(1000)})
        store.tag("one")
        store[b"7"] = b"second"
        assert store.stats().recovered_instantly is False
    for index in ("persistent", "persistent", "skip_list", "hash", "list", "btree"):
        with open_store(path, "r+", index=index, change_index=True) as store:
            assert store.stats().index == index
        with open_store(path, "r") as store:
            reported = store.stats()
            assert (reported.index, reported.recovered_instantly) == (index, index == "persistent")
            assert (reported.keys, reported.tags) == (1000, 1)
            assert store[b"7"] == b"second" and store.at(tag="one")[b"7"] == b"first"
    with pytest.raises(icecore.InvalidArgumentError, match=r"changing the index needs mode 'a' or 'r\+'$"):
        open_store(path, "r", index="persistent", change_index=True)


def test_deferred_writes_are_durable_with_the_next_sync(path):
    with pytest.raises(icecore.InvalidArgumentError, match="only durability 'operation' can be deferred"):
        open_store(path, deferred_durability=True)
    with open_store(path, durability="operation", deferred_durability=True) as store:
        assert store.durability().deferred
        store[b"key"] = b"value"
        closed = store.tag()
        assert store.durable_version < closed
        store.sync()
        assert store.durable_version == closed
        assert store[b"key"] == b"value"


def test_sync_and_durability_and_statistics_tell_what_is(path):
    for mode in ("none", "tag", "operation"):
        with open_store(path, durability=mode) as store:
            store[mode] = b"x" * 100
            store.tag(mode)
            store.sync()
            info = store.durability()
            assert info.mode == mode
            assert info.medium in ("persistent_memory", "block_device", "memory")
            assert info.emulated == (info.medium == "memory" and mode != "none")
            assert not info.deferred
            assert store.durable_version == store.clock - 1
    with open_store(path, "r") as store:
        reported = store.stats()
        assert (reported.keys, reported.records, reported.tags) == (3, 3, 3)
        assert reported.value_bytes == 300
        assert reported.path == str(path)
        assert reported.clock == store.clock
        assert reported.index == "btree"
        assert store.read_only
        report = store.verify()
        assert report.ok
        assert report
        assert (report.entries, report.tags) == (3, 3)
    assert icecore.verify_file(path).ok
