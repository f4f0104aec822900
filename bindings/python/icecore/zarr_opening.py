"""Stores of zarr: what is public, without an import of zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._types import VersionLike
    from .snapshot import Snapshot
    from .store import Store
    from .zarr_stores import ZarrStore


def zarr_store(
    store: Store | Snapshot, *, at: VersionLike | None = None, prefix: str = "", read_only: bool | None = None
) -> ZarrStore:
    """A store for zarr 3 and whatever builds on it, such as xarray: the keys of ``store`` behind a ``prefix``.

    ``at``: a closed version, for reading. Without it, the present, which can be written if the store is open for writing,
    unless ``read_only`` is set. Arrays are read without a copy of the stored bytes; a group is deleted at one instant, and
    stays in the versions that have it. What reads can be pickled.

    >>> group = zarr.open_group(icecore.zarr_store(store, prefix="climate"), mode="w")
    >>> group.create_array("t", data=np.zeros(3)).shape
    (3,)
    >>> version = store.tag("epoch-3")
    >>> group["t"][:] = 1
    >>> zarr.open_group(icecore.zarr_store(store, at="epoch-3", prefix="climate"), mode="r")["t"][:]
    array([0., 0., 0.])

    Raises ImportError where zarr 3 is not installed, TypeError for what is no store, InvalidArgumentError if a version or a
    store open for reading is to be written, and what ``at()`` raises.
    """
    try:
        from .zarr_stores import ZarrStore
    except ImportError as e:
        raise ImportError(f"zarr_store() needs zarr 3: pip install 'zarr>=3' ({e})") from None
    return ZarrStore(store, at=at, prefix=prefix, read_only=read_only)
