"""A shared library exports what its public headers declare, all of it and nothing else.

    exports.py --library libicecore.so --archive libicecore.a [--also NAME]... [--inner NAME] [--below HEADER]... HEADER...

What is public is read from the headers: functions of C and Fortran; functions, classes and constants of namespace
icecore, but none of a namespace within it except the one of --inner, and no nested class that a header only names. --also NAME is a function that
the library exports besides, for another library of ours; headers --below are those of a library that this one stands on,
whose inline functions and types every library has that uses them. The archive, which hides nothing, tells what is missing.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

# What a header declares at its outer level, as clang-format lays it out.
WITHIN = re.compile(r"^namespace (?!icecore )(\w+) \{(?:.*?^\}  // namespace \1$|(?:\n(?:class|struct) \w+;)+\n\}$)", re.MULTILINE | re.DOTALL)
CLASS = re.compile(r"^(?:class|struct) (?:\[\[nodiscard\]\] )?(\w+)[^;{]*\{(.*?)^\}", re.MULTILINE | re.DOTALL)
NAMED_ONLY = re.compile(r"^  (?:class|struct) (\w+);", re.MULTILINE)
THROWN = re.compile(r"^class (\w+) : public std::system_error", re.MULTILINE)
CONSTANT = re.compile(r"^inline constexpr [^=]*?(\w+) =", re.MULTILINE)
FUNCTION = re.compile(r"^(?:\[\[nodiscard\]\] )?(?!using|inline|template)[a-z][\w:<>, ]*[*&]? (\w+)\(", re.MULTILINE)
C_FUNCTION = re.compile(r"^(?!typedef)[a-z][\w ]*[ *]+(\w+)\(", re.MULTILINE)
SUBROUTINE = re.compile(r"^  subroutine (\w+)", re.MULTILINE)

TEMPLATE_ARGUMENTS = re.compile(r"<[^<>]*>")
OF_A_TYPE = re.compile(r"^(typeinfo for|typeinfo name for|vtable for) ")
OF_FORTRAN_TYPES = re.compile(r"^__papyrus_MOD___")  # gfortran copies and describes them by symbols of its own


class Interface:
    """Names are as nm shows them."""

    def __init__(self, headers, also=(), inner=""):
        self.inner = inner
        self.classes = set()
        self.hidden = set()  # nested classes
        self.others = set(also)
        self.wanted = set()  # by other libraries and languages: exported, whatever the archive has
        for header in headers:
            self.add(header.suffix, header.read_text(encoding="utf-8"))

    def add(self, suffix, text):
        if suffix == ".f90":
            self.wanted |= {f"__papyrus_MOD_{name}" for name in SUBROUTINE.findall(text)}
        elif suffix == ".h":
            self.wanted |= set(C_FUNCTION.findall(text))
        else:
            if self.inner:
                inner = re.compile(rf"^namespace {self.inner} \{{\n(.*?)^\}}  // namespace {self.inner}$", re.MULTILINE | re.DOTALL)
                for body in inner.findall(text):
                    self.add_namespace(f"icecore::{self.inner}", body)
            self.add_namespace("icecore", text)

    def add_namespace(self, space, text):
        text = WITHIN.sub("", text)
        for name, body in CLASS.findall(text):
            self.classes.add(f"{space}::{name}")
            self.hidden |= {f"{space}::{name}::{nested}" for nested in NAMED_ONLY.findall(body)}
        self.others |= {f"{space}::{name}" for pattern in (CONSTANT, FUNCTION) for name in pattern.findall(text)}
        self.wanted |= {f"typeinfo for {space}::{name}" for name in THROWN.findall(text)}

    def has(self, symbol):
        if symbol in self.wanted or OF_FORTRAN_TYPES.match(symbol):
            return True
        name = OF_A_TYPE.sub("", symbol)
        while name != (plain := TEMPLATE_ARGUMENTS.sub("", name)):
            name = plain
        name = re.split(r"\(|\[abi:", name)[0]
        parts = name.split("::")
        depth = 3 if self.inner and parts[1:2] == [self.inner] else 2
        of_class = "::".join(parts[:depth]) in self.classes and "::".join(parts[: depth + 1]) not in self.hidden
        return of_class or name in self.others


def faults(interface, exported, exported_weak, archived, below):
    """What is wrong with the symbols that a library exports; `archived` are those of its static counterpart."""
    for name in sorted(exported | exported_weak):
        if not interface.has(name) and not (name in exported_weak and below.has(name)):
            yield f"exported, but in no public header: {name}"
    declared = interface.wanted | {name for name in archived if interface.has(name)}
    for name in sorted(declared - exported - exported_weak):
        yield f"in a public header, but not exported: {name}"


def symbols(kinds, *arguments):
    """The demangled names of the symbols of these kinds, as nm calls them."""
    said = subprocess.run(["nm", "-C", "--defined-only", *arguments], capture_output=True, text=True, check=True).stdout
    return {name for kind, name in re.findall(r"^[0-9a-f]+ (\w) (.+)$", said, re.MULTILINE) if kind in kinds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--archive")
    parser.add_argument("--also", action="append", default=[])
    parser.add_argument("--inner", default="")
    parser.add_argument("--below", action="append", default=[], type=Path)
    parser.add_argument("headers", nargs="+", type=Path)
    chosen = parser.parse_args()
    exported, weak = (symbols(kinds, "-D", chosen.library) for kinds in ("TDBR", "VWu"))
    archived = symbols("T", chosen.archive) if chosen.archive else set()
    interface = Interface(chosen.headers, chosen.also, chosen.inner)
    if not exported or not interface.wanted:
        sys.exit(f"{chosen.library} exports nothing, or its headers declare nothing: is this the right file?")
    found = list(faults(interface, exported, weak, archived, Interface(chosen.below)))
    print(*found, f"{chosen.library} exports {len(exported | weak)} names; {len(found)} are wrong or missing", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
