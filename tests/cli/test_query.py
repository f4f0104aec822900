"""query: columns and totals that are kept, and what takes queries away."""

import csv
import io
import struct

import pytest
from conftest import dump_of, filled, insert, lines, run, tag


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


def test_totals_of_each_tag_in_three_forms(store):
    records = [insert(1 + i // 10, b"k%05d" % i, struct.pack("<di", i / 4, i - 5)) for i in range(20)]
    tags = [tag(v, name) for v, name in ((1, "one"), (2, "two, or so"), (3, "none"))]
    lines_of_dump = sorted(records + tags, key=lambda line: (line["version"], "tag" in line))
    run("load", store, stdin=dump_of(4, lines_of_dump))
    asked = ("filter", store, "qty >= 0", "--layout", "price f64, qty i32", "--each-tag")
    counts = [5, 15, 15]
    sums = [sum(range(n)) for n in counts]
    found = lines(*asked, "-o", "json")
    assert found == [
        {"version": v + 1, "tag": name, "count": count}
        for v, (name, count) in enumerate(zip(("one", "two, or so", "none"), counts))
    ]
    found = lines(*asked, "--sum", "qty", "--sum", "price", "-o", "json", "--threads", "2")
    assert [row["sum(qty)"] for row in found] == sums
    assert [row["sum(price)"] for row in found] == [sum(i / 4 for i in range(5, 5 + n)) for n in counts]
    assert "count" not in found[0]
    rows = list(csv.reader(io.StringIO(run(*asked, "--count", "--sum", "qty", "-o", "csv").stdout.decode())))
    assert rows[0] == ["version", "tag", "count", "sum(qty)"]
    assert rows[2] == ["2", "two, or so", "15", str(sums[1])]
    table = run(*asked, "--limit", "2").stdout.decode().splitlines()
    assert table == ["version\ttag\tcount", "1\tone\t5", "2\ttwo, or so\t15"]
    nothing = lines("filter", store, "qty > 99", "--layout", "price f64, qty i32", "--each-tag", "--sum", "qty", "-o",
                    "json", code=1)  # fmt: skip
    assert [row["sum(qty)"] for row in nothing] == [None] * 3
    run(*asked, "--at", "one", code=2)
    run(*asked, "--select", "qty", code=2)


def test_sums_of_one_version(store):
    filled(store, {b"k%05d" % i: struct.pack("<di", i / 4, i - 5) for i in range(10)})
    asked = ("filter", store, "qty >= 0", "--layout", "price f64, qty i32", "--sum", "qty")
    assert run(*asked).stdout == b"sum(qty)\n10\n"
    assert lines(*asked, "--count", "-o", "json") == [{"count": 5, "sum(qty)": 10}]
    assert lines("filter", store, "true", "--count", "-o", "json") == [{"count": 10}]
    run("filter", store, "true", "-o", "csv", code=2)


def test_explain_tells_how_the_store_reads_its_keys(tmp_path):
    for index, wanted in (("btree", b"the ranges are sought"), ("hash", b"sorts them first")):
        store = tmp_path / index
        run("put", "--index", index, store, "a", "1")
        assert wanted in run("filter", store, "key > 'a'", "--explain").stdout


def test_columns_as_an_arrow_stream_are_what_csv_shows(store):
    pyarrow = pytest.importorskip("pyarrow")
    ipc = pytest.importorskip("pyarrow.ipc")
    filled(store, {**trades(100), b"short": b"x"})
    select = ["--select", "key", "--select", "qty", "--select", "price * 2.0 as twice", "--select", "price > 10.0 as dear",
              "--select", "length(value)", "--select", "name"]  # fmt: skip
    asked = ("filter", store, "true", "--layout", LAYOUT, *select)
    table = ipc.open_stream(run(*asked, "-o", "arrow").stdout).read_all()
    table.validate(full=True)
    assert table.schema.types == [pyarrow.large_binary(), pyarrow.int64(), pyarrow.float64(), pyarrow.bool_(),
                                  pyarrow.int64(), pyarrow.large_binary()]  # fmt: skip
    wanted = lines(*asked, "-o", "json")
    names = table.column_names
    rows = [dict(zip(names, row)) for row in zip(*(column.to_pylist() for column in table.columns))]
    as_text = [{n: v.decode() if isinstance(v, bytes) else v for n, v in row.items()} for row in rows]
    assert as_text == wanted and as_text[-1]["qty"] is None
    some = ipc.open_stream(run(*asked, "-o", "arrow", "--limit", "67").stdout).read_all()
    assert some.equals(table.slice(0, 67))
    both = ipc.open_stream(run("filter", store, "key < 'k00003'", "-o", "arrow").stdout).read_all()
    assert both.column_names == ["key", "value"] and both.num_rows == 3
    words = run("filter", store, "key < 'k00003'", "--layout", "n u64", "--select", "n", "-o", "arrow").stdout
    numbers = ipc.open_stream(words).read_all()
    assert numbers.schema.types == [pyarrow.uint64()]
    assert numbers["n"].to_pylist() == [struct.unpack("<Q", struct.pack("<d", i / 4))[0] for i in range(3)]
    nothing = ipc.open_stream(run("filter", store, "false", "-o", "arrow", code=1).stdout).read_all()
    assert nothing.num_rows == 0 and nothing.column_names == ["key", "value"]
    run("query", "start", store, "kept", "true", "--layout", LAYOUT, *select, "--run")
    kept = ipc.open_stream(run("query", "results", store, "kept", "-o", "arrow").stdout).read_all()
    assert kept.equals(table)


def test_arrow_is_for_columns(store):
    filled(store, trades(3))
    for more in (["--count"], ["--each-tag"], ["--sum", "1"], ["--page-token", ""], ["--changes", "0", "1"]):
        assert b"-o arrow" in run("filter", store, "true", "-o", "arrow", *more, code=2).stderr
    begun = run("filter", store, "true", "-o", "arrow").stdout
    assert begun.startswith(b"\xff\xff\xff\xff") and begun.endswith(b"\xff\xff\xff\xff\0\0\0\0")
    assert len(begun) % 8 == 0
