"""What is known of several independent servers without asking them: shared by both kinds of clients."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidArgumentError, OtherClusterError
from ._server_calls import ServerStatus
from ._streams import KeyChange
from ._values import as_bytes

if TYPE_CHECKING:
    from .._types import BytesLike


class ServerChanges(NamedTuple):
    """What one server of a group tells: all changes of one of its versions."""

    server: int
    version: int
    changes: list[KeyChange]


_ONES = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _rotated(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _ONES


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _ONES, 31) * _P1 & _ONES


def _xxh64(data: bytes) -> int:
    """XXH64 with seed 0."""
    at, size = 0, len(data)
    if size >= 32:
        lanes = [(_P1 + _P2) & _ONES, _P2, 0, -_P1 & _ONES]
        while at + 32 <= size:
            for i in range(4):
                lanes[i] = _round(lanes[i], int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little"))
            at += 32
        mixed = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & _ONES
        for lane in lanes:
            mixed = ((mixed ^ _round(0, lane)) * _P1 + _P4) & _ONES
    else:
        mixed = _P5
    mixed = (mixed + size) & _ONES
    while at + 8 <= size:
        mixed ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        mixed = (_rotated(mixed, 27) * _P1 + _P4) & _ONES
        at += 8
    if at + 4 <= size:
        mixed ^= int.from_bytes(data[at : at + 4], "little") * _P1 & _ONES
        mixed = (_rotated(mixed, 23) * _P2 + _P3) & _ONES
        at += 4
    for byte in data[at:]:
        mixed ^= byte * _P5 & _ONES
        mixed = _rotated(mixed, 11) * _P1 & _ONES
    mixed = (mixed ^ mixed >> 33) * _P2 & _ONES
    mixed = (mixed ^ mixed >> 29) * _P3 & _ONES
    return mixed ^ mixed >> 32


def owner_of(key: BytesLike, servers: int) -> int:
    """The number of the server that has the key: the upper half of its XXH64 * servers / 2**32."""
    return (_xxh64(as_bytes(key)) >> 32) * servers >> 32


def version_of_each(named: Any, servers: int) -> list[Any]:
    """A version of each server, as each takes it: of a snapshot or a list; or a tag's name or a time, for all of them."""
    if isinstance(named, (str, datetime)):
        return [named] * servers
    versions = getattr(named, "versions", named)
    if not isinstance(versions, (list, tuple)):
        raise TypeError(
            "a version of a group is named by a str (the name of a tag that all servers have), a GroupSnapshot, a datetime "
            f"with a time zone, or a list with a version of each server, not by {type(named).__name__}"
        )
    if len(versions) != servers:
        raise InvalidArgumentError(
            f"{len(versions)} versions for {servers} servers: a number of one means nothing to the others; give a "
            "snapshot, or a version of each"
        )
    return list(versions)


def places_of(keys: Sequence[bytes], servers: int) -> list[list[int]]:
    """Of each server, which of the keys it has."""
    places: list[list[int]] = [[] for _ in range(servers)]
    for place, key in enumerate(keys):
        places[owner_of(key, servers)].append(place)
    return places


def require_member(told: ServerStatus, address: str, number: int, servers: int, group: str | None) -> str:
    """The group's name, if what the server tells of itself is what the list of servers says; else OtherClusterError.
    ``group``: the name that it must have; None: any."""
    if told.dependent:
        raise OtherClusterError(
            f"the servers of the group {told.group!r}, of which {address} is one, are dependent: each of them answers for "
            "all keys; connect() to one of them"
        )
    group = told.group if group is None else group
    if (told.group, told.index, told.size) != (group, number, servers):
        raise OtherClusterError(
            f"{address} is server {told.index} of {told.size} of the group {told.group!r}, but in the list it is server "
            f"{number} of {servers} of {group!r}"
        )
    return group
