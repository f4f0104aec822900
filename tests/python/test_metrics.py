"""Metrics of tags: in the note, as a frame, as a table of Arrow, as a plot."""

import json
import math
import os
import sys

import duckdb
import numpy as np
import polars
import pyarrow
import pytest
from conftest import open_store

import icecore


@pytest.fixture
def trained(store):
    for epoch in range(1, 4):
        store.tag(f"e{epoch}", metrics={"loss": 1 / epoch, "epoch": epoch}, time=epoch * 10**9)
    store.tag("note alone", note="nothing measured")
    store.tag("both", note="first\nsecond", metrics={"loss": 0.125, "best": True})
    return store


def test_metrics_are_a_json_object_in_the_last_line_of_the_note(trained, path):
    assert json.loads(trained.find_tag("e1").note) == {"loss": 1.0, "epoch": 1}
    assert trained.find_tag("both").note == 'first\nsecond\n{"loss": 0.125, "best": true}'
    assert trained.find_tag("both").metrics == {"loss": 0.125, "best": True}
    assert trained.find_tag("note alone").metrics == {}
    trained.close()
    with open_store(path, "r") as again:
        assert [tag.metrics.get("loss") for tag in again.tags()] == [1, 1 / 2, 1 / 3, None, 0.125]


def test_metrics_alone_make_a_tag(store):
    version = store.tag(metrics={"loss": 0.5})
    assert store.find_tag(version).metrics == {"loss": 0.5}
    version = store.tag(metrics={})
    assert store.find_tag(version).metrics == {}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (np.float32(0.1), float(np.float32(0.1))),
        (np.int64(2**40), 2**40),
        (np.bool_(True), True),
        (np.array(1.5), 1.5),
        (np.array([[2.5]]), 2.5),
        (10**30, 10**30),
        ("adam", "adam"),
        ("\u00e4\n\u2028", "\u00e4\n\u2028"),
        (None, None),
        (float("inf"), float("inf")),
        (5e-324, 5e-324),
        (0.1 + 0.2, 0.1 + 0.2),
    ],
)
def test_a_metric_is_read_as_it_was_given(store, given, read):
    store.tag("t", metrics={"m\u00e4 {": given})
    found = store.find_tag("t").metrics["m\u00e4 {"]
    assert found == read and type(found) is type(read)


def test_nan_is_kept(store):
    store.tag("t", metrics={"loss": np.nan})
    assert math.isnan(store.find_tag("t").metrics["loss"])


def test_notes_that_only_look_like_metrics_have_none(store):
    for number, note in enumerate(("{", "{loss}", "[1]", '{"loss": 1}\nand more', "5", '"x"', '{"a": 1} b')):
        store.tag(f"{number}", note=note)
    assert [tag.metrics for tag in store.tags()] == [{}] * 7


def test_what_is_no_metric_is_refused(store):
    clock = store.clock
    for wrong in (object(), [1.0], {"deep": 1}, 1j, b"x", np.arange(2), np.array("2020-01-01", "datetime64[D]")):
        with pytest.raises(TypeError, match="metric 'loss' must be a number, a str or None"):
            store.tag("t", metrics={"loss": wrong})
    for wrong in (5, "loss", [("loss", 1)]):
        with pytest.raises(TypeError, match="metrics must be a mapping"):
            store.tag("t", metrics=wrong)
    with pytest.raises(TypeError, match="name of a metric must be a str"):
        store.tag("t", metrics={1: 2})
    for wrong in ("version", "name", "time", "note", ""):
        with pytest.raises(icecore.InvalidArgumentError, match="cannot be called"):
            store.tag("t", metrics={wrong: 1})
    with pytest.raises(icecore.InvalidArgumentError, match="65535|65,535"):
        store.tag("t", metrics={"long": "x" * 70_000})
    with pytest.raises(TypeError, match="note must be a str"):
        store.tag("t", note=5, metrics={"loss": 1})
    assert store.clock == clock and store.tags() == []


def test_tags_become_a_frame(trained):
    pandas = pytest.importorskip("pandas")
    trained.tag("other", note='{"version": 7, "loss": 1}')
    frame = trained.tags().to_pandas()
    assert list(frame.columns) == ["version", "name", "time", "note", "loss", "epoch", "best", "version (metric)"]
    assert frame.version.tolist() == [tag.version for tag in trained.tags()]
    assert frame.loss.isna().tolist() == [False, False, False, True, False, False]
    assert frame.loss[1] == 0.5 and frame.epoch[2] == 3 and frame["version (metric)"][5] == 7
    assert frame.time[0] == pandas.Timestamp(1, unit="s", tz="UTC")
    assert trained.at(frame.time[1]).tag.name == "e2", "a time of the frame names the version"
    assert frame.query("loss < 0.2").name.tolist() == ["both"]
    assert icecore.Tags().to_pandas().shape == (0, 4)


