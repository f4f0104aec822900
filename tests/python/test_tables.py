"""Snapshots, histories, differences and changes as tables: one snapshot, read by every library of frames."""

import decimal
import gc
import subprocess
import sys
import textwrap
import threading

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from conftest import open_store

import icecore

ITEMS = {b"": b"", b"\xff\x00": b"\xfe", "ä".encode(): b"x" * 12, b"long": b"y" * 13, b"page": b"z" * 5000}


@pytest.fixture
def filled(store):
    store.update(ITEMS)
    store.tag("one")
    del store[b"long"]
    store["new"] = "1"
    return store


def rows(table):
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


# ---- What is read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [None, "binary", "binary_view"])
def test_all_libraries_read_the_same_snapshot(filled, kind):
    then = filled.at("one")
    expected = sorted(ITEMS.items())
    made = then.to_arrow(kind, kind)
    assert rows(pyarrow.table(made)) == expected
    assert polars.DataFrame(made).rows() == expected
    assert then.to_polars(kind, kind).rows() == expected
    assert [tuple(row) for row in then.to_pandas(kind, kind).values] == expected
    assert duckdb.sql("SELECT key, value FROM made ORDER BY key").fetchall() == expected
    assert pandas.DataFrame(pyarrow.table(made).to_pandas())["value"].tolist() == [value for _, value in expected]


def test_a_snapshot_itself_is_a_table(filled):
    then = filled.at("one")
    table = pyarrow.table(then)
    assert table.schema == pyarrow.schema(
        [pyarrow.field(name, pyarrow.large_binary(), nullable=False) for name in ("key", "value")]
    )
    assert pyarrow.schema(then.to_arrow()) == table.schema and pyarrow.schema(then) == table.schema
    assert rows(table) == list(then.items())
    table.validate(full=True)
    whole = filled.at("one")
    assert duckdb.sql("SELECT count(*) FROM whole").fetchall() == [(len(ITEMS),)]
    assert duckdb.sql("SELECT count(*) FROM whole").fetchall() == [(len(ITEMS),)]  # as often as one likes


def test_a_range_of_keys_is_a_table_of_its_own(filled):
    then = filled.at("one")
    assert [key for key, _ in rows(pyarrow.table(then["l":"q"]))] == [b"long", b"page"]
    assert pyarrow.table(then["b":"a"]).num_rows == 0
    assert then["b":"a"].to_polars().rows() == [] and len(then["b":"a"].to_pandas()) == 0


def test_an_empty_snapshot_is_a_table_without_rows(store):
    then = store.latest()
    for kind in (None, "utf8", "binary_view", "<f8", ("<f4", (3,)), "V4"):
        table = pyarrow.table(then.to_arrow(kind, kind))
        assert (table.num_rows, table.column_names) == (0, ["key", "value"])
        assert then.to_polars(kind, kind).shape == then.to_pandas(kind, kind).shape == (0, 2)
    made = then.to_arrow("utf8")
    assert duckdb.sql("SELECT * FROM made").fetchall() == []


def test_a_history_has_nulls_where_the_key_was_removed(store):
    store["k"] = "1"
    store.tag("one")
    del store["k"]
    store.tag("two")
    store["k"] = "2"
    history = store.history("k")
    expected = [tuple(change) for change in history]
    assert [value for _, value in expected] == [b"2", None, b"1"]
    assert rows(pyarrow.table(history)) == history.to_polars().rows() == expected
    assert [tuple(row) for row in history.to_pandas().values] == expected
    assert history.to_pandas("utf8")["value"].dropna().tolist() == ["2", "1"]
    assert pyarrow.table(history.to_arrow("u1")).column("value").to_pylist() == [50, None, 49]
    assert pyarrow.table(store.at("one").history("k")).num_rows == 1
    schema = pyarrow.schema(history)
    assert schema.field("version").type == pyarrow.uint64() and schema.field("value").nullable


