"""Writing to a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import array_pieces, checks, columns
from .batch import Batch
from .compaction_arguments import prefixes_wanted
from .information import ForgetReport
from .store_reading import ReadableStore
from .versions import record_version

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._types import BytesLike, ColumnLike

_RAISE = object()


class WritableStore(ReadableStore):
    """What of ``icecore.Store`` writes."""

    __slots__ = ()

    def insert(self, key: BytesLike, value: BytesLike) -> int:
        """Sets the key's value in the open version and returns that version, as ``store[key] = value`` does without
        returning it.

        >>> store.insert("k", "v") == store.clock
        True

        Raises TypeError for what is no bytes, str or bytes-like object, or an array, which would lose its type and shape
        (``put_array`` stores it); KeyTooLongError, ValueTooLargeError, NoSpaceError, ReadOnlyError and ClosedError. So do
        all methods that write.
        """
        return self._insert(key, value)

    def insert_new(self, key: BytesLike, value: BytesLike) -> int | None:
        """Inserts the key if it is not there, and returns the version; None if it is there: then nothing has changed. Of
        several threads that insert one key, one succeeds.

        >>> store.insert_new("a", "4") is None and store.insert_new("new", "5") is not None
        True

        Raises what ``insert`` raises.
        """
        return self._insert_new(key, value)

    def replace(self, key: BytesLike, value: BytesLike, expected_version: int) -> int | None:
        """Sets the key's value if its newest record has this version, and returns the new version; None, and nothing has
        changed, if the key is not there or its newest record is of another version. Writes to the open version all have
        the same version.

        >>> version = store.insert("k", "old")
        >>> store.replace("k", "new", version) is not None, store.replace("k", "newer", 1) is None
        (True, True)

        Raises what ``insert`` raises, and InvalidArgumentError for version 0.
        """
        return self._replace(key, value, record_version(expected_version))

    def remove(self, key: BytesLike) -> int | None:
        """Removes the key in the open version and returns that version; None if the key was not there. Its history
        stays.

        >>> store.remove("b") == store.clock, store.remove("b") is None
        (True, True)

        Raises TypeError, NoSpaceError, ReadOnlyError and ClosedError.
        """
        return self._remove(key)

    def forget(self, *keys: BytesLike, prefixes: Iterable[BytesLike] = (), note: str = "") -> ForgetReport:
        """Removes the keys, and those that begin with one of the prefixes, and has the next ``icecore.compact`` erase
        them from all versions: no byte of them is then in any file of the store. Until then closed versions show them.
        What is written of them later stays. A tag tells of it; do not name the keys in its ``note``. Every key begins
        with an empty prefix.

        Checkpoints and other copies are not reached. The compaction drops the store's kept queries.

        >>> store.forget("b", prefixes=["user/"], note="case 4711").tag
        'forgotten-1'

        Raises InvalidArgumentError if nothing is named or for a note of more than 60,000 bytes, KeyTooLongError,
        TypeError, NoSpaceError, ReadOnlyError and ClosedError.
        """
        return ForgetReport(**self._forget(keys, prefixes_wanted(prefixes), checks.text(note, "note").encode()))

    def put_array(self, key: BytesLike, array: npt.ArrayLike) -> int:
        """Stores an array with its dtype and shape, as a .npy file; returns the version. ``get_array`` reads it.

        An array of more than 4 GiB lies in pieces of 1 GiB, under keys that begin with its own and a NUL byte. They
        are removed when another array is put; removing the key leaves them.

        >>> version = store.put_array("weights", np.arange(6.0).reshape(2, 3))
        >>> store.get_array("weights")[1]
        array([3., 4., 5.])

        Raises TypeError for what would lose something (data frames, series and labelled arrays their index and names,
        masked arrays their mask, other kinds of arrays their units) and for arrays of Python objects; and what ``insert``
        raises.
        """
        before = array_pieces.told_by(self._find_view(key))
        version, _ = array_pieces.put(array, key, self._insert, self._insert_parts)
        array_pieces.remove(before, key, self._remove)
        return int(version)

    def put_many(self, keys: ColumnLike, values: ColumnLike, *, threads: int = 1) -> None:
        """Inserts whole columns without a Python loop.

        A column is an array of fixed-size items (dtype 'S': without the NUL bytes at their ends), a ``ByteColumn``, a
        column of pandas, polars, pyarrow or another library with Arrow data (text, bytes, numbers, fixed-size lists;
        read where it is), or a sequence of bytes-like objects. Items are inserted one by one, in order. With several threads, each inserts a
        range of the items, so any of several equal keys may be the last; 0 means all cores. Not atomic: if it fails, the
        error names an item, and others may have been inserted. ``with store.batch() as b: b.put_many(...)`` is atomic.

        >>> store.put_many(np.arange(1000, dtype=">u8"), np.random.rand(1000, 16))
        >>> len(store)
        1002

        Raises InvalidArgumentError if the columns differ in length, have nulls or are of a type without bytes, and what
        ``insert`` raises.
        """
        key_column, value_column = columns.as_columns(keys, values)
        self._insert_many(key_column, value_column, columns.thread_count(threads))

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Collects writes and applies them at one instant at the end of the ``with`` block; an exception discards them.
        Afterwards ``b.version`` is the version they belong to.

        >>> with store.batch() as b:
        ...     b["x"] = "1"
        ...     del b["a"]
        >>> b.version == store.clock, "a" in store
        (True, False)

        Raises at the end of the block what ``insert`` raises; then nothing has been written.
        """
        collected = Batch()
        yield collected
        collected._apply_to(self)

    def clear(self) -> None:
        """Removes all keys at one instant. Their histories stay.

        >>> store.clear()
        >>> len(store), store.at("epoch-1")["b"]
        (0, b'2')

        Raises NoSpaceError, ReadOnlyError and ClosedError.
        """
        with self.batch() as b:
            for key in self.latest():
                del b[key]

    def pop(self, key: BytesLike, default: Any = _RAISE) -> Any:
        """Removes the key and returns its value. If it is not there, returns ``default``. Finding and removing are two
        steps.

        >>> store.pop("a"), store.pop("a", None)
        (b'3', None)

        Raises KeyError if it is not there and no default is given, and what ``remove`` raises.
        """
        found = self._find(key)
        if found is not None:
            self._remove(key)
            return found
        if default is _RAISE:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[bytes, bytes]:
        """Removes the first key, and returns it with its value. Not atomic.

        >>> store.popitem()
        (b'a', b'3')

        Raises KeyError if the store is empty, and what ``remove`` raises.
        """
        for key, value in self.latest().items(limit=1):
            self._remove(key)
            return key, value
        raise KeyError("popitem(): the store is empty")

    def setdefault(self, key: BytesLike, default: BytesLike = b"") -> bytes:
        """The key's value; if it is not there, inserts ``default`` first. Atomic: of several threads, one inserts.

        >>> store.setdefault("a", "9"), store.setdefault("c", "9")
        (b'3', b'9')

        Raises what ``insert`` raises.
        """
        while (found := self._find(key)) is None:
            if self._insert_new(key, default) is not None:
                stored: Any = default.encode() if isinstance(default, str) else default
                return bytes(stored)
        return found

    def update(self, other: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), /, **more: BytesLike) -> None:
        """Inserts all items of a mapping or of pairs, and those given by name, one after the other.

        >>> store.update({"x": "1"}, y="2")
        >>> store["x"], store["y"]
        (b'1', b'2')

        Raises what ``insert`` raises; the items before are then written.
        """
        given: Any = other
        for key, value in ((key, given[key]) for key in given.keys()) if hasattr(given, "keys") else given:
            self[key] = value
        for name, value in more.items():
            self[name] = value
