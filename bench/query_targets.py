"""What must come out of the suite `query` and of icecore_resumable: part of the report of targets.py."""

QUERY = "query"
THROUGHPUT, COMPLETION = "resumable-throughput", "resumable-completion"
OURS = "icecore"
PERCENTS = ("0.1", "1", "10", "50", "100")
# Ratios and other values that the suite measures itself: (what, workload, required, at most or not).
VALUES = (
    *((f"kept query beside the filter, {p} % match", f"kept_{p}_over_filter", 1.03, True) for p in PERCENTS),
    *((f"kept count beside the count, {p} % match", f"count_{p}_over_filter", 1.03, True) for p in PERCENTS),
    ("every = item: ns a key more", "every_item_more", 300, True),
    ("every = item, a function of 100 µs", "every_item_of_100_us", 1.01, True),
    ("filter on an i64, 10 % match, beside extract of the same columns", "filter_10_over_extract", 1.0, True),
    ("expression beside the same comparison compiled", "expression_over_compiled", 1.15, True),
    ("killed at half, without opening, beside uninterrupted", "killed_over_uninterrupted", 1.03, True),
    ("killed at half beside a restart from scratch", "from_scratch_over_killed", 1.45, False),
    ("bytes a match of 8-byte keys", "bytes_a_match", 9.1, True),
    ("bytes a key examined, all match", "bytes_a_key_where_all_match", 1.1, True),
    ("file after 100 queries beside after one", "file_after_100_queries", 1.0, True),
    ("writers beside a query, beside for_each", "writes_beside_query_over_scan", 0.95, False),
)
RIVALS = (("SQLite-newest", 1.5), ("LMDB-newest", 0.4), ("LMDB-versions", 1.8), ("SQLite-versions", 4), ("RocksDB-versions", 9))
TWO_THREADS_MIN = 1.7
LMDB_BESIDE_TWO_THREADS_MIN = 0.75
RESUME_SECONDS_MAX = 0.005
RESUME_GROWTH_MAX = 1.2


def rate(results, suite, workload, store, threads, field="ops_per_second"):
    row = results.row(suite, workload, store, threads)
    return row and row.get(field)


def ratio_of(results, suite, workload, subject, rival, field="ops_per_second"):
    """Of two (store, threads); None if one was not measured."""
    one, other = (rate(results, suite, workload, *each, field) for each in (subject, rival))
    return one / other if one and other else None


def values(results, threads):
    """By the clock; where it was measured, also by the time of cores, which other load changes less."""
    for what, workload, required, at_most in VALUES:
        yield what, required, at_most, rate(results, QUERY, workload, OURS, threads)
        yield f"{what}, by CPU time", required, at_most, rate(results, QUERY, f"{workload}_cpu", OURS, threads)


def beside_others(results, threads):
    for percent in PERCENTS:
        workload = f"filter_{percent}"
        for rival, required in RIVALS:
            if threads == 1:
                ratio = ratio_of(results, QUERY, workload, (OURS, 1), (rival, 1))
                yield f"filter, {percent} % match, beside {rival}", required, False, ratio
                ratio = ratio_of(results, QUERY, f"{workload}_cpu", (OURS, 1), (rival, 1))
                yield f"filter, {percent} % match, beside {rival}, by CPU time", required, False, ratio
        if threads == 2:
            ratio = ratio_of(results, QUERY, workload, (OURS, 2), ("LMDB-newest", 1))
            yield f"filter, {percent} % match, beside LMDB-newest by one", LMDB_BESIDE_TWO_THREADS_MIN, False, ratio
            ratio = ratio_of(results, QUERY, workload, (OURS, 2), (OURS, 1))
            yield f"filter, {percent} % match, beside one thread", TWO_THREADS_MIN, False, ratio


def resuming(results, threads):
    seconds = [1 / r for p in (10, 50, 90) if (r := rate(results, QUERY, f"resume_{p}", OURS, threads))]
    if len(seconds) == 3:
        yield "opening to the first new key, ms", 1000 * RESUME_SECONDS_MAX, True, 1000 * max(seconds)
        yield "the same: greatest beside least of 10, 50, 90 %", RESUME_GROWTH_MAX, True, max(seconds) / min(seconds)


def resumable(results, threads):
    for workload in sorted({row["workload"] for row in results.rows if row["suite"] == THROUGHPUT}):
        required = 0.9 if workload.startswith("skip list") else 0.75
        for rival, wanted in (("volatile", required), ("PDT", 1.0)):
            ratio = ratio_of(results, THROUGHPUT, workload, (OURS, threads), (rival, threads))
            yield f"figure 1, {workload}, beside {rival}", wanted, False, ratio
            ratio = ratio_of(results, THROUGHPUT, workload, (OURS, threads), (rival, threads), "ops_per_cpu_second")
            yield f"figure 1, {workload}, beside {rival}, by CPU time", wanted, False, ratio
    if threads == 1:
        for workload in sorted({row["workload"] for row in results.rows if row["suite"] == COMPLETION}):
            ratio = ratio_of(results, COMPLETION, workload, (OURS, 1), ("volatile", 1))
            yield f"figure 2, {workload}, beside volatile", 1.4, False, ratio
            ratio = ratio_of(results, COMPLETION, workload, (OURS, 1), ("PDT", 1))
            yield f"figure 2, {workload}, beside PDT", None, False, ratio


def judged(results):
    for threads in sorted({row["threads"] for row in results.rows if row["suite"] in (QUERY, THROUGHPUT, COMPLETION)}):
        for part in (values, beside_others, resuming, resumable):
            for what, required, at_most, measured in part(results, threads):
                if measured is not None:
                    yield what, threads, required, at_most, measured


def report(results, table, significant):
    lines = []
    for what, threads, required, at_most, measured in judged(results):
        if required is None:
            wanted, verdict = "–", "–"
        else:
            reached = measured <= required if at_most else measured >= required
            wanted = f"{'≤' if at_most else '≥'} {required:g}"
            verdict = "reached" if reached else "**not reached**"
        lines.append((what, threads, wanted, significant(measured), verdict))
    if lines:
        yield "\n### Queries\n"
        yield from table(("", "T", "required", "measured", ""), lines)
        verdicts = [line[-1] for line in lines]
        yield f"\n{verdicts.count('reached')} of {sum(v != '–' for v in verdicts)} reached."
