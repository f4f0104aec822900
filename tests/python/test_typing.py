"""The types that are promised: the package passes mypy --strict, its stub is whole, and programs type-check."""

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import icecore
import pytest

PROGRAM = """
    from datetime import datetime, timezone
    from typing_extensions import assert_type
    import numpy as np
    import icecore

    with icecore.open("path", "a", durability="tag") as store:
        assert_type(store, icecore.Store)
        store[b"k"] = b"v"
        store["k"] = bytearray(b"v")
        store[b"k"] = np.frombuffer(b"v", np.uint8)
        assert_type(store[b"k"], bytes)
        assert_type(store.find("k"), bytes | None)
        assert_type(store[b"a":b"b"], icecore.Snapshot)
        snapshot = store.at(tag="t")
        assert_type(snapshot, icecore.Snapshot)
        assert_type(store.at(datetime.now(timezone.utc)).version, int)
        assert_type(store.get("k", at=store.tags()[0]), bytes | None)
        assert_type(store.get("k", 5, at=snapshot), bytes | int)
        for key, value in snapshot.items(prefix="a", limit=3):
            assert_type(key, bytes)
            assert_type(value, bytes)
        assert_type(store.tag("name", "note"), int)
        assert_type(snapshot.view("k"), memoryview)
        assert_type(store.remove(b"k"), int | None)
        with store.batch() as b:
            b["x"] = b"y"
            assert_type(b, icecore.Batch)
        store.put_many(np.arange(3), [b"a", b"b", b"c"], threads=2)
        store.put_many(*snapshot.to_columns())
        assert_type(store.checkpoint("copy"), int)
        keys, values = snapshot.to_numpy(">u8", ("<f4", (3,)))
        assert_type(snapshot.to_arrow(">u8", ("<f4", (3,))), icecore.ArrowStream)
        store.put_many(snapshot.to_arrow(), store.history("k"))
        found = snapshot.where("price > 1", layout="price f64")
        for key, value in found:
            assert_type(key, bytes)
        assert_type(found.count(), int)
        assert_type(found.sum("price"), int | float | None)
        assert_type(found.page(10).token, bytes)

        @icecore.filter_function
        def long_keys(keys: list[bytes], values: list[bytes]) -> list[bool]:
            return [len(k) > 3 for k in keys]

        query = store.start("q", long_keys & icecore.Filter("true"), at="t")
        assert_type(query.run(on_progress=print), icecore.QueryProgress)
        for row in query.results():
            assert_type(row.value, bytes | None)
        for change in store.history(b"k"):
            assert_type(change.version, int)
        try:
            store.sync()
        except icecore.NoSpaceError as e:
            assert_type(e.code, icecore.Errc)

    async def awaited(one: icecore.Store) -> None:
        assert_type(await one.aio.put("k", "v"), int)
        async for key in one.aio.keys():
            assert_type(key, bytes)

    store.tag(5)  # type: ignore[arg-type]
    store[5]  # type: ignore[call-overload]
    store.nothing  # type: ignore[attr-defined]
"""


def run_module(*arguments):
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(sys.version_info < (3, 11), reason="NumPy's last release for CPython 3.10 describes itself incompletely")
def test_the_package_is_strictly_typed(tmp_path):
    strictly = ("mypy", "--strict", "--cache-dir", str(tmp_path), "-p", "icecore")
    if Path(icecore.__file__).with_name("_native_mpi.pyi").exists():
        run_module(*strictly)
        return
    # A package without icecore.mpi, as wheels are: only the files that name the types of its native half may miss them.
    done = subprocess.run([sys.executable, "-m", *strictly], capture_output=True, text=True)
    blamed = re.findall(r"([\w/]+\.py):\d+: error", done.stdout)
    assert blamed or done.returncode == 0, done.stdout + done.stderr
    assert {Path(file).name for file in blamed} <= {"mpi.py", "_mpi_library.py", "columns.py"}, done.stdout


def test_the_stub_of_the_native_half_holds_all_that_is_in_it():
    """The stub is made from the module; what it cannot show without native/stub.pattern, mypy --strict refuses."""
    stub = ast.parse(Path(icecore.__file__).with_name("_native.pyi").read_text())
    classes = {node.name: node.body for node in stub.body if isinstance(node, ast.ClassDef)}
    assert {c for c, v in vars(icecore._native).items() if isinstance(v, type)} == classes.keys()
    for name, body in {**classes, None: stub.body}.items():
        owner = getattr(icecore._native, name) if name else icecore._native
        reported = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        assert {f for f, v in vars(owner).items() if not f.startswith("__") and not isinstance(v, type)} <= reported, name


def test_programs_type_check(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    run_module("mypy", "--strict", "--warn-unused-ignores", "--cache-dir", str(tmp_path), str(program))


def test_the_versions_of_library_and_package_agree():
    from importlib.metadata import version

    assert icecore.__version__ == version("icecore")


def test_all_that_is_public_exists_and_is_documented():
    for name in icecore.__all__:
        public = getattr(icecore, name)
        assert public.__doc__, name
        if not isinstance(public, type) or not public.__module__.startswith("icecore"):
            continue
        for member, value in vars(public).items():
            if not member.startswith("_") and callable(value) and not issubclass(public, tuple):
                assert getattr(value, "__doc__", None), f"{name}.{member}"
