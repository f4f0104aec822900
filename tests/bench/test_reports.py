"""The reports of a benchmark run say what was measured: its figures, and which targets it reached.

The figures' tests need matplotlib and are skipped without it.
"""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import targets  # noqa: E402

STORES = (
    *("icecore-none", "icecore-tag", "icecore-operation", "icecore-operation-persistent", "ESkipList", "PSkipList", "LockedMap", "absl"),
    *("SQLiteReg", "SQLiteMem", "LMDB", "LMDB-batch", "RocksDB", "LevelDB", "WiredTiger", "BerkeleyDB"),
)
PAPER = ("insert", "remove", "insert_more", "history", "find", "snapshot", "reopen", "find_after_reopen")
MAPS = (
    *("icecore-btree", "icecore-skip_list", "icecore-hash", "icecore-persistent", "icecore-persistent-pools"),
    *("LMDB-nosync", "LMDB-sync", "pmemobj"),
)
YCSB = ("load", "A", "B", "C", "D", "E", "F", "updates")
PERCENTILES = ("p50", "p90", "p99", "p99.9", "p99.99", "max")
LIMITS = ("random_access_4k_pages", "read_bandwidth", "flush_and_fence", "fetch_add")


def row(suite, workload, store, threads, rate, n=1_000_000, **more):
    fields = {"suite": suite, "workload": workload, "store": store, "threads": threads, "n": n, "repetitions": 5}
    return {**fields, "ops_per_second": rate, "min": rate * 0.9, "max": rate * 1.2, **more}


def document(stores=STORES, threads=(1, 2, 4)):
    """A run in which icecore is 1,000 times as fast as every other store, and 10 bytes a key small."""
    rows = []
    for count in threads:
        for store in stores:
            fast = store.startswith("icecore")
            rate = (1e8 if fast else 1e5) * count
            rows += [row("paper", workload, store, count, rate) for workload in PAPER]
            rows += [row("paper", name, store, count, rate) for name in ("find_many", "one_snapshot") if fast]
            rows.append(row("sequential", "insert", store, count, rate))
        rows += [row("limits", name, "machine", count, 1e9, unit="1/s") for name in LIMITS]
    for each in rows:
        if each["threads"] > 2:
            each["oversubscribed"] = True
        if each["workload"] == "insert_more":
            each["bytes_per_key"] = 10.5
    return {"icecore": "0.1.0", "machine": {"processor": "a test", "hardware_threads": 2}, "rows": rows, "failures": []}


def latencies(*operations):
    taken = {name: [100.0 * (i + 1), 90.0, 1000.0] for i, name in enumerate(PERCENTILES)}
    return {operation: {"count": 1000, **taken} for operation in operations}


def ycsb_document(threads=(1, 2)):
    """A run in which icecore is 10 times as fast as every other map, and recovers in 10 ms."""
    rows = []
    for count in threads:
        for store in MAPS:
            rate = (1e6 if store.startswith("icecore") else 1e5) * count
            for workload in YCSB:
                operations = {"latency_ns": latencies("read", "update")} if workload != "load" else {}
                rows.append(row("ycsb", workload, store, count, rate, **operations))
            rows.append(row("recovery", "before_kill_1000000", store, count, rate))
            rows.append(row("recovery", "recovery_1000000", store, count, 100))
            tenths = {"operations_in_tenths": [1000.0 * i for i in range(10)]}
            rows.append(row("recovery", "after_kill_1000000", store, count, rate / 2, **tenths))
    return {"icecore": "0.1.0", "machine": {"processor": "a test", "hardware_threads": 2}, "rows": rows, "failures": []}


def change(run, fields, **changes):
    """Changes the rows that have these fields, and keeps each row's spread around its median."""
    changed = [each for each in run["rows"] if fields.items() <= each.items()]
    assert changed
    for each in changed:
        each.update(changes)
        each["min"], each["max"] = each["ops_per_second"] * 0.9, each["ops_per_second"] * 1.2
    return run


