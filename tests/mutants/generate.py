"""Mutants that are made from the sources: each flush, fence, sync and memory order of the store taken out once.

A call that makes something durable or orders it, standing as a statement of its own, is taken out; an order of an atomic
operation stronger than relaxed is made relaxed. A place is known by its file, the text of its line and of the one above,
and which one of such places it is: so it is known again while lines move, and judged anew when they change.

caught.toml says what catches each place, kept.toml why nothing can catch it:

    [[place]]
    file = "src/store/tag_list.cpp"
    above = "b.next = null_link;"
    line = "space_.flush(&b, sizeof b);"
    nth = 2                             # of several such places, or several in one line; 1 if left out
    caught_by = ["icecore_crash --mode line --index persistent"]    # or: reason = "why no run can notice it"
"""

import dataclasses
import json
import re
import tomllib
from pathlib import Path

from entries import FOLDER, PROJECT, Mutant, Unfit, run_of

LAYERS = ("base", "pool", "index", "history", "store")
# What makes something durable, or orders it, by its name.
FENCES = ("fence", "fence_after_rmw", "fence_after_index_publish", "atomic_thread_fence", "atomic_signal_fence", "drain_")
SYNCS = ("sync", "sync_pages", "sync_file", "sync_with_directory", "persist", "fdatasync", "fsync", "await_flushed",
         "persist_record", "persist_before_return", "persist_before_linking")
FLUSHES = ("flush", "flush_", "flush_fresh", "flush_head", "flush_leaf_of", "flush_line")
KIND_OF = {**dict.fromkeys(FENCES, "fence"), **dict.fromkeys(SYNCS, "sync"), **dict.fromkeys(FLUSHES, "flush")}
CALL = re.compile(r"(?<![\w.>:])((?:[\w\[\]]+(?:\([^()]*\))?(?:\.|->|::))*)(" + "|".join(KIND_OF) + r")\(")
ORDER = re.compile(r"\bmemory_order_(release|acquire|acq_rel|seq_cst)\b")


@dataclasses.dataclass(frozen=True)
class Place:
    file: str
    above: str
    line: str
    nth: int
    number: int  # of its line in the file, today
    takes_away: str
    start: int
    end: int
    new: str

    @property
    def key(self):
        return self.file, self.above, self.line, self.nth

    @property
    def name(self) -> str:
        return f"{self.file.removeprefix('src/').replace('/', '.')}.{self.number}.{self.nth}"

    def mutant(self, caught_by, sources=()) -> Mutant:
        return Mutant(self.name, self.takes_away, self.file, self.start, self.end, self.new,
                      tuple(map(run_of, caught_by)), tuple(sources))


def without_comments(text: str) -> str:
    """The text with blanks where comments and string literals were."""
    def blanks(match):
        return re.sub(r"[^\n]", " ", match[0])

    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', blanks, text, flags=re.S)


