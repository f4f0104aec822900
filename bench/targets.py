#!/usr/bin/env python3
"""Compares the results of a benchmark run with the targets of icecore, as Markdown.

    bench/targets.py FILE [--all]

`bench/run --json FILE` writes FILE. This program prints one line for each target: the requirement for 1 and for 2
threads, the measured value, and whether it reaches the target. --all also prints every measured row, with its spread
and its ratio to icecore-none. The exit code is 0 even if targets are missed, and 2 if FILE cannot be read or has the
wrong form.

Needs only Python 3.9 or newer. Targets of queries are in query_targets.py.
"""

import argparse
import gzip
import json
import math
import sys
from dataclasses import dataclass, replace
from typing import Optional, Union

import query_targets

THREADS = (1, 2)
KEYS = 1_000_000  # the N that the targets are set for
BASE_STORE = "icecore-none"
BASE_OF_MAPS = "icecore-btree"
SUITES_OF_MAPS = ("ycsb", "recovery")
# Of the persistent index, whatever it holds: opening, the same beside the fewest keys of the run, and what the first
# second after a kill has of the throughput before it.
OPENING_SECONDS_MAX = 0.010
OPENING_GROWTH_MAX = 1.5
FIRST_SECOND_MIN = 0.5


@dataclass(frozen=True)
class Measured:
    """A rate of the run: the best of some stores, which are one store's variants."""

    workload: str
    stores: tuple[str, ...]
    threads: Optional[int] = None  # None: as many as the target's column
    field: str = "ops_per_second"
    suite: str = "paper"


@dataclass(frozen=True)
class Published:
    """Rates by number of threads that were measured elsewhere, with N = KEYS."""

    rates: dict[int, float]


@dataclass(frozen=True)
class Target:
    """Required of subject / rival, or of the subject itself where there is no rival, by number of threads; in a run with
    so many keys and memory of this kind."""

    what: str
    against: str
    subject: Measured
    rival: Union[Measured, Published, None]
    required: dict[int, float]
    at_most: bool = False
    keys: int = KEYS
    memory: str = "warm"


NONE = ("icecore-none",)
OPERATION = ("icecore-operation",)
LMDB = ("LMDB", "LMDB-batch")
ROCKSDB = ("RocksDB",)
ABSL = ("absl",)
PERSISTENT = "icecore-persistent"
PERSISTENT_VERSIONS = ("icecore-operation-persistent",)
POOLS = "icecore-persistent-pools"


def against(what, workload, ours, *rivals, **of_run):
    """The targets of one workload; a rival is (stores, required of 1 thread, of 2 threads)."""
    return tuple(
        Target(what, stores[0], Measured(workload, ours), Measured(workload, stores), {1: one, 2: two}, **of_run)
        for stores, one, two in rivals
    )


def two_beside_one(what, measured, required):
    """What two threads do beside one; `required` by number of keys."""
    return tuple(
        Target(what, "by 1 thread", measured, replace(measured, threads=1), {2: wanted}, keys=keys)
        for keys, wanted in required.items()
    )


def against_published(workload, required, rates):
    return Target(
        f"{workload}, operation",
        "published PSkipList",
        Measured(workload, OPERATION),
        Published(dict(zip(THREADS, rates))),
        dict(zip(THREADS, required)),
    )


def of_ycsb(workload, store):
    return Measured(workload, (store,), suite="ycsb")


def persistent_against(store, required):
    return tuple(
        Target(f"YCSB {name}", store, of_ycsb(name, PERSISTENT), of_ycsb(name, store), {2: required}) for name in "ABCD"
    )


def cost_of_persistence(what, workload, allowed):
    """What the index in memory is faster by."""
    return Target(
        f"YCSB {workload}: cost of the persistent index ({what})",
        PERSISTENT,
        of_ycsb(workload, BASE_OF_MAPS),
        of_ycsb(workload, PERSISTENT),
        {1: allowed, 2: allowed},
        at_most=True,
    )


def cost_of_pools(workload):
    """What one file is faster by than several."""
    of_one = of_ycsb(workload, PERSISTENT)
    return Target(f"YCSB {workload}: cost of several pools", POOLS, of_one, of_ycsb(workload, POOLS), {2: 1.06}, at_most=True)


WARM, COLD = "warm", "cold"
SMALL = 50_000  # the other N that targets are set for: stores that fit in the caches

