"""Errors: one class for each number of ``icecore::errc``, the same numbers as in C++ and C.

Every class is an :class:`Error` and also the built-in exception that a Python program expects. A failure of the file,
the device or the system is an ``OSError`` with ``errno``; a wrong argument or a closed store is a ``ValueError``; an
unknown tag is a ``KeyError``. A missing *key* is not an error of the store: ``store[key]`` raises a plain ``KeyError``.
"""

from __future__ import annotations

import errno as _errno
from enum import IntEnum
from typing import ClassVar

from .wording import in_words_of_python


class Errc(IntEnum):
    """The error numbers.

    >>> icecore.UnknownTagError.code == icecore.Errc.UNKNOWN_TAG == 13
    True

    Raises ValueError for what is no number of an error, as all enumerations do.
    """

    INVALID_ARGUMENT = 1
    KEY_TOO_LONG = 2
    VALUE_TOO_LARGE = 3
    NOT_A_STORE = 4
    UNSUPPORTED_FORMAT = 5
    DAMAGED = 6
    TRUNCATED = 7
    LOCKED = 8
    NO_SPACE = 9
    IO = 10
    NOT_DURABLE = 11
    VERSION_NOT_CLOSED = 12
    UNKNOWN_TAG = 13
    TAG_EXISTS = 14
    READ_ONLY = 15
    CLOSED = 16
    FORKED = 17
    POISONED = 18
    COPIED = 19
    NO_SUCH_STORE = 20
    STORE_EXISTS = 21
    BAD_INPUT = 22
    PERMISSION = 23
    OTHER_CLUSTER = 24
    PROTECTION = 25
    MPI = 26
    MISSING_FILE = 27
    VERSION_LOST = 28
    RANK_FAILED = 29
    CRASH_UNKNOWN = 30
    BAD_TOKEN = 31
    QUERY_EXISTS = 32
    NO_SUCH_QUERY = 33
    QUERY_BUSY = 34
    UNKNOWN_FUNCTION = 35
    VERSION_EXPIRED = 36
    OUTCOME_UNKNOWN = 37
    UNAVAILABLE = 38
    DEADLINE_EXCEEDED = 39
    CANCELLED = 40
    DENIED = 41
    UNAUTHENTICATED = 42
    LIMIT_REACHED = 43
    NO_SUCH_LEASE = 44
    DATABASE_EXISTS = 45
    NOT_OWNER = 46


class Error(Exception):
    """The base of all errors of icecore. ``code`` is the number; ``str(error)`` says what failed, where, and what to
    do.

    >>> try:
    ...     store.at("epoch-9")
    ... except icecore.Error as error:
    ...     error.code, "epoch-9" in str(error)
    (<Errc.UNKNOWN_TAG: 13>, True)
    """

    code: ClassVar[Errc]

    def __init__(self, *what: object) -> None:
        super().__init__(*what)

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""


class InvalidArgumentError(Error, ValueError):
    """An argument is outside its documented range."""

    code = Errc.INVALID_ARGUMENT


class KeyTooLongError(Error, ValueError):
    """A key of more than 65,535 bytes."""

    code = Errc.KEY_TOO_LONG


class ValueTooLargeError(Error, ValueError):
    """A value of more than 4 GiB - 1 bytes."""

    code = Errc.VALUE_TOO_LARGE


class VersionNotClosedError(Error, ValueError):
    """A version was read that no tag has closed yet."""

    code = Errc.VERSION_NOT_CLOSED


class UnknownTagError(Error, KeyError):
    """No tag has this name, or none is as old as this time."""

    code = Errc.UNKNOWN_TAG


class TagExistsError(Error, ValueError):
    """Another version already carries this tag name."""

    code = Errc.TAG_EXISTS


class ClosedError(Error, ValueError):
    """The store was closed (a ValueError, as for closed files)."""

    code = Errc.CLOSED


