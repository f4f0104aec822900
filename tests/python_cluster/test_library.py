"""The package and mpi4py fit together, or importing says why not; stub and documentation are whole."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import RANKS
from mpi4py import MPI

import icecore.mpi
from icecore import _mpi_library, _native_mpi

alone = pytest.mark.skipif(RANKS > 1, reason="what needs no ranks is tested once")

PROGRAM = """
    from typing import assert_type
    from mpi4py import MPI
    import numpy as np
    import icecore, icecore.mpi

    with icecore.mpi.Cluster(MPI.COMM_WORLD, "path", ownership=icecore.mpi.Ownership.by_hash()) as c:
        assert_type(c, icecore.mpi.Cluster)
        c["k"] = bytearray(b"v")
        assert_type(c[b"k"], bytes)
        assert_type(c.tag("name"), int)
        snapshot = c.at("name")
        assert_type(snapshot, icecore.mpi.Snapshot)
        assert_type(snapshot["a":"b"], icecore.mpi.Snapshot)
        for key, value in snapshot.items(prefix="a"):
            assert_type(value, bytes)
        assert_type(c.history(b"k")[0].version, int)
        keys, values = snapshot.to_numpy(">u8", method="naive_merge", prefix="a")
        c.put_many(*snapshot.to_columns(root=1))
        snapshot.stream(print, as_columns=True)
        assert_type(snapshot.find_by_broadcast(None), bytes | None)
        c.put_many(np.arange(3), [b"a", b"b", b"c"])
        writing = c.checkpoint("folder")
        assert_type(writing.progress, tuple[int, int])
    iter(c)  # type: ignore[call-overload]
    c.nothing  # type: ignore[attr-defined]
"""


def test_mpi4py_and_the_package_use_one_mpi():
    assert MPI.Get_library_version().strip("\0 \n") == _native_mpi.mpi_library_version().strip("\0 \n")
    assert _native_mpi.mpi_is_initialized()


@alone
def test_another_mpi_is_refused_with_what_to_do():
    _mpi_library.check_same("Open MPI v4\0", True, "Open MPI v4", True)
    with pytest.raises(ImportError, match="'MPICH 4'.*'Open MPI v4'.*same MPI.*MPICC=.*pip install"):
        _mpi_library.check_same("MPICH 4\nof 2022", True, "Open MPI v4", True)
    with pytest.raises(ImportError, match="two copies"):
        _mpi_library.check_same("Open MPI v4", True, "Open MPI v4", False)


@alone
def test_a_package_without_mpi_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(_mpi_library, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="installed without MPI.*ICECORE_MPI=ON"):
        _mpi_library.check()
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match="needs mpi4py"):
        _mpi_library.check()


@alone
def test_a_cluster_left_open_is_closed_at_exit(folder):
    program = f"""
        from mpi4py import MPI
        import icecore.mpi
        left = icecore.mpi.Cluster(MPI.COMM_WORLD, {folder + "/c"!r})
        left[b"key"] = b"value"
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "PMI_"))}
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, env=clean, timeout=60)
    with icecore.open(f"{folder}/c/rank-0.ice", "r") as store:
        assert store[b"key"] == b"value" and not store.stats().recovered_from_crash


@alone
def test_programs_with_clusters_type_check(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "--cache-dir", str(tmp_path), str(program)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@alone
def test_the_stub_of_the_native_half_holds_all_that_is_in_it():
    stub = ast.parse(Path(icecore.__file__).with_name("_native_mpi.pyi").read_text())
    classes = {node.name: node.body for node in stub.body if isinstance(node, ast.ClassDef)}
    assert {c for c, v in vars(_native_mpi).items() if isinstance(v, type)} == classes.keys()
    for name, body in {**classes, None: stub.body}.items():
        owner = getattr(_native_mpi, name) if name else _native_mpi
        reported = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        assert {f for f, v in vars(owner).items() if not f.startswith("__") and not isinstance(v, type)} <= reported, name


def test_the_examples_of_the_documentation_run(folder, monkeypatch):
    page = (Path(__file__).parents[2] / "docs/python.md").read_text()
    clusters, _, _ = page.partition("\n## Clusters")[2].partition("\n## Servers")  # those of servers: test_remote
    blocks = re.findall(r"^```python\n(.*?)^```", clusters, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    monkeypatch.chdir(folder)
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), {})


@alone
def test_all_that_is_public_is_documented():
    assert importlib.util.find_spec("icecore.mpi") is not None
    for name in icecore.mpi.__all__:
        public = getattr(icecore.mpi, name)
        assert public.__doc__, name
        for member, value in vars(public).items():
            if not member.startswith("_") and callable(value):
                assert getattr(value, "__doc__", None), f"{name}.{member}"
