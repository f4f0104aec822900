"""Filters, and what they find in a snapshot: what a loop over the snapshot finds."""

import ctypes
import struct
import threading

import numpy as np
import pytest
from conftest import open_store

import icecore

LAYOUT = "price f64, qty u32"
DTYPE = np.dtype([("price", "<f8"), ("qty", "<u4")])


@pytest.fixture
def trades(store):
    """eu/000 … eu/499 and us/000 … us/499; price i / 2, qty i; and a value that is too short."""
    with store.batch() as b:
        for i in range(1000):
            b[f"{'eu' if i < 500 else 'us'}/{i % 500:03}"] = struct.pack("<dI", i % 500 / 2, i % 500)
        b["zz"] = b"short"
    return store.latest()


def by_hand(snapshot, matches):
    found = [(k, v) for k, v in snapshot.items() if len(v) == 12 and matches(k, *struct.unpack("<dI", v))]
    assert found
    return found


def test_iterating_and_totals_give_what_a_loop_gives(trades):
    found = trades.where("price > 100 and starts_with(key, 'eu/')", layout=LAYOUT)
    wanted = by_hand(trades, lambda k, price, qty: price > 100 and k.startswith(b"eu/"))
    assert list(found) == wanted == list(found)
    assert list(found.keys()) == [k for k, _ in wanted]
    assert list(found.values()) == [v for _, v in wanted]
    for threads in (0, 1, 3):
        assert found.count(threads) == len(wanted)
        assert found.sum("qty", threads) == sum(struct.unpack("<dI", v)[1] for _, v in wanted)
        assert found.min("price", threads) == 100.5
        assert found.max("-qty", threads) == -201
    assert trades.where("key < ''").sum("1") is None
    assert isinstance(found.sum("qty"), int) and isinstance(found.sum("price"), float)
    assert "eu/" in found.explain() and "price" in repr(found)
    assert "order: by key" in found.explain()
    assert "more" in found._repr_html_() and "eu/201" in found._repr_html_()


def test_bounds_of_a_snapshot_hold_for_its_filters(trades):
    run = trades["eu/490":"us/010"]
    assert [k for k, _ in run.where("qty % 2 = 0", LAYOUT)] == [k for k in run if int(k[3:]) % 2 == 0]
    assert run.where("true").count() == len(run)
    assert run.where("true", LAYOUT).sum("qty") == sum(range(490, 500)) + sum(range(10))
    assert trades["b":"a"].where("true").count() == 0
    assert list(trades[b"\xff\x00'":].where("true")) == []


def test_text_that_is_no_expression_is_refused_with_the_nearest_name(trades):
    with pytest.raises(icecore.BadInputError, match="price"):
        trades.where("prise > 1", LAYOUT)
    with pytest.raises(icecore.BadInputError):
        icecore.Filter("key >", None)
    with pytest.raises(icecore.BadInputError):
        icecore.Filter("true", "price f65")
    with pytest.raises(icecore.BadInputError, match="qty"):
        trades.where("true", LAYOUT).sum("qyt")
    with pytest.raises(TypeError):
        trades.where(5)


def test_filters_are_values_that_can_be_joined(trades):
    dear = icecore.Filter("price > 200", LAYOUT)
    assert dear.matches("k", struct.pack("<dI", 300, 1))
    assert not dear.matches("k", b"short")
    even = icecore.filter_function(lambda keys, values: [k[-1] % 2 == 0 for k in keys], name="even", revision=7)
    assert even.function == ("even", 7) and dear.function is None
    both = (dear & even).with_layout(LAYOUT)
    wanted = by_hand(trades, lambda k, price, qty: price > 200 and qty % 2 == 0)
    assert list(trades.where(both)) == wanted
    assert trades.where(both).sum("qty") == sum(struct.unpack("<dI", v)[1] for _, v in wanted)
    either = trades.where(dear | even)
    assert either.count() == sum(1 for k, v in trades.items() if dear.matches(k, v) or even.matches(k, v))
    assert dear.fingerprint() == icecore.Filter("price>200", LAYOUT).fingerprint() != both.fingerprint()
    with pytest.raises(TypeError):
        dear & 5


