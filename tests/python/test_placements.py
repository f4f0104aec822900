"""Stores of several files."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import open_store

import icecore


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("store.ice", placements=["second.ice", (b"third.ice", 0)]) as made:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i: made.insert(b"key %d" % i, b"value"), range(1000)))
        yield made


def test_files_are_named_with_their_sizes_and_nodes(store):
    files = store.stats().files
    assert [f.path for f in files][0] == "store.ice" and len(files) == 3
    assert [f.node for f in files] == [-1, -1, 0]
    assert sum(f.file_bytes for f in files) == store.stats().file_bytes
    assert "second.ice" in store.stats()._repr_html_()


def test_one_that_is_missing_is_named_and_found_where_it_was_moved_to(store):
    store.close()
    os.rename("second.ice", "moved.ice")
    with pytest.raises(icecore.MissingFileError, match="second.ice: file 2") as raised:
        icecore.open("store.ice")
    assert isinstance(raised.value, FileNotFoundError) and raised.value.code == 27
    with icecore.open("store.ice", placements=["moved.ice"]) as found:
        assert len(found) == 1000
    with icecore.open("store.ice", "r") as found:
        assert len(found) == 1000


def test_repair_makes_a_store_of_one_file_or_of_several(store):
    store.close()
    assert icecore.repair("store.ice", "one.ice")
    assert icecore.repair("store.ice", "two.ice", placements=["two-b.ice"])
    with icecore.open("one.ice", "r") as one, icecore.open("two.ice", "r") as two:
        assert len(one) == len(two) == 1000
        assert (len(one.stats().files), len(two.stats().files)) == (1, 2)
    os.rename("third.ice", "moved.ice")
    report = icecore.verify_file("store.ice")
    assert report.damages[-1].file.endswith("third.ice")
    assert icecore.verify_file("store.ice", moved=["moved.ice"])
    assert icecore.repair("store.ice", "three.ice", moved=["moved.ice"])


def test_a_placement_is_a_path_or_a_path_and_a_node(tmp_path):
    with pytest.raises(icecore.InvalidArgumentError, match="a NUMA node must be a number"):
        icecore.open(tmp_path / "x.ice", placements=[(tmp_path / "y.ice", "0")])
    with pytest.raises(icecore.InvalidArgumentError, match="NUMA node"):
        icecore.open(tmp_path / "x.ice", placements=[(tmp_path / "y.ice", 4000)])
    assert not os.listdir(tmp_path)
