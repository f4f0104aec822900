"""tag, log, history, diff, stat, verify."""

import time

import pytest
from conftest import history, items, lines, run


@pytest.fixture
def three(store):
    """Three tagged versions and an open one."""
    run("put", store, "a", "1")
    run("put", store, "b", "1")
    run("tag", store, "one", "--note", "the first", "--time", "2024-01-01T00:00:00Z")
    run("put", store, "a", "2")
    run("put", store, "c", "1")
    run("tag", store, "--time", "2024-01-01T12:00:00Z")
    run("del", store, "b")
    run("put", store, "a", "3")
    run("put", store, "a", "4")
    run("tag", store, "three", "--note", "tab\there", "--time", "2024-01-02T00:00:00.5Z")
    run("put", store, "d", "1")
    return store


def test_tag_prints_the_version_it_closes(store):
    run("put", store, "a", "1")
    assert run("tag", store).stdout == b"1\n"
    assert run("tag", store, "named").stdout == b"2\n"


def test_log_lists_tags_newest_first(three):
    assert lines("log", three, "-o", "json") == [
        {
            "version": 3,
            "time": "2024-01-02T00:00:00.5Z",
            "time_ns": 1704153600_500000000,
            "name": "three",
            "note": "tab\there",
        },
        {
            "version": 2,
            "time": "2024-01-01T12:00:00Z",
            "time_ns": 1704110400_000000000,
            "name": "",
            "note": "",
        },
        {
            "version": 1,
            "time": "2024-01-01T00:00:00Z",
            "time_ns": 1704067200_000000000,
            "name": "one",
            "note": "the first",
        },
    ]
    assert [t["version"] for t in lines("log", three, "--reverse", "-o", "json")] == [1, 2, 3]
    assert [t["version"] for t in lines("log", three, "--limit", "1", "-o", "json")] == [3]
    assert run("log", three).stdout.decode().splitlines() == [
        "version  time                    name   note",
        "      3  2024-01-02T00:00:00.5Z  three  tab\\there",
        "      2  2024-01-01T12:00:00Z",
        "      1  2024-01-01T00:00:00Z    one    the first",
    ]


@pytest.mark.parametrize("name", [(), ("now",)])
def test_a_tag_without_a_time_is_of_now(store, name):
    run("put", store, "a", "1")
    before = time.time_ns()
    run("tag", store, *name)
    after = time.time_ns()
    (tag,) = lines("log", store, "-o", "json")
    assert before <= tag["time_ns"] <= after and tag["name"] == "".join(name)
    seconds, nanoseconds = divmod(tag["time_ns"], 10**9)
    fraction = f".{nanoseconds:09}".rstrip("0.")
    assert tag["time"] == time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + fraction + "Z"


def test_tags_without_a_name_are_found_by_their_time(store):
    for value in ("monday", "tuesday"):
        run("put", store, "key", value)
        run("tag", store)
        time.sleep(0.01)
    monday, tuesday = lines("log", store, "--reverse", "-o", "json")
    assert run("get", store, "key", "--at-time", monday["time"]).stdout == b"monday"
    assert run("get", store, "key", "--at-time", tuesday["time"]).stdout == b"tuesday"
    run("get", store, "key", "--at-time", f"@{monday['time_ns'] // 10**9 - 1}", code=11)


def test_tags_are_found_by_their_beginning_if_it_is_unique(store):
    for name in ("epoch-1", "epoch-2", "release"):
        run("put", store, "key", name)
        run("tag", store, name)
    assert run("get", store, "key", "--at", "rele").stdout == b"release"
    assert b"'epoch-1' or 'epoch-2'" in run("get", store, "key", "--at", "epoch", code=11).stderr
    run("get", store, "key", "--at", "rel", code=11)
    # A whole name is itself, even if others begin with it.
    run("tag", store, "epoch")
    assert run("get", store, "key", "--at", "epoch").stdout == b"release"


def test_a_tag_named_like_a_number_is_reached_as_tag(store):
    run("put", store, "key", "one")
    run("tag", store)
    run("put", store, "key", "two")
    run("tag", store, "1")
    assert run("get", store, "key", "--at", "1").stdout == b"one"
    assert run("get", store, "key", "--at", "tag:1").stdout == b"two"


def test_history_shows_every_record_of_a_key(three):
    assert history(three, b"a") == [(3, b"4"), (3, b"3"), (2, b"2"), (1, b"1")]
    assert history(three, b"b") == [(3, None), (1, b"1")]
    assert history(three, b"a", "--reverse", "--limit", "2") == [(1, b"1"), (2, b"2")]
    assert history(three, b"a", "--at", "2") == [(2, b"2"), (1, b"1")]
    run("history", three, "nothing", code=1)
    # Each record goes with the first tag that shows it; the open version has none yet.
    assert [c.get("tag") for c in lines("history", three, "a", "-o", "json")] == ["three", "three", "", "one"]
    assert "tag" not in lines("history", three, "d", "-o", "json")[0]
    assert b"(removed)" in run("history", three, "b").stdout