def end_of_call(text: str, opened: int) -> int:
    depth = 0
    for at in range(opened, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    raise Unfit("a bracket is not closed")


def statements(code: str):
    """Start, end, kind and replacement of each call to be taken out."""
    for call in CALL.finditer(code):
        end = end_of_call(code, call.end() - 1)
        before = code[: call.start()].rstrip()
        if code[end:end + 1] == ";" and (before[-1:] in ";{})" or before.endswith(("else", ":"))):
            yield call.start(), end, KIND_OF[call[2]], "static_cast<void>(0)"


def orders(code: str, fences):
    for order in ORDER.finditer(code):
        if not any(start <= order.start() < end for start, end, *_ in fences):
            yield order.start(), order.end(), "ordering", "memory_order_relaxed"


def places_of(file: str, text: str) -> list[Place]:
    code = without_comments(text)
    calls = list(statements(code))
    fences = [c for c in calls if c[2] == "fence"]
    lines = [line.strip() for line in text.splitlines()]
    seen, places = {}, []
    for start, end, kind, new in sorted(calls + list(orders(code, fences))):
        number = text.count("\n", 0, start) + 1
        line = lines[number - 1]
        above = next((one for one in reversed(lines[: number - 1]) if one), "")
        seen[above, line] = nth = seen.get((above, line), 0) + 1
        places.append(Place(file, above, line, nth, number, kind, start, end, new))
    return places


def all_places() -> list[Place]:
    places = []
    for layer in LAYERS:
        for path in sorted((PROJECT / "src" / layer).rglob("*.[ch]pp")):
            places += places_of(str(path.relative_to(PROJECT)), path.read_text(encoding="utf-8"))
    return places


def read_verdicts(name: str, what: str, folder: Path = FOLDER) -> dict:
    """What caught.toml or kept.toml says of each place."""
    path = folder / name
    if not path.is_file():
        return {}
    verdicts = {}
    for table in tomllib.loads(path.read_text(encoding="utf-8")).get("place", []):
        if not {"file", "above", "line", what} <= table.keys() <= {"file", "above", "line", "nth", what}:
            raise Unfit(f"{name}: a place has file, above, line, {what} and perhaps nth: {table}")
        verdicts[table["file"], table["above"], table["line"], table.get("nth", 1)] = table[what]
    return verdicts


# What may catch a place, the likely and quick first.
LINE = "icecore_crash --mode line "
PAGE = "icecore_crash --mode page "
CRASHES = (LINE + "--durability operation --index persistent", LINE + "--durability operation --index volatile",
           PAGE + "--durability tag", LINE + "--durability operation --index persistent --writers 3 --per-point 16 --recoveries 4096",
           LINE + "--recoveries 8", PAGE + "--recoveries 8", LINE + "--files 2", PAGE + "--files 2")
UNITS = {
    "src/pool/": ("test_pool", "test_pool_file", "test_store_power_cut", "test_store_several_files_power_cut"),
    "src/index/": ("test_index_persistent_recovery",),
    "src/history/": ("test_store_killed_writer",),
    "src/store/": ("test_store_recovery_flush", "test_store_writer", "test_store_killed_writer", "test_store_power_cut",
                   "test_store_checkpoint"),
}
ORDERS = ("icecore_schedules --runs 1000 --random 3000",)


def candidates(place: Place) -> tuple[str, ...]:
    if place.takes_away == "ordering" or "atomic_" in place.line or "fence_after" in place.line:
        return ORDERS
    units = next((runs for folder, runs in UNITS.items() if place.file.startswith(folder)), ())
    return CRASHES + units


def mutants(unjudged_only: bool) -> list[Mutant]:
    """A mutant of each place that is not kept."""
    caught, kept = read_verdicts("caught.toml", "caught_by"), read_verdicts("kept.toml", "reason")
    made = []
    for place in all_places():
        if place.key in kept or (unjudged_only and place.key in caught):
            continue
        made.append(place.mutant(caught.get(place.key) or candidates(place)))
    return made


def record(mutant: Mutant, line: str) -> None:
    """Enters in caught.toml what caught a generated mutant."""
    place = next((p for p in all_places() if p.name == mutant.name), None)
    if place is None or place.key in read_verdicts("caught.toml", "caught_by"):
        return
    with open(FOLDER / "caught.toml", "a", encoding="utf-8") as file:
        file.write(f"\n[[place]]\nfile = {json.dumps(place.file)}\nabove = {json.dumps(place.above)}\n"
                   f"line = {json.dumps(place.line)}\n{f'nth = {place.nth}' + chr(10) if place.nth > 1 else ''}"
                   f"caught_by = [{json.dumps(line)}]\n")


def print_table() -> int:
    """Counts the places of each file: caught, kept with a reason, not known. The exit code tells whether all are known."""
    caught, kept = read_verdicts("caught.toml", "caught_by"), read_verdicts("kept.toml", "reason")
    places = all_places()
    rows, total = {}, [0, 0, 0]
    for place in places:
        column = 0 if place.key in caught else 1 if place.key in kept else 2
        rows.setdefault(place.file, [0, 0, 0])[column] += 1
        total[column] += 1
    print(f"{'':40} {'caught':>7} {'kept':>7} {'unknown':>8}")
    for file, row in sorted(rows.items()) + [("all", total)]:
        print(f"{file:40} {row[0]:7} {row[1]:7} {row[2]:8}")
    stale = [key for key in [*caught, *kept] if key not in {p.key for p in places}]
    for key in stale:
        print(f"not there any more: {key[0]}: {key[2]}")
    return 1 if total[2] or stale else 0