def without(run, **fields):
    kept = [each for each in run["rows"] if not fields.items() <= each.items()]
    assert len(kept) < len(run["rows"])
    return {**run, "rows": kept}


def only(run, workload):
    """The run's rows of one workload, and the machine's limits."""
    return {**run, "rows": [each for each in run["rows"] if each["workload"] == workload or each["store"] == "machine"]}


def run_script(script, *arguments):
    command = [sys.executable, "-B", str(BENCH / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def written(tmp_path):
    def write(content):
        path = tmp_path / "run.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def report(written):
    def run(content, *options):
        done = run_script("targets.py", written(content), *options)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


def cells(text, what, against):
    """(required, measured, verdict) of the line's two columns."""
    found = [line.split(" | ") for line in text.splitlines() if line.startswith(f"| {what} | {against} | ")]
    assert len(found) == 1, (what, against)
    parts = [part.strip(" |") for part in found[0]]
    return tuple(parts[2:5]), tuple(parts[5:8])


def verdicts(text):
    return re.findall(r"\| (reached|\*\*not reached\*\*|not measured|other N) (?=\|)", text)


VERDICTS_OF_RECOVERY = 4  # of one number of keys: opening and the first second, with 1 thread and with 2


def test_a_run_that_leads_everywhere_reaches_every_target(report):
    run = document()
    run["rows"] += ycsb_document()["rows"]
    text = report(run)
    required = sum(len(target.required) for target in targets.TARGETS
                   if target.subject.suite in ("paper", "ycsb") and (target.keys, target.memory) == (targets.KEYS, targets.WARM))
    assert verdicts(text) == ["reached"] * (required + VERDICTS_OF_RECOVERY)
    assert f"{required} of {required} reached, 0 not measured." in text


def test_a_run_of_ycsb_is_held_against_the_targets_of_ycsb_alone(report):
    text = report(ycsb_document())
    assert cells(text, "YCSB A", "pmemobj") == (("–", "–", "–"), ("≥ 4", "10.0", "reached"))
    required = sum(len(target.required) for target in targets.TARGETS if target.subject.suite == "ycsb")
    assert verdicts(text) == ["reached"] * (required + VERDICTS_OF_RECOVERY)
    run = change(ycsb_document(), {"workload": "updates", "store": "icecore-persistent"}, ops_per_second=1e6)
    one, two = cells(report(run), "YCSB updates: cost of the persistent index (updates)", "icecore-persistent")
    assert one == ("≤ 1.6", "1.00", "reached") and two == ("≤ 1.6", "2.00", "**not reached**")


def test_opening_and_the_first_second_of_the_persistent_index_have_targets(report):
    def rows(keys, opening, after):
        store = "icecore-persistent"
        return (
            row("recovery", f"before_kill_{keys}", store, 2, 1e6, n=keys),
            row("recovery", f"recovery_{keys}", store, 2, 1 / opening, n=keys),
            row("recovery", f"after_kill_{keys}", store, 2, after, n=keys, operations_in_tenths=[after / 10] * 10),
        )

    def lines(*all_rows):
        printed = report({"machine": {}, "rows": [one for some in all_rows for one in some]})
        return [line for line in printed.splitlines() if "reached" in line and ("first" in line or "beside" in line)]

    good = lines(rows(2_000_000, 0.0008, 6e5), rows(50_000_000, 0.00112, 5.1e5))
    assert len(good) == 5 and all("| reached |" in line for line in good)
    assert "| the same, beside 2,000,000 keys | ≤ 1.5 | 1.40 | reached |" in good
    slow = lines(rows(2_000_000, 0.011, 4.9e5), rows(50_000_000, 0.017, 6e5))
    assert [("not reached" in line) for line in slow] == [True, True, True, True, False]


def query_document(**values):
    """A run of the suite query with one thread and two; `values` are of icecore's rows."""
    rows = []
    for threads in (1, 2):
        for workload, value in values.items():
            rows.append(row("query", workload, "icecore", threads, value, unit="ratio"))
        rows.append(row("query", "filter_10", "icecore", threads, 40e6 * threads))
        rows += [row("query", f"resume_{p}", "icecore", threads, rate) for p, rate in ((10, 500), (50, 250), (90, 400))]
    rows.append(row("query", "filter_10", "LMDB-newest", 1, 80e6))
    return {"icecore": "0.1.0", "machine": {"processor": "a test", "hardware_threads": 2}, "rows": rows, "failures": []}


def query_lines(text):
    lines = [line.strip("| ").split(" | ") for line in text.partition("### Queries")[2].splitlines() if line.startswith("| ")]
    return {(what, threads): tuple(rest) for what, threads, *rest in lines[1:]}


def test_queries_are_held_against_their_own_targets(report):
    found = query_lines(report(query_document(kept_10_over_filter=1.02, every_item_more=301)))
    assert found["kept query beside the filter, 10 % match", "1"] == ("≤ 1.03", "1.02", "reached")
    assert found["every = item: ns a key more", "2"] == ("≤ 300", "301", "**not reached**")
    assert found["filter, 10 % match, beside LMDB-newest", "1"] == ("≥ 0.4", "0.500", "reached")
    assert found["filter, 10 % match, beside LMDB-newest by one", "2"] == ("≥ 0.75", "1.00", "reached")
    assert found["filter, 10 % match, beside one thread", "2"] == ("≥ 1.7", "2.00", "reached")
    assert found["opening to the first new key, ms", "1"] == ("≤ 5", "4.00", "reached")
    assert found["the same: greatest beside least of 10, 50, 90 %", "1"] == ("≤ 1.2", "2.00", "**not reached**")


def test_a_run_without_queries_says_nothing_of_them(report):
    assert "### Queries" not in report(document())


def resumable_document():
    rates = {"icecore": 4e6, "PDT": 3e6, "volatile": 5e6}
    rows = []
    for store, rate in rates.items():
        for of in ("skip list", "hash table"):
            rows += [row("resumable-throughput", f"{of} {mix}", store, 2, rate) for mix in ("10/45/45", "80/20")]
            rows.append(row("resumable-completion", f"{of} 8 B", store, 1, 3 if store == "icecore" else 2, unit="queries/s"))
    return {"icecore": "0.1.0", "machine": {"processor": "a test", "hardware_threads": 2}, "rows": rows, "failures": []}


def test_the_figures_of_resumable_queries_have_targets(report):
    found = query_lines(report(resumable_document()))
    assert found["figure 1, skip list 80/20, beside volatile", "2"] == ("≥ 0.9", "0.800", "**not reached**")
    assert found["figure 1, hash table 80/20, beside volatile", "2"] == ("≥ 0.75", "0.800", "reached")
    assert found["figure 1, hash table 80/20, beside PDT", "2"] == ("≥ 1", "1.33", "reached")
    assert found["figure 2, skip list 8 B, beside volatile", "1"] == ("≥ 1.4", "1.50", "reached")
    assert found["figure 2, skip list 8 B, beside PDT", "1"] == ("–", "1.50", "–")


def test_recovery_is_reported_in_milliseconds_with_the_rates_around_it(report):
    text = report(ycsb_document())
    assert "| 1,000,000 | pmemobj | 2 | 10.0 ms | 8.33 … 11.1 ms | 200 k | 0 | 100 k |" in text
    assert "### Recovery" not in report(document())


def test_all_prints_latencies_in_microseconds(report):
    text = report(ycsb_document(), "--all")
    assert "| A | update | pmemobj | 2 | 1,000 | 0.100 | 0.200 | 0.300 | 0.400 | 0.500 | 0.600 |" in text


def test_a_target_names_what_is_required_and_what_was_measured(report):
    one, two = cells(report(document()), "insert, none", "absl")
    assert one == ("≥ 1.2", "1,000", "reached")
    assert two == ("≥ 3", "1,000", "reached")


def test_a_rate_below_its_target_is_not_reached_in_its_column_alone(report):
    run = document()
    change(run, {"suite": "paper", "workload": "reopen", "store": "RocksDB", "threads": 2}, ops_per_second=2e8 / 7.9)
    text = report(run)
    one, two = cells(text, "reopen after kill, operation", "RocksDB")
    assert one[2] == "reached" and two == ("≥ 8", "7.90", "**not reached**")
    assert verdicts(text).count("**not reached**") == 1


def test_a_ratio_that_is_exactly_the_target_reaches_it(report):
    run = document()
    change(run, {"suite": "paper", "workload": "reopen", "store": "RocksDB", "threads": 2}, ops_per_second=2e8 / 8)
    assert cells(report(run), "reopen after kill, operation", "RocksDB")[1] == ("≥ 8", "8.00", "reached")


@pytest.mark.parametrize("faster", ["LMDB", "LMDB-batch"])
def test_a_rival_counts_at_its_best_variant(report, faster):
    run = change(document(), {"suite": "paper", "workload": "find", "store": faster}, ops_per_second=9e7)
    text = report(run)
    assert cells(text, "find at a version", "LMDB")[0] == ("≥ 2.8", f"1.11 ({faster})", "**not reached**")
    assert cells(text, "find_many at a version", "LMDB's finds")[0][2] == "**not reached**"


def test_operation_durability_may_cost_only_so_much(report):
    run = change(
        document(),
        {"suite": "paper", "workload": "insert", "store": "icecore-operation", "threads": 1},
        ops_per_second=1e8 / 1.3,
    )
    one, two = cells(report(run), "insert, none: cost of operation durability", "icecore-operation")
    assert one == ("≤ 1.2", "1.30", "**not reached**") and two == ("≤ 1.15", "1.00", "reached")


def test_a_file_may_take_only_so_many_bytes_a_key(report):
    what = ("file bytes a key, operation", "–")
    assert cells(report(document()), *what)[0] == ("≤ 110", "10.5", "reached")
    run = change(document(), {"workload": "insert_more", "store": "icecore-operation"}, bytes_per_key=110.4)
    assert cells(report(run), *what)[0] == ("≤ 110", "110", "**not reached**")


def test_one_snapshot_by_two_threads_is_compared_with_one_thread(report):
    run = change(document(), {"workload": "one_snapshot", "threads": 2}, ops_per_second=1.6e8)
    one, two = cells(report(run), "one snapshot by 2 threads", "by 1 thread")
    assert one == ("–", "–", "–") and two == ("≥ 1.8", "1.60", "**not reached**")


def test_published_rates_are_absolute_and_of_their_own_number_of_keys(report):
    run = change(document(), {"workload": "snapshot", "store": "icecore-operation", "threads": 2}, ops_per_second=40)
    assert cells(report(run), "snapshot, operation", "published PSkipList")[1] == ("≥ 25", "23.0", "**not reached**")
    for each in run["rows"]:
        each["n"] //= 10
    text = report(run)
    assert cells(text, "snapshot, operation", "published PSkipList")[1][2] == "other N"
    assert "set for N = 1,000,000; this run's is 100,000" in text


def test_a_run_is_held_against_the_targets_for_its_keys_and_its_memory(report):
    assert cells(report(document()), "insert, operation", "LMDB")[0][0] == "≥ 2.6"
    cold = document()
    cold["machine"]["memory"] = "cold"
    text = report(cold)
    assert cells(text, "insert, operation", "LMDB")[0][0] == "≥ 2" and "one snapshot by 2 threads" not in text
    small = document()
    for each in small["rows"]:
        each["n"] = 50_000
    text = report(small)
    assert cells(text, "insert, operation", "LMDB") == (("≥ 1.6", "1,000 (LMDB)", "reached"), ("≥ 2.5", "1,000 (LMDB)", "reached"))
    assert cells(text, "one snapshot by 2 threads", "by 1 thread")[1] == ("≥ 1.5", "2.00", "reached")
    assert "key history" not in text


def test_a_target_without_its_rows_is_not_measured(report):
    text = report(without(document(), store="RocksDB"))
    assert {line.split(" | ")[1] for line in text.splitlines() if "| not measured |" in line} == {"RocksDB"}
    assert cells(text, "reopen after kill, operation", "RocksDB") == (("≥ 6", "–", "not measured"), ("≥ 8", "–", "not measured"))
    one, two = cells(report(without(document(), threads=2)), "insert, none", "LMDB")
    assert one[2] == "reached" and two[2] == "not measured"
    assert set(verdicts(report({"machine": {}, "rows": []}))) == {"not measured"}


def test_failures_of_the_run_are_reported(report):
    run = document()
    run["failures"] = [{"suite": "depth", "store": "SQLiteReg", "threads": 2, "what": "a wrong answer"}]
    assert "- depth, SQLiteReg, T = 2: a wrong answer\n" in report(run)


def test_all_prints_each_row_with_its_spread_and_ratio(report):
    text = report(document(), "--all")
    assert "### sequential / insert" in text and "### limits / fetch_add" in text
    assert "| absl | 4 * | 1,000,000 | 400 k | operations/s | -10.0 … +20.0 % | 0.00100 |" in text
    assert "| machine | 1 | 1,000,000 | 1.00 G | 1/s | -10.0 … +20.0 % | – |" in text
    assert "###" not in report(document())


def damaged(field, value):
    run = document()
    run["rows"][3][field] = value
    return run


MALFORMED = [
    ("{", "not JSON"),
    ([], "the document is not an object"),
    ({"machine": {}}, "'rows' is missing"),
    ({"rows": []}, "'machine' is missing"),
    ({"machine": {}, "rows": {}}, "'rows' is {}, not a list"),
    ({"machine": {}, "rows": [7]}, "rows[0] is not an object"),
    ({"machine": {"hardware_threads": "two"}, "rows": []}, "machine: 'hardware_threads' is \"two\", not a whole number above 0"),
    ({"machine": {}, "rows": [], "failures": ["all"]}, "failures[0] is not an object"),
    ({"machine": {}, "rows": [{"suite": "paper"}]}, "rows[0]: 'workload' is missing"),
    (damaged("ops_per_second", 0), "rows[3]: 'ops_per_second' is 0, not a number above 0"),
    (damaged("ops_per_second", float("nan")), "rows[3]: 'ops_per_second' is NaN, not a number above 0"),
    (damaged("max", float("inf")), "rows[3]: 'max' is Infinity, not a number above 0"),
    (damaged("threads", True), "rows[3]: 'threads' is true, not a whole number above 0"),
    (damaged("min", 1e12), "rows[3]: 'ops_per_second' is not between 'min' and 'max'"),
    (damaged("latency_ns", {"read": {"count": 1}}), "rows[3]: 'latency_ns' is {\"read\": {\"count\": 1}}, not latencies"),
    (damaged("operations_in_tenths", [1, 2]), "rows[3]: 'operations_in_tenths' is [1, 2], not ten numbers"),
    (damaged("workload", "insert"), "rows[3] is the second one of paper/insert/icecore-none/1 threads"),
]


@pytest.mark.parametrize(("content", "message"), MALFORMED, ids=[message for _, message in MALFORMED])
def test_a_file_of_wrong_form_is_refused_by_what_is_wrong(written, content, message):
    done = run_script("targets.py", written(content))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("targets: ") and message in done.stderr and done.stderr.count("\n") == 1


def test_a_compressed_file_is_read_as_a_plain_one_is(written, report, tmp_path):
    compressed = tmp_path / "run.json.gz"
    compressed.write_bytes(gzip.compress(json.dumps(document()).encode()))
    done = run_script("targets.py", compressed, "--all")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", report(document(), "--all"))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    done = run_script("targets.py", tmp_path / "none.json")
    assert done.returncode == 2
    assert done.stderr == f"targets: {tmp_path / 'none.json'}: No such file or directory\n"


@pytest.fixture
def draw(written, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))

    def run(content, folder="figures"):
        return run_script("figures.py", written(content), "--out", tmp_path / folder), tmp_path / folder

    return run


FIGURES = ("figure2", "figure3", "figure4", "figure5", "beyond")
KEPT_IN_NO_FILE = {"LockedMap", "absl", "SQLiteMem"}


def test_every_figure_is_drawn_with_every_store(draw):
    run = document()
    for store in KEPT_IN_NO_FILE:
        for workload in ("reopen", "find_after_reopen"):
            run = without(run, workload=workload, store=store)
    done, folder = draw(run)
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in folder.iterdir()} == {f"{name}.svg" for name in FIGURES}
    for name in FIGURES:
        drawing = (folder / f"{name}.svg").read_text(encoding="utf-8")
        shown = {store for store in STORES if re.search(rf"<!-- {store}( \(= 1\))? -->", drawing)}
        assert shown == set(STORES) - (KEPT_IN_NO_FILE if name == "figure5" else set())


