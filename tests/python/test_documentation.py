"""The examples of docs/python.md run, each with a store of its own."""

import re
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from conftest import open_store

import icecore

PAGE = Path(__file__).parents[2] / "docs/python.md"


def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    stores, _, _ = PAGE.read_text().partition("\n## Clusters")  # those of clusters run in tests/python_cluster
    blocks = re.findall(r"^```python\n(.*?)^```", stores, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    first, *others = blocks
    exec(compile(first, "docs/python.md", "exec"), {})
    assert "b'0.7'" in capsys.readouterr().out
    for number, block in enumerate(others):
        if "zarr" in block and find_spec("zarr") is None:  # zarr 3 needs CPython 3.11
            continue
        with open_store(f"{number}.ice") as store:
            store.tag()  # version 1, which an example reads
            names = {"icecore": icecore, "store": store, "np": np, "datetime": datetime, "timezone": timezone}
            exec(compile(block, "docs/python.md", "exec"), names)
            assert store.verify().ok


def test_every_error_class_is_in_the_documentation():
    page = PAGE.read_text()
    for name in icecore.__all__:
        made = getattr(icecore, name)
        if isinstance(made, type) and issubclass(made, icecore.Error):
            assert f"{name}`" in page, name