def test_tags_become_a_frame_of_polars_with_the_same_values(trained):
    pytest.importorskip("polars")
    tags = trained.tags()
    frame, other = tags.to_polars(), tags.to_pandas()
    assert frame.columns == list(other.columns)
    for column in frame.columns:
        if column != "time":
            assert frame[column].to_list() == [None if value != value else value for value in other[column].tolist()]
    assert frame["time"].dt.timestamp("ns").to_list() == [tag.time_ns for tag in tags]
    assert f"{frame['time'].dtype}" == "Datetime(time_unit='ns', time_zone='UTC')"
    trained.tag("whole", metrics={"loss": 1})  # among floats
    assert trained.tags().to_polars()["loss"].to_list()[-1] == 1.0
    assert icecore.Tags().to_polars().shape == (0, 4)


def test_tags_are_a_table_of_arrow(store):
    notes = [{"loss": 0.5, "step": 2**40, "best": True, "host": "ä"}, {"loss": 1, "step": -1, "best": False}, {}, {"empty": None}]
    for epoch, metrics in enumerate(notes):
        store.tag(f"epoch-{epoch}", note="", metrics=metrics)
    tags = store.tags()
    table = pyarrow.table(tags.to_arrow(batch_rows=3))
    table.validate(full=True)
    types = dict(zip(table.column_names, map(str, table.schema.types)))
    assert types == {"version": "uint64", "name": "large_string", "time": "timestamp[ns, tz=UTC]", "note": "large_string",
                     "loss": "double", "step": "int64", "best": "bool", "host": "large_string", "empty": "double"}  # fmt: skip
    assert table["time"].cast("int64").to_pylist() == [tag.time_ns for tag in tags]
    for name in ("version", "name", "note"):
        assert table[name].to_pylist() == [getattr(tag, name) for tag in tags]
    for name in ("loss", "step", "best", "host", "empty"):
        assert table[name].to_pylist() == [metrics.get(name) for metrics in notes]
    assert polars.from_arrow(pyarrow.RecordBatchReader.from_stream(tags).read_all()).drop("empty").equals(tags.to_polars().drop("empty"))
    stream = tags.to_arrow()
    assert duckdb.sql("SELECT count(*), max(loss) FROM stream WHERE best IS NOT NULL").fetchall() == [(2, 1.0)]
    assert pyarrow.table(store.tags().to_arrow()).num_rows == 4 and pyarrow.table(icecore.Tags().to_arrow()).num_rows == 0


def test_tags_that_no_table_of_arrow_holds_are_refused(store):
    store.tag("large", metrics={"count": 2**70})
    with pytest.raises(icecore.InvalidArgumentError, match="'count' has whole numbers of more than 64 bits"):
        store.tags().to_arrow()
    store.tag("list", note='{"count": [1]}')
    with pytest.raises(icecore.InvalidArgumentError, match="several types, int, list"):
        store.tags().to_arrow()
    with pytest.raises(icecore.InvalidArgumentError, match="type list"):
        icecore.Tags(store.tags()[1:]).to_arrow()
    store.tag(name="no text", note=os.fsdecode(b"\xff"))
    with pytest.raises(icecore.InvalidArgumentError, match="not UTF-8"):
        icecore.Tags(store.tags()[2:]).to_arrow()


def test_a_metric_of_several_types_is_no_column_of_polars(trained):
    pytest.importorskip("polars")
    trained.tag("text", metrics={"loss": "none"})
    with pytest.raises(icecore.InvalidArgumentError, match="metric 'loss' has values of several types, float, str"):
        trained.tags().to_polars()


def test_tags_are_plotted(trained):
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    axes = trained.tags().plot("loss")
    (line,) = axes.get_lines()
    versions = [tag.version for tag in trained.tags() if "loss" in tag.metrics]
    assert line.get_xdata().tolist() == versions and line.get_ydata().tolist() == [1, 1 / 2, 1 / 3, 0.125]
    assert trained.tags().plot(over="time", ax=axes) is axes and axes.get_xlabel() == "time"
    assert [one.get_label() for one in axes.get_lines()] == ["loss", "loss", "epoch"], "bools are no numbers"
    for wrong in ("accuracy", "best"):
        with pytest.raises(icecore.InvalidArgumentError, match=f"{wrong}'.*(there are: loss, epoch, best|is no number)"):
            trained.tags().plot(wrong)
    with pytest.raises(icecore.InvalidArgumentError, match="over 'name' is not one of"):
        trained.tags().plot("loss", over="name")
    plt.close("all")


def test_without_pandas_or_matplotlib_an_error_says_what_is_missing(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="needs pandas: pip install pandas"):
        trained.tags().to_pandas()
    with pytest.raises(ImportError, match="needs matplotlib: pip install matplotlib"):
        trained.tags().plot("loss")