def test_a_run_of_ycsb_is_drawn_like_the_thesis(draw):
    run = ycsb_document()
    done, folder = draw(run)
    assert (done.returncode, done.stderr) == (0, "")
    names = {"thesis5.1", "thesis5.2", "thesis5.3", "thesis5.4", "thesis5.5", "thesis5.6", "ycsb"}
    assert {path.name for path in folder.iterdir()} == {f"{name}.svg" for name in names}
    drawing = (folder / "thesis5.1.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {store} -->" in drawing for store in MAPS)
    drawing = (folder / "thesis5.6.svg").read_text(encoding="utf-8")
    assert "<!-- A, icecore-persistent -->" in drawing and "<!-- D, pmemobj -->" in drawing
    done, folder = draw(without(run, store="icecore-persistent-pools"), "one pool")
    assert "not measured, so not drawn: ycsb: what thesis5.4 shows\n" in done.stdout
    assert {path.name for path in folder.iterdir()} == {f"{name}.svg" for name in names - {"thesis5.4"}}


def packed_document():
    rows = [
        row("packed", workload, store, threads, rate)
        for workload in ("find", "find_many", "history", "deep history", "snapshot")
        for store, rate in {"compacted": 4e6, "icecore-none": 3e6, "LMDB-batch": 1e6, "packed": 5e6}.items()
        for threads in (1, 2)
    ]
    return {"icecore": "0.1.0", "machine": {"processor": "a test", "hardware_threads": 2}, "rows": rows, "failures": []}


