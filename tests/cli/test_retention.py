"""retention, forget, expire, and compact --dry-run: what they print, what they refuse, and what the other verbs say then."""

import json
import re
import zlib
from pathlib import Path

import pytest
from conftest import lines, run


def said(*arguments):
    return run(*arguments).stdout.decode()


@pytest.fixture
def filled(store):
    for n in range(1, 6):
        run("put", store, "all", str(n))
        run("put", store, f"user/{n}", "s3cr3t")
        run("tag", store, f"tag-{n}")
    return store


def test_retention_shows_what_is_set(filled):
    assert said("retention", filled) == "all versions\n"
    assert said("retention", filled, "--tagged", "--newest", "1000") == "tagged versions; the newest 1,000\n"
    assert said("retention", filled) == "tagged versions; the newest 1,000\n"
    assert lines("retention", filled, "--younger-than", "1 week 3 days", "--daily", "7", "-o", "json") == [
        {"all": False, "tagged": False, "newest": 0, "younger_than_seconds": 864000, "hourly": 0, "daily": 7, "weekly": 0}
    ]
    assert said("retention", filled) == "younger than 10 days; one of each of 7 days\n"
    assert lines("stat", filled, "-o", "json")[0]["retention"]["daily"] == 7
    assert "keeps                 younger than 10 days; one of each of 7 days" in said("stat", filled)
    assert said("retention", filled, "--all") == "all versions\n"


@pytest.mark.parametrize("age", ["", "x", "-3 days", "0 days", "2024-05-01"])
def test_an_age_that_is_none_is_refused(filled, age):
    found = run("retention", filled, "--younger-than", age, code=2 if age else 0)
    if age:
        assert b"an age is a number and a unit" in found.stderr


def test_all_together_with_another_option_is_refused(filled):
    assert b"give it alone" in run("retention", filled, "--all", "--newest", "2", code=2).stderr
    assert said("retention", filled) == "all versions\n"


def test_an_expired_version_is_named_as_such(filled, tmp_path):
    run("retention", filled, "--newest", "2")
    before = Path(filled).read_bytes()
    told = said("compact", filled, "--dry-run")
    assert "3 versions would expire, and 3 records that no kept version shows would go" in told
    assert Path(filled).read_bytes() == before
    assert "or less: what compression saves" in said("compact", filled, "--dry-run", "--compress") and "or less" not in told
    counted = lines("compact", filled, "--dry-run", "-o", "json")[0]
    assert counted["versions_expired"] == 3
    assert (counted["packed"], counted["strata"]) == (False, 1) and counted["keys"] > 0
    assert f"of {counted['keys']} keys, 1 stratum up to version" in told
    assert "3 versions have expired; 3 records went" in said("compact", filled)
    assert b"version 2 has expired" in run("get", filled, "all", "--at", "tag-2", code=11).stderr
    assert run("get", filled, "all", "--at", "tag-4").stdout == b"4"
    listed = lines("log", filled, "-o", "json")
    assert [tag.get("expired", False) for tag in listed] == [False, False, True, True, True]
    assert said("log", filled).count("(expired)") == 3
    assert lines("stat", filled, "-o", "json")[1] == {"expired_versions": {"first": 1, "last": 3}}
    assert "expired versions    1 to 3" in said("stat", filled)
    assert "versions 1 to 3 have expired: changes up to version 3 may be missing\n" in said("history", filled, "all")
    *changes, last = lines("history", filled, "all", "-o", "json")
    assert [change["version"] for change in changes] == [5, 4]
    assert last == {"expired_versions": {"first": 1, "last": 3}}
    # one tag back from the present is 4, two are none: expired ones do not count
    assert run("get", filled, "all", "--at", "latest~1").stdout == b"4"
    assert run("get", filled, "all", "--at", "latest~2", code=11).stderr