TARGETS = (
    *against("insert, none", "insert", NONE, (LMDB, 3.5, 5), (ABSL, 1.2, 3.0)),
    *against("insert, operation", "insert", OPERATION, (LMDB, 2.6, 4.5)),
    *against("insert, none", "insert", NONE, (LMDB, 2.5, 3.5), memory=COLD),
    *against("insert, operation", "insert", OPERATION, (LMDB, 2.0, 3.5), memory=COLD),
    *against("insert, none", "insert", NONE, (ABSL, 1.0, 2.5), keys=SMALL),
    *against("insert, operation", "insert", OPERATION, (LMDB, 1.6, 2.5), keys=SMALL),
    *against("remove, operation", "remove", OPERATION, (LMDB, 3.3, 6)),
    *against("find at a version", "find", NONE, (LMDB, 2.8, 2.8)),
    *against("find at a version", "find", NONE, (LMDB, 2.5, 2.5), keys=SMALL),
    Target("find_many at a version", "LMDB's finds", Measured("find_many", NONE), Measured("find", LMDB), {1: 9, 2: 9}),
    *against("key history", "history", NONE, (LMDB, 2.2, 2.2), (ABSL, 1.5, 1.3)),
    *against("snapshot, each thread its own", "snapshot", NONE, (LMDB, 2.2, 2.2)),
    *against("snapshot, persistent index", "snapshot", PERSISTENT_VERSIONS, (LMDB, 1.3, 1.3)),
    *two_beside_one("one snapshot by 2 threads", Measured("one_snapshot", NONE), {KEYS: 1.8, SMALL: 1.5}),
    Target(
        "insert, none: cost of operation durability",
        "icecore-operation",
        Measured("insert", NONE),
        Measured("insert", OPERATION),
        {1: 1.2, 2: 1.15},
        at_most=True,
    ),
    *against("reopen after kill, operation", "reopen", OPERATION, (ROCKSDB, 6, 8)),
    *two_beside_one("reopen after kill by 2 threads", Measured("reopen", OPERATION), {KEYS: 1.7}),
    Target(
        "a key with N versions: find before a kill beside after opening, persistent index",
        "icecore-operation-persistent",
        Measured("find_before", PERSISTENT_VERSIONS, suite="deep_key"),
        Measured("find_after_opening", PERSISTENT_VERSIONS, suite="deep_key"),
        {1: 1.3},
        at_most=True,
    ),
    Target("what differs: ns a key", "–", Measured("difference", NONE, suite="difference"), None, {1: 15}, at_most=True),
    Target("the longest of 10 M inserts, ms", "–", Measured("insert_worst", NONE, suite="waits"), None, {1: 2, 2: 2}, at_most=True, keys=10_000_000),
    Target(
        "file bytes a key, operation",
        "–",
        Measured("insert_more", OPERATION, field="bytes_per_key"),
        None,
        {1: 110},
        at_most=True,
    ),
    # The design's budgets give these as M/s and, for snapshots by each of T threads and for reopening, as seconds.
    against_published("insert", (30, 32), (0.11e6, 0.17e6)),
    against_published("find", (7, 7), (0.38e6, 0.82e6)),
    against_published("snapshot", (30, 25), (1 / 1.2, 2 / 1.15)),
    against_published("reopen", (10, 15), (1 / 2.2, 1 / 2.0)),
    *persistent_against("pmemobj", 4),
    *persistent_against("LMDB-sync", 2),
    *persistent_against("LMDB-nosync", 2),
    cost_of_persistence("reads", "C", 1.5),
    cost_of_persistence("updates", "updates", 1.6),
    *(cost_of_pools(name) for name in "ABCD"),
)


class WrongForm(ValueError):
    """A file that is no result of a benchmark run; the message says what is wrong with it."""


class Results:
    """A run's rows, each found by its suite, workload, store and number of threads."""

    def __init__(self, document):
        self.version = document.get("icecore", "of unknown version")
        self.machine = document["machine"]
        self.failures = document.get("failures", [])
        self.rows = []
        self._by_key = {}
        self.add(document["rows"])

    def add(self, rows):
        for index, row in enumerate(rows):
            key = tuple(row[field] for field in ("suite", "workload", "store", "threads"))
            if key in self._by_key:
                raise WrongForm(f"rows[{index}] is the second one of {'/'.join(map(str, key))} threads")
            self._by_key[key] = row
            self.rows.append(row)

    def row(self, suite, workload, store, threads):
        return self._by_key.get((suite, workload, store, threads))

    def has(self, suite):
        return any(row["suite"] == suite for row in self.rows)

    def keys(self):
        """N: the number of keys that the paper's phases worked on, or None."""
        counts = {r["n"] for r in self.rows if r["suite"] == "paper" and r["workload"] in ("insert", "find")}
        return counts.pop() if len(counts) == 1 else None


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def is_count(value):
    return is_number(value) and isinstance(value, int)


