"""Types used by several modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Union

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datetime import datetime
    from typing import Protocol

    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Buffer, TypeAlias

    from .columns import ByteColumn
    from .versions import HasVersion

    BytesLike: TypeAlias = Union[str, Buffer, npt.NDArray[Any]]
    """A key or value: bytes, any object with a C-contiguous buffer, or str, stored as UTF-8."""

    VersionLike: TypeAlias = Union[int, str, HasVersion, datetime]
    """A closed version: its number, a tag's name, a Tag, a Snapshot, or a datetime with a time zone."""

    class ArrowStreamLike(Protocol):
        """What hands over Arrow data in batches: columns of polars, chunked arrays of pyarrow, and others."""

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

    class ArrowArrayLike(Protocol):
        """What hands over one Arrow array: those of pyarrow and of other libraries."""

        def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...

    ColumnLike: TypeAlias = Union[
        npt.NDArray[np.generic], ByteColumn, ArrowStreamLike, ArrowArrayLike, Sequence[BytesLike]
    ]
    """A column of keys or values: an array of fixed-size items, offsets and bytes, Arrow data, or a sequence."""


class Change(NamedTuple):
    """One record of a key's history; ``value`` is None if the record is a removal.

    >>> list(store.history("b"))
    [Change(version=1, value=b'2')]

    Raises nothing.
    """

    version: int
    value: bytes | memoryview | None


class Difference(NamedTuple):
    """A key whose value differs between two versions; None means that the key is not there.

    >>> list(store.diff(0, "epoch-1"))[0]
    Difference(key=b'a', before=None, after=b'1')

    Raises nothing.
    """

    key: bytes
    before: bytes | memoryview | None
    after: bytes | memoryview | None
