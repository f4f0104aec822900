"""The messages of the C++ library in the words of Python.

The library says what to do in terms of its own calls and options, which are written otherwise here: a mode in place of
access and creation, a keyword argument in place of a member of options. Other messages stay as they are.
"""

from __future__ import annotations

import re

WORDINGS = {
    "to make one, open it for writing with creation allowed": "mode 'a' or 'x' makes one",
    "is empty; open it for writing first": "is empty; mode 'a' makes a store of it",
    "is empty, and creating a store was not asked for": "is empty; mode 'a' makes a store of it",
    "was cut off here; open it for writing first": "was cut off here; mode 'a' completes it",
    "was cut off here, and creating one was not asked for": "was cut off here; mode 'a' completes it",
    "was opened for reading only": "was opened for reading only (mode 'r')",
    "durability none, or ask for emulation": "durability='none', or emulate_durability=True",
    "open it with read_write access and creation allowed": "open it with mode 'a' or 'x'",
    "changing the index requires read_write access": "changing the index needs mode 'a' or 'r+'",
    "give it read_write access and allow creation": "open it with mode 'a' or 'x'",
}
"""Of a message of the library, and of Python."""

_OPTION = re.compile(r"\(options::([a-z_]+)(?:, --[a-z-]+)?( is off)?\)")


def in_words_of_python(message: str) -> str:
    """The message with Python's modes and keyword arguments in place of C++'s options."""
    for library, python in WORDINGS.items():
        message = message.replace(library, python)
    return _OPTION.sub(lambda found: f"({found[1]}={'False' if found[2] else '...'})", message)
