"""put --many: lines of keys and values, all at one instant or in batches."""

import json
import os

import pytest
from conftest import items, lines, run


def message(*arguments, code, **options):
    text = run(*arguments, code=code, **options).stderr.decode()
    assert text.startswith("icecore") and text.endswith("\n") and text.count("\n") == 1
    return text


def test_lines_are_what_scan_prints(store, tmp_path):
    run("put", store, "--many", "-", stdin=b"a\t1\nb\\tc\ttwo\\nlines\nback\\\\slash\t\n\\xff\\x00\t\\r\\x1b\n")
    run("put", store, "--", "ü", b"v" * 100_000)
    for form, ending in (((), "tsv"), (("-o", "json"), "jsonl")):
        path = tmp_path / f"lines.{ending}"
        path.write_bytes(run("scan", store, *form).stdout)
        copy = str(tmp_path / f"copy-{ending}.ice")
        assert lines("put", copy, "--many", path, "--json") == [{"lines": 5, "set": 5, "removed": 0, "version": 1}]
        assert items(copy) == items(store)
    assert [key for key, _ in items(store)] == [b"a", b"b\tc", b"back\\slash", "ü".encode(), b"\xff\0"]


def test_all_lines_are_one_instant(store):
    run("put", store, "gone", "value")
    run("tag", store, "before")
    text = b'{"key":"x","value":"1"}\n{"key":"gone","value":null}\n{"key":"x","value":"2","version":7}'
    assert (
        b"3 lines: 2 set, 1 removed, in version 2"
        in run("put", store, "--many", "-", "--lines-json", stdin=text).stdout
    )
    assert items(store) == [(b"x", b"2")]
    assert items(store, "--at", "before") == [(b"gone", b"value")]


def test_hexadecimal_lines(store):
    run("put", store, "--many", "-", "--hex", stdin=b"00ff\t0a\n")
    run("put", store, "--many", "-", "--hex-value", "--lines-json", stdin=b'{"key":"plain","value":"0b"}\n')
    assert items(store) == [(b"\0\xff", b"\n"), (b"plain", b"\x0b")]


def test_nothing_to_read_is_no_failure(store):
    assert b"0 lines" in run("put", store, "--many", "-").stdout
    assert not os.path.exists(store)


TSV = [
    (b"no tab", "there is no tab between key and value;"),
    (b'{"key":"a","value":"1"}', "if the lines are JSON, give --lines-json"),
    (b"a\tb\tc", "more than one tab"),
    (b"a\tb\r", "carriage return"),
    (b"a\t\\q", "behind a backslash"),
    (b"a\t\\", "behind a backslash"),
    (b"a\t\\x0", "behind a backslash"),
    (b"a\t\\xzz", "behind a backslash"),
    (b"k" * 65_536 + b"\tv", "65535"),
]
JSON = [
    (b"{", "not valid JSON at character"),
    (b"[1]", "not a JSON object"),
    (b'{"value":"1"}', '"key" is missing'),
    (b'{"key":"1"}', '"value" is missing'),
    (b'{"key":1,"value":"1"}', '"key" is neither a string'),
    (b'{"key":"k","value":{"base64":"!"}}', "base64"),
    (b'{"key":"k","value":true}', '"value" is neither'),
    (b'{"key":"\xff","value":"v"}', "not valid JSON"),
    (b"", "not valid JSON"),
]


@pytest.mark.parametrize(
    "option, bad, what", [("--lines-tsv", *case) for case in TSV] + [("--lines-json", *case) for case in JSON]
)
def test_a_bad_line_is_named_and_nothing_is_written(store, option, bad, what):
    good = b"good\tvalue\n" if option == "--lines-tsv" else b'{"key":"good","value":"value"}\n'
    code = 2 if what == "65535" else 10
    text = message("put", store, "--many", "-", option, stdin=good * 2 + bad + b"\n" + good, code=code)
    assert "line 3: " in text and what in text and "no line was written" in text
    assert not os.path.exists(store)


def test_batches_before_a_bad_line_stay_and_are_told(store):
    text = b"".join(b"key%d\tvalue\n" % i for i in range(10)) + b"bad\n"
    told = message("put", store, "--many", "-", "--batch", "4", stdin=text, code=10)
    assert "line 11: " in told and "lines 1 to 8 are in the store, in version 1, and none behind them" in told
    assert len(items(store)) == 8
    assert lines("put", store, "--many", "-", "--batch", "3", "--json", stdin=text[:-4])[0]["lines"] == 10
    assert len(items(store)) == 10


def test_many_keys_go_in_and_out(store, rng):
    wanted = {rng.randbytes(rng.randrange(1, 20)): rng.randbytes(rng.randrange(40)) for _ in range(3000)}
    text = "".join(json.dumps({"key": k.hex(), "value": v.hex()}) + "\n" for k, v in wanted.items()).encode()
    run("put", store, "--many", "-", "--lines-json", "--hex", stdin=text)
    assert dict(items(store)) == wanted


def test_options_that_do_not_go_together(store, tmp_path):
    for wrong in (("key",), ("--file", "x"), ("--if-new",)):
        assert "does not go with" in message("put", store, *wrong, "--many", "-", code=2)
    assert "needs --many" in message("put", store, "k", "v", "--lines-json", code=2)
    assert "needs --many" in message("put", store, "k", "v", "--batch", "3", code=2)
    assert "KEY is missing" in message("put", store, code=2)
    assert "nothing.tsv" in message("put", store, "--many", tmp_path / "nothing.tsv", code=9)
    assert os.listdir(tmp_path) == []