@pytest.mark.parametrize("kind", [None, "binary_view"])
def test_differences_have_nulls_where_the_key_is_not_there(filled, kind):
    diff = filled.diff("one", filled.latest())
    expected = [tuple(difference) for difference in diff]
    assert expected == [(b"long", b"y" * 13, None), (b"new", None, b"1")]
    assert rows(pyarrow.table(diff.to_arrow(kind, kind))) == diff.to_polars(kind, kind).rows() == expected
    assert [tuple(row) for row in diff.to_pandas(kind, kind).values] == expected
    assert pyarrow.table(filled.diff("one", filled.latest(), prefix="n")).num_rows == 1


# ---- Types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [None, "binary_view"])
def test_changes_have_nulls_where_the_key_is_not_there(filled, kind):
    filled["new"] = b"1" * 5000
    found = filled.changes(0, filled.tag())
    wanted = [tuple(change) for change in found]
    table = pyarrow.table(found.to_arrow(kind, kind, batch_rows=3))
    table.validate(full=True)
    assert table.column_names == list(icecore.KeyChange._fields)
    assert [str(table.schema.field(name).type) for name in ("version", "first")] == ["uint64", "bool"]
    assert [tuple(row.values()) for row in table.to_pylist()] == found.to_polars(kind, kind).rows() == wanted
    assert polars.DataFrame(found).rows() == list(found.to_pandas().itertuples(index=False, name=None)) == wanted
    assert duckdb.sql("SELECT key FROM found WHERE value IS NULL AND NOT first").fetchall() == [(b"long",)]
    assert pyarrow.table(filled.changes(0, filled.latest(), "key = 'nobody'")).num_rows == 0


def test_keys_and_values_become_what_a_dtype_says(store):
    ids, vectors = (np.arange(1000) * 77).astype(">u8"), np.random.default_rng(0).normal(size=(1000, 3)).astype("<f4")
    store.put_many(ids, vectors)
    then = store.latest()
    table = pyarrow.table(then.to_arrow(">u8", ("<f4", (3,))))
    assert table.schema.types == [pyarrow.uint64(), pyarrow.list_(pyarrow.field("item", pyarrow.float32(), False), 3)]
    assert table["key"].to_pylist() == ids.tolist() and table["value"].to_pylist() == vectors.tolist()
    assert then.to_polars(">u8", ("<f4", (3,)))["value"].to_list() == vectors.tolist()
    frame = then.to_pandas(">u8", ("<f4", (3,)))
    assert frame["key"].dtype == np.uint64 and frame["key"].tolist() == ids.tolist()
    assert np.stack(frame["value"]).tolist() == vectors.tolist()
    assert pyarrow.table(then.to_arrow("V8", "V12"))["value"].to_pylist() == [row.tobytes() for row in vectors]
    big = np.arange(6, dtype=">f8").reshape(2, 3)
    store.clear()
    store.put_many([b"a", b"b"], big)
    assert pyarrow.table(store.latest().to_arrow("utf8", (">f8", (3,))))["value"].to_pylist() == big.tolist()
    store.clear()
    store["t"] = np.datetime64("2026-01-02T03:04:05", "s").tobytes()
    assert str(pyarrow.table(store.latest().to_arrow(None, "M8[s]"))["value"][0]) == "2026-01-02 03:04:05"
    assert str(store.latest().to_pandas(None, "M8[s]")["value"][0]) == "2026-01-02 03:04:05"


@pytest.mark.parametrize("kind", ["i1", "<i2", ">i4", "<i8", "u1", ">u2", "<u4", ">u8", "<f2", ">f4", "<f8"])
def test_every_type_of_numbers_comes_back(store, kind):
    numbers = np.array([0, 1, 2, 100], kind)
    store.put_many([b"a", b"b", b"c", b"d"], numbers)
    then = store.latest()
    assert pyarrow.table(then.to_arrow(None, kind))["value"].to_pylist() == numbers.tolist()
    assert then.to_pandas(None, kind)["value"].tolist() == numbers.tolist()
    assert then.to_polars(None, kind)["value"].to_list() == numbers.tolist()


