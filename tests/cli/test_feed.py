"""feed, and filter --changes: what changed, and going on where the last call ended."""

import csv
import io
import json
import subprocess

import pytest
from conftest import command, run


@pytest.fixture
def versions(store):
    """Three closed versions, whose changes are ALL."""
    for key, value in ((b"a", b"1"), (b"b", b"1")):
        run("put", store, key, value)
    run("tag", store, "one")
    for key, value in ((b"a", b"2"), (b"c,d", b'say "2"')):
        run("put", store, key, value)
    run("tag", store, "two")
    run("del", store, b"b")
    run("tag", store, "three")
    return store


ALL = [
    (1, "a", "1"),
    (1, "b", "1"),
    (2, "a", "2"),
    (2, "c,d", 'say "2"'),
    (3, "b", None),
]


def told(*arguments, code=0):
    """The changes, and what is on standard error."""
    done = subprocess.run([command(), "feed", *arguments, "-o", "json"], capture_output=True, timeout=60)
    assert done.returncode == code, done.stderr
    changes = [json.loads(line) for line in done.stdout.splitlines()]
    return [(c["version"], c["key"], c["value"]) for c in changes], done.stderr.decode()


def test_without_a_name_the_token_goes_on(versions):
    assert told(versions, "--after", "0")[0] == ALL
    first, error = told(versions, "--after", "0", "--max", "3")
    assert first == ALL[:3]
    token = error.split("--token ")[1].strip()
    rest, error = told(versions, "--token", token)
    assert rest == ALL[3:]
    token = error.split("--token ")[1].strip()
    assert told(versions, "--token", token, code=1)[0] == []
    assert told(versions, "--token", "00", code=10)[0] == []
    assert told(versions, "--token", token, "--where", "removed", code=10)[0] == []


def test_with_a_name_the_store_goes_on(versions):
    assert told(versions, "mirror", "--after", "one", "--max", "1")[0] == ALL[2:3]
    assert told(versions, "mirror")[0] == ALL[3:]
    assert told(versions, "mirror", code=1)[0] == []
    run("put", versions, b"e", b"5")
    assert told(versions, "mirror", code=1)[0] == []
    run("tag", versions, "four")
    assert told(versions, "mirror")[0] == [(4, "e", "5")]
    (feed,) = [json.loads(line) for line in run("feed", versions, "--list", "-o", "json").stdout.splitlines()]
    assert (feed["name"], feed["after"], feed["acknowledged"], feed["snapshot"]) == ("mirror", 1, 4, False)
    assert b"mirror" in run("feed", versions, "--list").stdout
    run("feed", versions, "mirror", "--drop")
    assert run("feed", versions, "--list").stdout == b""
    run("feed", versions, "mirror", "--drop", code=11)


def test_the_filter_stays_with_the_feed(versions):
    assert told(versions, "gone", "--after", "0", "--where", "removed")[0] == ALL[4:]
    assert told(versions, "gone", code=1)[0] == []
    told(versions, "gone", "--where", "first", code=11)
    assert told(versions, "--after", "0", "--where", "u > 49", "--layout", "u u8")[0] == [ALL[2], ALL[3]]


def test_a_snapshot_comes_first(versions):
    assert told(versions, "copy", "--after", "two", "--snapshot")[0] == [(2, "a", "2"), (1, "b", "1"), ALL[3], ALL[4]]


def test_forms_of_output(versions):
    table = subprocess.run([command(), "feed", versions, "--after", "two"], capture_output=True, check=True).stdout
    assert table == b"3\t-\tb\t\n"
    text = subprocess.run([command(), "feed", versions, "--after", "0", "-o", "csv"], capture_output=True, check=True)
    rows = list(csv.reader(io.StringIO(text.stdout.decode())))
    assert rows[0] == ["version", "change", "key", "value"]
    assert rows[4] == ["2", "insert", "c,d", 'say "2"']
    assert rows[5] == ["3", "remove", "b", ""]


def test_wrong_arguments_say_why(versions):
    assert b"--attach" in run("feed", versions, "--follow", code=2).stderr
    assert b"'csv'" in run("feed", versions, "-o", "xml", code=2).stderr
    assert b"name" in run("feed", versions, "--drop", code=2).stderr
    run("feed", versions, "--where", "price >", code=10)
    run("feed", versions, "--after", "no such tag", code=11)


def test_filter_lists_changes_by_key(versions):
    def found(*arguments, code=0):
        done = run("filter", versions, *arguments, "-o", "json", code=code)
        return [(c["version"], c["key"], c["value"]) for c in map(json.loads, done.stdout.splitlines())]

    assert found("true", "--changes", "0", "three") == sorted(ALL, key=lambda c: c[1])
    assert found("removed", "--changes", "one", "three") == ALL[4:]
    assert found("before.value = '1'", "--changes", "0", "two") == [ALL[2]]
    assert found("first", "--changes", "two", "three", code=1) == []
    assert run("filter", versions, "first", "--changes", "0", "three", "--count").stdout == b"3\n"