def test_a_run_of_packed_stores_is_drawn_without_the_records_alone(draw):
    done, folder = draw(packed_document())
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in folder.iterdir()} == {"packed.svg"}
    drawing = (folder / "packed.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {store} -->" in drawing for store in ("compacted", "icecore-none", "LMDB-batch", "2 threads"))
    assert "<!-- packed -->" not in drawing


def test_a_run_of_resumable_queries_is_drawn_like_the_paper(draw):
    done, folder = draw(resumable_document())
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in folder.iterdir()} == {"resumable1.svg", "resumable2.svg"}
    for path in folder.iterdir():
        drawing = path.read_text(encoding="utf-8")
        assert all(f"<!-- {store} -->" in drawing for store in ("icecore", "PDT", "volatile"))


def test_a_run_is_always_drawn_as_the_same_bytes(draw):
    run = only(document(), "insert")
    (_, first), (_, second) = draw(run, "first"), draw(run, "second")
    files = {path.name: path.read_bytes() for path in first.iterdir()}
    assert set(files) == {"figure2.svg", "beyond.svg"}
    assert files == {path.name: path.read_bytes() for path in second.iterdir()}


def test_threads_beyond_the_cores_and_the_limits_are_marked(draw):
    drawing = (draw(only(document(), "remove"))[1] / "figure2.svg").read_text(encoding="utf-8")
    assert "more threads than cores" in drawing and "one flush and fence" in drawing
    few = without(only(document(threads=(1, 2)), "remove"), workload="flush_and_fence")
    done, folder = draw(few, "few")
    drawing = (folder / "figure2.svg").read_text(encoding="utf-8")
    assert "more threads than cores" not in drawing and "one flush and fence" not in drawing
    assert "not measured, so not drawn: limits/flush_and_fence\n" in done.stdout


