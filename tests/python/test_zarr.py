"""Stores of zarr: zarr's own tests of stores, and what versions add."""

import asyncio
import functools
import inspect
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from conftest import open_store

import icecore

zarr = pytest.importorskip("zarr")
xarray = pytest.importorskip("xarray")

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest  # noqa: E402
from zarr.core.buffer import cpu, default_buffer_prototype  # noqa: E402
from zarr.testing.store import StoreTests  # noqa: E402

from icecore.zarr_stores import ZarrStore  # noqa: E402

PROTOTYPE = default_buffer_prototype()


def buffer(data):
    return cpu.Buffer.from_bytes(data)


class _TestsOfZarr(StoreTests):
    """zarr's own tests: they write and read the icecore store beside the store of zarr."""

    store_cls = ZarrStore
    buffer_cls = cpu.Buffer
    prefix = ""

    @pytest.fixture
    def store_kwargs(self, tmp_path):
        with open_store(tmp_path / "zarr.ice", durability=self.durability) as opened:
            yield {"store": opened, "prefix": self.prefix}

    @pytest.fixture
    def store(self, open_kwargs):
        return asyncio.run(self.store_cls.open(**open_kwargs))

    @pytest.fixture
    def store_not_open(self, store_kwargs):
        return self.store_cls(**store_kwargs)

    async def set(self, store, key, value):
        store._source[store._prefix + key] = value.to_bytes()

    async def get(self, store, key):
        return self.buffer_cls.from_bytes(store._source[store._prefix + key])

    def test_store_repr(self, store):
        assert repr(store).startswith("<icecore.ZarrStore of <icecore.Store '") and str(store).startswith("icecore:///")

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing


def awaited(coroutine):
    """A test of zarr that is a coroutine, as a function."""

    @functools.wraps(coroutine)
    def run_test(*arguments, **named):
        asyncio.run(coroutine(*arguments, **named))

    return run_test


for name, of_zarr in inspect.getmembers(StoreTests, inspect.iscoroutinefunction):
    if name.startswith("test_"):
        setattr(_TestsOfZarr, name, awaited(of_zarr))


class TestWithoutPrefix(_TestsOfZarr):
    durability = "none"


class TestBehindAPrefix(_TestsOfZarr):
    prefix = "a/b"
    durability = "none"

    @pytest.fixture(autouse=True)
    def others(self, store_kwargs):
        """What is outside of the prefix is neither seen nor changed."""
        store = store_kwargs["store"]
        outside = {b"a": b"1", b"a/b": b"2", b"a/bc/d": b"3", b"a/b0": b"4", b"z": b"5"}
        store.update(outside)
        yield
        assert {key: store[key] for key in outside} == outside


class TestWithWritesThatWait(_TestsOfZarr):
    durability = "operation"


# ---- Versions --------------------------------------------------------------------------------------------------------


@pytest.fixture
def versions(store):
    """Three epochs of an array."""
    array = zarr.create_array(icecore.zarr_store(store), name="weights", shape=(20, 10), chunks=(5, 5), dtype="<f4")
    for epoch in range(3):
        array[:] = epoch
        array[0, 0] = -epoch
        store.tag(f"epoch-{epoch}")
    return store


def test_each_version_is_read_as_it_was(versions):
    for epoch in range(3):
        for name in (f"epoch-{epoch}", versions.find_tag(f"epoch-{epoch}").version):
            read = zarr.open_array(icecore.zarr_store(versions, at=name), path="weights", mode="r")
            assert read[0, 0] == -epoch and (read[1:] == epoch).all()
    of_a_snapshot = zarr.open_array(icecore.zarr_store(versions.at("epoch-1")), path="weights", mode="r")
    assert (of_a_snapshot[1:] == 1).all()
    assert len(versions.history("weights/c/1/1")) == 2  # each chunk has a history; zarr stores none that is all zeros


def test_a_version_cannot_be_written(versions):
    for reads in (
        icecore.zarr_store(versions, at="epoch-1"),
        icecore.zarr_store(versions.latest()),
        icecore.zarr_store(versions, read_only=True),
    ):
        assert reads.read_only
        with pytest.raises(ValueError, match="read-only"):
            zarr.open_array(reads, path="weights", mode="r+")[0] = 9
        for write in (reads.set("k", buffer(b"v")), reads.delete("k"), reads.clear(), reads.set_if_not_exists("k", buffer(b""))):
            with pytest.raises(ValueError, match="read-only"):
                asyncio.run(write)
    with pytest.raises(icecore.InvalidArgumentError, match="version 1 never changes"):
        icecore.zarr_store(versions, at=1, read_only=False)
    with pytest.raises(icecore.InvalidArgumentError, match="never changes"):
        icecore.zarr_store(versions, at=1).with_read_only(False)
    with open_store(versions.path, "r") as beside:
        with pytest.raises(icecore.InvalidArgumentError, match="open for reading, never changes"):
            icecore.zarr_store(beside, read_only=False)
        assert icecore.zarr_store(beside).read_only
        versions.refresh()


def test_deleting_and_clearing_take_effect_at_one_instant_and_lose_nothing(versions):
    before = versions.clock
    asyncio.run(icecore.zarr_store(versions).clear())
    versions.tag("empty")
    assert len(versions) == 0 and versions.find_tag("empty").version == before
    assert (zarr.open_array(icecore.zarr_store(versions, at="epoch-2"), path="weights", mode="r")[1:] == 2).all()


