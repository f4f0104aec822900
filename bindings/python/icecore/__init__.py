"""icecore: an ordered map that never forgets.

import icecore

with icecore.open("model.ice") as store:
    store[b"layer1/bias"] = b"0.5"
    store.tag("epoch-1")
    store[b"layer1/bias"] = b"0.7"
    store.at(tag="epoch-1")[b"layer1/bias"]  # b"0.5", and it always will be
"""

from typing import TYPE_CHECKING, Any

from ._native import library_version as _library_version
from ._types import Change, Difference
from .batch import Batch
from .columns import ByteColumn, Columns
from .compaction import compact
from .errors import (
    Errc,
    BadInputError,
    BadTokenError,
    CancelledError,
    ClosedError,
    CopiedError,
    CrashUnknownError,
    DamagedError,
    DatabaseExistsError,
    DeadlineExceededError,
    DeniedError,
    Error,
    ForkedError,
    InvalidArgumentError,
    IOFailedError,
    KeyTooLongError,
    LimitReachedError,
    LockedError,
    MissingFileError,
    MPIError,
    NoSpaceError,
    NoSuchLeaseError,
    NoSuchQueryError,
    NoSuchStoreError,
    NotAStoreError,
    NotDurableError,
    NotOwnerError,
    OtherClusterError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PoisonedError,
    ProtectionError,
    QueryBusyError,
    QueryExistsError,
    RankFailedError,
    ReadOnlyError,
    StorageError,
    StoreExistsError,
    TagExistsError,
    TruncatedError,
    UnauthenticatedError,
    UnavailableError,
    UnknownFunctionError,
    UnknownTagError,
    UnsupportedFormatError,
    ValueTooLargeError,
    VersionExpiredError,
    VersionLostError,
    VersionNotClosedError,
)
from .feed import Changes, Feed, FeedBatch, FeedInfo, KeyChange
from .filtered import ArrowColumns, Filtered, Page
from .filters import Filter, filter_function
from .history import Diff, History
from .information import (
    CompactionReport,
    Damage,
    DurabilityInfo,
    FileStatistics,
    ForgetReport,
    Hold,
    RepairReport,
    Retention,
    Statistics,
    Tag,
    Tags,
    UnknownVersions,
    VerifyReport,
    process_huge_page_bytes,
)
from .mapping import ItemsView, KeysView, ValuesView
from .query import Queries, Query
from .query_results import QueryColumns, QueryFailure, QueryProgress, QueryResults, QueryRow, QueryTotal
from .snapshot import Snapshot
from .store import Store, open, repair, verify_file
from .tables import ArrowStream
from .zarr_opening import zarr_store

if TYPE_CHECKING:
    from . import aio as aio

__version__: str = _library_version()

def __getattr__(name: str) -> Any:
    """``icecore.aio`` needs no import of its own, but imports asyncio only where it is used."""
    if name == "aio":
        from importlib import import_module

        return import_module(".aio", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ArrowColumns",
    "ArrowStream",
    "BadInputError",
    "BadTokenError",
    "Batch",
    "ByteColumn",
    "CancelledError",
    "Change",
    "Changes",
    "ClosedError",
    "Columns",
    "CompactionReport",
    "CopiedError",
    "CrashUnknownError",
    "Damage",
    "DamagedError",
    "DatabaseExistsError",
    "DeadlineExceededError",
    "DeniedError",
    "Diff",
    "Difference",
    "DurabilityInfo",
    "Errc",
    "Error",
    "Feed",
    "FeedBatch",
    "FeedInfo",
    "FileStatistics",
    "Filter",
    "Filtered",
    "ForgetReport",
    "ForkedError",
    "History",
    "Hold",
    "IOFailedError",
    "InvalidArgumentError",
    "ItemsView",
    "KeyChange",
    "KeyTooLongError",
    "KeysView",
    "LimitReachedError",
    "LockedError",
    "MPIError",
    "MissingFileError",
    "NoSpaceError",
    "NoSuchLeaseError",
    "NoSuchQueryError",
    "NoSuchStoreError",
    "NotAStoreError",
    "NotDurableError",
    "NotOwnerError",
    "OtherClusterError",
    "OutcomeUnknownError",
    "Page",
    "PermissionDeniedError",
    "PoisonedError",
    "ProtectionError",
    "Queries",
    "Query",
    "QueryBusyError",
    "QueryColumns",
    "QueryExistsError",
    "QueryFailure",
    "QueryProgress",
    "QueryResults",
    "QueryRow",
    "QueryTotal",
    "RankFailedError",
    "ReadOnlyError",
    "RepairReport",
    "Retention",
    "Snapshot",
    "Statistics",
    "StorageError",
    "Store",
    "StoreExistsError",
    "Tag",
    "TagExistsError",
    "Tags",
    "TruncatedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnknownFunctionError",
    "UnknownTagError",
    "UnknownVersions",
    "UnsupportedFormatError",
    "ValueTooLargeError",
    "ValuesView",
    "VerifyReport",
    "VersionExpiredError",
    "VersionLostError",
    "VersionNotClosedError",
    "compact",
    "filter_function",
    "open",
    "process_huge_page_bytes",
    "repair",
    "verify_file",
    "zarr_store",
]