def is_name(value):
    return isinstance(value, str) and value != ""


def is_latencies(value):
    """By operation: how many were timed, and median, least and greatest of each percentile in nanoseconds."""

    def fits(taken):
        summaries = [taken.get(name) for name in LATENCIES]
        return is_count(taken.get("count")) and all(
            isinstance(summary, list) and len(summary) == 3 and all(map(is_number, summary)) for summary in summaries
        )

    return isinstance(value, dict) and all(isinstance(taken, dict) and fits(taken) for taken in value.values())


def is_tenths(value):
    return isinstance(value, list) and len(value) == 10 and all(each == 0 or is_number(each) for each in value)


ROW_FIELDS = (
    *((name, is_name, "a name", True) for name in ("suite", "workload", "store")),
    *((name, is_count, "a whole number above 0", True) for name in ("threads", "n", "repetitions")),
    *((name, is_number, "a number above 0", True) for name in ("ops_per_second", "min", "max")),
    ("bytes_per_key", is_number, "a number above 0", False),
    ("unit", is_name, "a name", False),
    ("latency_ns", is_latencies, "latencies by operation", False),
    ("operations_in_tenths", is_tenths, "ten numbers", False),
    ("oversubscribed", lambda value: isinstance(value, bool), "true or false", False),
)
LATENCIES = ("p50", "p90", "p99", "p99.9", "p99.99", "max")
FAILURE_FIELDS = tuple((name, is_name, "a name", True) for name in ("suite", "store", "what")) + (
    ("threads", is_count, "a whole number above 0", True),
)


def check_fields(where, value, fields):
    if not isinstance(value, dict):
        raise WrongForm(f"{where} is not an object")
    for name, fits, expected, required in fields:
        if name not in value:
            if required:
                raise WrongForm(f"{where}: '{name}' is missing")
        elif not fits(value[name]):
            raise WrongForm(f"{where}: '{name}' is {json.dumps(value[name])}, not {expected}")


def check(document):
    """Throws WrongForm unless the document is what the benchmark program writes."""
    fields = (
        ("icecore", is_name, "a version", False),
        ("machine", lambda value: isinstance(value, dict), "an object", True),
        ("rows", lambda value: isinstance(value, list), "a list", True),
        ("failures", lambda value: isinstance(value, list), "a list", False),
    )
    check_fields("the document", document, fields)
    check_fields("machine", document["machine"], [("hardware_threads", is_count, "a whole number above 0", False)])
    for index, row in enumerate(document["rows"]):
        check_fields(f"rows[{index}]", row, ROW_FIELDS)
        if not row["min"] <= row["ops_per_second"] <= row["max"]:
            raise WrongForm(f"rows[{index}]: 'ops_per_second' is not between 'min' and 'max'")
    for index, failure in enumerate(document.get("failures", [])):
        check_fields(f"failures[{index}]", failure, FAILURE_FIELDS)


def read_results(path):
    """A file whose name ends in .gz is compressed. Throws OSError if the file cannot be read and WrongForm if it is no
    result of a run."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        try:
            document = json.load(file)
        except ValueError as error:
            raise WrongForm(f"not JSON: {error}") from None
    check(document)
    return Results(document)


def best_row(results, measured, threads):
    threads = measured.threads or threads
    found = [results.row(measured.suite, measured.workload, store, threads) for store in measured.stores]
    found = [row for row in found if row is not None and measured.field in row]
    return max(found, key=lambda row: row[measured.field], default=None)


def rival_rate(results, rival, threads):
    """(rate, name of the variant that it is of), or None."""
    if rival is None:
        return 1, ""
    if isinstance(rival, Published):
        return rival.rates[threads], ""
    row = best_row(results, rival, threads)
    return row and (row[rival.field], row["store"] if len(rival.stores) > 1 else "")


def judge(results, target, threads):
    """(required, measured, verdict) of a target's column, as texts."""
    required = target.required.get(threads)
    if required is None:
        return "–", "–", "–"
    wanted = f"{'≤' if target.at_most else '≥'} {required:g}"
    subject = best_row(results, target.subject, threads)
    rival = rival_rate(results, target.rival, threads)
    if subject is None or rival is None:
        return wanted, "–", "not measured"
    ratio = subject[target.subject.field] / rival[0]
    measured = significant(ratio) + (f" ({rival[1]})" if rival[1] else "")
    if isinstance(target.rival, Published) and results.keys() != KEYS:
        return wanted, measured, "other N"
    reached = ratio <= required if target.at_most else ratio >= required
    return wanted, measured, "reached" if reached else "**not reached**"