def test_the_graph_says_of_which_versions_the_bytes_are_not_known_any_more(filled):
    run("tag", filled, "--note", "only a note")
    run("retention", filled, "--newest", "2")
    run("compact", filled)
    assert [tag["bytes"] for tag in lines("log", filled, "--graph", "-o", "json")] == [0] + [None] * 5
    run("put", filled, "new", "1234567")
    run("tag", filled, "last")
    assert [tag["bytes"] for tag in lines("log", filled, "--graph", "-o", "json")] == [10, 0] + [None] * 5
    told = said("log", filled, "--graph")
    assert re.search(r"^ +7 .* last +10 B ", told, re.M) and re.search(r"^ +5 .* tag-5 +\?$", told, re.M)
    assert re.search(r"^ +4 .* tag-4 +\? +\(expired\)$", told, re.M) and told.count("(expired)") == 4
    assert "oldest to newest: 10 B in 2 versions, at most 10 B; of 5 more it is not known any more\n" in told
    assert "oldest to newest: 10 B in 1 version, at most 10 B\n" in said("log", filled, "--graph", "--limit", "1")
    oldest = said("log", filled, "--graph", "--reverse", "--limit", "3")
    assert oldest.endswith("\nwhat was written in these 3 versions is not known any more\n")


def test_a_history_says_which_versions_have_expired(filled):
    run("hold", filled, "four", "--at", "4")
    run("put", filled, "all", "6")
    run("tag", filled)
    run("retention", filled, "--newest", "1")
    run("compact", filled)
    *changes, first, second = lines("history", filled, "all", "-o", "json")
    assert [change["version"] for change in changes] == [6, 4]
    assert (first, second) == ({"expired_versions": {"first": 1, "last": 3}}, {"expired_versions": {"first": 5, "last": 5}})
    told = said("history", filled, "all")
    assert told.endswith("\nversions 1 to 3, 5 have expired: changes up to version 5 may be missing\n")
    assert said("history", filled, "all", "--at", "4").endswith("versions 1 to 3 have expired: changes up to version 3 may be missing\n")
    assert b"key 'none' is known; versions 1 to 3, 5 have expired" in run("history", filled, "none", code=1).stderr


def test_a_history_names_a_single_version_that_has_expired(store):
    for n in range(2):
        run("put", store, "key", str(n))
        run("tag", store)
    run("retention", store, "--newest", "1")
    run("compact", store)
    assert said("history", store, "key").endswith("\nversion 1 has expired: changes up to version 1 may be missing\n")
    assert "  expired versions    1\n" in said("stat", store)
    left_out = run("filter", store, "false", "--each-tag", code=1).stderr.decode()
    assert left_out == "version 1 is left out: it has expired\n", "it has no name"


def test_a_dump_says_what_has_expired(filled, tmp_path):
    run("retention", filled, "--newest", "2")
    run("compact", filled)
    dump = run("dump", filled).stdout
    assert json.loads(dump.splitlines()[0])["expired_versions"] == [[1, 4]]
    copy = tmp_path / "copy.ice"
    run("load", copy, stdin=dump)
    assert b"version 2 has expired" in run("get", copy, "all", "--at", "2", code=11).stderr
    assert run("dump", copy).stdout == dump
    *body, last = dump.replace(b'"expired_versions":[[1,4]]', b'"expired_versions":[[4,6]]').splitlines(True)
    end = json.loads(last) | {"crc32": f"{zlib.crc32(b''.join(body)):08x}"}
    wrong = b"".join(body) + json.dumps(end).encode() + b"\n"
    assert b"the present" in run("load", tmp_path / "none.ice", stdin=wrong, code=10).stderr
    wrong = dump.replace(b'"expired_versions":[[1,4]]', b'"expired_versions":[[4,1]]')
    assert b'"expired_versions" must be ranges' in run("load", tmp_path / "none.ice", stdin=wrong, code=10).stderr


