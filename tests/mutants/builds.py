"""Builds the programs of a mutant: what reads the mutated file is compiled again, and linked instead of what it was."""

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

from entries import PROJECT, Mutant, Run


class CannotBeMade(Exception):
    """The mutant does not compile or link, or there is no such program."""


class SameCode(CannotBeMade):
    """The compiler makes the same code of the mutant."""


def call(command, cwd, **more):
    return subprocess.run(command, cwd=cwd, shell=isinstance(command, str), capture_output=True, text=True, **more)


def output_of(command: str) -> str | None:
    found = re.search(r" -o (\S+)", command)
    return found[1] if found else None


def code_of(object_file: Path) -> str:
    """The instructions of an object, and what they refer to."""
    listed = call(["objdump", "-dr", "--no-show-raw-insn", str(object_file)], "/").stdout
    return listed.split("\n", 3)[-1]


class Build:
    """A build folder: its commands, and which files each compilation reads."""

    def __init__(self, folder: Path):
        self.folder = folder.resolve()
        self.lock = threading.Lock()
        self.steps = {}  # target: its commands in order
        self.reads = self.programs = None

    def exists(self) -> bool:
        return (self.folder / "build.ninja").is_file()

    def holds(self, target: str) -> bool:
        """A program of this name has been built, whether or not it is up to date."""
        with self.lock:
            if self.programs is None:
                self.programs = {name for folder, inner, names in os.walk(self.folder) for name in names
                                 if os.access(Path(folder) / name, os.X_OK)}
            return target in self.programs

    def prepare(self, targets) -> None:
        """Builds programs as they are, so that all but the mutant is up to date."""
        done = call(["ninja", *sorted(targets)], self.folder)
        if done.returncode != 0:
            raise CannotBeMade(f"{self.folder.name} does not build: {(done.stdout + done.stderr)[-2000:]}")

    def commands(self, target: str) -> list[str]:
        """All commands that lead to a program, without what is run behind a link."""
        with self.lock:
            if target not in self.steps:
                done = call(["ninja", "-t", "commands", target], self.folder)
                if done.returncode != 0:
                    raise CannotBeMade(f"{self.folder.name} has no target {target}")
                self.steps[target] = [re.split(r" && (?=cd |:$)", line.removeprefix(": && "))[0]
                                      for line in done.stdout.splitlines()]
            return self.steps[target]

    def readers(self, file: Path) -> set[str]:
        """The objects whose compilation reads a file."""
        with self.lock:
            if self.reads is None:
                self.reads = {}
                target = None
                for line in call(["ninja", "-t", "deps"], self.folder).stdout.splitlines():
                    if line and not line.startswith(" "):
                        target = line.split(":")[0]
                    elif line.startswith("    ") and target:
                        read = os.path.normpath(self.folder / line.strip())
                        self.reads.setdefault(read, set()).add(target)
            return self.reads.get(str(file), set())

    def cached(self, name: str) -> str:
        found = re.search(rf"^{name}:\w+=(.*)$", (self.folder / "CMakeCache.txt").read_text(encoding="utf-8"), re.M)
        return found[1] if found else ""


def source_of(command: str) -> str:
    return re.search(r" -c (\S+)", command)[1]


def compiled_as_one(source: str) -> str | None:
    """If the build compiles several files as one: the text that includes them."""
    return Path(source).read_text(encoding="utf-8") if re.search(r"/Unity/unity_\d+_c\w+[.]c\w+$", source) else None


