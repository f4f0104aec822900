"""Shared by stores, clusters and their snapshots: the ordered mapping and its views of keys, values and items."""

from __future__ import annotations

from collections.abc import ItemsView as _ItemsABC
from collections.abc import Iterator, Mapping, MappingView
from collections.abc import KeysView as _KeysABC
from collections.abc import ValuesView as _ValuesABC
from typing import TYPE_CHECKING, Any, TypeVar, Union

if TYPE_CHECKING:
    from ._types import BytesLike

    _Base = Mapping[bytes, bytes]
else:
    _Base = object

T = TypeVar("T")

_KEY, _VALUE, _BOTH = 0, 1, 2
_NO_LIMIT = 2**64 - 1


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
        if limit is not None and limit < 0:
            raise ValueError(f"limit must be 0 or more, not {limit}; None for no limit")
        super().__init__(source)
        self._start = start
        self._stop = stop
        self._prefix = prefix
        self._reverse = reverse
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
    """The keys; a set, like ``dict.keys()``."""

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
    """The values, in the order of their keys."""

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        return self._forward(_VALUE)

    def __reversed__(self) -> Iterator[bytes]:
        return self._backward(_VALUE)

    def __contains__(self, value: object) -> bool:
        return any(value == other for other in self)


class ItemsView(_RangeView, _ItemsABC[bytes, bytes]):
    """The (key, value) pairs; a set, like ``dict.items()``."""

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
        """The value, or ``default``."""
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
        in reverse."""
        return KeysView(self, start, stop, prefix, reverse, limit)

    def values(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> ValuesView:
        """The values of ``keys(...)``, in the same order."""
        return ValuesView(self, start, stop, prefix, reverse, limit)

    def items(
        self,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> ItemsView:
        """The (key, value) pairs of ``keys(...)``, in the same order."""
        return ItemsView(self, start, stop, prefix, reverse, limit)

    def _slice(self, asked: slice) -> Any:
        """``mapping[start:stop]``; the native half calls it."""
        if asked.step is not None:
            raise ValueError("a slice of keys cannot have a step; items(start, stop, reverse=True) goes backwards")
        return self._snapshot()._narrowed(asked.start, asked.stop, None)
