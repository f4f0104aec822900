"""icecore: an ordered map that never forgets.

import icecore

with icecore.open("model.ice") as store:
    store[b"layer1/bias"] = b"0.5"
    store.tag("epoch-1")
    store[b"layer1/bias"] = b"0.7"
    store.at(tag="epoch-1")[b"layer1/bias"]  # b"0.5", and it always will be
"""

from ._native import library_version as _library_version
from ._types import Change, Difference
from .batch import Batch
from .columns import ByteColumn, Columns
from .errors import (
    Errc,
    BadInputError,
    BadTokenError,
    ClosedError,
    CopiedError,
    CrashUnknownError,
    DamagedError,
    Error,
    ForkedError,
    IOFailedError,
    InvalidArgumentError,
    KeyTooLongError,
    LockedError,
    MissingFileError,
    MPIError,
    NoSpaceError,
    NoSuchQueryError,
    NoSuchStoreError,
    NotAStoreError,
    NotDurableError,
    OtherClusterError,
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
    UnknownFunctionError,
    UnknownTagError,
    UnsupportedFormatError,
    ValueTooLargeError,
    VersionLostError,
    VersionNotClosedError,
)
from .feed import Changes, Feed, FeedBatch, FeedInfo, KeyChange
from .filtered import ArrowColumns, Filtered, Page
from .filters import Filter, filter_function
from .history import Diff, History
from .information import (
    Damage,
    DurabilityInfo,
    FileStatistics,
    RepairReport,
    Statistics,
    Tag,
    Tags,
    UnknownVersions,
    VerifyReport,
)
from .mapping import ItemsView, KeysView, ValuesView
from .query import (
    Queries,
    Query,
    QueryColumns,
    QueryFailure,
    QueryProgress,
    QueryResults,
    QueryRow,
    QueryTotal,
)
from .snapshot import Snapshot
from .store import Store, open, repair, verify_file

__version__: str = _library_version()

__all__ = [
    "ArrowColumns",
    "BadInputError",
    "BadTokenError",
    "Batch",
    "ByteColumn",
    "Change",
    "Changes",
    "ClosedError",
    "Columns",
    "CopiedError",
    "CrashUnknownError",
    "Damage",
    "DamagedError",
    "Diff",
    "Difference",
    "DurabilityInfo",
    "FileStatistics",
    "Errc",
    "Error",
    "Feed",
    "FeedBatch",
    "FeedInfo",
    "Filter",
    "Filtered",
    "ForkedError",
    "History",
    "IOFailedError",
    "InvalidArgumentError",
    "ItemsView",
    "KeyChange",
    "KeyTooLongError",
    "KeysView",
    "LockedError",
    "MPIError",
    "MissingFileError",
    "NoSpaceError",
    "NoSuchQueryError",
    "NoSuchStoreError",
    "NotAStoreError",
    "NotDurableError",
    "OtherClusterError",
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
    "Snapshot",
    "Statistics",
    "StorageError",
    "Store",
    "StoreExistsError",
    "Tag",
    "TagExistsError",
    "Tags",
    "TruncatedError",
    "UnknownFunctionError",
    "UnknownTagError",
    "UnknownVersions",
    "UnsupportedFormatError",
    "ValueTooLargeError",
    "ValuesView",
    "VerifyReport",
    "VersionLostError",
    "VersionNotClosedError",
    "filter_function",
    "open",
    "repair",
    "verify_file",
]
