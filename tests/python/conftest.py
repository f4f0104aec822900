"""Fixtures. Stores are opened with emulated durability, so that every mode runs on memory file systems too."""

import os
import subprocess
import sys
import textwrap
from functools import partial

import pytest

import icecore

os.environ.setdefault("MPLBACKEND", "Agg")  # plots are drawn nowhere

# A full recovery thread per core in every small test would only make noise.
open_store = partial(icecore.open, emulate_durability=True, recovery_threads=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.ice"


@pytest.fixture
def store(path):
    with open_store(path) as opened:
        yield opened


@pytest.fixture
def run():
    """Runs Python code in a fresh interpreter; returns what it printed. Any other end than exit code 0 fails."""

    def run_code(code, *arguments):
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)]
            + [str(a) for a in arguments],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "nanobind" not in done.stderr, done.stderr
        return done.stdout

    return run_code
