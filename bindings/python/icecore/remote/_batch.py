"""Writes that a client collects and sends as one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._values import as_bytes
from .operations import Condition, Operation, Outcome, absent, put, remove, version_is

if TYPE_CHECKING:
    from .._types import BytesLike


class Batch:
    """Puts and removes that take effect at one instant: ``with store.batch() as b:`` sends them at its end, and an
    exception discards them.

    If several operations name one key, the last one counts. ``insert_new`` and ``replace`` set conditions for the whole
    batch: if one does not hold, nothing happens, and ``applied`` is False.
    """

    __slots__ = ("_conditions", "_operations", "_outcome")

    def __init__(self) -> None:
        self._operations: dict[bytes, Operation] = {}
        self._conditions: list[Condition] = []
        self._outcome: Outcome | None = None

    def __setitem__(self, key: BytesLike, value: BytesLike) -> None:
        self._add(key, put(key, value))

    def __delitem__(self, key: BytesLike) -> None:
        self._add(key, remove(key))

    def put(self, key: BytesLike, value: BytesLike, *, lease: int = 0) -> None:
        """Sets the key's value; it ends with the lease, if there is one."""
        self._add(key, put(key, value, lease=lease))

    def insert_new(self, key: BytesLike, value: BytesLike) -> None:
        """Sets the key's value, on the condition that the key is not there."""
        self._add(key, put(key, value))
        self._conditions.append(absent(key))

    def replace(self, key: BytesLike, value: BytesLike, expected_version: int) -> None:
        """Sets the key's value, on the condition that its newest record has this version."""
        self._add(key, put(key, value))
        self._conditions.append(version_is(key, expected_version))

    def clear(self) -> None:
        """Discards all operations collected so far."""
        self._open()
        self._operations.clear()
        self._conditions.clear()

    def __len__(self) -> int:
        """The number of operations collected."""
        return len(self._operations)

    @property
    def version(self) -> int:
        """The version the writes belong to. ValueError if they have not taken effect."""
        if self._outcome is None:
            raise ValueError("the batch has not been applied: its version is known after the with block")
        if not self._outcome.succeeded:
            raise ValueError("a condition of the batch did not hold: nothing was written")
        return self._outcome.version

    @property
    def applied(self) -> bool:
        """Whether the writes have taken effect."""
        return self._outcome is not None and self._outcome.succeeded

    def _open(self) -> None:
        if self._outcome is not None:
            raise ValueError("the batch has been applied already: start another with store.batch()")

    def _add(self, key: BytesLike, operation: Operation) -> None:
        self._open()
        self._operations[as_bytes(key)] = operation
