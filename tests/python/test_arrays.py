"""NumPy arrays as values: dtype, shape, order and bits come back, without a copy."""

import array
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import open_store
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import icecore


def place_of(store, key):
    return np.frombuffer(store.view(key), np.uint8).ctypes.data


def test_an_array_comes_back_as_a_view_of_the_store(store):
    given = np.arange(3_000, dtype="<f4").reshape(30, 100)
    assert store.put_array(b"w", given) == store.clock
    array = store.get_array(b"w")
    assert np.array_equal(array, given)
    assert array.dtype == given.dtype
    assert not array.flags.owndata
    assert not array.flags.writeable
    assert array.flags.aligned
    start = place_of(store, b"w")
    assert start < array.ctypes.data < start + len(store[b"w"])
    assert array.ctypes.data + array.nbytes == start + len(store[b"w"])
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1


@pytest.mark.parametrize("count, alignment", [(1, 8), (3, 8), (511, 8), (2_000, 64), (100_000, 64)])
@pytest.mark.parametrize("key", [b"", b"1", b"a key of 23 bytes, odd"])
def test_arrays_are_aligned(store, key, count, alignment):
    for rewrite in range(3):  # a key's first record and the later ones have different headers
        store.put_array(key, np.full(count, rewrite, np.float64))
        assert store.get_array(key).ctypes.data % alignment == 0


def test_the_value_is_a_npy_file(store):
    given = np.linspace(0, 1, 7)
    store.put_array(b"w", given)
    assert np.array_equal(np.load(io.BytesIO(store[b"w"]), allow_pickle=False), given)
    assert store[b"w"].startswith(b"\x93NUMPY\x01\x00")
    out = io.BytesIO()
    np.save(out, given)
    store[b"saved"] = out.getvalue()
    assert np.array_equal(store.get_array(b"saved"), given)


def test_arrays_have_versions(store):
    for i in range(3):
        store.put_array(b"w", np.full(4, i))
        store.tag(f"epoch-{i}")
    assert store.get_array(b"w", "epoch-1").tolist() == [1] * 4
    assert store.get_array(b"w", store.find_tag("epoch-0")).tolist() == [0] * 4
    assert store.at(tag="epoch-2").get_array(b"w").tolist() == [2] * 4
    assert store.get_array("w").tolist() == [2] * 4


def test_an_array_outlives_its_store(path):
    with open_store(path) as store:
        store.put_array(b"w", np.arange(10_000))
        array = store.get_array(b"w")
    assert int(array.sum()) == 49_995_000
    slice_of_it = array[5:10]
    del array
    assert slice_of_it.tolist() == [5, 6, 7, 8, 9]


def content_of(array):
    """The bytes of the items, without those between the fields of a structure."""
    if array.dtype.names:
        return b"".join(array[name].tobytes() for name in array.dtype.names)
    return array.tobytes()


STRUCTURED = np.dtype([("id", ">u4"), ("x", "<f8", (3,)), ("name", "S5")])
DTYPES = (
    hnp.scalar_dtypes()
    | hnp.byte_string_dtypes(min_len=1)
    | hnp.unicode_string_dtypes(min_len=1)
    | st.just(STRUCTURED)
    | st.just(np.dtype([("a", "i1"), ("b", "f8")], align=True))
    | st.just(np.dtype("V7"))
    | st.just(np.dtype("complex64"))
)


