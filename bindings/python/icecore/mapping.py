"""Shared by stores, clusters and their snapshots: the ordered mapping and its views of keys, values and items."""

from __future__ import annotations

from collections.abc import ItemsView as _ItemsABC
from collections.abc import Iterator, Mapping, MappingView
from collections.abc import KeysView as _KeysABC
from collections.abc import ValuesView as _ValuesABC
from typing import TYPE_CHECKING, Any, TypeVar, Union

from . import checks
from .errors import ClosedError

if TYPE_CHECKING:
    from ._types import BytesLike

    _Base = Mapping[bytes, bytes]
else:
    _Base = object

T = TypeVar("T")

_KEY, _VALUE, _BOTH = 0, 1, 2
_NO_LIMIT = 2**64 - 1
_COMPLETIONS_MAX = 1000


class _RangeView(MappingView):
    """Keys, values or items of a mapping within bounds, in key order or in reverse.

    A view of a store follows the store: each iteration reads the newest snapshot of that moment.
    """

    __slots__ = ("_limit", "_prefix", "_reverse", "_start", "_stop")
    _mapping: OrderedMapping

    def __init__(
        self,
        source: OrderedMapping,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> None:
        if limit is not None:
            limit = checks.whole_number(limit, "limit")
        for bound, what in ((start, "start"), (stop, "stop"), (prefix, "prefix")):
            if bound is not None and not isinstance(bound, (str, bytes)):
                _require_buffer(bound, what)
        super().__init__(source)
        self._start = start
        self._stop = stop
        self._prefix = prefix
        self._reverse = bool(reverse)
        self._limit = limit

    def _snapshot(self) -> Any:
        return self._mapping._snapshot()._narrowed(self._start, self._stop, self._prefix)

    def _forward(self, part: int) -> Iterator[Any]:
        limit = _NO_LIMIT if self._limit is None else self._limit
        items: Iterator[Any] = self._snapshot()._run(part, self._reverse, limit)
        return items

    def _backward(self, part: int) -> Iterator[Any]:
        if self._limit is not None:  # the items must be those of the forward iteration
            return iter(list(self._forward(part))[::-1])
        items: Iterator[Any] = self._snapshot()._run(part, not self._reverse, _NO_LIMIT)
        return items

    def __len__(self) -> int:
        size = len(self._snapshot())
        return size if self._limit is None else min(size, self._limit)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._mapping!r}>"


class KeysView(_RangeView, _KeysABC[bytes]):
    """The keys; a set, like ``dict.keys()``. ``store.keys()`` and ``snapshot.keys()`` make one.

    >>> store.keys() & {b"a", b"z"}
    {b'a'}

    Raises ClosedError when it is read after the store was closed.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        return self._forward(_KEY)

    def __reversed__(self) -> Iterator[bytes]:
        return self._backward(_KEY)

    def __contains__(self, key: object) -> bool:
        if self._limit is not None:
            return any(key == other for other in self)
        return key in self._snapshot()


class ValuesView(_RangeView, _ValuesABC[bytes]):
    """The values, in the order of their keys. ``store.values()`` and ``snapshot.values()`` make one.

    >>> b"2" in store.values()
    True

    Raises ClosedError when it is read after the store was closed.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        return self._forward(_VALUE)

    def __reversed__(self) -> Iterator[bytes]:
        return self._backward(_VALUE)

    def __contains__(self, value: object) -> bool:
        return any(value == other for other in self)


class ItemsView(_RangeView, _ItemsABC[bytes, bytes]):
    """The (key, value) pairs; a set, like ``dict.items()``. ``store.items()`` and ``snapshot.items()`` make one.

    >>> (b"b", b"2") in store.items()
    True

    Raises ClosedError when it is read after the store was closed.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._forward(_BOTH)

    def __reversed__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._backward(_BOTH)

    def __contains__(self, item: object) -> bool:
        if self._limit is not None:
            return any(item == other for other in self)
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        found = self._snapshot().get(item[0])
        return found is not None and found == item[1]


def _is_text(key: bytes) -> bool:
    try:
        return key.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _require_buffer(given: Any, what: str) -> None:
    try:
        memoryview(given).release()
    except TypeError:
        raise TypeError(f"{what} must be bytes, str or a bytes-like object, not {type(given).__name__}") from None


class OrderedMapping(_Base):
    """The methods that read stores and snapshots. Keys are bytes, in byte order; a str key stands for its UTF-8 bytes.

    Values are returned as bytes, which are copies; ``view`` and ``get_array`` copy nothing.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # compared by content, like dicts

    def _snapshot(self) -> Any:
        """The mapping to read, which has ``_narrowed(start, stop, prefix)`` and ``_run(part, reverse, limit)``."""
        raise NotImplementedError

    if not TYPE_CHECKING:
        __eq__ = Mapping.__eq__

    def __iter__(self) -> Iterator[bytes]:
        keys: Iterator[bytes] = self._snapshot()._run(_KEY, False, _NO_LIMIT)
        return keys

    def __reversed__(self) -> Iterator[bytes]:
        keys: Iterator[bytes] = self._snapshot()._run(_KEY, True, _NO_LIMIT)
        return keys

    def __len__(self) -> int:
        """The number of keys. O(keys), on all cores, because versions keep no counts."""
        return len(self._snapshot())

    def __bool__(self) -> bool:
        """Whether there is any key; does not count the keys."""
        return next(iter(self), None) is not None

    def get(self, key: BytesLike, default: T | None = None) -> Union[bytes, T, None]:  # type: ignore[override]
        """The value, or ``default`` if the key is not there.

        >>> store.at("epoch-1").get("a"), store.at("epoch-1").get("nothing", b"-")
        (b'1', b'-')

        Raises TypeError for a key of a wrong kind, DamagedError and ClosedError.
        """
        found: bytes | None = self.find(key)  # type: ignore[attr-defined]
        return default if found is None else found

    def keys(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> KeysView:
        """The keys from ``start`` to before ``stop`` that begin with ``prefix``, at most ``limit`` of them, in order or
        in reverse.

        >>> list(store.keys(reverse=True)), list(store.keys("b"))
        ([b'b', b'a'], [b'b'])

        Raises TypeError for bounds of a wrong kind and InvalidArgumentError for a negative limit; iterating raises
        ClosedError.
        """
        return KeysView(self, start, stop, prefix, reverse, limit)

    def values(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> ValuesView:
        """The values of ``keys(...)``, in the same order.

        >>> list(store.values(limit=1))
        [b'3']

        Raises what ``keys`` raises.
        """
        return ValuesView(self, start, stop, prefix, reverse, limit)

    def items(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> ItemsView:
        """The (key, value) pairs of ``keys(...)``, in the same order.

        >>> list(store.items(prefix="b"))
        [(b'b', b'2')]

        Raises what ``keys`` raises.
        """
        return ItemsView(self, start, stop, prefix, reverse, limit)

    def _ipython_key_completions_(self) -> list[str | bytes]:
        """The keys that a notebook or IPython offers behind ``mapping[``: the first ones, as str where they are text."""
        try:
            keys = list(self.keys(limit=_COMPLETIONS_MAX))
        except ClosedError:
            return []
        texts: list[str | bytes] = [key.decode() for key in keys if _is_text(key)]
        return texts + keys  # after mapping[b" only bytes fit

    def _slice(self, asked: slice) -> Any:
        """``mapping[start:stop]``; the native half calls it."""
        if asked.step is not None:
            raise ValueError("a slice of keys cannot have a step; items(start, stop, reverse=True) goes backwards")
        return self._snapshot()._narrowed(asked.start, asked.stop, None)