def test_functions_get_lists_or_arrays_and_any_number_of_threads_call_them(trades):
    seen = set()

    @icecore.filter_function
    def dear(keys, values):
        assert all(type(one) is bytes for one in keys + values) and len(keys) == len(values)
        seen.add(len(keys))
        return [len(v) == 12 and struct.unpack_from("<d", v)[0] > 100 for v in values]

    @icecore.filter_function(dtype=DTYPE)
    def dear_array(keys, values):
        assert values.dtype == DTYPE and len(values) == len(keys)
        return values["price"] > 100

    wanted = by_hand(trades, lambda k, price, qty: price > 100)
    for function in (dear, dear_array, lambda keys, values: dear_array.function and [v > b"" for v in values]):
        for threads in (1, 3):
            expected = len(wanted) if isinstance(function, icecore.Filter) else 1001
            assert trades.where(function).count(threads) == expected
    assert list(trades.where(dear)) == list(trades.where(dear_array)) == wanted
    assert 1 < max(seen) <= 64
    vectors = icecore.filter_function(lambda keys, values: values[:, 2] == 0, dtype=("<u4", (3,)))
    assert trades.where(vectors).count() == 2


def test_what_a_function_raises_or_returns_amiss_ends_the_scan(trades):
    def fails(keys, values):
        raise ZeroDivisionError("not today")

    for scan in (lambda f: f.count(3), list, lambda f: f.to_numpy("key"), lambda f: f.page()):
        with pytest.raises(ZeroDivisionError, match="not today"):
            scan(trades.where(fails))
    for answer in (lambda keys, values: True, lambda keys, values: [True], lambda keys, values: None):
        with pytest.raises((icecore.InvalidArgumentError, TypeError)):
            trades.where(answer).count()


def test_a_function_cannot_close_the_store_that_calls_it(path):
    with open_store(path) as store:
        for i in range(2000):
            store[b"%d" % i] = b"v"

        def closes(keys, values):
            store.close()
            return [True] * len(keys)

        for threads in (1, 2):
            with pytest.raises(icecore.InvalidArgumentError, match="close"):
                store.latest().where(closes).count(threads)
        assert not store.closed


def test_the_revision_of_a_function_changes_with_its_code():
    def made(limit, step=1):
        def function(keys, values):
            return [len(k) > limit for k in keys]

        def other(keys, values):
            return [len(k) >= limit for k in keys]

        def with_default(keys, values, step=step):
            return [len(k) > limit + step for k in keys]

        return [icecore.filter_function(f).function[1] for f in (function, other, with_default)]

    assert made(1) == made(1)
    assert len({*made(1), *made(2), made(1, 2)[2]}) == 7
    f = lambda keys, values: values["qty"] > 1  # noqa: E731
    assert icecore.filter_function(f, dtype=DTYPE).function != icecore.filter_function(f, dtype="<u4").function
    with pytest.raises(TypeError, match="revision"):
        icecore.filter_function(len)
    assert icecore.filter_function(len, name="len", revision=1).function == ("len", 1)
    with pytest.raises(icecore.InvalidArgumentError):
        icecore.filter_function(f, dtype=object)


def test_columns_are_numpy_arrays_masked_where_they_are_null(trades):
    found = trades.where("key >= 'us/498'", LAYOUT)
    arrays = found.to_numpy(["key", "price", "qty", "-qty as less", "qty > 498 as many"], threads=2)
    assert list(arrays) == ["key", "price", "qty", "less", "many"]
    assert list(arrays["key"]) == [b"us/498", b"us/499", b"zz"]
    for name, values in (("price", [249.0, 249.5, None]), ("less", [-498, -499, None]), ("many", [False, True, None])):
        assert arrays[name].tolist() == values
    assert arrays["less"].dtype == np.int64 and arrays["many"].dtype == np.bool_
    plain = trades.where("qty >= 0", LAYOUT).to_numpy("qty")["qty"]
    assert not np.ma.isMaskedArray(plain) and plain.sum() == 2 * sum(range(500))
    assert {name: len(a) for name, a in trades.where("key < ''").to_numpy(["key", "length(key) as n"]).items()} == {
        "key": 0,
        "n": 0,
    }
    assert trades.where("key = 'zz'").to_numpy("json(value, 'a') as a")["a"].tolist() == [None]