def test_diff_lists_what_changed_in_key_order(three):
    assert run("diff", three, "1", "3", code=1).stdout == b"~ a\n- b\n+ c\n"
    assert run("diff", three, "three", "one", code=1).stdout == b"~ a\n+ b\n- c\n"
    assert run("diff", three, "three", code=1).stdout == b"+ d\n"
    assert run("diff", three, "0", "one", code=1).stdout == b"+ a\n+ b\n"
    assert run("diff", three, "one", "one", code=0).stdout == b""
    assert run("diff", three, "1", "3", "--prefix", "c", code=1).stdout == b"+ c\n"
    assert run("diff", three, "1", "3", "--from", "b", "--to", "c", code=1).stdout == b"- b\n"
    assert (
        run("diff", three, "1", "3", "--values", code=1).stdout
        == b"~ a\n    - 1\n    + 4\n- b\n    - 1\n+ c\n    + 1\n"
    )
    assert lines("diff", three, "1", "3", "--values", "-o", "json", code=1) == [
        {"change": "changed", "key": "a", "before": "1", "after": "4"},
        {"change": "removed", "key": "b", "before": "1"},
        {"change": "added", "key": "c", "after": "1"},
    ]
    assert lines("diff", three, "1", "3", "--stat", "-o", "json", code=1) == [
        {
            "added": {"keys": 1, "bytes_before": 0, "bytes_after": 1},
            "removed": {"keys": 1, "bytes_before": 1, "bytes_after": 0},
            "changed": {"keys": 1, "bytes_before": 1, "bytes_after": 1},
        }
    ]


def test_a_key_set_to_what_it_was_is_no_difference(store):
    run("put", store, "a", "1")
    run("tag", store)
    run("put", store, "a", "2")
    run("put", store, "a", "1")
    run("tag", store)
    assert run("diff", store, "1", "2", code=0).stdout == b""


def test_stat_counts(three):
    stat = lines("stat", three, "-o", "json")[0]
    wanted = {
        "clock": 4,
        "keys": 4,
        "records": 8,
        "inserts": 7,
        "removes": 1,
        "tags": 3,
        "key_bytes": 4,
        "value_bytes": 7,
    }
    assert {name: stat[name] for name in wanted} == wanted
    assert stat["used_bytes"] >= 11 and stat["file_bytes"] >= stat["used_bytes"]
    assert set(stat["durability"]) == {"mode", "best", "medium", "emulated", "filesystem"}
    text = run("stat", three).stdout.decode()
    for row in (
        "keys  ",
        "records  ",
        "tags  ",
        "key bytes",
        "value bytes",
        "overhead",
        "file size",
        "index",
        "huge pages",
        "durability",
        "medium",
        "B a key",
    ):
        assert row in text, row


@pytest.mark.parametrize("mode", ["none", "tag", "operation", "best"])
def test_stat_tells_the_durability_of_the_last_writer_and_the_best(store, mode):
    run("put", store, "key", "value", "--durability", "tag", "--emulate-durability")
    run("put", store, "key", "value", "--durability", mode, "--emulate-durability")
    reported = lines("stat", store, "-o", "json")[0]["durability"]
    best = {"persistent memory": "operation", "block device": "tag", "memory": "none"}[reported["medium"]]
    assert reported["best"] == best
    assert reported["mode"] == (best if mode == "best" else mode)
    assert reported["emulated"] == (reported["medium"] == "memory" and reported["mode"] != "none")
    emulated = " (emulated)" if reported["emulated"] else ""
    text = run("stat", store).stdout.decode()
    assert f"{reported['mode']}{emulated} for the last writer; the best here is {best}\n" in text
    assert f"{reported['medium']} ({reported['filesystem']})\n" in text


def test_verify_finds_nothing_in_a_good_store(three):
    summary = lines("verify", three, "-o", "json")[-1]
    assert summary["ok"] and summary["damages"] == 0 and summary["records"] == 8 and summary["tags"] == 3
    assert b"no damage" in run("verify", three).stdout


def test_verify_names_the_place_of_damage_and_the_key_where_it_can(three):
    """A small value is checked together with its key, a large one by itself."""
    run("put", three, "precious", "-", stdin=b"v" * 5000 + b"damage me" + b"v" * 5000)
    run("put", three, "small", "damage this")
    places = []
    with open(three, "r+b") as file:
        for value in (b"damage me", b"damage this"):
            file.seek(0)
            places.append(file.read().index(value))
            file.seek(places[-1])
            file.write(b"D")
    *damages, summary = lines("verify", three, "-o", "json", code=6)
    assert (summary["ok"], summary["damages"]) == (False, 2)
    small, large = sorted((d["damage"] for d in damages), key=lambda d: "key" in d)
    assert (large["structure"], large["key"], large["version"]) == ("entry", "precious", 4)
    assert places[0] - 5100 < large["offset"] < places[0] - 5000 and large["what"]
    assert (small["structure"], "key" in small) == ("entry", False)
    assert places[1] - 100 < small["offset"] < places[1] and small["what"]
    assert b"damaged" in run("verify", three, code=6).stdout


def test_the_open_version_can_be_read_but_not_by_a_later_number(three):
    assert (b"d", b"1") in items(three)
    assert (b"d", b"1") in items(three, "--at", "4")
    run("scan", three, "--at", "5", code=11)