@settings(max_examples=150, deadline=None)
@given(dtype=DTYPES, data=st.data())
def test_every_dtype_shape_and_order_comes_back(tmp_path_factory, dtype, data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    count = int(np.prod(shape))
    content = data.draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    given = np.ndarray(shape, dtype, content)
    if dtype.kind == "U":
        given = np.full(shape, "ä€", dtype)
    layout = data.draw(st.sampled_from(["C", "F", "every other"]))
    if layout == "F":
        given = np.asfortranarray(given)
    elif layout == "every other" and given.ndim:
        given = given[::2]
    with open_store(tmp_path_factory.mktemp("arrays") / "s") as store:
        store.put_array(b"a", given)
        array = store.get_array(b"a")
        assert array.dtype == given.dtype
        assert array.shape == given.shape
        assert content_of(array) == content_of(given)
        assert array.flags.aligned
        assert given.ndim < 2 or not given.flags.f_contiguous or array.flags.f_contiguous


def test_what_bytes_cannot_hold_is_refused(store):
    for wrong in (np.array([object()]), np.array([("a", None)], dtype="S1,O"), np.ma.masked_array([1, 2], [0, 1])):
        with pytest.raises(TypeError, match="objects|mask"):
            store.put_array(b"w", wrong)
    assert b"w" not in store


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"no array",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff",
        b"\x93NUMPY\x09\x00\x10\x00" + b" " * 100,
        b"\x93NUMPY\x01\x00\x04\x00{}  ",
        b"\x93NUMPY\x01\x00\x76\x00"
        + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117)
        + b"\n"
        + bytes(8),
        b"\x93NUMPY\x01\x00\x76\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }".ljust(117)
        + b"\n"
        + bytes(8),
        b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }".ljust(117) + b"\n",
        b"\x93NUMPY\x01\x00\x76\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (2**70,2), }".ljust(117)
        + b"\n",
        b"\x93NUMPY\x01\x00\x76\x00" + b"__import__('os')".ljust(117) + b"\n",
    ],
)
def test_what_is_no_array_is_reported(store, value):
    store[b"k"] = value
    with pytest.raises(ValueError, match="b'k' is not an array"):
        store.get_array(b"k")


def test_a_dtype_too_long_for_the_first_npy_format_takes_the_second(store):
    dtype = np.dtype([(f"field_{i:05}", "<f8") for i in range(5_000)])
    store.put_array(b"w", np.full(2, 3, dtype))
    assert store[b"w"].startswith(b"\x93NUMPY\x02\x00")
    assert store.get_array(b"w").dtype == dtype
    assert store.get_array(b"w")["field_04999"].tolist() == [3, 3]
    with pytest.raises(ValueError, match="header"):
        store.put_array(b"w", np.zeros(1, [(f"field_{i:0100}", "<f8") for i in range(10_000)]))