def significant(value):
    """Three significant digits, and all digits before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def scaled(value):
    for factor, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= factor:
            return significant(value / factor) + letter
    return significant(value)


def escaped(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(header, rows):
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(map(escaped, row)) + " |"


def describe_run(results):
    machine = results.machine
    parts = [str(machine.get("processor", "an unnamed processor"))]
    parts += [f"{machine['hardware_threads']} hardware threads"] if "hardware_threads" in machine else []
    parts += [str(machine[name]) for name in ("kernel", "folder") if name in machine]
    yield f"icecore {results.version} on {', '.join(parts)}."


def caveats(results):
    keys = results.keys()
    if keys != KEYS and "paper" in suites_of_targets(results):
        measured = f"this run's is {keys:,}" if keys else "this run does not say its own"
        yield f"The targets are set for N = {KEYS:,}; {measured}."
    if results.machine.get("hardware_threads", max(THREADS)) < max(THREADS):
        yield f"This machine runs {results.machine['hardware_threads']} thread at a time: the column T = 2 shares it."
    if "ycsb" in suites_of_targets(results):
        yield "Targets of YCSB are for 2 threads, with flushes executed; LMDB without sync is the harder rival."
    published = (
        " Figures of the published PSkipList are absolute ones of another run, on "
        f"the design's machine with N = {KEYS:,}, and are not scaled to this machine."
    )
    yield "Ratios are speed over rival's speed." + (published if "paper" in suites_of_targets(results) else "")


def describe_failures(results):
    if results.failures:
        yield "\nFailed:\n"
        for failure in results.failures:
            yield "- {suite}, {store}, T = {threads}: {what}".format(**failure)


def suites_of_targets(results):
    """The suites of targets that the run has; all of them if it has no rows at all."""
    return {suite for suite in {target.subject.suite for target in TARGETS} if results.has(suite) or not results.rows}


def applies(results, target):
    """Whether the target is for runs like this one: its memory, and its number of keys. A run with a number that no
    target has is held against those for KEYS, and says so."""
    if target.memory != results.machine.get("memory", WARM):
        return False
    suite = target.subject.suite
    counts = {row["n"] for row in results.rows if row["suite"] == suite and row["workload"] == target.subject.workload}
    known = {other.keys for other in TARGETS if other.subject.suite == suite}
    return target.keys == (counts.pop() if len(counts) == 1 and counts <= known else KEYS)


def target_table(results):
    header = ["", "against"]
    for threads in THREADS:
        header += [f"T = {threads}: required", "measured", ""]
    rows, verdicts = [], []
    suites = suites_of_targets(results)
    if not suites:
        return
    for target in (target for target in TARGETS if target.subject.suite in suites and applies(results, target)):
        columns = [judge(results, target, threads) for threads in THREADS]
        rows.append([target.what, target.against, *(text for column in columns for text in column)])
        verdicts += [column[2] for column in columns if column[2] != "–"]
    yield from table(header, rows)
    yield f"\n{verdicts.count('reached')} of {len(verdicts)} reached, {verdicts.count('not measured')} not measured."


def recovery_line(results, row):
    keys = row["n"]
    names = (f"before_kill_{keys}", f"after_kill_{keys}")
    before, after = (results.row("recovery", name, row["store"], row["threads"]) for name in names)
    tenths = after.get("operations_in_tenths") if after else None
    return (
        f"{keys:,}",
        row["store"],
        row["threads"],
        f"{significant(1000 / row['ops_per_second'])} ms",
        f"{significant(1000 / row['max'])} … {significant(1000 / row['min'])} ms",
        scaled(before["ops_per_second"]) if before else "–",
        (scaled(10 * tenths[0]) if tenths[0] else "0") if tenths else "–",
        scaled(after["ops_per_second"]) if after else "–",
    )


def recovery_verdicts(results, rows):
    """(what, required, measured, reached) of the persistent index: opening takes a time that is short and constant."""
    rows = sorted((row for row in rows if row["store"] == PERSISTENT), key=lambda row: row["n"])
    for threads in sorted({row["threads"] for row in rows}):
        of_these = [row for row in rows if row["threads"] == threads]
        least = of_these[0]
        for row in of_these:
            seconds = 1 / row["ops_per_second"]
            of = f"{row['n']:,} keys, T = {threads}"
            yield f"open to first find, {of}", "≤ 10 ms", f"{significant(1000 * seconds)} ms", seconds <= OPENING_SECONDS_MAX
            if row is not least:
                ratio = seconds * least["ops_per_second"]
                beside = f"the same, beside {least['n']:,} keys"
                yield beside, f"≤ {OPENING_GROWTH_MAX}", significant(ratio), ratio <= OPENING_GROWTH_MAX
            before, after = (results.row("recovery", f"{when}_kill_{row['n']}", PERSISTENT, threads) for when in ("before", "after"))
            if before and after:
                part = after["ops_per_second"] / before["ops_per_second"]
                yield f"first second after it, {of}", f"≥ {FIRST_SECOND_MIN}", significant(part), part >= FIRST_SECOND_MIN


def recovery_table(results):
    """The thesis' table 5.4, by numbers of keys, with the throughput of the first second."""
    rows = [row for row in results.rows if row["suite"] == "recovery" and row["workload"].startswith("recovery_")]
    if not rows:
        return
    yield "\n### Recovery\n"
    header = ("keys", "store", "T", "to the first answer", "least … greatest")
    header += ("operations/s before the kill", "in the first 100 ms", "in the first second")
    ordered = sorted(rows, key=lambda row: (row["n"], row["threads"]))
    yield from table(header, [recovery_line(results, row) for row in ordered])
    verdicts = list(recovery_verdicts(results, rows))
    if verdicts:
        yield ""
        lines = [(what, wanted, is_so, "reached" if good else "**not reached**") for what, wanted, is_so, good in verdicts]
        yield from table((PERSISTENT, "required", "measured", ""), lines)