class ForkedError(Error, RuntimeError):
    """A store was used in a child process after fork; open it again there."""

    code = Errc.FORKED


class BadInputError(Error, ValueError):
    """Text or data is malformed: a dump, an expression."""

    code = Errc.BAD_INPUT


class OtherClusterError(Error, ValueError):
    """The cluster has another number of ranks or ownership, or is incomplete."""

    code = Errc.OTHER_CLUSTER


class ProtectionError(Error, RuntimeError):
    """The cluster's current protection does not allow this call."""

    code = Errc.PROTECTION


class MPIError(Error, RuntimeError):
    """MPI is not running, an MPI call failed, or ranks called different collective functions."""

    code = Errc.MPI


class RankFailedError(Error, RuntimeError):
    """A rank failed, which the message names; no rank can use the cluster any more."""

    code = Errc.RANK_FAILED


class BadTokenError(Error, ValueError):
    """A token is damaged, forged, or of another store or filter; the message says which."""

    code = Errc.BAD_TOKEN


class QueryExistsError(Error, ValueError):
    """Another query already has this name."""

    code = Errc.QUERY_EXISTS


class NoSuchQueryError(Error, KeyError):
    """No query has this name."""

    code = Errc.NO_SUCH_QUERY


class QueryBusyError(Error, RuntimeError):
    """The query runs elsewhere; the message names the pid."""

    code = Errc.QUERY_BUSY


class UnknownFunctionError(Error, KeyError):
    """A filter needs a function of the caller that is missing or of another revision."""

    code = Errc.UNKNOWN_FUNCTION


class VersionExpiredError(Error, ValueError):
    """The version was given up by ``compact`` or by the retention rule."""

    code = Errc.VERSION_EXPIRED


class CancelledError(Error, RuntimeError):
    """The caller cancelled the call; a write may still take effect."""

    code = Errc.CANCELLED


class LimitReachedError(Error, RuntimeError):
    """A limit of the server; the message names it and its value."""

    code = Errc.LIMIT_REACHED


class NoSuchLeaseError(Error, KeyError):
    """No lease has this number, or its time is over."""

    code = Errc.NO_SUCH_LEASE


class DatabaseExistsError(Error, ValueError):
    """Another database of the server already has this name."""

    code = Errc.DATABASE_EXISTS


class NotOwnerError(Error, RuntimeError):
    """The key belongs to another server of the group."""

    code = Errc.NOT_OWNER


class StorageError(Error, OSError):
    """A failure of the file, the device or the system; ``errno`` is set. The base of all errors that are OSErrors."""

    _errno: ClassVar[int] = _errno.EIO


class NotAStoreError(StorageError):
    """The file is not an icecore store, or the path is not a regular file."""

    code = Errc.NOT_A_STORE
    _errno = _errno.EINVAL


class UnsupportedFormatError(StorageError):
    """Of an unsupported format, or written by a machine of other byte order."""

    code = Errc.UNSUPPORTED_FORMAT
    _errno = _errno.ENOTSUP


class DamagedError(StorageError):
    """Bytes on media fail their check; the message names the place."""

    code = Errc.DAMAGED


class TruncatedError(StorageError):
    """The file is shorter than its root says."""

    code = Errc.TRUNCATED


class LockedError(StorageError, BlockingIOError):
    """Another process has the store open; the message names its pid."""

    code = Errc.LOCKED
    _errno = _errno.EAGAIN


class NoSpaceError(StorageError):
    """The device or its quota is full."""

    code = Errc.NO_SPACE
    _errno = _errno.ENOSPC


class IOFailedError(StorageError):
    """A system call failed; the message names the call, the path and the reason."""

    code = Errc.IO


class NotDurableError(StorageError):
    """The device cannot provide the requested durability."""

    code = Errc.NOT_DURABLE
    _errno = _errno.ENOTSUP


class ReadOnlyError(StorageError):
    """A write to a store opened for reading."""

    code = Errc.READ_ONLY
    _errno = _errno.EROFS


