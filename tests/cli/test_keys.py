"""put, get, del."""

import os
import pty
import subprocess

import pytest
from conftest import command, items, lines, run


def test_a_value_put_is_the_value_got(store):
    run("put", store, "key", "value")
    assert run("get", store, "key").stdout == b"value"


def test_put_says_nothing_and_replaces(store):
    assert run("put", store, "key", "one").stdout == b""
    run("put", store, "key", "two")
    assert run("get", store, "key").stdout == b"two"


def test_a_store_keeps_the_index_it_was_made_with(store):
    run("put", "--index", "skip_list", store, "key", "value")
    run("put", store, "other", "value")
    assert b"skip_list" in run("stat", store).stdout
    assert b"skip_list" in run("put", "--index", "heap", store, "key", "value", code=2).stderr


def test_put_if_new_leaves_a_key_that_is_there(store):
    run("put", "--if-new", store, "key", "one")
    told = run("put", "--if-new", store, "key", "two", code=1)
    assert b"'key' is there already" in told.stderr
    assert run("get", store, "key").stdout == b"one"
    run("del", store, "key")
    run("put", "--if-new", store, "key", "three")
    assert run("get", store, "key").stdout == b"three"


@pytest.mark.parametrize(
    "key", [b"", b" ", b"-", b"--", b"-x", b"--hex", b"a\nb", b"\xff\xfe", "käse".encode(), b"k" * 65_535]
)
def test_any_key_goes_in_and_out(store, key):
    run("put", store, "--", key, b"value")
    assert run("get", store, "--", key).stdout == b"value"
    assert items(store) == [(key, b"value")]
    run("del", store, "--", key)
    assert run("get", store, "--", key, code=1).stdout == b""


def test_a_key_with_zero_bytes_is_given_as_hex(store):
    run("put", "--hex", store, "006b00", "0001ff")
    assert run("get", "--hex", store, "006B00").stdout == b"0001ff\n"
    assert items(store) == [(b"\0k\0", b"\0\1\xff")]


@pytest.mark.parametrize("value", [b"", b"\n", b"no newline at the end", b"\0\xff" * 1000, os.urandom(3_000_000)])
def test_values_from_standard_input_and_files_are_kept_byte_for_byte(store, tmp_path, value):
    run("put", store, "piped", "-", stdin=value)
    (tmp_path / "value").write_bytes(value)
    run("put", store, "filed", "--file", tmp_path / "value")
    assert run("get", store, "piped").stdout == value
    assert run("get", store, "filed").stdout == value


def test_hex_is_read_from_standard_input_as_xxd_writes_it(store):
    run("put", "--hex", store, "6b", "-", stdin=b"0001\n02\n")
    assert run("get", store, "k").stdout == b"\0\1\2"


def test_an_empty_value_is_not_a_missing_key(store):
    run("put", store, "key", "")
    assert run("get", store, "key", code=0).stdout == b""
    assert run("get", store, "other", code=1).stderr.startswith(b"icecore: ")


def test_del_tells_whether_the_key_was_there(store):
    run("put", store, "key", "value")
    run("del", store, "key")
    assert b"no key 'key'" in run("del", store, "key", code=1).stderr


def test_get_reads_old_versions(store):
    run("put", store, "key", "one")
    run("tag", store, "first", "--time", "2024-05-01T12:00:00Z")
    run("put", store, "key", "two")
    run("tag", store, "second", "--time", "2024-05-02")
    run("del", store, "key")
    for view, value in [
        (("--at", "1"), b"one"),
        (("--at", "first"), b"one"),
        (("--at", "tag:second"), b"two"),
        (("--at", "2"), b"two"),
        (("--at-time", "2024-05-01T23:59:59"), b"one"),
        (("--at-time", "2024-05-01T12:00:00Z"), b"one"),
        (("--at-time", "2030-01-01"), b"two"),
        (("--at-time", "2024-05-02T02:00:00+02:00"), b"two"),
    ]:
        assert run("get", store, "key", *view).stdout == value, view
    run("get", store, "key", "--at", "0", code=1)
    run("get", store, "key", code=1)
    run("get", store, "key", "--at", "latest", code=1)


def test_get_as_json_tells_the_version(store):
    run("put", store, "key", 'tab\tand "quotes" \\ ü')
    found = lines("get", store, "key", "-o", "json")
    assert found == [{"version": 1, "key": "key", "value": 'tab\tand "quotes" \\ ü'}]
    run("put", store, "key", "control \x1b")
    assert lines("get", store, "key", "-o", "json")[0]["value"] == {"base64": "Y29udHJvbCAb"}


def test_only_a_terminal_gets_a_newline_after_the_value(store):
    run("put", store, "key", "value")
    parent, child = pty.openpty()
    subprocess.run([command(), "get", store, "key"], stdout=child, check=True)
    os.close(child)
    assert os.read(parent, 100) == b"value\r\n"
    os.close(parent)


def test_reading_leaves_the_file_as_it_is(store):
    run("put", store, "key", "value")
    with open(store, "rb") as file:
        before = file.read()
    run("get", store, "key")
    run("scan", store)
    run("stat", store)
    run("verify", store)
    run("dump", store)
    with open(store, "rb") as file:
        assert file.read() == before
