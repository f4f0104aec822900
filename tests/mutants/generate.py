"""Mutants that are made from the sources: each flush, fence, sync and memory order of the store taken out once.

A call that makes something durable or orders it, standing as a statement of its own, is taken out; an order of an atomic
operation stronger than relaxed is made relaxed. A place is known by its file, the text of its line and of the one above,
and which one of such places it is: so it is known again while lines move, and judged anew when they change.

caught.toml says what catches each place, kept.toml why nothing can catch it, or does:

    [[place]]
    file = "src/store/persistent/tag_list.cpp"
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

LAYERS = ("base", "filter", "pool", "index", "history", "store", "query")
# What makes something durable, or orders it, by its name.
FENCES = ("fence", "order", "fence_after_rmw", "fence_after_index_publish", "atomic_thread_fence", "atomic_signal_fence", "drain_")
SYNCS = ("sync", "sync_pages", "sync_file", "sync_with_directory", "persist", "fdatasync", "fsync", "await_flushed",
         "persist_record", "persist_before_return", "persist_before_link")
FLUSHES = ("flush", "flush_", "flush_fresh", "flush_head", "flush_leaf_of", "for_each_cache_line")
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

    def mutant(self, caught_by, number: int) -> Mutant:
        return Mutant(self.name, self.takes_away, self.file, self.start, self.end, self.new,
                      tuple(map(run_of, caught_by)), number=number)


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


# What may catch a place, the likely and quick first. What is nested deeply, or large, takes longer for each image.
LINE = "icecore_crash --mode line "
PAGE = "icecore_crash --mode page "
LASTING = LINE + "--durability operation --index persistent "
CRASHES = (LASTING + "--full-nodes --per-point 8 --recoveries 4096 --images 60000",
           LASTING + "--full-segments --per-point 8 --recoveries 1 --images 30000", LASTING + "--images 40000",
           LINE + "--durability operation --index volatile --images 30000",
           LASTING + "--full-tags --images 20000", PAGE + "--durability tag --images 30000",
           LASTING + "--writers 3 --per-point 16 --recoveries 4096 --images 30000", LINE + "--files 2 --images 20000",
           PAGE + "--files 2 --images 15000", LINE + "--recoveries 8 --images 8000", PAGE + "--recoveries 8 --images 8000",
           LASTING + "--recoveries 4 --images 15000", LASTING + "--full-tags --recoveries 8 --images 6000",
           PAGE + "--durability operation --index persistent --images 15000",
           LINE + "--durability operation --recoveries 8 --index volatile --images 8000",
           LASTING + "--full-nodes --recoveries 16 --images 2500", LASTING + "--full-segments --recoveries 32 --images 1500")
QUERIES = tuple(run + "--queries always " for run in (LINE, PAGE))
CRASHES_OF_QUERIES = (QUERIES[0] + "--durability operation --images 40000", QUERIES[1] + "--images 15000",
                      QUERIES[0] + "--recoveries 8 --images 8000", QUERIES[1] + "--recoveries 8 --images 8000")
# What belongs to kept queries and feeds: the stories of other crashes never come there.
OF_QUERIES = ("src/query/", "src/pool/query/", "src/store/feed/", "src/store/query_readers")
UNITS = {
    "src/query/feed/": ("test_query_feed", "test_query_feed_kill", "test_query_feed_inside"),
    "src/store/feed/": ("test_query_feed", "test_query_feed_kill", "test_query_feed_inside"),
    "src/pool/query/feed": ("test_query_feed", "test_query_feed_kill", "test_query_copies"),
    "src/query/": ("test_query_query", "test_query_rows", "test_query_shared", "test_query_failures", "test_query_copies",
                   "test_query_changes", "test_query_timeline"),
    "src/pool/query/": ("test_query_query", "test_query_rows", "test_query_damage", "test_query_copies"),
    "src/pool/": ("test_pool", "test_pool_file", "test_store_power_cut", "test_store_several_files_power_cut"),
    "src/index/": ("test_index_persistent_recovery", "test_store_closing_flush"),
    "src/history/": ("test_history", "test_store_closing_flush", "test_store_killed_writer"),
    "src/store/": ("test_store_closing_flush", "test_store_recovery_flush", "test_store_writer", "test_store_killed_writer",
                   "test_store_power_cut", "test_store_checkpoint"),
}
# What threads do at the same time: no scenario of the interleavings has queries or feeds.
RACES = ("preset=tsan test_query_shared", "preset=tsan test_query_query", "preset=tsan test_query_feed",
         "preset=tsan test_query_feed_inside")
INTERLEAVINGS = "icecore_schedules --runs 1 "
ORDERS = {"src/index/btree/": "--only btree --priorities 25", "src/index/persistent/": "--only persistent --priorities 25",
          "src/index/skip_list/": "--only 'skip list' --priorities 25", "src/": "--priorities 12 --random 60"}


def candidates(place: Place) -> tuple[str, ...]:
    of_queries = place.file.startswith(OF_QUERIES)
    if place.takes_away == "ordering" or "atomic_" in place.line or "fence_after" in place.line:
        if of_queries:
            return RACES
        return (INTERLEAVINGS + next(how for folder, how in ORDERS.items() if place.file.startswith(folder)),)
    return (CRASHES_OF_QUERIES if of_queries else CRASHES) + next((runs for folder, runs in UNITS.items() if place.file.startswith(folder)), ())


def mutants(unjudged_only: bool) -> list[Mutant]:
    """A mutant of each place that is not kept."""
    caught, kept = read_verdicts("caught.toml", "caught_by"), read_verdicts("kept.toml", "reason")
    made = []
    for number, place in enumerate(all_places(), 1):
        if place.key in kept or (unjudged_only and place.key in caught):
            continue
        made.append(place.mutant(caught.get(place.key) or candidates(place), number))
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


def stale() -> list[tuple]:
    """The verdicts of places that are not there any more: where a line has changed, what notices it may have, too."""
    there = {place.key for place in all_places()}
    verdicts = [*read_verdicts("caught.toml", "caught_by"), *read_verdicts("kept.toml", "reason")]
    return [key for key in verdicts if key not in there]


def print_table() -> int:
    """Counts the places of each file: caught, kept with a reason, not known; and tells of what is kept, and of what is
    not known. The exit code tells whether all are known."""
    caught, kept = read_verdicts("caught.toml", "caught_by"), read_verdicts("kept.toml", "reason")
    places = all_places()
    rows, all_of = {}, [0, 0, 0]
    for place in places:
        column = 0 if place.key in caught else 1 if place.key in kept else 2
        rows.setdefault(place.file, [0, 0, 0])[column] += 1
        all_of[column] += 1
    print(f"{'':40} {'caught':>7} {'kept':>7} {'unknown':>8} {'caught, of all':>15}")
    for file, row in sorted(rows.items()) + [("all", all_of)]:
        print(f"{file:40} {row[0]:7} {row[1]:7} {row[2]:8} {100 * row[0] // sum(row):13} %")
    for what, chosen in (("Kept", kept), ("Unknown", None)):
        print(f"\n{what}:")
        for place in places:
            if place.key in kept if chosen else place.key not in kept and place.key not in caught:
                print(f"  {place.file}:{place.number}: {place.takes_away}: {chosen[place.key] if chosen else place.line}")
    gone = stale()
    for key in gone:
        print(f"not there any more: {key[0]}: {key[2]}")
    return 1 if all_of[2] or gone else 0
