"""All generated mutants in one program: each place asks whether it is the one that is taken out.

The sources are rewritten (`flush(x);` becomes `(icecore_mutants::out(7) ? void() : void(flush(x)));`, an order becomes
`icecore_mutants::order(8, ...)`), compiled with the flags of the build and linked into a program, once. In its environment

    ICECORE_MUTANT=7                  takes the place of this number out, and
    ICECORE_MUTANTS_REACHED=FILE      has the file's byte of each place that it comes to set to 1.

(Mutant schemata: R. Untch, J. Offutt, M. J. Harrold: Mutation analysis using mutant schemata, ISSTA 1993.)
"""

import concurrent.futures
import re
import shutil
import threading
from pathlib import Path

from builds import Build, CannotBeMade, Mutated, call, output_of
from entries import FOLDER, PROJECT


def rewritten(text: str, places: list[tuple]) -> str:
    """The text of a file in which each place, a number with a place of generate.py, asks whether it is taken out."""
    for number, place in sorted(places, key=lambda p: -p[1].start):
        there, start = text[place.start:place.end], place.start
        if place.takes_away == "ordering":
            start -= len("std::")
            there = f"::icecore_mutants::order({number}, std::{there})"
        else:
            there = f"(::icecore_mutants::out({number}) ? static_cast<void>(0) : static_cast<void>({there}))"
        text = text[:start] + there + text[place.end:]
    return text


class Schemata(Mutated):
    """The programs of a build folder with all places in them."""

    def __init__(self, build: Build, places: list, jobs: int):
        # not Mutated's: there is no single mutant
        self.build, self.jobs = build, jobs
        self.folder = build.folder / "mutants" / "schemata"
        self.objects, self.differs, self.programs, self.lock = {}, True, {}, threading.Lock()
        self.files = {place.file for place in places}
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(PROJECT / "src", self.folder / "src")
        numbered = list(enumerate(places, 1))
        for name in self.files:
            text = (PROJECT / name).read_text(encoding="utf-8")
            here = [(number, place) for number, place in numbered if place.file == name]
            (self.folder / name).write_text(rewritten(text, here), encoding="utf-8")
        self.asks = self.folder / "schemata.o"
        done = call(["c++", "-std=c++20", "-O2", "-fPIC", "-c", str(FOLDER / "schemata.cpp"), "-o", str(self.asks)], "/")
        if done.returncode != 0:
            raise CannotBeMade(done.stderr)

    def readers(self) -> set[str]:
        return {one for name in self.files for one in self.build.readers(PROJECT / name)}

    def concerns(self, command: str, readers: set[str]) -> bool:
        return output_of(command) in readers and " -c " in command and output_of(command) in self.linked

    def compile(self, command: str) -> str:
        output = output_of(command)
        if output not in self.objects:
            target = self.folder / output
            target.parent.mkdir(parents=True, exist_ok=True)
            command = self.with_sources(command, target, f"{PROJECT}/src/", f"{self.folder}/src/")
            command = command.replace(f" -o {output} ", f" -include {FOLDER / 'schemata.hpp'} -o {target} ")
            command = re.sub(r" -MD -MT \S+ -MF \S+", "", command)
            command = re.sub(r"^((?:\S*ccache )?\S+)", rf"\1 -w -I{self.folder / 'src'}", command, count=1)
            done = call(command, self.build.folder)
            if done.returncode != 0:
                raise CannotBeMade(f"{output} does not compile with all places in it:\n{done.stderr[:2000]}")
            self.objects[output] = str(target)
        return self.objects[output]

    def program(self, target: str) -> Path:
        with self.lock:
            if target not in self.programs:
                self.programs[target] = self.built(target)
            return self.programs[target]

    def built(self, target: str) -> Path:
        commands = self.build.commands(target)
        # What a shared library that it loads is made of (the judge of crash images) stays as it is.
        words = set(commands[-1].split())
        archives = [re.search(r"/\S*ar qc (\S+) (.*?)(?: &&|$)", command) for command in commands]
        self.linked = words.union(*(found[2].split() for found in archives if found and found[1] in words))
        readers = self.readers()
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(self.compile, (c for c in commands if self.concerns(c, readers))))
        return super().program(target)

    def link(self, command: str, output: str, archives: dict, libraries: dict) -> Path | None:
        if ".so" in Path(output).name:  # stays as it is
            return None
        return super().link(command.replace(f" -o {output}", f" {self.asks} -o {output}", 1), output, archives, libraries)