class PoisonedError(StorageError):
    """An earlier sync failed, so the content of the media is unknown; reopen the store."""

    code = Errc.POISONED


class CopiedError(StorageError):
    """The file is a copy, or was moved, while a writer had it open."""

    code = Errc.COPIED
    _errno = _errno.ESTALE


class MissingFileError(StorageError, FileNotFoundError):
    """A file of the store is missing, or another store's file or an old copy is there."""

    code = Errc.MISSING_FILE
    _errno = _errno.ENOENT


class VersionLostError(StorageError):
    """The closed version was not durable, and a power cut took it."""

    code = Errc.VERSION_LOST
    _errno = _errno.ENODATA


class CrashUnknownError(StorageError):
    """Opening cannot find out whether writes survived a crash: set ``crash``."""

    code = Errc.CRASH_UNKNOWN
    _errno = _errno.ESTALE


class NoSuchStoreError(StorageError, FileNotFoundError):
    """Nothing is at this path, and the call does not create a store."""

    code = Errc.NO_SUCH_STORE
    _errno = _errno.ENOENT


class StoreExistsError(StorageError, FileExistsError):
    """The call creates a new store, and something is already at this path."""

    code = Errc.STORE_EXISTS
    _errno = _errno.EEXIST


class OutcomeUnknownError(StorageError, ConnectionError):
    """The connection broke while a write that cannot be repeated was under way: it may have taken effect."""

    code = Errc.OUTCOME_UNKNOWN
    _errno = _errno.ECONNABORTED


class UnavailableError(StorageError, ConnectionError):
    """The server cannot be reached, is stopping, or does not serve this database now."""

    code = Errc.UNAVAILABLE
    _errno = _errno.ECONNREFUSED


class DeadlineExceededError(StorageError, TimeoutError):
    """The call took longer than its deadline; a write may still take effect."""

    code = Errc.DEADLINE_EXCEEDED
    _errno = _errno.ETIMEDOUT


class DeniedError(StorageError, PermissionError):
    """No such database, or no right to do this with it: one answer, so that names cannot be probed."""

    code = Errc.DENIED
    _errno = _errno.EACCES


class UnauthenticatedError(StorageError, PermissionError):
    """The server does not know this user, password or token."""

    code = Errc.UNAUTHENTICATED
    _errno = _errno.EACCES


class PermissionDeniedError(StorageError, PermissionError):
    """The file system denies access."""

    code = Errc.PERMISSION
    _errno = _errno.EACCES


_CLASSES: dict[int, type[Error]] = {
    int(made.code): made for made in globals().copy().values() if isinstance(made, type) and hasattr(made, "code")
}


def error_of(code: int, message: str) -> Error:
    """The exception for an error number of the C++ library. The native half calls it."""
    made = _CLASSES.get(code, Error)
    message = in_words_of_python(message)
    if issubclass(made, StorageError):
        return made(made._errno, message)
    return made(message)


__all__ = [
    "Errc",
    "BadInputError",
    "BadTokenError",
    "CancelledError",
    "ClosedError",
    "CopiedError",
    "CrashUnknownError",
    "DamagedError",
    "DatabaseExistsError",
    "DeadlineExceededError",
    "DeniedError",
    "Error",
    "ForkedError",
    "IOFailedError",
    "InvalidArgumentError",
    "KeyTooLongError",
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
    "PermissionDeniedError",
    "PoisonedError",
    "ProtectionError",
    "QueryBusyError",
    "QueryExistsError",
    "RankFailedError",
    "ReadOnlyError",
    "StorageError",
    "StoreExistsError",
    "TagExistsError",
    "TruncatedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnknownFunctionError",
    "UnknownTagError",
    "UnsupportedFormatError",
    "ValueTooLargeError",
    "VersionExpiredError",
    "VersionLostError",
    "VersionNotClosedError",
]
