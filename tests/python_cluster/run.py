"""Runs these tests on all ranks of an MPI job: mpirun -np N python run.py [pytest arguments].

Rank 0 prints what pytest prints; another rank prints it only if it fails.
"""

import contextlib
import io
import sys
from pathlib import Path

import pytest
from mpi4py import MPI

comm = MPI.COMM_WORLD
said = io.StringIO()
with contextlib.redirect_stdout(sys.stdout if comm.rank == 0 else said):
    code = pytest.main(["-q", "-p", "no:cacheprovider", str(Path(__file__).parent), *sys.argv[1:]])
if comm.rank != 0 and code != 0:
    print(f"rank {comm.rank}:\n{said.getvalue()}", flush=True)
sys.exit(comm.allreduce(int(code), MPI.MAX))