def test_text_is_checked(store):
    for text in ("", "a", "äé", "€", "\U0001f600", "\U0010ffff", "\ud7ff"):
        store[text] = text
    assert dict(rows(pyarrow.table(store.latest().to_arrow("utf8", "utf8")))) == {k.decode(): v.decode() for k, v in store.items()}
    for wrong in (b"\xff", b"a\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80",
                  b"\xf8", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98"):  # fmt: skip
        with pytest.raises(UnicodeDecodeError):
            wrong.decode()
        store["wrong"] = wrong
        with pytest.raises(pyarrow.ArrowInvalid, match=r"row 2 of the column 'value' is not UTF-8 at its byte [01]: read it as"):
            pyarrow.table(store.latest().to_arrow("utf8", "utf8"))
        with pytest.raises(ValueError, match=r"row 2 of the column 'value' is not UTF-8"):
            store.latest().to_pandas("utf8", "utf8")


def test_an_item_that_does_not_fit_is_named(filled):
    then = filled.at("one")
    for read in (pyarrow.table, polars.DataFrame):
        with pytest.raises(Exception, match=r"row 0 of the column 'value' has 0 bytes, but its type has 8: choose another"):
            read(then.to_arrow(None, "<f8"))
    with pytest.raises(ValueError, match="bytes"):
        then.to_pandas(None, "<f8")
    with pytest.raises(ValueError, match="row 0 of the column 'value' has 0 bytes"):
        then.to_pandas(None, ("<f8", (2,)))


@pytest.mark.parametrize("wrong", ["nonsense", 5, True, object(), "O", "S4", "U3", "c16", "f16", "?", "V0", [("a", "f8")], "M8[D]"])
def test_what_is_no_type_is_refused(filled, wrong):
    for call in (filled.latest().to_arrow, filled.latest().to_pandas, filled.latest().to_polars):
        with pytest.raises((TypeError, ValueError), match="value_type"):
            call(None, wrong)
    with pytest.raises((TypeError, ValueError), match="value_type"):
        filled.history("new").to_arrow(wrong)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None])
def test_a_batch_has_at_least_one_row(filled, wrong):
    with pytest.raises((TypeError, icecore.InvalidArgumentError), match="batch_rows"):
        filled.latest().to_arrow(batch_rows=wrong)


# ---- Batches and lifetimes -------------------------------------------------------------------------------------------


