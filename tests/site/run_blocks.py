#!/usr/bin/env python3
"""Runs every block of code of a page of the documentation, in their order, in one folder of its own.

    run_blocks.py PAGE --icecore PROGRAM [--python PYTHON] [--compile-cpp COMMAND] [--compile-fortran COMMAND]

  ```sh            run by `sh -eu`, with icecore in the PATH
  ```python        run by PYTHON, each as a program of its own
  ```cpp, fortran  whole programs: compiled by COMMAND with SOURCE -o PROGRAM put behind it, and run
  ```text          right behind one of these: what it prints, line by line. A line `...` stands for any number of lines,
                   and `…` for any text within a line; two spaces or more for as many as there are, since a column of
                   times is as wide as the longest one
  ```console and others are shown to people and not run

A block's first words may name a file: a line `# file: NAME`, `// file: NAME` or `! file: NAME` keeps the block as that file
as well. A block that holds `# exits with N` must end so. Exits with 77 if the page has a block for which an argument is
missing, and with 1 if a block fails or prints something else.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RUN = {"sh", "python", "cpp", "fortran"}
NAMED = re.compile(r"^(?:#|//|!) file: (\S+)$", re.MULTILINE)


def blocks_of(text):
    """(line, language, code, what it prints or None) of the blocks that run."""
    found = list(BLOCK.finditer(text))
    for number, block in enumerate(found):
        if block[1] in RUN:
            after = found[number + 1] if number + 1 < len(found) else None
            printed = after[2] if after and after[1] == "text" and not text[block.end() : after.start()].strip() else None
            yield text[: block.start()].count("\n") + 2, block[1], block[2], printed


def as_pattern(text):
    return re.sub(r"(?:\\ ){2,}", "[ ]{2,}", re.escape(text))


def matches(printed, expected):
    """Whether all lines are as they must be."""
    pattern = ""
    for line in expected.splitlines():
        pattern += r"(?:.*\n)*?" if line.strip() == "..." else ".*?".join(map(as_pattern, line.split("…"))) + r"[ ]*\n"
    return re.fullmatch(pattern, printed if printed.endswith("\n") or not printed else printed + "\n") is not None


class Runner:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        tools = folder / ".bin"
        tools.mkdir()
        (tools / "icecore").symlink_to(Path(arguments.icecore).resolve())
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder), "COLUMNS": "100", "TZ": "UTC"}
        if arguments.python:
            (tools / "python3").write_text(f'#!/bin/sh\nexec {shlex.quote(arguments.python)} -B "$@"\n', encoding="ascii")
            (tools / "python3").chmod(0o755)

    def command(self, language, code, number):
        if language == "sh":
            return ["sh", "-eu", "-c", code]
        suffix = {"python": ".py", "cpp": ".cpp", "fortran": ".f90"}[language]
        named = NAMED.search(code)
        source = self.folder / (named[1] if named else f".block-{number}{suffix}")
        source.write_text(code, encoding="utf-8")
        if language == "python":
            return [self.arguments.python, "-B", source]
        program = self.folder / f".program-{number}"
        compiler = self.arguments.compile_cpp if language == "cpp" else self.arguments.compile_fortran
        command = [word.replace("SOURCE", str(source)).replace("PROGRAM", str(program)) for word in shlex.split(compiler)]
        subprocess.run(command, cwd=self.folder, check=True)
        return [program]

    def run(self, line, language, code, expected, number):
        place = f"{self.arguments.page}:{line}"
        try:
            command = self.command(language, code, number)
        except subprocess.CalledProcessError:
            sys.exit(f"{place}: this block does not compile")
        done = subprocess.run(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        wanted = re.search(r"# exits with (\d+)", code)
        if done.returncode != (int(wanted[1]) if wanted else 0):
            sys.exit(f"{place}: this block ends with {done.returncode}:\n{done.stdout}{done.stderr}")
        said = done.stdout + done.stderr
        if expected is not None and not matches(said, expected):
            sys.exit(f"{place}: this block prints\n{said}\nand the page says\n{expected}")


def missing(language, arguments):
    return {"python": not arguments.python, "cpp": not arguments.compile_cpp, "fortran": not arguments.compile_fortran}.get(language, False)


def main():
    parser = argparse.ArgumentParser(description="Runs the blocks of code of a page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--icecore", required=True)
    parser.add_argument("--python", default="")
    parser.add_argument("--compile-cpp", default="", help="SOURCE and PROGRAM in it are replaced")
    parser.add_argument("--compile-fortran", default="")
    arguments = parser.parse_args()
    blocks = list(blocks_of(arguments.page.read_text(encoding="utf-8")))
    if not blocks:
        sys.exit(f"{arguments.page} has no block that runs")
    for line, language, _, _ in blocks:
        if missing(language, arguments):
            print(f"{arguments.page}:{line}: no {language} here")
            return SKIPPED
    with tempfile.TemporaryDirectory(prefix="icecore-page-") as folder:
        runner = Runner(arguments, Path(folder))
        for number, block in enumerate(blocks):
            runner.run(*block, number)
    print(f"{arguments.page}: {len(blocks)} blocks ran")
    return 0


if __name__ == "__main__":
    sys.exit(main())
