"""Fixtures. Every rank runs every test; clusters are in memory, in a folder that all ranks share."""

import shutil
import tempfile

import pytest
from mpi4py import MPI

import icecore.mpi

RANKS = MPI.COMM_WORLD.size
RANK = MPI.COMM_WORLD.rank


@pytest.fixture
def folder():
    made = MPI.COMM_WORLD.bcast(tempfile.mkdtemp(dir="/dev/shm", prefix="icecore-python-") if RANK == 0 else None)
    yield made
    MPI.COMM_WORLD.Barrier()
    if RANK == 0:
        shutil.rmtree(made)


@pytest.fixture
def c(folder):
    with icecore.mpi.Cluster(MPI.COMM_WORLD, f"{folder}/cluster") as opened:
        yield opened


@pytest.fixture
def key_of(c):
    """A key that belongs to a rank."""
    return lambda owner: next(key for key in (b"key-%d" % i for i in range(10_000)) if c.owner_of(key) == owner)