def test_a_million_keys_come_in_batches(store):
    count = 1_000_000
    store.put_many(np.arange(count, dtype=">u8"), np.arange(count, dtype="<u8"), threads=2)
    made = store.latest().to_arrow(">u8", "<u8")
    seen = 0
    for batch in pyarrow.RecordBatchReader.from_stream(made):
        assert batch.num_rows <= 65536
        keys, values = (column.to_numpy() for column in batch.columns)
        assert keys[0] == seen and keys[-1] == seen + len(keys) - 1 and (keys == values).all()
        seen += batch.num_rows
    assert seen == count
    assert duckdb.sql("SELECT count(*), sum(value) FROM made").fetchall() == [(count, count * (count - 1) // 2)]


def test_a_batch_ends_at_its_rows_and_at_its_bytes(store):
    store.put_many(np.arange(100, dtype=">u8"), np.zeros((100, 1 << 20), np.uint8))
    reader = pyarrow.RecordBatchReader.from_stream(store.latest())
    assert [batch.num_rows for batch in reader][:2] == [16, 16]
    reader = pyarrow.RecordBatchReader.from_stream(store.latest().to_arrow(None, "binary_view", batch_rows=3))
    assert [batch.num_rows for batch in reader] == [3] * 33 + [1]


def test_large_values_are_not_copied_as_views(store):
    store["k"] = b"v" * 100_000
    then = store.latest()
    address = np.frombuffer(then.view("k"), np.uint8).ctypes.data
    viewed = pyarrow.table(then.to_arrow(None, "binary_view"))["value"].chunk(0)
    assert address in [buffer.address for buffer in viewed.buffers() if buffer is not None]
    copied = pyarrow.table(then)["value"].chunk(0)
    assert address not in [buffer.address for buffer in copied.buffers() if buffer is not None]


@pytest.mark.parametrize("kind", [None, "binary_view"])
def test_what_was_read_outlives_the_store(path, kind):
    with open_store(path) as store:
        store.update(ITEMS)
        then = store.latest()
        made = then.to_arrow(kind, kind, batch_rows=2)
        table, frame = pyarrow.table(made), polars.DataFrame(made)
        reader = pyarrow.RecordBatchReader.from_stream(made)
        first = reader.read_next_batch()
        unread = pyarrow.RecordBatchReader.from_stream(made)
    with open_store(path) as store:
        store.update({key: b"other" for key in ITEMS})
    del store, then
    gc.collect()
    assert rows(table) == frame.rows() == sorted(ITEMS.items())
    assert rows(pyarrow.Table.from_batches([first])) == sorted(ITEMS.items())[:2]
    for left in (reader, unread):
        with pytest.raises(pyarrow.ArrowInvalid, match="the store is closed"):
            left.read_next_batch()
    with pytest.raises(icecore.ClosedError):
        made.__arrow_c_stream__()


def test_a_batch_alone_keeps_what_its_views_lead_to(run, path):
    """In a process of its own, because memory that was given back ends it."""
    code = """
        import gc, sys
        import icecore, pyarrow
        with icecore.open(sys.argv[1], emulate_durability=True) as store:
            store.update({str(i): bytes([i]) * 100_000 for i in range(50)})
            table = pyarrow.table(store.latest().to_arrow(None, "binary_view"))
        del store
        gc.collect()
        assert sys.argv[1] in open("/proc/self/maps").read()
        assert all(set(value) == {int(key)} for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist()))
        column = table["value"].chunk(0).slice(7, 1)  # which consumers may take out of its batch
        del table
        gc.collect()
        assert set(column[0].as_py()) == {15}, column[0].as_py()[:5]
        del column
        gc.collect()
        assert sys.argv[1] not in open("/proc/self/maps").read()
    """
    run(code, path)


def test_a_stream_that_nobody_reads_on_gives_everything_back(path):
    with open_store(path) as store:
        store.update({str(i): "v" * 5000 for i in range(1000)})
        made = store.latest().to_arrow(None, "binary_view", batch_rows=10)
        for taken in range(3):
            reader = pyarrow.RecordBatchReader.from_stream(made)
            for _ in range(taken):
                reader.read_next_batch()
            reader.close()
            del reader
            made.__arrow_c_stream__()  # a capsule that nobody takes
            assert made.__arrow_c_schema__() is not None
    del made, store
    gc.collect()
    assert str(path) not in open("/proc/self/maps").read()  # the last pin has ended


def test_a_stream_is_read_on_another_thread_while_others_write(store):
    store.put_many(np.arange(200_000, dtype=">u8"), np.arange(200_000, dtype="<u8"))
    then = store.latest()
    made = then.to_arrow(">u8", "<u8", batch_rows=1000)
    sums = []
    threads = [threading.Thread(target=lambda: sums.append(polars.DataFrame(made)["value"].sum())) for _ in range(3)]
    for thread in threads:
        thread.start()
    store.put_many(np.arange(200_000, dtype=">u8"), np.zeros(200_000, "<u8"))
    for thread in threads:
        thread.join()
    assert sums == [200_000 * 199_999 // 2] * 3


def test_closing_waits_for_a_batch_and_ends_the_stream(path):
    store = open_store(path)
    store.put_many(np.arange(300_000, dtype=">u8"), np.arange(300_000, dtype="<u8"))
    reader = pyarrow.RecordBatchReader.from_stream(store.latest().to_arrow(batch_rows=1000))
    failure = []

    def read():
        try:
            for batch in reader:
                batch.validate()
        except pyarrow.ArrowInvalid as e:
            failure.append(str(e))

    thread = threading.Thread(target=read)
    thread.start()
    store.close()
    thread.join()
    assert not failure or "the store is closed" in failure[0]


def test_no_library_is_needed_for_a_stream(path):
    """Nor is one imported before it is asked for."""
    code = """
        import sys
        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("pyarrow", "pandas", "polars", "nanoarrow"):
                    raise ImportError(f"no {name} here")
        sys.meta_path.insert(0, Missing())
        import icecore
        with icecore.open(sys.argv[1], emulate_durability=True) as store:
            store["a"] = "1"
            then = store.latest()
            assert "arrow_array_stream" in repr(then.__arrow_c_stream__()), then.__arrow_c_stream__()
            assert "arrow_schema" in repr(store.history("a").__arrow_c_schema__())
            for made in (store.changes(0, then), store.tags()):
                assert "arrow_array_stream" in repr(made.__arrow_c_stream__()), made
            for call, wanted in ((then.to_pandas, "pip install pandas"), (then.to_polars, "pip install polars")):
                try:
                    call()
                except ImportError as e:
                    assert wanted in str(e), e
                else:
                    raise AssertionError(call)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---- Columns in ------------------------------------------------------------------------------------------------------

TEXTS = ["a", "", "ä", "longer than twelve", "b" * 5000]
COLUMNS = {
    "pyarrow_string": lambda: pyarrow.array(TEXTS),
    "pyarrow_large_binary": lambda: pyarrow.array([t.encode() for t in TEXTS], pyarrow.large_binary()),
    "pyarrow_binary_view": lambda: pyarrow.array(TEXTS, pyarrow.string_view()),
    "pyarrow_slice": lambda: pyarrow.array(["x", *TEXTS, "y"])[1:-1],
    "pyarrow_view_slice": lambda: pyarrow.array(["x", *TEXTS, "y"], pyarrow.string_view())[1:-1],
    "pyarrow_chunks": lambda: pyarrow.chunked_array([TEXTS[:2], [], TEXTS[2:]], pyarrow.string()),
    "polars_text": lambda: polars.Series("t", TEXTS),
    "polars_binary": lambda: polars.Series("t", [t.encode() for t in TEXTS]),
    "polars_slice": lambda: polars.Series("t", ["x", *TEXTS, "y"])[1:-1],
    "polars_column_of_a_frame": lambda: polars.DataFrame({"t": TEXTS})["t"],
    "pandas_str": lambda: pandas.Series(TEXTS),
    "pandas_objects": lambda: pandas.Series(TEXTS, dtype=object),
    "pandas_arrow": lambda: pandas.Series(TEXTS, dtype=pandas.ArrowDtype(pyarrow.string())),
    "pandas_index": lambda: pandas.Index(TEXTS),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_text_come_in(store, name):
    column = COLUMNS[name]()
    store.put_many(column, column)
    assert dict(store.items()) == {text.encode(): text.encode() for text in TEXTS}
    with store.batch() as b:
        b.put_many(column, [b"2"] * len(TEXTS))
    assert set(store.values()) == {b"2"}
    assert store.find_many(column) == [b"2"] * len(TEXTS)


NUMBERS = np.arange(7, dtype="<f4")
NUMERIC = {
    "pandas": lambda: pandas.Series(NUMBERS),
    "pandas_every_second": lambda: pandas.Series(np.repeat(NUMBERS, 2))[::2],
    "pyarrow": lambda: pyarrow.array(NUMBERS),
    "pyarrow_slice": lambda: pyarrow.array(np.concatenate([NUMBERS, NUMBERS]))[7:],
    "polars": lambda: polars.Series("n", NUMBERS),
    "fixed_binary": lambda: pyarrow.array([n.tobytes() for n in NUMBERS], pyarrow.binary(4)),
}


@pytest.mark.parametrize("name", NUMERIC)
def test_columns_of_numbers_come_in_as_their_bytes(store, name):
    keys = [str(i) for i in range(len(NUMBERS))]
    store.put_many(keys, NUMERIC[name]())
    assert store.find_many(keys, "<f4")[0].tolist() == NUMBERS.tolist()


def test_columns_of_vectors_come_in(store):
    vectors = np.arange(12, dtype="<f8").reshape(4, 3)
    keys = polars.Series("k", ["a", "b", "c", "d"])
    for column in (
        polars.Series("v", vectors),
        pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), 3),
        pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(np.concatenate([np.ones(3), vectors.ravel()])), 3)[1:],
    ):
        store.clear()
        store.put_many(keys, column)
        assert store.find_many(keys, ("<f8", (3,)))[0].tolist() == vectors.tolist()


def test_a_snapshot_goes_through_arrow_into_another_store(filled, tmp_path):
    table = pyarrow.table(filled.at("one"))
    frame = filled.at("one").to_polars()
    for keys, values in ((table["key"], table["value"]), (frame["key"], frame["value"])):
        with open_store(tmp_path / f"{type(keys).__module__}.ice") as other:
            other.put_many(keys, values, threads=2)
            assert other.latest() == filled.at("one")


WRONG_COLUMNS = {
    "a null at item 1": pyarrow.array(["a", None]),
    "a null at item 3": pyarrow.chunked_array([["a", "b"], ["c", None]]),
    "elements of the lists of values have a null": pyarrow.array([[1, None]], pyarrow.list_(pyarrow.int32(), 2)),
    "have a null at item 0": pyarrow.nulls(2),
    "are categories": pyarrow.array(["a", "a"]).dictionary_encode(),
    "are bools, which Arrow keeps as bits: cast them to uint8": pyarrow.array([True, False]),
    "are lists of different sizes: give lists of one size": pyarrow.array([[1], [2]]),
    "are decimals: cast them": pyarrow.array([decimal.Decimal("1.5")]),
    "are maps: give binary": pyarrow.array([[("a", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int32())),
    "are a table": pyarrow.table({"a": ["a"]}),
    "are lists of the type 'u'": pyarrow.array([["a"]], pyarrow.list_(pyarrow.string(), 1)),
}


@pytest.mark.parametrize("why", WRONG_COLUMNS)
def test_columns_without_bytes_are_refused(store, why):
    with pytest.raises(icecore.InvalidArgumentError, match=why):
        store.put_many([b"k"], WRONG_COLUMNS[why])
    assert len(store) == 0


def test_empty_columns_come_in(store):
    for column in (polars.Series("e", []), pyarrow.array([]), pandas.Series([], dtype=object), pyarrow.chunked_array([], "string")):
        store.put_many(column, column)
    assert len(store) == 0
    with pytest.raises(icecore.InvalidArgumentError, match="1 keys need as many values, not 2"):
        store.put_many(polars.Series(["a"]), polars.Series(["a", "b"]))


def test_a_snapshot_as_a_column_stands_for_its_keys(filled):
    """As any mapping does, though it is a table, too."""
    then = filled.at("one")
    assert filled.find_many(then, at="one") == [value for _, value in then.items()]


def test_arrow_data_is_taken_once(store):
    class Twice:
        def __init__(self):
            self.capsule = pyarrow.chunked_array([["a"]]).__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    twice = Twice()
    store.put_many(twice, [b"1"])
    with pytest.raises(icecore.InvalidArgumentError, match="handed over before"):
        store.put_many(twice, [b"1"])


def test_a_stream_that_fails_says_why(store, tmp_path):
    with open_store(tmp_path / "other.ice") as other:
        other["k"] = b"\xff"
        failing = other.latest().to_arrow("utf8", "utf8")
    with pytest.raises(icecore.ClosedError):
        store.put_many(failing, failing)
    with open_store(tmp_path / "other.ice") as other:
        with pytest.raises(icecore.InvalidArgumentError, match="are a table|values cannot be read: .*UTF-8"):
            store.put_many([b"k"], other.latest().to_arrow("utf8", "utf8"))