def test_several_runs_are_drawn_as_one_each_suite_from_the_first_that_has_it(written, draw, tmp_path):
    of_paper = [row("paper", "insert", store, 1, 1e6) for store in ("icecore-none", "first")]
    beyond = [row("mixed", "mixed_90", store, 1, 1e6) for store in ("icecore-none", "beyond")]
    ignored = row("paper", "insert", "second", 1, 1e6)
    files = []
    for name, rows in (("one", of_paper), ("two", [ignored, *beyond])):
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps({"machine": {}, "rows": rows}), encoding="utf-8")
    done = run_script("figures.py", *files, "--out", tmp_path / "both")
    assert (done.returncode, done.stderr) == (0, "")
    drawn = (tmp_path / "both" / "figure2.svg").read_text(encoding="utf-8")
    assert "<!-- first -->" in drawn and "<!-- second -->" not in drawn
    assert "<!-- beyond -->" in (tmp_path / "both" / "beyond.svg").read_text(encoding="utf-8")


def test_each_figure_of_ycsb_is_of_one_run_the_first_that_has_all_of_it(written, draw, tmp_path):
    run = ycsb_document()
    pools = "icecore-persistent-pools"
    of_pools = without(run, store="pmemobj")
    of_pools["rows"] = [{**one, "threads": 32 * one["threads"]} for one in of_pools["rows"]]
    files = []
    for name, content in (("one pool", without(run, store=pools)), ("pools", of_pools)):
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(content), encoding="utf-8")
    done = run_script("figures.py", *files, "--out", tmp_path / "both")
    assert (done.returncode, done.stderr) == (0, "")
    assert "thesis5" not in done.stdout.replace(str(tmp_path), "").split("not measured")[-1]
    drawn = (tmp_path / "both" / "thesis5.4.svg").read_text(encoding="utf-8")
    assert f"<!-- {pools} -->" in drawn and "<!-- 64 -->" in drawn
    assert "<!-- 64 -->" not in (tmp_path / "both" / "thesis5.2.svg").read_text(encoding="utf-8")


