"""The mutants as data: what the *.toml files of this folder say, and whether it fits the sources.

    [[mutant]]
    name = "an_update_is_not_flushed"    # what is wrong in the mutant; no other has the name
    takes_away = "flush"                 # one of KINDS
    file = "src/store/engine.cpp"          # or a header of src/ or include/
    old = '''text that stands exactly once in the file'''
    new = '''what takes its place'''
    caught_by = ["icecore_crash --mode line --durability operation",
                 "test_store_writer --gtest_filter=Writer.*"]
    sources = ["src/store/engine.cpp"]     # of a header, optional: compile only these anew, not all that include it

A line of caught_by names a target of the build folder and its arguments. Words before it may say where and how:
`preset=tsan` takes the target of that preset's folder beside the build folder, `ranks=3` starts so many ranks (of preset
openmpi unless another is named), NAME=value sets a variable of the environment. The lines are tried in their order until
one catches the mutant.
"""

import dataclasses
import re
import shlex
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
KINDS = ("flush", "fence", "sync", "ordering", "checksum", "check", "retry", "invalidation")
REQUIRED = {"name", "takes_away", "file", "old", "new", "caught_by"}
OPTIONAL = {"sources"}


class Unfit(Exception):
    """An entry that is not understood, or does not fit the sources any more."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One line of caught_by."""

    line: str
    preset: str  # empty: the build folder that was named
    ranks: int  # 0: not a program of ranks
    environment: tuple[tuple[str, str], ...]
    target: str
    arguments: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    takes_away: str
    file: str
    start: int  # what is taken away in the file's text
    end: int
    new: str
    runs: tuple[Run, ...]
    sources: tuple[str, ...] = ()
    number: int = 0  # of its place, if it is made from the sources

    def text(self) -> str:
        """The file with the mutation in it."""
        before = (PROJECT / self.file).read_text(encoding="utf-8")
        return before[: self.start] + self.new + before[self.end :]


def run_of(line: str) -> Run:
    """What a line of caught_by says."""
    preset, ranks, environment = "", 0, []
    words = shlex.split(line)
    while words and re.match(r"\w+=", words[0]):
        name, value = words.pop(0).split("=", 1)
        if name == "preset":
            preset = value
        elif name == "ranks":
            ranks = int(value)
        else:
            environment.append((name, value))
    if not words:
        raise Unfit(f"'{line}' names no target")
    if ranks and not preset:
        preset = "openmpi"
    return Run(line, preset, ranks, tuple(environment), words[0], tuple(words[1:]))


def mutant_of(table: dict) -> Mutant:
    lacks, unknown = REQUIRED - table.keys(), table.keys() - REQUIRED - OPTIONAL
    if lacks or unknown:
        raise Unfit(f"it lacks {sorted(lacks)}" if lacks else f"nobody knows {sorted(unknown)}")
    if table["takes_away"] not in KINDS:
        raise Unfit(f"takes_away is none of {', '.join(KINDS)}")
    if not table["caught_by"]:
        raise Unfit("nothing catches it")
    path = PROJECT / table["file"]
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.count(table["old"]) != 1:
        raise Unfit(f"its old text is {text.count(table['old'])} times in {table['file']}")
    if table["old"] == table["new"]:
        raise Unfit("it changes nothing")
    for source in table.get("sources", ()):
        if not (PROJECT / source).is_file():
            raise Unfit(f"there is no {source}")
    start = text.index(table["old"])
    return Mutant(table["name"], table["takes_away"], table["file"], start, start + len(table["old"]), table["new"],
                  tuple(map(run_of, table["caught_by"])), tuple(table.get("sources", ())))


def read_all(folder: Path = FOLDER) -> tuple[list[Mutant], list[str]]:
    """All mutants of a folder's files, and what is wrong with the entries that are none."""
    mutants, faults, names = [], [], set()
    for path in sorted(folder.glob("*.toml")):
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])
        except tomllib.TOMLDecodeError as fault:
            faults.append(f"{path.name}: {fault}")
            continue
        for number, table in enumerate(tables, 1):
            name = table.get("name", f"number {number}")
            try:
                if name in names:
                    raise Unfit("another one has its name")
                names.add(name)
                mutants.append(mutant_of(table))
            except (Unfit, ValueError) as fault:
                faults.append(f"{path.name}: {name}: {fault}")
    return mutants, faults
