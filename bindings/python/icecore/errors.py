"""Errors: one class for each number of ``icecore::errc``, the same numbers as in C++ and C.

Every class is an :class:`Error` and also the built-in exception a Python program would expect: what the file, the
device or the system refuses is an ``OSError`` with ``errno``; a wrong argument or a closed store is a ``ValueError``;
an unknown tag is a ``KeyError``. A missing *key* is no error of the store: ``store[key]`` raises plain ``KeyError``.
"""

from __future__ import annotations

import errno as _errno
from enum import IntEnum
from typing import ClassVar


class Errc(IntEnum):
    """What went wrong, by number."""

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


class Error(Exception):
    """The base of all errors of icecore. ``code`` is the number; ``str(error)`` says what, where and what to do."""

    code: ClassVar[Errc]

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
    """Text or data given to load cannot be understood."""

    code = Errc.BAD_INPUT


class OtherClusterError(Error, ValueError):
    """A cluster of another number of ranks or ownership, or one of which something is missing."""

    code = Errc.OTHER_CLUSTER


class ProtectionError(Error, RuntimeError):
    """The cluster's protection does not allow this call at the moment."""

    code = Errc.PROTECTION


class MPIError(Error, RuntimeError):
    """MPI is not running, an MPI call failed, or ranks called different collective functions."""

    code = Errc.MPI


class RankFailedError(Error, RuntimeError):
    """A rank of the cluster failed, which the message names: nobody can use the cluster any more."""

    code = Errc.RANK_FAILED


class StorageError(Error, OSError):
    """The file, the device or the system refuses; ``errno`` is set. The base of all errors that are OSErrors."""

    _errno: ClassVar[int] = _errno.EIO


class NotAStoreError(StorageError):
    """The file is no icecore store, or the path is not a regular file."""

    code = Errc.NOT_A_STORE
    _errno = _errno.EINVAL


class UnsupportedFormatError(StorageError):
    """Written by a newer icecore, or by a machine of other byte order."""

    code = Errc.UNSUPPORTED_FORMAT
    _errno = _errno.ENOTSUP


class DamagedError(StorageError):
    """Bytes on media fail their check; the message names the place."""

    code = Errc.DAMAGED


class TruncatedError(StorageError):
    """The file is shorter than it says it must be."""

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
    """A system call failed; the message names call, path and reason."""

    code = Errc.IO


class NotDurableError(StorageError):
    """The device cannot give the durability that was asked for."""

    code = Errc.NOT_DURABLE
    _errno = _errno.ENOTSUP


class ReadOnlyError(StorageError):
    """A write to a store opened for reading."""

    code = Errc.READ_ONLY
    _errno = _errno.EROFS


class PoisonedError(StorageError):
    """An earlier sync failed: what is on media is unknown; reopen the store."""

    code = Errc.POISONED


class CopiedError(StorageError):
    """The file is a copy, or was moved, while a writer had it open."""

    code = Errc.COPIED
    _errno = _errno.ESTALE


class MissingFileError(StorageError, FileNotFoundError):
    """A file of a store of several is not there, or another store's or an old copy is."""

    code = Errc.MISSING_FILE
    _errno = _errno.ENOENT


class VersionLostError(StorageError):
    """A closed version was read that a power cut took: it was not durable."""

    code = Errc.VERSION_LOST
    _errno = _errno.ENODATA


class CrashUnknownError(StorageError):
    """Nothing tells whether writes that were not durable yet survived a crash: say it (``crash``)."""

    code = Errc.CRASH_UNKNOWN
    _errno = _errno.ESTALE


class NoSuchStoreError(StorageError, FileNotFoundError):
    """Nothing is at this path and creating was not asked for."""

    code = Errc.NO_SUCH_STORE
    _errno = _errno.ENOENT


class StoreExistsError(StorageError, FileExistsError):
    """A new store was asked for and something is already there."""

    code = Errc.STORE_EXISTS
    _errno = _errno.EEXIST


class PermissionDeniedError(StorageError, PermissionError):
    """The file system denies access."""

    code = Errc.PERMISSION
    _errno = _errno.EACCES


_CLASSES: dict[int, type[Error]] = {
    int(made.code): made for made in globals().copy().values() if isinstance(made, type) and hasattr(made, "code")
}


def error_of(code: int, message: str) -> Error:
    """The exception for an error number of the C++ library. Called by the native half."""
    made = _CLASSES.get(code, Error)
    if issubclass(made, StorageError):
        return made(made._errno, message)
    return made(message)


__all__ = [
    "Errc",
    "BadInputError",
    "ClosedError",
    "CopiedError",
    "CrashUnknownError",
    "DamagedError",
    "Error",
    "ForkedError",
    "IOFailedError",
    "InvalidArgumentError",
    "KeyTooLongError",
    "LockedError",
    "MPIError",
    "MissingFileError",
    "NoSpaceError",
    "NoSuchStoreError",
    "NotAStoreError",
    "NotDurableError",
    "OtherClusterError",
    "PermissionDeniedError",
    "PoisonedError",
    "ProtectionError",
    "RankFailedError",
    "ReadOnlyError",
    "StorageError",
    "StoreExistsError",
    "TagExistsError",
    "TruncatedError",
    "UnknownTagError",
    "UnsupportedFormatError",
    "ValueTooLargeError",
    "VersionLostError",
    "VersionNotClosedError",
]
