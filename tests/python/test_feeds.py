"""Changes between versions, and feeds: what a loop over the histories finds."""

import threading
import time

import pytest
from conftest import open_store

import icecore


def fill(store):
    """Three versions; returns their changes, by version, then key."""
    changes = []
    for i in range(3):
        with store.batch() as b:
            for k in range(10):
                b[b"%02d" % (k + 3 * i)] = b"%d" % i
        store.tag()
    del store[b"00"]
    last = store.tag()
    for version in range(1, last + 1):
        before, now = dict(store.at(version - 1).items()), dict(store.at(version).items())
        for key in sorted(before.keys() | now.keys()):
            written = any(c.version == version for c in store.history(key))
            if written:
                changes.append((key, version, now.get(key), before.get(key)))
    return last, changes


def test_changes_come_by_key_then_version_and_filters_choose_among_them(store):
    last, wanted = fill(store)
    found = store.changes(0, last)
    assert [c[:4] for c in found] == sorted(wanted)
    assert found.count() == len(wanted)
    assert [c.key for c in store.changes(0, last, "removed")] == [b"00"]
    assert all(c.first == (c.before is None and c.value is not None) for c in found)
    later = store.changes(last - 2, last, "before.value = '1'")
    assert [c[:4] for c in later] == sorted(c for c in wanted if c[1] > last - 2 and c[3] == b"1")


def test_a_feed_tells_each_change_once_and_goes_on_where_it_was_acknowledged(path):
    with open_store(path) as store:
        last, wanted = fill(store)
        feed = store.feed("mirror", after=0)
        first = feed.next(7)
        assert [c[:4] for c in first.changes] == wanted[:7] and not first.is_snapshot
        feed.acknowledge(first.token)
        assert feed.token == first.token
    with open_store(path) as store:
        feed = store.feed("mirror")
        batch = feed.next(1000)
        assert [c[:4] for c in batch.changes] == wanted[7:]
        assert batch.told == last
        assert [(f.name, f.after, f.snapshot) for f in store.feeds()] == [("mirror", 0, False)]
        feed.drop()
        assert store.feeds() == []
        with pytest.raises(icecore.NoSuchQueryError):
            feed.next()


def test_a_feed_without_a_name_keeps_its_place_with_the_caller_and_may_begin_with_a_snapshot(store):
    last, wanted = fill(store)
    batch = store.feed(after=2, snapshot=True).next(1000)
    assert batch.is_snapshot and batch.told == 0
    assert [(c.key, c.value) for c in batch.changes] == list(store.at(2).items())
    rest = store.feed(token=batch.token).next(1000)
    assert [c[:4] for c in rest.changes] == [c for c in wanted if c[1] > 2]
    assert rest.told == last
    with pytest.raises(icecore.BadTokenError):
        store.feed(token=b"x" + batch.token[1:])


def test_signed_tokens_are_made_by_who_knows_the_secret(store):
    fill(store)
    batch = store.feed(after=1, secret=b"secret").next(3)
    rest = store.feed(token=batch.token, secret=b"secret").next(1000)
    assert rest.changes == store.feed(token=store.feed(after=1).next(3).token).next(1000).changes
    for secret in (b"", b"other"):
        with pytest.raises(icecore.BadTokenError):
            store.feed(token=batch.token, secret=secret)


def test_a_feed_waits_for_a_version_to_be_closed(store):
    feed = store.feed(unsynced=True)
    begun = time.monotonic()
    assert feed.next(timeout=0.15).changes == []
    assert time.monotonic() - begun >= 0.14

    def write():
        store[b"late"] = b"1"
        store.tag()

    writer = threading.Timer(0.05, write)
    writer.start()
    assert [c.key for c in feed.next(timeout=30).changes] == [b"late"]
    writer.join()
