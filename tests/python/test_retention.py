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
    with pytest.raises(TypeError, match="dry_run must be a bool"):
        icecore.compact(path, dry_run=1)


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
