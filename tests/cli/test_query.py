"""query: columns and totals that are kept, and what takes queries away."""

import csv
import io
import struct

from conftest import filled, lines, run


def trades(count=300):
    return {b"k%05d" % i: struct.pack("<di", i / 4, i - 100) + b"north, \"x\"" for i in range(count)}


LAYOUT = "price f64, qty i32, name bytes"


def test_columns_and_totals_are_kept_and_printed_in_three_forms(store):
    filled(store, trades())
    run("query", "start", store, "sales", "qty % 2 = 0", "--layout", LAYOUT, "--select", "key", "--select",
        "price * 2.0 as twice", "--select", "name", "--sum", "qty", "--min", "price", "--max", "f64(qty) / 0.5")  # fmt: skip
    run("query", "run", store, "sales", "--threads", "2")
    wanted = [i for i in range(300) if i % 2 == 0]
    found = lines("query", "results", store, "sales", "-o", "json")
    assert [row["key"] for row in found] == ["k%05d" % i for i in wanted]
    assert [row["twice"] for row in found] == [i / 2 for i in wanted]
    rows = list(csv.reader(io.StringIO(run("query", "results", store, "sales", "-o", "csv").stdout.decode())))
    assert rows[0] == ["key", "twice", "name"] and len(rows) == 151
    assert rows[1] == ["k00000", "0", 'north, "x"']
    table = run("query", "results", store, "sales", "--from-row", "148").stdout.decode().splitlines()
    assert table[0].split("\t") == ["key", "twice", "name"] and len(table) == 3
    some = lines("query", "results", store, "sales", "-o", "json", "--where", "twice > 100.0", "--limit", "7")
    assert [row["twice"] for row in some] == [101.0 + i for i in range(7)]
    shown = lines("query", "show", store, "sales", "-o", "json")[0]
    assert shown["keep"] == "rows" and shown["skipped"] == 0 and shown["rebound"] is False
    assert shown["totals"] == [
        {"of": "sum(qty)", "value": sum(i - 100 for i in wanted)},
        {"of": "min(price)", "value": 0},
        {"of": "max(f64(qty) / 0.5)", "value": (298 - 100) * 2},
    ]
    assert b"sum(qty)" in run("query", "show", store, "sales").stdout
    run("query", "start", store, "keys", "true", "--run")
    run("query", "results", store, "keys", "-o", "csv", code=2)
    run("query", "results", store, "sales", "--where", "prize > 1", code=10)


def test_a_row_that_is_too_long_is_told_in_the_next_process_and_can_be_passed(store):
    filled(store, {b"a": b"1", b"b": b"x" * 800_000, b"c": b"3"})
    run("query", "start", store, "long", "true", "--select", "value")
    run("query", "run", store, "long", code=2)
    shown = lines("query", "show", store, "long", "-o", "json")[0]
    assert shown["failed_key"] == "b" and "800" in shown["failure"] and shown["rows"] == 1
    run("query", "run", store, "long", "--skip-failed")
    assert [row["value"] for row in lines("query", "results", store, "long", "-o", "json")] == ["1", "3"]
    assert b"passed        b: " in run("query", "show", store, "long").stdout


def test_queries_that_are_over_are_pruned(store):
    filled(store, trades())
    run("query", "start", store, "one", "true", "--run")
    run("query", "start", store, "two", "true")
    assert run("query", "prune", store, "--older-than", "3600").stdout == b"0 dropped\n"
    assert run("query", "prune", store).stdout == b"1 dropped\n"
    assert [q["name"] for q in lines("query", "list", store, "-o", "json")] == ["two"]
    run("query", "pause", store, "two")
    assert run("query", "prune", store, "--unfinished").stdout == b"1 dropped\n"
