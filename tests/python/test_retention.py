"""Which versions a store keeps, and what it forgets."""

from datetime import timedelta

import pytest
from conftest import open_store

import icecore


def fill(path, count):
    with open_store(path) as store:
        for n in range(1, count + 1):
            store["all"] = str(n)
            store.tag(f"tag-{n}")


def test_a_store_keeps_all_unless_told_otherwise(path):
    with open_store(path) as store:
        assert store.retention == icecore.Retention(False, 0, timedelta(0), 0, 0, 0)
        assert store.expired_versions() == []
        store.set_retention(tagged=True, newest=5, younger_than=timedelta(days=2), hourly=1, daily=2, weekly=3)
    with open_store(path) as store:
        assert store.retention == icecore.Retention(True, 5, timedelta(days=2), 1, 2, 3)
        store.set_retention()
        assert store.retention.newest == 0


def test_an_expired_version_is_an_error_of_its_own(path):
    fill(path, 6)
    with open_store(path) as store:
        store.set_retention(newest=2)
    told = icecore.compact(path, dry_run=True)
    assert (told.packed, told.versions_expired, told.records_dropped) == (False, 4, 4)
    done = icecore.compact(path)
    assert (done.packed, done.versions_expired, done.records_dropped, done.erased) == (True, 4, 4, True)
    with open_store(path) as store:
        assert store.expired_versions() == [range(1, 5)]
        for at in (4, "tag-4"):
            with pytest.raises(icecore.VersionExpiredError, match="version 4 has expired"):
                store.at(at)
        assert store.at(5)["all"] == b"5"
        assert [tag.name for tag in store.tags()] == [f"tag-{n}" for n in range(1, 7)]
        assert [change.version for change in store.history("all")] == [6, 5]


def test_wrong_arguments_say_what_is_wrong(path):
    with open_store(path) as store:
        with pytest.raises(icecore.InvalidArgumentError, match="not negative"):
            store.set_retention(younger_than=timedelta(seconds=-1))
        with pytest.raises(icecore.InvalidArgumentError, match="newest must be 0 or more"):
            store.set_retention(newest=-1)
        with pytest.raises(TypeError, match="tagged must be a bool"):
            store.set_retention(tagged=1)
        with pytest.raises(TypeError, match="younger_than"):
            store.set_retention(younger_than=3)
        with pytest.raises(icecore.InvalidArgumentError, match="no key and no prefix"):
            store.forget()
        with pytest.raises(TypeError):
            store.forget(7)
    for name in ("dry_run", "only_if_expiring"):
        with pytest.raises(TypeError, match=f"{name} must be a bool"):
            icecore.compact(path, **{name: 1})


def test_forgotten_keys_are_in_no_version_and_in_no_byte(path):
    with open_store(path) as store:
        store["user/1"] = "s3cr3t-one"
        store["user/2"] = "s3cr3t-two"
        store["other"] = "stays"
        store.tag("first")
        told = store.forget("none", prefixes=["user/"], note="why")
        assert (told.keys, told.tag) == (2, "forgotten-1")
        assert "user/1" not in store
        assert store.find_tag("forgotten-1").note == "2 keys: why"
    assert icecore.compact(path).erased
    with open(path, "rb") as file:
        content = file.read()
    assert b"user/" not in content
    assert b"s3cr3t" not in content
    with open_store(path) as store:
        assert dict(store.at("first").items()) == {b"other": b"stays"}


@pytest.mark.parametrize("wrong", ["user/", b"user/", None, 7])
def test_one_prefix_is_not_taken_for_a_list_of_its_letters(path, wrong):
    with open_store(path) as store:
        store["user/1"] = "x"
        with pytest.raises(TypeError, match="prefixes must be a list"):
            store.forget(prefixes=wrong)
        assert store["user/1"] == b"x"


def test_a_version_that_is_held_stays_until_it_is_released(path):
    fill(path, 6)
    with open_store(path) as store:
        assert store.holds() == []
        assert store.hold("paper", "tag-2") == 2
        store["all"] = "open"
        assert store.hold("now") == 7
        store.hold("by a snapshot", store.at(3))
        store.set_retention(newest=1)
        with pytest.raises(icecore.QueryExistsError, match="a hold is named 'paper' already"):
            store.hold("paper", 4)
        with pytest.raises(icecore.VersionNotClosedError):
            store.hold("open", 8)
        held = store.holds()
        assert [(hold.name, hold.version) for hold in held] == [("paper", 2), ("by a snapshot", 3), ("now", 7)]
        assert store.at(held[0])["all"] == b"2"
        assert timedelta(0) <= held[1].created - held[0].created < timedelta(minutes=1)
        assert store.stats().oldest_held == 2
        store.release("by a snapshot")
    assert icecore.compact(path, dry_run=True).versions_expired == 5
    assert icecore.compact(path).versions_expired == 5
    with open_store(path) as store:
        assert store.at("tag-2")["all"] == b"2"
        with pytest.raises(icecore.VersionExpiredError):
            store.at(3)
        with pytest.raises(icecore.VersionExpiredError, match="version 3 has expired"):
            store.hold("late", 3)
        store.checkpoint(str(path) + ".copy")
        store.release("paper")
        with pytest.raises(icecore.NoSuchQueryError, match="no hold is named 'paper'"):
            store.release("paper")
        assert store.compact().versions_expired == 1
        assert [hold.name for hold in store.holds()] == ["now"]
    with icecore.open(str(path) + ".copy") as copy:
        assert [hold.name for hold in copy.holds()] == ["paper", "now"]
    assert icecore.repair(path, str(path) + ".repaired").holds == 1
    with icecore.open(path, "r") as store:
        assert [hold.name for hold in store.holds()] == ["now"]
        with pytest.raises(icecore.ReadOnlyError):
            store.hold("more")
        with pytest.raises(icecore.ReadOnlyError):
            store.release("now")


def test_names_of_holds_are_texts(path):
    with open_store(path) as store:
        for name in ("", "n" * 65_536):
            with pytest.raises(icecore.InvalidArgumentError, match="1 to 65535 bytes"):
                store.hold(name)
        for call in (store.hold, store.release):
            with pytest.raises(TypeError, match="a hold's name must be a str"):
                call(b"bytes")
        for name in ("n" * 65_535, "\u00e9\n'", "\udcff"):
            store.hold(name)
            assert [hold.name for hold in store.holds()] == [name]
            store.release(name)


def test_a_store_is_packed_only_if_versions_expire(path):
    fill(path, 3)
    assert not icecore.compact(path, only_if_expiring=True)
    with open_store(path) as store:
        assert not store.compact(only_if_expiring=True)
        assert store.stats().strata == 0
        store.set_retention(newest=1)
        assert store.compact(only_if_expiring=True, dry_run=True).versions_expired == 2
        assert store.compact(only_if_expiring=True).versions_expired == 2
        assert not store.compact(only_if_expiring=True)