class Mutated:
    """A mutant in a build folder: its objects, each compiled once, and its programs."""

    def __init__(self, build: Build, mutant: Mutant):
        self.build, self.mutant = build, mutant
        self.folder = build.folder / "mutants" / mutant.name
        self.objects = {}  # object of the build: that of the mutant
        self.differs = False  # whether any of them has other code than it had
        shutil.rmtree(self.folder, ignore_errors=True)
        self.file = self.folder / mutant.file
        self.file.parent.mkdir(parents=True)
        self.file.write_text(mutant.text(), encoding="utf-8")

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def compile(self, command: str) -> str:
        """The object of a compilation with the mutation in it."""
        output = output_of(command)
        if output not in self.objects:
            target = self.folder / output
            target.parent.mkdir(parents=True, exist_ok=True)
            command = self.with_sources(command, target, str(PROJECT / self.mutant.file), str(self.file))
            command = command.replace(f" -o {output} ", f" -o {target} ")
            command = re.sub(r" -MD -MT \S+ -MF \S+", "", command)
            # behind the compiler, before which ccache may stand
            headers = " ".join(f"-I{self.folder / top}" for top in ("src", "include"))
            headers += f" -iquote {(PROJECT / self.mutant.file).parent}"  # what it includes from beside itself
            command = re.sub(r"^((?:\S*ccache )?\S+)", rf"\1 -w {headers}", command, count=1)
            done = call(command, self.build.folder)
            if done.returncode != 0:
                raise CannotBeMade(f"it does not compile:\n{done.stderr[:2000]}")
            self.objects[output] = str(target)
            self.differs = self.differs or code_of(target) != code_of(self.build.folder / output)
        return self.objects[output]

    @staticmethod
    def with_sources(command: str, target: Path, old: str, new: str) -> str:
        """A compilation that reads the sources beginning with `new` in place of those with `old`."""
        source = source_of(command)
        text = compiled_as_one(source)
        if text is None:
            return command.replace(f" -c {old}", f" -c {new}")
        together = target.with_suffix(".cxx")
        together.write_text(text.replace(f'"{old}', f'"{new}'), encoding="utf-8")
        return command.replace(f" -c {source}", f" -c {together}")

    def readers(self) -> set[str]:
        """The objects whose compilation reads what is mutated."""
        return self.build.readers(PROJECT / self.mutant.file)

    def concerns(self, command: str, readers: set[str]) -> bool:
        if output_of(command) not in readers or " -c " not in command:
            return False
        wanted = [str(PROJECT / s) for s in self.mutant.sources]
        source = source_of(command)
        text = compiled_as_one(source)
        return not wanted or (source in wanted if text is None else any(f'"{one}"' in text for one in wanted))

    def program(self, target: str) -> Path:
        """Builds a program of the mutant; what is not changed stays where it is."""
        readers = self.readers()
        archives, libraries, made = {}, {}, None
        for command in self.build.commands(target):
            output = output_of(command)
            if self.concerns(command, readers):
                self.compile(command)
            elif archive := re.search(r"/\S*ar qc (\S+) (.*?)(?: &&|$)", command):
                archives[archive[1]] = [self.objects[o] for o in archive[2].split() if o in self.objects]
            elif output is not None and " -c " not in command:
                linked = self.link(command, output, archives, libraries)
                if linked is not None:
                    libraries[output] = made = linked
                else:
                    made = None
        if made is None:
            raise CannotBeMade(f"nothing of {target} reads what is mutated")
        if not self.differs:
            raise SameCode(f"{target} has the same code as without it")
        return made

    def link(self, command: str, output: str, archives: dict, libraries: dict) -> Path | None:
        """Links a library or program anew if anything of it is of the mutant."""
        words = command.split()
        direct = [w for w in words if w in self.objects]
        # before the archive, which holds those as they were under the same names
        first = [o for w in words for o in archives.get(w, ())]
        shared = [w for w in words if w in libraries and w != output]
        if not direct and not first and not shared:
            return None
        target = self.folder / output
        target.parent.mkdir(parents=True, exist_ok=True)
        for word in direct:
            command = command.replace(f" {word} ", f" {self.objects[word]} ")
        for word in shared:
            command = command.replace(f" {word} ", f" {libraries[word]} ")
            folder = self.build.folder / Path(word).parent
            command = command.replace(f"-Wl,-rpath,{folder}", f"-Wl,-rpath,{libraries[word].parent}:{folder}")
        command = command.replace(f" -o {output}", f" -o {target} {' '.join(first)}", 1)
        done = call(command, self.build.folder)
        if done.returncode != 0:
            raise CannotBeMade(f"it does not link:\n{done.stderr[:2000]}")
        soname = re.search(r"-Wl,-soname,(\S+)", command)
        if soname and soname[1] != target.name:  # by which programs look for a library with a version
            link = target.with_name(soname[1])
            link.unlink(missing_ok=True)
            link.symlink_to(target.name)
        return target


class Builds:
    """The build folder that was named, and those of presets beside it."""

    def __init__(self, folder: Path):
        self.main = Build(folder)
        self.others = {}
        if not self.main.exists():
            raise CannotBeMade(f"{folder} is no build folder: cmake --preset release")

    def of(self, run: Run) -> Build:
        if not run.preset or run.preset == self.main.folder.name:
            return self.main
        if run.preset not in self.others:
            self.others[run.preset] = Build(self.main.folder.parent / run.preset)
        return self.others[run.preset]

    def has(self, run: Run) -> bool:
        """The program is there, however old."""
        return self.of(run).exists() and self.of(run).holds(run.target)

    def lack(self, mutant: Mutant) -> bool:
        """None of the runs has its build folder."""
        return not any(self.of(run).exists() for run in mutant.runs)

    def prepare(self, mutants) -> None:
        targets = {}
        for mutant in mutants:
            for run in mutant.runs:
                if self.of(run).exists() and self.of(run).commands(run.target):
                    targets.setdefault(self.of(run), set()).add(run.target)
        for build, names in targets.items():
            build.prepare(names)