WRITERS = {
    "store[key] =": lambda store, value: store.__setitem__("k", value),
    "insert": lambda store, value: store.insert("k", value),
    "insert_new": lambda store, value: store.insert_new("k", value),
    "replace": lambda store, value: store.replace("there", value, 1),
    "setdefault": lambda store, value: store.setdefault("k", value),
    "update": lambda store, value: store.update(k=value),
    "put_many": lambda store, value: store.put_many(["k"], [value]),
    "batch": lambda store, value: icecore.Batch().__setitem__("k", value),
    "batch.insert_new": lambda store, value: icecore.Batch().insert_new("k", value),
    "batch.replace": lambda store, value: icecore.Batch().replace("there", value, 1),
    "batch.put_many": lambda store, value: icecore.Batch().put_many(["k"], [value]),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_has_a_type_and_a_shape_is_no_value_of_bytes(store, write):
    store["there"] = "1"
    for wrong in (
        np.arange(3),
        np.zeros((2, 2), np.uint8),
        np.array(7, np.uint8),
        np.float64(1.5),
        np.zeros(2, np.int8),
        array.array("b", [1]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.zeros(2, [("x", "<f8")]),
        np.arange(10)[::2],
        array.array("d", [1.0]),
        memoryview(array.array("i", [1])),
    ):
        with pytest.raises(TypeError, match="would lose its type and shape: put_array"):
            write(store, wrong)
    assert dict(store) == {b"there": b"1"}
    for bytes_like in (b"xy", np.frombuffer(b"xy", np.uint8), memoryview(b"xy"), bytearray(b"xy"), np.bytes_(b"xy")):
        write(store, bytes_like)


def test_buffers_of_pyarrow_are_bytes_though_they_say_that_these_have_a_sign(store):
    pyarrow = pytest.importorskip("pyarrow")
    store["k"] = pyarrow.py_buffer(b"xy")
    assert store["k"] == b"xy"


def test_put_array_takes_arrays_of_arrow_that_numpy_can_hold_whole(store):
    pyarrow = pytest.importorskip("pyarrow")
    store.put_array("k", pyarrow.array([1, 2], "int16"))
    assert store.get_array("k").tolist() == [1, 2] and store.get_array("k").dtype == np.int16
    for losing in (
        pyarrow.array([1, None]),  # which NumPy makes 1.0 and nan
        pyarrow.array([True, None]),
        pyarrow.array([1, 2], pyarrow.timestamp("us", "Europe/Berlin")),
        pyarrow.array(["text"]),
    ):
        for wrong in (losing, [losing]):
            with pytest.raises(TypeError, match="would lose its nulls or its type"):
                store.put_array("k", wrong)
        with pytest.raises(TypeError, match="would lose"):
            store.save_state("state", {"a": losing})
    assert store.get_array("k").tolist() == [1, 2]


def test_put_array_says_what_is_no_array(store):
    for wrong in (object(), {"a": 1}):
        with pytest.raises(TypeError, match=r"^NumPy makes no array of builtins\.(object|dict): convert it yourself$"):
            store.put_array("k", wrong)


def test_put_array_refuses_what_would_lose_its_names(store):
    pandas = pytest.importorskip("pandas")

    class Metres(np.ndarray):
        """As arrays with units are."""

    class Labelled:
        """As xarray.DataArray is."""

        coords = {"x": [1, 2]}

        def __array__(self, dtype=None, copy=None):
            return np.arange(2)

    frame = pandas.DataFrame({"a": [1.0, 2.0]}, index=["x", "y"])
    for wrong in (frame, frame["a"], frame.index, pandas.Categorical(["a"]), Labelled(), [frame["a"]], ([1], Labelled())):
        with pytest.raises(TypeError, match="would lose its index, names or coordinates"):
            store.put_array("k", wrong)
        with pytest.raises(TypeError, match="would lose"), store.batch() as b:
            b.put_array("k", wrong)
    with pytest.raises(TypeError, match="Metres would lose what it adds"):
        store.put_array("k", np.arange(2).view(Metres))
    assert "k" not in store
    store.put_array("k", frame.to_numpy())
    assert store.get_array("k").tolist() == [[1.0], [2.0]]


def test_put_array_takes_numbers_lists_and_what_exports_an_array(store):
    class Tensor:
        """As tensors of other libraries are."""

        def __array__(self, dtype=None, copy=None):
            return np.arange(2)

        def __dlpack__(self):
            raise NotImplementedError

    for given, stored in ((3, 3), ([1, [2]][0], 1), ([[1, 2], (3, 4)], [[1, 2], [3, 4]]), (Tensor(), [0, 1])):
        store.put_array("k", given)
        assert store.get_array("k").tolist() == stored


def test_the_program_that_compares_large_values_checks_what_it_wrote(tmp_path):
    pytest.importorskip("lmdb")
    program = Path(__file__).resolve().parents[2] / "bench" / "large_values"
    arguments = ["--mib", "1", "2", "--repetitions", "5", "--folder", tmp_path]
    done = subprocess.run([sys.executable, "-B", program, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("| icecore, put_array |") == 2
    assert list(tmp_path.iterdir()) == []
    wrong = program.read_text(encoding="utf-8").replace("np.save(file, array)", "np.save(file, array + 1)", 1)
    copy = tmp_path / "wrong"
    copy.write_text(wrong, encoding="utf-8")
    done = subprocess.run([sys.executable, "-B", copy, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and "np.save, fsync: what was read is not what was written" in done.stderr, done.stderr
