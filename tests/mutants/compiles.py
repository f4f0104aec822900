"""Whether mutants compile: the compiler reads the mutated files with the flags of their build, and makes nothing of them.

It needs a configured build folder, in which nothing has to be built. A header is read alone, or by the sources that its
mutant names. The mutants of a file are read together, as far as they change different places, and one by one only if
that fails: a mutant that does not compile is rarely one that others of its file help.
"""

import json
import os
import re
import tempfile
from pathlib import Path

from builds import Build, CannotBeMade, call, compiled_as_one
from entries import PROJECT, Mutant


class Flags:
    """The compiler and the flags of each source of a build folder."""

    def __init__(self, build: Build):
        listed = build.folder / "compile_commands.json"
        if not listed.is_file():
            raise CannotBeMade(f"{listed} is not there")
        self.folder, self.of = build.folder, {}
        for one in json.loads(listed.read_text(encoding="utf-8")):
            flags = re.sub(r" -o \S+| -c \S+", "", re.sub(r"^\S*ccache ", "", one["command"]))
            text = compiled_as_one(one["file"]) if Path(one["file"]).is_file() else None
            for source in re.findall(r'#include "(.*)"', text) if text else [one["file"]]:
                self.of.setdefault(os.path.relpath(source, PROJECT), flags)

    def near(self, file: str) -> str:
        """The flags of a file; those of the source that is nearest to it in the tree if it is a header."""
        if file in self.of:
            return self.of[file]
        return self.of[max(sorted(self.of), key=lambda source: len(os.path.commonpath(["./" + source, "./" + file])))]


def together(mutants: list[Mutant]) -> list[list[Mutant]]:
    """The mutants in groups, each of one file, read by the same sources, in different places of it."""
    groups = []
    for one in sorted(mutants, key=lambda m: (m.file, m.sources, m.start)):
        fits = (g for g in groups if (g[-1].file, g[-1].sources) == (one.file, one.sources) and g[-1].end <= one.start)
        group = next(fits, None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return groups


def why_not(group: list[Mutant], flags: Flags) -> str:
    """What the compiler says of a file with all mutants of a group in it; nothing if it compiles."""
    first = group[0]
    text = (PROJECT / first.file).read_text(encoding="utf-8")
    for one in sorted(group, key=lambda m: -m.start):
        text = text[:one.start] + one.new + text[one.end:]
    with tempfile.TemporaryDirectory() as folder:
        mutated = Path(folder, first.file)
        mutated.parent.mkdir(parents=True)
        mutated.write_text(text, encoding="utf-8")
        for read in first.sources or (first.file,):
            # the mutated file is found before the file, and so is what it includes from beside itself
            where = f"-w -I{folder}/src -I{folder}/include -iquote {(PROJECT / first.file).parent}"
            command = re.sub(r"^(\S+)", rf"\1 -fsyntax-only {where}", flags.near(read), count=1)
            text = f'#include "{mutated if read == first.file else PROJECT / read}"\n'
            done = call(f"{command} -x c++ -", flags.folder, input=text)
            if done.returncode != 0:
                return next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr[:500])
    return ""


def faults(group: list[Mutant], flags: Flags) -> list[tuple[Mutant, str]]:
    """Which mutants of a group do not compile, and why."""
    why = why_not(group, flags)
    if not why or len(group) == 1:
        return [(group[0], why)] if why else []
    return [(one, alone) for one in group if (alone := why_not([one], flags))]