def test_what_was_not_measured_is_left_out_and_said(draw):
    done, folder = draw({"machine": {}, "rows": [row("paper", "insert", "a new store", 8, 1e6)]})
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in folder.iterdir()} == {"figure2.svg"}
    assert "<!-- a new store -->" in (folder / "figure2.svg").read_text(encoding="utf-8")
    for what in ("paper/remove", "paper/snapshot", "mixed/mixed_90, mixed_50 of icecore-none and another store"):
        assert f"not measured, so not drawn: {what}\n" in done.stdout


def test_a_file_without_anything_to_draw_or_of_wrong_form_draws_nothing(draw):
    done, folder = draw({"machine": {}, "rows": [row("limits", "sync", "machine", 1, 1e4)]})
    assert done.returncode == 1 and "no rows that any figure draws" in done.stderr and not folder.exists()
    done, folder = draw({"machine": {}})
    assert done.returncode == 2 and "'rows' is missing" in done.stderr and not folder.exists()


def test_the_seconds_drawn_are_those_of_the_paper():
    pytest.importorskip("matplotlib")
    import figures

    threads_8 = {"n": 1000, "threads": 8, "ops_per_second": 50.0}
    seconds = {
        panel.workload: figures.work(panel, threads_8) / threads_8["ops_per_second"]
        for _, *panels in figures.FIGURES.values()
        for panel in panels
    }
    assert seconds["insert"] == seconds["find"] == 1000 / 50  # all operations
    assert seconds["snapshot"] == 8 / 50  # T at once
    assert seconds["one_snapshot"] == seconds["reopen"] == 1 / 50
