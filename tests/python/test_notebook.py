"""What a notebook shows: tables, escaped and short."""

import os
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import open_store

import icecore


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
    statistics = filled.stats()._repr_html_()
    for reported in ("records", "durability: mode", filled.path, "btree"):
        assert reported in statistics
    assert len(rows(filled.stats())) > 15
    told = {"".join(name.itertext()): "".join(said.itertext()) for name, said in rows(filled)}
    assert 5 < len(told) < 15, "a store shows little of itself: stats() has it all"
    assert told["tags"] == "50" and told["keys ever written"] == "51" and told["writes kept"] == "51" and told["version now open"] == f"{filled.clock}"
    assert told["index"] == "btree" and told["durability"].startswith(filled.durability().mode)
    assert filled.path in filled._repr_html_()
    assert "&lt;3&gt;" in filled.at(tag="<3>")._repr_html_()


def every_table(store, key):
    return {
        "store": store,
        "snapshot": store.latest(),
        "slice": store[key:],
        "history": store.history(key),
        "diff": store.diff(0, store.latest()),
        "tags": store.tags(),
        "statistics": store.stats(),
        "filtered": store.latest().where("true"),
        "queries": store.queries(),
        "query": store.query("\u202ereversed"),
    }


@pytest.mark.parametrize("odd", [b"\xff\xfe", b"\0\1\x1b[31m", "\u202e\ufeff".encode(), b"</td><script>", b"\xed\xa0\x80"])
def test_tables_are_safe_for_any_bytes(tmp_path, odd):
    path = os.fsencode(tmp_path) + b"/\xff<b>.ice"  # which is no text either
    with open_store(path) as store:
        store[odd] = odd * 30
        store.tag(odd, note=odd + b"\n" + odd)
        store.start("\u202ereversed")
        for what, thing in every_table(store, odd).items():
            shown = thing._repr_html_()
            shown.encode()  # a page has no lone surrogates
            assert all(c.isprintable() for c in shown), what
            assert "<script>" not in shown and "<b>" not in shown
            assert ElementTree.fromstring(shown).tag == "table"
        assert "\\udcff" in store._repr_html_(), "what is no text is shown as in a literal"
        things = every_table(store, odd)
    for what in ("store", "snapshot", "slice", "history", "diff"):
        shown = things[what]._repr_html_()
        shown.encode()
        assert ElementTree.fromstring(shown).tag == "p", what


def test_tables_do_not_copy_large_values(store, monkeypatch):
    store["large"] = bytes(1 << 20)
    store.tag("one")
    copied = []
    monkeypatch.setattr(icecore.html, "bytes", lambda part: copied.append(len(part)) or bytes(part), raising=False)
    for thing in (store.latest(), store.history("large"), store.diff(0, "one")):
        assert "(1,048,576 bytes)" in thing._repr_html_()
    assert copied and max(copied) < 100


def test_keys_are_offered_for_completion(store, path):
    store.update({b"layer1/bias": b"", b"layer1/weight": b"", b"\xff": b"", b"\0": b""})
    for mapping in (store, store.latest()):
        offered = mapping._ipython_key_completions_()
        assert [key for key in offered if isinstance(key, str)] == ["layer1/bias", "layer1/weight"]
        assert [key for key in offered if isinstance(key, bytes)] == list(store)
    assert store["layer1/":"layer1/c"]._ipython_key_completions_() == ["layer1/bias", b"layer1/bias"]
    store.put_many([f"k{i:05}" for i in range(2000)], [b""] * 2000)
    assert len(store._ipython_key_completions_()) <= 2000
    then = store.latest()
    store.close()
    assert store._ipython_key_completions_() == then._ipython_key_completions_() == []


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
    assert store._repr_html_().count(" closed") == 1
    ElementTree.fromstring(store._repr_html_())