def test_forgotten_keys_are_in_no_version_and_in_no_byte(filled):
    assert b"no key and no prefix" in run("forget", filled, code=2).stderr
    told = said("forget", filled, "user/1", "--prefix", "user/", "--note", "why")
    assert "5 keys are removed" in told and "'forgotten-1'" in told
    assert run("get", filled, "user/1", code=1)
    assert run("get", filled, "user/1", "--at", "tag-1").stdout == b"s3cr3t"
    assert lines("forget", filled, "--hex-key", b"none".hex(), "-o", "json")[0]["keys"] == 0
    assert lines("compact", filled, "-o", "json")[0]["erased"]
    content = Path(filled).read_bytes()
    assert b"user/" not in content and b"s3cr3t" not in content
    assert run("get", filled, "user/1", "--at", "tag-1", code=1)
    assert lines("log", filled, "-o", "json")[1]["note"] == "5 keys: why"


@pytest.mark.parametrize("arguments", [["--prefix", ""], ["user/1", "--prefix", "user/", "--prefix", ""], ["--hex-key", "--prefix", ""]])
def test_an_empty_prefix_forgets_nothing(filled, arguments):
    dump = run("dump", filled).stdout
    told = run("forget", filled, *arguments, code=2).stderr.decode()
    assert "store.ice: a --prefix is empty, and every key begins with that; nothing is forgotten. Give --all if" in told
    assert run("dump", filled).stdout == dump


def test_all_keys_are_forgotten_if_that_is_said(filled):
    assert b"give it without KEY" in run("forget", filled, "--all", "user/1", code=2).stderr
    assert b"give it without KEY" in run("forget", filled, "--all", "--prefix", "user/", code=2).stderr
    assert lines("forget", filled, "--all", "-o", "json")[0]["keys"] == 6
    assert run("scan", filled).stdout == b""
    assert lines("compact", filled, "-o", "json")[0]["erased"]
    assert run("scan", filled, "--at", "tag-3").stdout == b""
    assert b"s3cr3t" not in Path(filled).read_bytes()


def test_expire_says_what_would_go_and_drops_it(filled):
    for arguments in ((), ("--dry-run",)):
        assert "store.ice: nothing expires, and the store stays as it is" in said("expire", filled, *arguments)
    (report,) = lines("expire", filled, "-o", "json")
    assert (report["packed"], report["versions_expired"], report["records_dropped"]) == (False, 0, 0)
    for value in (b"a", b"b", b"c"):
        run("put", filled, "large", "-", stdin=value * 700_000)
        run("tag", filled)
    run("retention", filled, "--newest", "2")
    run("put", filled, "all", "open")
    before = Path(filled).read_bytes()
    told = said("expire", filled, "--dry-run")
    assert "store.ice: 7 versions would expire, and 6 records that no kept version shows would go; " in told
    assert re.search(r" go; 2\.[\d.]+ MB now, about \d+ kB then: about 1\.[\d.]+ MB would be given back$", told)
    (counted,) = lines("expire", filled, "--dry-run", "--json")
    assert Path(filled).read_bytes() == before
    (report,) = lines("expire", filled, "--json")
    assert report["packed"] and (report["versions_expired"], report["records_dropped"]) == (7, 6)
    given_back = report["bytes_before"] - report["bytes_after"]
    assert given_back > 500_000 and given_back == pytest.approx(counted["bytes_before"] - counted["bytes_after"], rel=0.5)
    for same in ("versions_expired", "records_dropped", "records", "keys", "bytes_before"):
        assert report[same] == counted[same], same
    assert b"version 7 has expired" in run("get", filled, "all", "--at", "7", code=11).stderr
    assert run("get", filled, "all").stdout == b"open"
    assert run("get", filled, "all", "--at", "8").stdout == b"5"
    assert "nothing expires" in said("expire", filled)


def test_expire_leaves_a_store_alone_of_which_nothing_expires(filled):
    run("compact", filled)
    run("put", filled, "all", "open")
    run("forget", filled, "user/1")  # the next compaction erases it
    dump = run("dump", filled).stdout
    clock = lines("stat", filled, "-o", "json")[0]["clock"]
    assert "nothing expires" in said("expire", filled, "--whole")
    after = lines("stat", filled, "-o", "json")[0]
    assert (after["clock"], after["strata"]) == (clock, 1) and run("dump", filled).stdout == dump
    assert b"`icecore put` makes one" in run("expire", filled + "x", code=3).stderr
    assert b"--level" in run("expire", filled, "--level", "3", code=2).stderr
    assert b"'expire'" in run("expir", filled, code=2).stderr


