"""Expressions of pyarrow.compute as filters: they match the rows that pyarrow itself selects."""

import struct

import pytest
from conftest import open_store

import icecore

pa = pytest.importorskip("pyarrow")
pytest.importorskip("substrait")
pc = pytest.importorskip("pyarrow.compute")

SAYS_TEXTS = int(pa.__version__.partition(".")[0]) >= 26  # older ones have no words of Substrait for starts_with and its like
LAYOUT = "price f64, qty u32, left i8, name bytes"
price, qty, left, name, key = (pc.field(f) for f in ("price", "qty", "left", "name", "key"))

of_texts = pytest.mark.skipif(not SAYS_TEXTS, reason="pyarrow before 26 cannot say this to Substrait")
EXPRESSIONS = [
    pytest.param((price > 100.0) & pc.starts_with(key, "eu/"), marks=of_texts),
    ~((qty + 1) <= 70) | (left == -5),
    qty.isin([1, 5, 77]),
    name == "it's 7",
    name != "item 7",
    pytest.param(pc.ends_with(name, "9") | pc.match_substring(name, "44"), marks=of_texts),
    pc.if_else(qty > 30, price, 0.0) >= 16.5,
    (qty / 3 == 5) & (qty * 2 - 1 > 0),
    pc.bit_wise_and(qty, 3) == 1,
    pc.bit_wise_or(qty, 1) == pc.bit_wise_xor(qty, 1),
    name.is_null(),
    name.is_valid() & ~(left < 0),
    pc.negate(left) > 2,
    pc.coalesce(price, 1.0) < 2.0,
    pc.scalar(True),
    (qty == pa.scalar(None, pa.int64())) | (qty == 3),
]


@pytest.fixture(scope="module")
def rows():
    names = [b"item %d" % i for i in range(98)] + [b"it's 7", b"\xff"]
    return [(b"%s/%03d" % (b"eu" if i % 2 else b"us", i), i * 2.5, i, i % 11 - 5, n) for i, n in enumerate(names)]


@pytest.fixture
def snapshot(path, rows):
    with open_store(path) as store:
        for k, *values, n in rows:
            store[k] = struct.pack("<dIb", *values) + n
        yield store.latest()


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_an_expression_matches_what_pyarrow_selects(snapshot, rows, expression):
    texts = [n.decode("latin-1") for *_, n in rows]
    table = pa.table({
        "key": [k.decode() for k, *_ in rows], "price": [r[1] for r in rows], "qty": [r[2] for r in rows],
        "left": pa.array([r[3] for r in rows], pa.int64()), "name": texts,
    })  # fmt: skip
    wanted = sorted(k.encode() for k in table.filter(expression)["key"].to_pylist())
    assert list(snapshot.where(expression, layout=LAYOUT).keys()) == wanted
    assert snapshot.where(icecore.Filter(expression, LAYOUT)).count() == len(wanted)


def test_bytes_that_are_no_text_are_compared_as_binary(snapshot, rows):
    assert list(snapshot.where(name == b"\xff", layout=LAYOUT).keys()) == [rows[-1][0]]
    assert list(snapshot.where(key == b"eu/001").keys()) == [b"eu/001"]


def test_what_cannot_be_translated_is_named(snapshot):
    for expression, told in (
        (pc.utf8_length(name) > 3, "utf8_length"),
        (price.is_nan(), "is_nan"),
        (pc.field("prize") > 1, "prize"),
        (pc.starts_with(key, "EU", ignore_case=True), "ignores case" if SAYS_TEXTS else "starts_with"),
        (price > float("nan"), "nan"),
    ):
        with pytest.raises(icecore.InvalidArgumentError, match=told):
            snapshot.where(expression, layout=LAYOUT)


def test_a_kept_query_may_ask_an_expression(path):
    with open_store(path) as store:
        for i in range(100):
            store[b"%02d" % i] = struct.pack("<q", i)
        query = store.start("of arrow", where=pc.field("number") >= 90, layout="number i64")
        query.run()
        assert [key for _, key, *_ in query.results()] == [b"%d" % i for i in range(90, 100)]
