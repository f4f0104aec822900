"""The words of the blocking client for the awaited one, which has the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Awaited = TypeVar("Awaited", bound=type)


def documented_as(blocking: type) -> Callable[[Awaited], Awaited]:
    """Of a class: its methods and properties that say nothing of themselves say what those of ``blocking`` say."""

    def documented(awaited: Awaited) -> Awaited:
        for base in awaited.__mro__:
            if not base.__module__.startswith("icecore.remote.aio"):
                continue
            for name, member in vars(base).items():
                told = getattr(getattr(blocking, name, None), "__doc__", None)
                if not name.startswith("_") and told and getattr(member, "__doc__", "") is None:
                    member.__doc__ = told
        return awaited

    return documented