def test_expire_drops_what_an_earlier_compaction_left_in_a_large_stratum(filled):
    run("put", filled, "--many", "-", stdin=b"".join(b"key %04d\tvalue\n" % n for n in range(1_000)))
    run("compact", filled)
    run("retention", filled, "--newest", "1")
    assert "5 versions have expired; 0 records went" in said("expire", filled), "the stratum stays as it is"
    assert "nothing expires" in said("expire", filled, "--dry-run")
    assert "0 versions would expire, and 4 records" in said("expire", filled, "--whole", "--dry-run")
    assert "0 versions have expired; 4 records went" in said("expire", filled, "--whole")
    assert "nothing expires" in said("expire", filled, "--whole")


def test_a_held_version_stays_until_it_is_released(filled, tmp_path):
    assert run("holds", filled).stdout == b""
    assert said("hold", filled, "paper", "--at", "tag-2") == "2\n"
    assert lines("hold", filled, "now", "-o", "json") == [{"name": "now", "version": 5}]
    assert b"a hold is named 'paper' already" in run("hold", filled, "paper", code=11).stderr
    assert b"no version or tag is named" in run("hold", filled, "x", "--at", "tag-9", code=11).stderr
    run("retention", filled, "--newest", "1")
    listed = lines("holds", filled, "-o", "json")
    assert [(h["name"], h["version"]) for h in listed] == [("paper", 2), ("now", 5)]
    assert all(h["created_ns"] > 10**18 for h in listed)
    assert re.search(r"^name +version +created\npaper +2 +20\d\d-", said("holds", filled))
    assert said("retention", filled) == "the newest 1\nversion 2, held as 'paper'\nversion 5, held as 'now'\n"
    assert [line["hold"]["name"] for line in lines("retention", filled, "-o", "json")[1:]] == ["paper", "now"]
    told = said("stat", filled)
    assert "  holds               version 2, as 'paper'\n" in told and "; queries, feeds and holds keep version 2" in told
    assert [line["hold"] for line in lines("stat", filled, "-o", "json")[1:]] == listed
    (counted,) = lines("expire", filled, "--dry-run", "-o", "json")
    assert counted["versions_expired"] == 3
    assert lines("expire", filled, "-o", "json")[0]["versions_expired"] == 3
    assert run("get", filled, "all", "--at", "2").stdout == b"2"
    assert b"version 3 has expired" in run("hold", filled, "three", "--at", "3", code=11).stderr
    run("checkpoint", filled, tmp_path / "copy.ice")
    assert [h["name"] for h in lines("holds", tmp_path / "copy.ice", "-o", "json")] == ["paper", "now"]
    repaired, *_ = lines("repair", filled, tmp_path / "repaired.ice", "-o", "json")
    assert repaired["holds"] == 2
    assert said("release", filled, "paper") == ""
    assert lines("release", filled, "now", "-o", "json") == [{"name": "now", "released": True}]
    assert b"no hold is named 'paper'" in run("release", filled, "paper", code=11).stderr
    assert ": 1 version would expire, and " in said("expire", filled, "--dry-run")
    assert ": 1 version has expired; " in said("expire", filled)
    assert b"version 2 has expired" in run("get", filled, "all", "--at", "2", code=11).stderr


def test_names_of_holds_are_any_bytes_that_a_shell_can_pass(filled):
    name = "a'b\n\u00e9 \t"
    said("hold", filled, name)
    assert [h["name"] for h in lines("holds", filled, "-o", "json")] == [name]
    assert b"\n" not in run("holds", filled).stdout.splitlines(True)[1][:-1]
    said("release", filled, name)
    assert b"1 to 65535 bytes" in run("hold", filled, "", code=2).stderr
