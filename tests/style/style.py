"""Checks what a compiler does not: layers, headers, file lengths, words, links in the documentation, layout.

    python3 tests/style/style.py [ROOT] [--clang-format PROGRAM]

Prints one line `file:line: what is wrong` a finding and exits with 1 if there is any. Each rule is a function from a
tree to findings; test_style.py shows that each one finds what it is for.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

FILE_LINES_MAX = 600
ROOM_FILES_MAX = 12
CPP = {".hpp", ".cpp", ".h"}
TEXT = CPP | {".py", ".pyi", ".md", ".txt", ".cmake", ".in", ".json", ".toml", ".c", ""}
SKIPPED_FOLDERS = {"build", "out", "__pycache__", "dist"}

# Which layers a layer of src/ may include, besides itself and the public headers (ARCHITECTURE.md).
LAYERS = {
    "base": set(),
    "filter": {"base"},
    "pool": {"base"},
    "index": {"base", "pool"},
    "history": {"base", "pool"},
    "stratum": {"base"},
    "store": {"base", "pool", "index", "history", "stratum"},
    "query": {"base", "filter", "pool", "index", "history", "stratum", "store"},
    "cluster": {"base"},
}
# Folders that use icecore as its users do: through the public headers alone.
USERS = ("tools", "bindings", "examples", "server")

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|Users|work)/[\w.]+")
SHOWN = re.compile(r"\]\(([^)\s#]+)\)")  # what a link leads to or a picture shows
JSON_BYTES_MAX = 16 * 1024
PROSE_COLUMNS_MAX = 120
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")
NAMED_PATH = re.compile(r"`((?:bench|bindings|cmake|docs|examples|include|scripts|src|tests|tools)/[\w./-]+)`")
DESIGN_PAGE = re.compile(r"^(\d{4})-[a-z0-9-]+\.md$")


class Tree:
    """The project's own files below a folder: no build output, no hidden folders but .ci."""

    def __init__(self, root):
        self.root = Path(root)
        self.paths = sorted(self._walk(self.root))

    def _walk(self, folder):
        for path in folder.iterdir():
            hidden = path.name.startswith(".") and path.name != ".ci"
            if hidden or path.name in SKIPPED_FOLDERS or path.name.endswith(".egg-info"):
                continue
            if path.is_dir():
                yield from self._walk(path)
            elif path.suffix in TEXT and path.is_file():
                yield path.relative_to(self.root)

    def lines(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace").splitlines()

    def of(self, suffixes, below=""):
        return [p for p in self.paths if p.suffix in suffixes and p.as_posix().startswith(below)]


def finding(path, line, what):
    return f"{path}:{line}: {what}"


def includes(tree, path):
    for number, line in enumerate(tree.lines(path), 1):
        if match := INCLUDE.match(line):
            yield number, match[1]


def public_headers_stand_alone(tree):
    for path in tree.of(CPP, "include/"):
        for number, included in includes(tree, path):
            if not included.startswith("icecore/"):
                yield finding(path, number, f'a public header includes only public headers, not "{included}"')


def layers_point_downward(tree):
    for path in tree.of(CPP, "src/"):
        layer = path.parts[1]
        if layer not in LAYERS:
            yield finding(path, 1, f"src/{layer} is no known layer; add it to LAYERS and to ARCHITECTURE.md")
            continue
        for number, included in includes(tree, path):
            other = included.split("/")[0]
            if other not in LAYERS[layer] | {layer, "icecore"}:
                yield finding(path, number, f'the layer {layer} may not include "{included}"')


def users_see_only_public_headers(tree):
    for user in USERS:
        for path in tree.of(CPP | {".c"}, user + "/"):
            for number, included in includes(tree, path):
                if included.split("/")[0] in LAYERS or "src/" in included:
                    yield finding(path, number, f'{user}/ uses public headers alone, not "{included}"')


def headers_begin_with_their_purpose(tree):
    for path in tree.of({".hpp", ".h"}):
        lines = tree.lines(path)
        if not lines or not lines[0].startswith(("//", "/*")):
            yield finding(path, 1, "a header begins with a comment that says what it is for")
        c_guard = path.suffix == ".h" and any(re.match(r"#ifndef \w+_H_?$", line) for line in lines)
        if "#pragma once" not in lines and not c_guard:
            yield finding(path, 1, "a header has #pragma once")


def files_fit_one_idea(tree):
    for path in tree.of(CPP | {".py", ".c"}):
        count = len(tree.lines(path))
        if count > FILE_LINES_MAX:
            yield finding(path, count, f"{count} lines; at most {FILE_LINES_MAX}: does it hold one idea?")


def rooms_are_small_and_say_what_they_hold(tree):
    """A room is a folder of src/: a dozen files at most, and a page that says what lives there and what may be touched."""
    rooms = {}
    for path in tree.of(CPP, "src/"):
        rooms.setdefault(path.parent, []).append(path)
    for room, files in rooms.items():
        if len(files) > ROOM_FILES_MAX:
            yield finding(room, 1, f"{len(files)} files; at most {ROOM_FILES_MAX}: make rooms in it")
        if room / "README.md" not in tree.paths:
            yield finding(room, 1, "a room has a README.md that says what lives there")


def nothing_is_left_undone(tree):
    for path in tree.paths:
        if path.parent == Path("tests/style") or path.name == "LICENSE":
            continue
        for number, line in enumerate(tree.lines(path), 1):
            if match := UNFINISHED.search(line):
                yield finding(path, number, f"{match[0]}: do it, or open an issue")
            if match := MACHINE_PATH.search(line):
                yield finding(path, number, f"{match[0]}... is a path of one machine")


def prose(lines):
    """(number, line) of Markdown outside fenced code."""
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            yield number, line


def prose_lines_are_short(tree):
    for path in tree.of({".md"}):
        for number, line in prose(tree.lines(path)):
            breakable = " " in line.strip() and not line.lstrip().startswith(("|", "#"))
            if breakable and len(line) > PROSE_COLUMNS_MAX:
                yield finding(path, number, f"{len(line)} columns; prose has at most {PROSE_COLUMNS_MAX}")


def anchors(lines):
    """The anchors a Markdown page offers, by the rule of the common forges."""
    found = set()
    for _, line in prose(lines):
        if match := HEADING.match(line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            count = 0
            while (name := slug if count == 0 else f"{slug}-{count}") in found:
                count += 1
            found.add(name)
        found.update(re.findall(r'<a (?:id|name)="([^"]+)"', line))
    return found


def links_resolve(tree):
    for path in tree.of({".md"}):
        for number, line in prose(tree.lines(path)):
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                page = (tree.root / path.parent / name) if name else tree.root / path
                if not page.exists():
                    yield finding(path, number, f"the link {target} leads nowhere")
                elif anchor and page.suffix == ".md":
                    if anchor not in anchors(page.read_text(encoding="utf-8").splitlines()):
                        yield finding(path, number, f"the link {target} names no heading of that page")


def named_paths_exist(tree):
    for path in tree.of({".md"}):
        for number, line in prose(tree.lines(path)):
            for name in NAMED_PATH.findall(line):
                if not (tree.root / name).exists():
                    yield finding(path, number, f"there is no {name}")


def figures_are_shown(tree):
    shown = set()
    for path in tree.of({".md"}):
        for _, line in prose(tree.lines(path)):
            shown.update((tree.root / path.parent / name).resolve() for name in SHOWN.findall(line))
    for path in sorted((tree.root / "docs" / "figures").glob("*")):
        name = path.relative_to(tree.root)
        if path.resolve() not in shown:
            yield finding(name, 1, "no page shows it")
        if path.suffix == ".json" and path.stat().st_size > JSON_BYTES_MAX:
            yield finding(name, 1, f"more than {JSON_BYTES_MAX:,} bytes of JSON; compress it: gzip -9n {name}")


def design_pages_are_numbered(tree):
    numbers = {}
    for path in tree.of({".md"}, "docs/design/"):
        match = DESIGN_PAGE.match(path.name)
        if not match:
            yield finding(path, 1, "a design page is called NNNN-what-it-decides.md")
        elif match[1] in numbers:
            yield finding(path, 1, f"{match[1]} is the number of {numbers[match[1]]} already")
        else:
            numbers[match[1]] = path.name


def versions_agree(tree):
    places = {
        "CMakeLists.txt": r"project\(icecore VERSION (\d+\.\d+\.\d+)",
        "include/icecore/version.hpp": r"_(?:MAJOR|MINOR|PATCH) (\d+)",
        "include/icecore/icecore.h": r"#define ICECORE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
        "pyproject.toml": r'^version = "(\d+\.\d+\.\d+)"',
    }
    expected = None
    for name, pattern in places.items():
        path = tree.root / name
        numbers = re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE) if path.exists() else []
        version = ".".join(numbers)
        expected = expected or version
        if version and version != expected:
            yield finding(name, 1, f"says version {version}, but CMakeLists.txt says {expected}")


RULES = (
    public_headers_stand_alone,
    layers_point_downward,
    users_see_only_public_headers,
    headers_begin_with_their_purpose,
    files_fit_one_idea,
    rooms_are_small_and_say_what_they_hold,
    nothing_is_left_undone,
    links_resolve,
    named_paths_exist,
    figures_are_shown,
    prose_lines_are_short,
    design_pages_are_numbered,
    versions_agree,
)


def badly_laid_out(tree, clang_format):
    """One process looks at all files, since starting one takes longer than a file; then those it names are told."""
    result = subprocess.run(
        [clang_format, "--style=file", "--dry-run", "--Werror", *(str(path) for path in tree.of(CPP | {".c"}))],
        capture_output=True,
        text=True,
        cwd=tree.root,
    )
    told = set()
    for match in re.finditer(r"^(.+?):(\d+):\d+: error:", result.stderr, re.MULTILINE):
        if match[1] not in told:
            told.add(match[1])
            yield finding(match[1], match[2], f"not as clang-format lays it out; run {clang_format} -i")
    if result.returncode and not told:
        yield finding(".", 1, f"{clang_format} failed: {result.stderr[:200]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", default=Path(__file__).resolve().parents[2])
    parser.add_argument("--clang-format", default="clang-format-16", help="skipped if it is not there")
    arguments = parser.parse_args()

    tree = Tree(arguments.root)
    findings = [found for rule in RULES for found in rule(tree)]
    if shutil.which(arguments.clang_format):
        findings += badly_laid_out(tree, arguments.clang_format)
    else:
        print(f"{arguments.clang_format} is not installed: layout not checked")
    print(*findings, sep="\n")
    print(f"{len(tree.paths)} files, {len(findings)} findings")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