def latency_table(results):
    rows = [row for row in results.rows if "latency_ns" in row]
    if not rows:
        return
    yield "\n### Latencies in microseconds\n"
    lines = []
    for row in rows:
        for operation, taken in row["latency_ns"].items():
            told = [significant(taken[name][0] / 1000) for name in LATENCIES]
            lines.append((row["workload"], operation, row["store"], row["threads"], f"{taken['count']:,}", *told))
    yield from table(("workload", "operation", "store", "T", "timed", *LATENCIES), lines)


def base_store(suite):
    if suite in (query_targets.QUERY, query_targets.THROUGHPUT, query_targets.COMPLETION):
        return query_targets.OURS
    return BASE_OF_MAPS if suite in SUITES_OF_MAPS else BASE_STORE


def row_line(results, row):
    base = results.row(row["suite"], row["workload"], base_store(row["suite"]), row["threads"])
    median = row["ops_per_second"]
    return (
        row["store"],
        f"{row['threads']}{' *' if row.get('oversubscribed') else ''}",
        f"{row['n']:,}",
        scaled(median),
        row.get("unit", "operations/s"),
        f"{100 * (row['min'] / median - 1):+.1f} … {100 * (row['max'] / median - 1):+.1f} %",
        significant(median / base["ops_per_second"]) if base else "–",
    )


def all_rows(results):
    groups = {}
    for row in results.rows:
        groups.setdefault((row["suite"], row["workload"]), []).append(row)
    for (suite, workload), rows in groups.items():
        yield f"\n### {suite} / {workload}\n"
        ordered = sorted(rows, key=lambda row: row["threads"])
        header = ("store", "T", "n", "median", "unit", "min … max", f"ratio to {base_store(suite)}")
        yield from table(header, [row_line(results, row) for row in ordered])
    if any(row.get("oversubscribed") for row in results.rows):
        yield "\n\\* more threads than the machine has cores"


def report(results, with_all_rows):
    yield from describe_run(results)
    for caveat in caveats(results):
        yield "\n" + caveat
    yield ""
    yield from target_table(results)
    yield from recovery_table(results)
    yield from query_targets.report(results, table, significant)
    yield from describe_failures(results)
    if with_all_rows:
        yield from latency_table(results)
        yield from all_rows(results)


def main():
    parser = argparse.ArgumentParser(description="Compares a benchmark run's results with what icecore must reach.")
    parser.add_argument("file", metavar="FILE", help="the file that bench/run --json FILE wrote")
    parser.add_argument("--all", action="store_true", help="print every measured row as well")
    arguments = parser.parse_args()
    try:
        results = read_results(arguments.file)
    except (OSError, WrongForm) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        print(f"targets: {arguments.file}: {reason}", file=sys.stderr)
        return 2
    print("\n".join(report(results, arguments.all)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