def test_reads_do_not_copy(store):
    store["prefix/large"] = b"x" * 100_000
    address = np.frombuffer(store.view("prefix/large"), np.uint8).ctypes.data
    reads = icecore.zarr_store(store, prefix="prefix")
    for asked, offset in ((None, 0), (RangeByteRequest(5, 9), 5), (OffsetByteRequest(7), 7), (SuffixByteRequest(10), 99_990)):
        found = asyncio.run(reads.get("large", PROTOTYPE, asked))
        assert found.as_numpy_array().ctypes.data == address + offset, asked
    assert len(asyncio.run(reads.get("large", PROTOTYPE, SuffixByteRequest(10**9)))) == 100_000
    assert len(asyncio.run(reads.get("large", PROTOTYPE, SuffixByteRequest(0)))) == 0
    assert asyncio.run(reads.getsize("large")) == 100_000


def names_below(zarr_store, path):
    async def collected():
        return [name async for name in zarr_store.list_dir(path)]

    return asyncio.run(collected())


def test_a_listing_tells_each_name_once(store):
    for key in ("a", "a-b", "a/x", "a/y/z", "a0", "b/c/d", "b/c/e", "b/cc", "ü/v"):
        store[key] = ""
    store[b"b/\xff"] = b"which zarr cannot name"
    lists = icecore.zarr_store(store)
    assert names_below(lists, "") == ["a", "a-b", "a0", "b", "ü"]
    assert names_below(lists, "a") == names_below(lists, "a/") == ["x", "y"]
    assert names_below(lists, "b") == ["c", "cc"]
    assert names_below(lists, "nothing") == []
    assert names_below(icecore.zarr_store(store, prefix="b"), "") == ["c", "cc"]
    assert names_below(icecore.zarr_store(store.latest()["b":]), "") == ["b", "ü"]


def test_stores_are_equal_if_they_show_the_same(versions, tmp_path):
    one = icecore.zarr_store(versions, at="epoch-1")
    assert one == icecore.zarr_store(versions, at=one._source.version) and hash(one) == hash(icecore.zarr_store(versions.at("epoch-1")))
    with open_store(tmp_path / "other.ice") as other:
        different = [
            icecore.zarr_store(versions, at="epoch-2"),
            icecore.zarr_store(versions),
            icecore.zarr_store(versions, read_only=True),
            icecore.zarr_store(versions, at="epoch-1", prefix="p"),
            icecore.zarr_store(versions.at("epoch-1")["a":]),
            icecore.zarr_store(other),
            "something else",
        ]
        assert all(one != another for another in different)


def test_a_store_that_reads_goes_to_other_processes(versions):
    code = """
        import pickle, sys, zarr
        for sent in pickle.load(sys.stdin.buffer):
            try:
                store = pickle.loads(sent)
            except ValueError as e:
                print(e)
            else:
                print(store.read_only, zarr.open_array(store, path="weights", mode="r")[1, 1])
    """
    versions.sync()
    sent = [
        icecore.zarr_store(versions, at="epoch-1"),
        icecore.zarr_store(versions, read_only=True),
        icecore.zarr_store(versions),
    ]
    pickled = pickle.dumps([pickle.dumps(one) for one in sent])
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], input=pickled, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    first, second, third = done.stdout.decode().splitlines()
    assert (first, second) == ("True 1.0", "True 2.0")
    assert "is not open for writing in this process" in third and "read_only=True" in third


def test_xarray_writes_the_present_and_reads_every_version(store):
    times = np.arange(4)
    for epoch in range(3):
        data = xarray.Dataset({"t": (("time", "x"), np.full((4, 5), float(epoch)))}, coords={"time": times}, attrs={"epoch": epoch})
        data.to_zarr(icecore.zarr_store(store, prefix="climate"), mode="w", consolidated=False)
        store.tag(f"epoch-{epoch}")
    for epoch in range(3):
        read = xarray.open_zarr(icecore.zarr_store(store, at=f"epoch-{epoch}", prefix="climate"), chunks=None, consolidated=False)
        assert read.attrs["epoch"] == epoch and (read["t"].values == epoch).all() and (read["time"].values == times).all()


def test_what_is_no_store_is_refused(store):
    for wrong in ("path", None, {}, store.items()):
        with pytest.raises(TypeError, match=r"an icecore\.Store or a Snapshot"):
            icecore.zarr_store(wrong)
    with pytest.raises(TypeError, match="a Snapshot is a version already"):
        icecore.zarr_store(store.latest(), at=0)
    with pytest.raises(icecore.UnknownTagError):
        icecore.zarr_store(store, at="no such tag")
    with pytest.raises(TypeError, match="prefix must be a str"):
        icecore.zarr_store(store, prefix=b"p")
    with pytest.raises(TypeError, match="must be a Buffer"):
        asyncio.run(icecore.zarr_store(store).set("k", b"v"))
    with pytest.raises(TypeError, match="a key of zarr must be a str"):
        asyncio.run(icecore.zarr_store(store).get(5, PROTOTYPE))


def test_zarr_is_imported_only_when_it_is_asked_for(run, path):
    code = """
        import sys
        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == "zarr":
                    raise ImportError("no zarr here")
        sys.meta_path.insert(0, Missing())
        import icecore
        with icecore.open(sys.argv[1], emulate_durability=True) as store:
            try:
                icecore.zarr_store(store)
            except ImportError as e:
                print(e)
    """
    assert "pip install 'zarr>=3'" in run(code, path)