class ArrowArray(ctypes.Structure):
    pass


ArrowArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))),
    ("private_data", ctypes.c_void_p),
]


def pointer(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def test_columns_for_arrow_outlive_the_store_and_their_capsules(path):
    with open_store(path) as store:
        store[b"k1"], store[b"k2"] = struct.pack("<dI", 1, 2), struct.pack("<dI", 3, 4)
        found = store.latest().where("true", LAYOUT).to_arrow(["key", "price"])
    assert len(found) == 2 and found.names == ["key", "price"] and "price" in repr(found)
    schema, batch = found.__arrow_c_array__()
    assert pointer(schema, b"arrow_schema") and pointer(found.__arrow_c_schema__(), b"arrow_schema")
    assert pointer(found.__arrow_c_stream__(), b"arrow_array_stream")
    whole = ArrowArray.from_address(pointer(batch, b"arrow_array"))
    assert (whole.length, whole.n_children) == (2, 2)
    prices = whole.children[1].contents
    moved = ArrowArray.from_buffer_copy(prices)  # as a consumer moves a child
    prices.release = type(prices.release)()
    del schema, batch, found, whole
    assert list((ctypes.c_double * 2).from_address(moved.buffers[1])) == [1, 3]
    moved.release(moved)


def test_arrow_libraries_import_the_columns(trades):
    pyarrow = pytest.importorskip("pyarrow")
    found = trades.where("key >= 'us/498'", LAYOUT).to_arrow(["key", "price", "qty > 498 as many"])
    assert pyarrow.table(found).to_pydict() == {
        "key": [b"us/498", b"us/499", b"zz"],
        "price": [249.0, 249.5, None],
        "many": [False, True, None],
    }
    assert pyarrow.record_batch(found).num_rows == pyarrow.table(found).num_rows == 3


def test_pages_follow_each_other_by_their_tokens_also_in_a_later_opening(path):
    with open_store(path) as store:
        for i in range(100):
            store[b"%02d" % i] = b"v"
        version = store.tag()
        pages, token = [], b""
        while not pages or not pages[-1].end:
            pages.append(store.at(version).where("key != '50'").page(8, token))
            token = pages[-1].token
        assert [k for page in pages for k, _ in page.items] == [b"%02d" % i for i in range(100) if i != 50]
        assert token == b"" and all(len(page.items) == 8 for page in pages[:-1])
        back = store.at(version).where("key != '50'").page(3, reverse=True)
        assert [k for k, _ in back.items] == [b"99", b"98", b"97"]
        with pytest.raises(icecore.BadTokenError):
            store.at(version).where("key != '51'").page(8, pages[0].token)
        with pytest.raises(icecore.InvalidArgumentError):
            store.at(version).where("true").page(0)
        assert store.at(version).where("key = '99'").page(1, examined=10, seconds=10).examined <= 10
    with open_store(path, "r") as store:
        assert store.at(version).where("key != '50'").page(8, pages[0].token).items == pages[1].items


def test_signed_tokens_are_made_by_who_knows_the_secret(trades):
    some = trades.where("length(key) > 0")
    page = some.page(1, secret=b"secret")
    assert some.page(1, page.token, secret=b"secret").items == some.page(1, some.page(1).token).items
    for secret in (b"", b"other"):
        with pytest.raises(icecore.BadTokenError, match="sign"):
            some.page(1, page.token, secret=secret)


def test_threads_share_a_filter_and_what_it_finds(trades):
    found = trades.where(lambda keys, values: [k.startswith(b"us/") for k in keys])
    counts = []
    threads = [threading.Thread(target=lambda: counts.append((found.count(2), len(list(found))))) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert counts == [(500, 500)] * 4


def test_what_was_found_reads_no_more_after_closing(path):
    store = open_store(path)
    store[b"k"] = b"v"
    found = store.latest().where("true")
    iterator = iter(found)
    store.close()
    for use in (found.count, found.page, lambda: next(iterator), lambda: list(found), lambda: found.to_arrow("key")):
        with pytest.raises(icecore.ClosedError):
            use()
