"""What a filter finds in a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _native, checks, columns, html

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._types import BytesLike

_BOOLEAN, _I64, _F64, _BYTES = 1, 2, 4, 5
_KEY, _VALUE, _BOTH = 0, 1, 2


class Page(NamedTuple):
    """A part of what a filter finds. The token is where the next page begins: opaque bytes, for which nothing is kept
    anywhere, so it never expires; empty at the end.

    >>> page = store.latest().where("true").page(1)
    >>> page.items, page.end
    ([(b'a', b'3')], False)

    Raises nothing.
    """

    items: list[tuple[bytes, bytes]]
    token: bytes
    examined: int
    end: bool


class ArrowColumns:
    """Columns for any library that reads Arrow: ``pyarrow.table(found)``, ``polars.DataFrame(found)`` and others take
    them without a copy. They need no open store.

    >>> found = store.latest().where("true").to_arrow(["key", "value"])
    >>> pyarrow.table(found).num_rows
    2

    Raises nothing.
    """

    __slots__ = ("_found",)

    def __init__(self, found: _native.ResultColumns) -> None:
        self._found = found

    @property
    def names(self) -> list[str]:
        """The names of the columns.

        >>> store.latest().where("true").to_arrow("key").names
        ['key']

        Raises nothing.
        """
        return self._found.names()

    def __len__(self) -> int:
        """The number of rows.

        >>> len(store.latest().where("true").to_arrow("key"))
        2

        Raises nothing.
        """
        return len(self._found)

    def __arrow_c_schema__(self) -> Any:
        return self._found.arrow_array()[0]

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return self._found.arrow_array()

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._found.arrow_stream()

    def __repr__(self) -> str:
        return f"<icecore.ArrowColumns of {len(self)} rows: {', '.join(self.names)}>"


class Filtered(_native.Filtered):
    """The items of a snapshot that a filter matches, found as they are used: ``snapshot.where(...)`` makes one.

    Iterates over ``(key, value)`` in key order. Any number of threads may use it.

    >>> list(store.latest().where("value = '2'"))
    [(b'b', b'2')]

    Raises LimitReachedError where an expression goes too deep, DamagedError and ClosedError.
    """

    __slots__ = ()

    def __init__(self, snapshot: _native.Snapshot, where: _native.Filter, /) -> None:
        if not isinstance(snapshot, _native.Snapshot):
            raise TypeError("a Filtered is made by snapshot.where(condition)")
        super().__init__(snapshot, where)

    @property
    def version(self) -> int:
        """The version's number.

        >>> store.at("epoch-1").where("true").version == store.at("epoch-1").version
        True

        Raises nothing.
        """
        return self._version

    def explain(self) -> str:
        """The expression in normal form, the ranges of keys that are sought, the order of evaluation, and whether the
        store sorts its keys first.

        >>> store.latest().where("key='a'").explain().splitlines()[0]
        "key = 'a'"

        Raises ClosedError.
        """
        return self._explain()

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return _native.FilteredIterator(self, _BOTH)

    def keys(self) -> Iterator[bytes]:
        """The keys alone.

        >>> list(store.latest().where("value = '2'").keys())
        [b'b']

        Raises DamagedError and ClosedError; so do the methods below.
        """
        return _native.FilteredIterator(self, _KEY)

    def values(self) -> Iterator[bytes]:
        """The values alone.

        >>> list(store.latest().where("key = 'b'").values())
        [b'2']

        Raises DamagedError and ClosedError.
        """
        return _native.FilteredIterator(self, _VALUE)

    def count(self, threads: int = 0) -> int:
        """How many items match. ``threads``, here and below: 0 for all cores.

        >>> store.latest().where("value > '2'").count()
        1

        Raises InvalidArgumentError for negative threads, DamagedError and ClosedError.
        """
        return self._count(columns.thread_count(threads))

    def sum(self, expression: str, threads: int = 0) -> int | float | None:
        """The sum of an expression over the matches, exact for whole numbers; None if it is null everywhere or out of
        the range of 64 bits. It may name the columns of the filter's layout.

        >>> store.latest().where("true").sum("length(key)")
        2

        Raises BadInputError for an expression that cannot be read or has no number, TypeError, and what ``count`` raises.
        """
        return self._sum(checks.text(expression, "an expression"), columns.thread_count(threads))

    def min(self, expression: str, threads: int = 0) -> int | float | None:
        """The least value of an expression over the matches; None if it is null everywhere.

        >>> store.latest().where("true").min("length(value)")
        1

        Raises what ``sum`` raises.
        """
        return self._min(checks.text(expression, "an expression"), columns.thread_count(threads))

    def max(self, expression: str, threads: int = 0) -> int | float | None:
        """The greatest value of an expression over the matches; None if it is null everywhere.

        >>> store.latest().where("true").max("length(value)")
        1

        Raises what ``sum`` raises.
        """
        return self._max(checks.text(expression, "an expression"), columns.thread_count(threads))

    def to_numpy(self, select: str | Sequence[str], threads: int = 0) -> dict[str, npt.NDArray[Any]]:
        """An array for each expression (``"key"``, ``"price * qty as total"``), by its name, with a value for each
        match. Numbers and bools: masked arrays if some are null. Bytes: arrays of bytes objects, None for nulls.

        >>> store.latest().where("true").to_numpy(["key", "length(value) as size"])["size"].tolist()
        [1, 1]

        Raises what ``sum`` raises.
        """
        return numpy_arrays(self._extract(_list_of(select), columns.thread_count(threads)))

    def to_arrow(self, select: str | Sequence[str], threads: int = 0) -> ArrowColumns:
        """The same as columns for Arrow, which is not needed to make them.

        >>> store.latest().where("true").to_arrow(["key", "value"]).names
        ['key', 'value']

        Raises what ``sum`` raises.
        """
        return ArrowColumns(self._extract(_list_of(select), columns.thread_count(threads)))

    def page(
        self,
        limit: int = 1000,
        token: BytesLike = b"",
        *,
        examined: int | None = None,
        seconds: float | None = None,
        reverse: bool = False,
        secret: BytesLike = b"",
    ) -> Page:
        """The next ``limit`` matches behind a token's place; without a token, the first ones.

        It may end earlier, after so many keys ``examined`` or so many ``seconds``. The same token and the same limits
        of matches and keys give the same page each time, also after a restart and in stores opened for reading. With a
        ``secret`` tokens are signed (HMAC-SHA-256), and others are refused.

        >>> found = store.latest().where("true")
        >>> page = found.page(1)
        >>> found.page(1, page.token).items
        [(b'b', b'2')]

        Raises BadTokenError if the token is damaged, or another store's, version's, filter's or direction's, TypeError,
        InvalidArgumentError for negative limits, DamagedError and ClosedError.
        """
        most = None if examined is None else checks.whole_number(examined, "examined")
        time_us = None if seconds is None else checks.microseconds(seconds, "seconds")
        return Page(*self._page(token, checks.whole_number(limit, "limit"), most, time_us, bool(reverse), secret))

    def __repr__(self) -> str:
        return f"<icecore.Filtered version {self.version}: {self.explain().splitlines()[0]}>"

    def _repr_html_(self) -> str:
        shown = list(islice(self, html.ROWS_MAX + 1))
        rows = [(html.shortened(key), html.shortened(value)) for key, value in shown[: html.ROWS_MAX]]
        caption = f"version {self.version}: {self.explain().splitlines()[0]}"
        return html.table(("key", "value"), rows, caption, -1 if len(shown) > len(rows) else 0)


def numpy_arrays(found: _native.ResultColumns) -> dict[str, npt.NDArray[Any]]:
    """The columns by name."""
    return {name: _array(found, i) for i, name in enumerate(found.names())}


def _array(found: _native.ResultColumns, i: int) -> npt.NDArray[Any]:
    kind = found.type(i)
    values: npt.NDArray[Any]
    if kind == _BYTES:
        values = np.empty(len(found), dtype=object)
        values[:] = found.objects(i)
        return values
    if kind == _BOOLEAN:
        values = _bits(found, i, False)
    else:
        values = found.words(i, False).view(np.int64 if kind == _I64 else np.float64 if kind == _F64 else np.uint64)
    return np.ma.masked_array(values, ~_bits(found, i, True)) if found.nulls(i) else values


def _bits(found: _native.ResultColumns, i: int, validity: bool) -> npt.NDArray[np.bool_]:
    packed = found.words(i, validity).view(np.uint8)
    return np.unpackbits(packed, count=len(found), bitorder="little").view(np.bool_)


def _list_of(select: str | Sequence[str]) -> list[str]:
    return [checks.text(one, "an expression of select") for one in ([select] if isinstance(select, str) else select)]
