"""Reading one or many keys of a store, now or at a version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, Union, overload

import numpy as np

from . import array_pieces, columns
from .errors import InvalidArgumentError
from .store_versions import VersionedStore

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._types import BytesLike, ColumnLike, VersionLike

    VersionsLike = Union[VersionLike, Iterable[VersionLike], npt.NDArray[Any]]

T = TypeVar("T")


class ReadableStore(VersionedStore):
    """What of ``icecore.Store`` reads keys."""

    __slots__ = ()

    def find(self, key: BytesLike, at: VersionLike | None = None) -> bytes | None:
        """The newest value, or that of a closed version, named as for ``at()``. None if the key is not there.

        >>> store.find("a"), store.find("a", at="epoch-1"), store.find("nothing")
        (b'3', b'1', None)

        Raises TypeError for a key of a wrong kind, what ``at()`` raises, DamagedError and ClosedError.
        """
        return self._find(key) if at is None else self._find(key, self._version_of(at))

    @overload
    def get(self, key: BytesLike, default: None = None, *, at: VersionLike | None = None) -> bytes | None: ...
    @overload
    def get(self, key: BytesLike, default: T, *, at: VersionLike | None = None) -> bytes | T: ...
    def get(self, key: BytesLike, default: Any = None, *, at: VersionLike | None = None) -> Any:
        """The value, now or at a closed version; ``default`` if the key is not there.

        >>> store.get("a", at="epoch-1"), store.get("nothing", b"-")
        (b'1', b'-')

        Raises what ``find`` raises.
        """
        found = self._find(key) if at is None else self._find(key, self._version_of(at))
        return default if found is None else found

    def view(self, key: BytesLike, at: VersionLike | None = None) -> memoryview:
        """The value, now or at a closed version, as a read-only memoryview into the store: no copy. It stays valid and
        unchanged as long as it lives, also after ``close()``.

        >>> bytes(store.view("a", at="epoch-1"))
        b'1'

        Raises KeyError if there is no such key, and what ``find`` raises.
        """
        found = self._find_view(key) if at is None else self._find_view(key, self._version_of(at))
        if found is None:
            raise KeyError(key)
        return found

    def get_array(self, key: BytesLike, at: VersionLike | None = None) -> npt.NDArray[Any]:
        """The array that ``put_array`` stored, now or at a closed version, read-only and without a copy; one of more
        than 4 GiB is a copy.

        >>> version = store.put_array("weights", np.zeros((2, 2)))
        >>> store.get_array("weights").shape
        (2, 2)

        Raises KeyError if there is no such key, ValueError if the value is no array, and what ``find`` raises.
        """
        if at is None:
            return array_pieces.get(key, self._find_view)
        version = self._version_of(at)
        return array_pieces.get(key, lambda one: self._find_view(one, version))

    @overload
    def find_many(
        self, keys: ColumnLike, dtype: None = None, *, at: VersionsLike | None = None, default: Any = None
    ) -> list[Any]: ...
    @overload
    def find_many(
        self, keys: ColumnLike, dtype: npt.DTypeLike, *, at: VersionsLike | None = None, default: None = None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]: ...
    def find_many(self, keys: ColumnLike, dtype: Any = None, *, at: Any = None, default: Any = None) -> Any:
        """Finds many keys at once: see ``Snapshot.find_many``. ``at``: a closed version for all keys, or an array or a
        list with one for each key; by default the present.

        >>> store.find_many(["a", "b", "c"], at="epoch-1")
        [b'1', b'2', None]
        >>> store.find_many(["a", "a"], at=[0, "epoch-1"], default=b"-")
        [b'-', b'1']

        Raises TypeError, InvalidArgumentError if a value does not fit the dtype or there are not as many versions as
        keys, what ``at()`` raises, DamagedError and ClosedError.
        """
        if not isinstance(at, (np.ndarray, list, tuple)):
            snapshot = self.latest() if at is None else self.at(at)
            return snapshot.find_many(keys, dtype, default=default)
        column = columns.as_column(keys, "keys")
        versions = self._version_column(at)
        if len(versions) != len(column):
            raise InvalidArgumentError(f"{len(column)} keys need as many versions, not {len(versions)}")
        if dtype is None:
            return self._find_many_objects(column, versions, default)
        out = columns.FoundValues(len(column), dtype)
        self._find_many_fixed(column, versions, out.value_bytes, out.found_bytes, out.size, out.pad)
        return out.values, out.found

    def _version_column(self, given: Any) -> npt.NDArray[np.uint64]:
        if not isinstance(given, np.ndarray) or given.dtype.hasobject:
            return np.array([self._version_of(one) for one in given], np.uint64)
        if given.dtype.kind not in "iu" or given.ndim != 1 or (given.size and given.min() < 0):
            raise InvalidArgumentError(
                f"an array of versions must hold integers of 0 or more, one for each key, not {given.ndim} dimensions of "
                f"{given.dtype}; a list may name each as at() takes it"
            )
        return np.ascontiguousarray(given).astype(np.uint64, copy=False)
