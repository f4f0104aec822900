"""What a notebook shows: tables, escaped and short."""

import xml.etree.ElementTree as ElementTree

import pytest
from conftest import open_store


@pytest.fixture
def filled(store):
    for i in range(50):
        store[b"<b>%02d</b>" % i] = b"&" * 1000 if i == 0 else b"<%d>" % i
        store.tag(f"<{i}>", note="a & b", time=i * 10**9)
    store[b"\xff"] = b"new"
    return store


def rows(thing):
    html = thing._repr_html_()
    assert "<b>" not in html
    table = ElementTree.fromstring(html)
    assert table.tag == "table"
    return table.findall("tbody/tr")


def test_tables_show_at_most_twenty_rows_and_say_how_many_more(filled):
    for thing in (filled.latest(), filled.tags(), filled.diff(0, filled.latest())):
        shown = rows(thing)
        assert len(shown) == 21
        assert "more" in "".join(shown[-1].itertext())
    assert "30 more" in "".join(rows(filled.tags())[-1].itertext())
    assert len(rows(filled.at(tag="<3>"))) == 4
    assert len(rows(filled.history(b"\xff"))) == 1
    assert len(rows(filled.at(0))) == 0


def test_tables_tell_what_matters(filled):
    assert "…" in filled.latest()._repr_html_()
    assert "(1,000 bytes)" in filled.latest()._repr_html_()
    assert "1970-01-01 00:00:07+00:00" in filled.tags()._repr_html_()
    store_table = filled._repr_html_()
    for reported in ("records", "durability: mode", filled.path, "btree"):
        assert reported in store_table
    assert len(rows(filled)) > 15
    assert "&lt;3&gt;" in filled.at(tag="<3>")._repr_html_()


def test_a_closed_store_shows_itself_and_representations_name_things(path):
    store = open_store(path)
    store[b"k"] = b"v"
    snapshot = store.latest()
    reported = {
        repr(store): ["icecore.Store", "store.ice"],
        repr(snapshot): [f"version {snapshot.version}", "store.ice"],
        repr(snapshot[b"a":b"b"]): ["b'a':b'b'"],
        repr(store.keys()): ["KeysView", "icecore.Store"],
        repr(store.history("k")): ["History", "'k'"],
        repr(store.diff(0, snapshot)): ["from version 0"],
    }
    for text, parts in reported.items():
        for part in parts:
            assert part in text
    store.close()
    assert "closed" in store._repr_html_()
    ElementTree.fromstring(store._repr_html_())
