"""The MPI under icecore.mpi: this package and mpi4py must use the same one, in the same process."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

INSTALL = "pip install . -C cmake.define.ICECORE_MPI=ON -C cmake.define.MPI_C_COMPILER=mpicc"
INSTALL_MPI4PY = "MPICC=mpicc pip install --no-cache-dir --no-binary mpi4py mpi4py"


def check() -> None:
    """Returns if icecore._native_mpi exists and fits mpi4py; else raises an ImportError that says what to do."""
    try:
        from mpi4py import MPI  # type: ignore[import-not-found, unused-ignore]
    except ImportError as e:
        raise ImportError(f"icecore.mpi needs mpi4py with the same MPI as this package: {INSTALL_MPI4PY} ({e})") from e
    if find_spec("icecore._native_mpi") is None:
        raise ImportError(f"this icecore was installed without MPI; in the project's folder: {INSTALL}")
    try:
        from . import _native_mpi
    except ImportError as e:
        raise ImportError(f"the MPI that this icecore was built with cannot be loaded: {e}") from e
    check_same(
        MPI.Get_library_version(),
        MPI.Is_initialized(),
        _native_mpi.mpi_library_version(),
        _native_mpi.mpi_is_initialized(),
    )


def check_same(theirs: str, theirs_runs: bool, ours: str, ours_runs: bool) -> None:
    """ImportError unless mpi4py's MPI and this package's are one library, loaded once."""
    theirs, ours = theirs.strip("\0 \n"), ours.strip("\0 \n")
    if theirs != ours:
        raise ImportError(
            f"mpi4py uses {theirs.splitlines()[0]!r} and this icecore {ours.splitlines()[0]!r}: they must use the same "
            f"MPI. Rebuild one of them with the other's compiler: {INSTALL_MPI4PY}, or {INSTALL}. A binary wheel of "
            "mpi4py uses the MPI that MPI4PY_LIBMPI names."
        )
    if theirs_runs != ours_runs:
        raise ImportError(
            f"mpi4py and this icecore have loaded two copies of {ours.splitlines()[0]!r}: build both with the same mpicc"
        )


def address_of(comm: Any) -> int:
    """The address of the MPI_Comm of an mpi4py communicator. TypeError if ``comm`` is not one."""
    from mpi4py import MPI  # type: ignore[import-not-found, unused-ignore]

    if not isinstance(comm, MPI.Comm):
        raise TypeError(f"a cluster needs a communicator of mpi4py, not a {type(comm).__name__}")
    return int(MPI._addressof(comm))
