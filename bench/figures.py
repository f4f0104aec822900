"""Draws a benchmark run as the figures 2 to 5 of the paper, and as ratios for what goes beyond it; the suite ycsb as the
figures of a thesis (ycsb_figures.py), what icecore_resumable measured as those of a paper on queries
(resumable_figures.py), and what icecore_packed measured (packed_figures.py).

    bench/figures FILE... [--out FOLDER]

`bench/run --json FILE` writes each FILE. If several files contain a suite, the first one's rows are drawn; each figure
of the suite ycsb uses the first file that contains everything it compares. FOLDER is docs/figures by default. Each
figure is an SVG; the same files and the same matplotlib always give the same bytes. What was not measured is left out,
and the program says so.

All rates of a run are those of its threads together. The paper draws seconds, which are some work divided by a rate.
Error bars go from the slowest repetition to the fastest.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import packed_figures
import resumable_figures
import ycsb_figures
from figure_styles import cores_of, head, in_order, is_subject, plain_number, shade_oversubscription, style_of
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator
from targets import BASE_STORE, WrongForm, read_results

DEFAULT_FOLDER = Path(__file__).resolve().parents[1] / "docs" / "figures"
MACHINE = "machine"


@dataclass(frozen=True)
class Limit:
    """A bound of the machine: each operation takes `uses` of what the suite `limits` measured as `workload`."""

    label: str
    workload: str
    uses: int
    color: str


@dataclass(frozen=True)
class Panel:
    title: str
    workload: str
    seconds_of: str  # what the seconds are of: "all", "each" or "one"; see work()
    what: str  # says so, given n
    limits: tuple = ()


OPERATIONS = "{n:,} operations by T threads"

FLUSH = Limit("one flush and fence", "flush_and_fence", 1, "#555555")
CLOCK = Limit("one fetch-add of the clock", "fetch_add", 1, "#a0a0a0")
# icecore's pools have 2 MiB pages on memory file systems. A find needs its leaf and its entry, a history records, too.
TWO_MISSES = Limit("two dependent misses, 2 MiB pages", "random_access_2m_pages", 2, "#555555")
THREE_MISSES = Limit("three dependent misses, 2 MiB pages", "random_access_2m_pages", 3, "#555555")
CACHE_LINE_BYTES = 64
# A snapshot's operation is a key of it here.
BANDWIDTH = Limit("a cache line a key at read bandwidth", "read_bandwidth", CACHE_LINE_BYTES, "#555555")

FIGURES = {
    "figure2": (
        "Insert and remove (the paper's figure 2)",
        Panel("Insert (unique keys)", "insert", "all", OPERATIONS, (FLUSH, CLOCK)),
        Panel("Remove", "remove", "all", OPERATIONS, (FLUSH, CLOCK)),
    ),
    "figure3": (
        "Key history and find (the paper's figure 3)",
        Panel("Extract key history", "history", "all", OPERATIONS, (THREE_MISSES,)),
        Panel("Find a key at a version", "find", "all", OPERATIONS, (TWO_MISSES,)),
    ),
    "figure4": (
        "Snapshots (the paper's figure 4)",
        Panel(
            "Each thread extracts its own",
            "snapshot",
            "each",
            "T snapshots of random versions at once, over {n:,} keys",
            (BANDWIDTH,),
        ),
        Panel(
            "All threads extract one", "one_snapshot", "one", "one snapshot over {n:,} keys by T threads", (BANDWIDTH,)
        ),
    ),
    "figure5": (
        "Reopening after a kill (the paper's figure 5)",
        Panel("Rebuild", "reopen", "one", "{n:,} keys by T threads"),
        Panel("Find a key at a version, reopened", "find_after_reopen", "all", OPERATIONS, (TWO_MISSES,)),
    ),
}


@dataclass(frozen=True)
class Group:
    """Bars of some workloads of a suite."""

    title: str
    suite: str
    workloads: tuple
    unit: str = ""  # of the number that ends a workload's name


BEYOND = (
    (
        Group(
            "Histories 10, 1,000 and 100,000 deep",
            "depth",
            tuple(
                f"{operation}_{depth}" for depth in (10, 1000, 100000) for operation in ("insert", "find", "history")
            ),
            unit="deep",
        ),
    ),
    (
        Group(
            "Values of 128 B, 4 KiB and 128 KiB",
            "values",
            tuple(f"{operation}_{size}" for size in (128, 4096, 131072) for operation in ("insert", "find")),
            unit="bytes",
        ),
        Group("Finds and inserts mixed", "mixed", ("mixed_90", "mixed_50")),
    ),
    (
        Group("Keys of 31 bytes with long shared prefixes", "paths", ("insert", "find", "snapshot")),
        Group("Sequential keys", "sequential", ("insert", "find", "snapshot")),
        Group("Finds of many keys at once", "paper", ("find_many",)),
    ),
)
WORKLOAD_LABELS = {"mixed_90": "90 % finds", "mixed_50": "50 % finds"}


def work(panel, row):
    """What a row's rate is to divide, so that the quotient is the seconds that the panel draws."""
    return {"all": row["n"], "each": row["threads"], "one": 1}[panel.seconds_of]


def limit_work(panel, limit, row):
    operations = row["n"] * (row["threads"] if panel.seconds_of == "each" else 1)
    return limit.uses * operations


def rows_of(results, suite, workload):
    """A workload's rows by store, each store's by number of threads."""
    found = {}
    for row in results.rows:
        if (row["suite"], row["workload"]) == (suite, workload) and row["store"] != MACHINE:
            found.setdefault(row["store"], []).append(row)
    return {store: sorted(found[store], key=lambda row: row["threads"]) for store in in_order(found)}


def draw_store(axes, panel, store, rows):
    style = style_of(store)
    seconds = [work(panel, row) / row["ops_per_second"] for row in rows]
    slower = [work(panel, row) / row["min"] - s for row, s in zip(rows, seconds)]
    faster = [s - work(panel, row) / row["max"] for row, s in zip(rows, seconds)]
    axes.errorbar(
        [row["threads"] for row in rows],
        seconds,
        yerr=[faster, slower],
        elinewidth=0.8,
        capsize=2,
        zorder=4 if is_subject(store) else 3,
        **style.line,
    )


def draw_limit(axes, results, panel, limit, rows):
    """Draws the bound wherever it was measured; gives what its legend shows, or nothing."""
    points = []
    for row in {row["threads"]: row for store_rows in rows.values() for row in store_rows}.values():
        measured = results.row("limits", limit.workload, MACHINE, row["threads"])
        if measured:
            points.append((row["threads"], limit_work(panel, limit, row) / measured["ops_per_second"]))
    if not points:
        return None
    # The marker is a dash as well, so that a bound measured at one number of threads alone is seen.
    look = dict(color=limit.color, linestyle="--", linewidth=1.4, marker="_", markersize=11, markeredgewidth=1.4)
    axes.plot(*zip(*sorted(points)), zorder=2, **look)
    return Line2D([], [], label=limit.label, **{**look, "marker": ""})


def set_ratio_ticks(axes):
    """Plain numbers at powers of ten, and at 2 and 5 as well where the axis is short."""
    low, high = axes.get_ylim()
    short = high / low < 300
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if short else (1,), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(plain_number))
    axes.yaxis.set_minor_formatter(NullFormatter())


def set_axes(axes, threads):
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(min(threads) / 1.25, max(threads) * 1.25)
    axes.xaxis.set_major_locator(FixedLocator(threads))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 1.6)  # room for the words above the shading
    set_ratio_ticks(axes)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel("threads T")
    axes.set_ylabel("seconds (lower is better)")


def draw_panel(axes, results, panel, rows, letter):
    for store, store_rows in rows.items():
        draw_store(axes, panel, store, store_rows)
    limits = [draw_limit(axes, results, panel, limit, rows) for limit in panel.limits]
    threads = sorted({row["threads"] for store_rows in rows.values() for row in store_rows})
    set_axes(axes, threads)
    shade_oversubscription(axes, threads, cores_of(results))
    axes.set_title(f"({letter}) {panel.title}\n", fontsize=11, fontweight="bold", loc="left")
    n = next(iter(rows.values()))[0]["n"]
    axes.text(0, 1.02, panel.what.format(n=n), transform=axes.transAxes, fontsize=9, color="#444444")
    handles = [handle for handle in limits if handle]
    if handles:
        axes.legend(
            handles=handles,
            title="the machine's own limits",
            loc="upper left",
            bbox_to_anchor=(0, -0.13),
            ncols=2,
            fontsize=8,
            title_fontsize=8,
            frameon=False,
            alignment="left",
            borderaxespad=0,
        )


def scaling_figure(results, title, panels):
    """A figure of those panels that have rows, or None."""
    measured = [(panel, rows) for panel in panels if (rows := rows_of(results, "paper", panel.workload))]
    if not measured:
        return None
    figure = Figure(figsize=(2.2 + 4.9 * len(measured), 5.4), layout="constrained")
    grid = figure.subplots(1, len(measured), squeeze=False)[0]
    for axes, (panel, rows), letter in zip(grid, measured, "ab"):
        draw_panel(axes, results, panel, rows, letter)
    stores = in_order({store for _, rows in measured for store in rows})
    figure.legend(
        handles=[Line2D([], [], label=store, **style_of(store).line) for store in stores],
        loc="outside right center",
        frameon=False,
        fontsize=9,
        title="hollow: not in a file",
        title_fontsize=8,
        alignment="left",
        handlelength=3.2,
        labelspacing=0.7,
    )
    head(figure, title, results)
    return figure


def group_threads(results, group):
    """The most threads, no more than cores, at which icecore was measured; None if it was not."""
    counts = [
        row["threads"]
        for row in results.rows
        if row["suite"] == group.suite and row["workload"] in group.workloads and row["store"] == BASE_STORE
    ]
    return max((count for count in counts if count <= cores_of(results)), default=min(counts, default=None))


def group_rows(results, group, threads):
    """{workload: {store: row}} of what is beside a row of icecore."""
    found = {}
    for workload in group.workloads:
        if not results.row(group.suite, workload, BASE_STORE, threads):
            continue
        stores = in_order({row["store"] for row in results.rows if row["store"] != MACHINE})
        rows = {store: results.row(group.suite, workload, store, threads) for store in stores}
        found[workload] = {store: row for store, row in rows.items() if row}
    return found


def draw_bars(axes, position, rows, stores):
    base = rows[BASE_STORE]["ops_per_second"]
    width = 0.86 / len(stores)
    for index, store in enumerate(stores):
        if store not in rows:
            continue
        row, style = rows[store], style_of(store)
        ratio = row["ops_per_second"] / base
        x = position + (index - (len(stores) - 1) / 2) * width
        axes.bar(
            x,
            ratio - 1,
            width * 0.88,
            bottom=1,
            facecolor=style.fill,
            edgecolor=style.color,
            linewidth=0.8,
            hatch=style.hatch,
            zorder=3,
        )
        axes.vlines(x, row["min"] / base, row["max"] / base, color="#333333", linewidth=0.7, zorder=4)


def draw_group(axes, group, rows, stores, threads):
    for position, workload in enumerate(rows):
        draw_bars(axes, position, rows[workload], stores)
    axes.axhline(1, color=style_of(BASE_STORE).color, linewidth=2.2, zorder=5)
    axes.set_yscale("log")
    set_ratio_ticks(axes)
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_xticks(range(len(rows)), [label(workload, group.unit) for workload in rows], fontsize=9)
    axes.tick_params(axis="x", length=0)
    for boundary in range(1, len(rows)):
        axes.axvline(boundary - 0.5, color="#cccccc", linewidth=0.7)
    axes.grid(True, axis="y", which="major", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_title(f"{group.title} (T = {threads})", fontsize=10, fontweight="bold", loc="left")


def label(workload, unit):
    operation, _, size = workload.rpartition("_")
    if workload in WORKLOAD_LABELS or not size.isdigit():
        return WORKLOAD_LABELS.get(workload, workload)
    return f"{operation}\n{int(size):,} {unit}"


def comparison(results, group):
    """(group, threads, rows) if icecore was measured beside at least one other store, or None."""
    threads = group_threads(results, group)
    rows = group_rows(results, group, threads)
    return (group, threads, rows) if any(len(stores) > 1 for stores in rows.values()) else None


def comparisons(results):
    lines = [[found for group in line if (found := comparison(results, group))] for line in BEYOND]
    return [line for line in lines if line]


def beyond_figure(results):
    lines = comparisons(results)
    if not lines:
        return None
    all_rows = [rows for line in lines for _, _, rows in line]
    stores = in_order({store for rows in all_rows for workload in rows for store in rows[workload]})
    bars = [store for store in stores if store != BASE_STORE]
    figure = Figure(figsize=(13, 1.2 + 3 * len(lines)), layout="constrained")
    for subfigure, line in zip(figure.subfigures(len(lines), 1, squeeze=False)[:, 0], lines):
        widths = [len(rows) for _, _, rows in line]
        grid = subfigure.subplots(1, len(line), squeeze=False, sharey=True, width_ratios=widths)[0]
        for axes, (group, threads, rows) in zip(grid, line):
            draw_group(axes, group, rows, bars, threads)
        grid[0].set_ylabel(f"speed / {BASE_STORE}'s")
    figure.legend(
        handles=[bar_handle(store) for store in stores],
        loc="outside right center",
        frameon=False,
        fontsize=9,
        title="hatched: not in a file",
        title_fontsize=8,
        alignment="left",
        labelspacing=0.7,
    )
    head(figure, f"Beyond the paper: speed as a ratio to {BASE_STORE} (below the line: slower)", results)
    return figure


def bar_handle(store):
    style = style_of(store)
    if store == BASE_STORE:
        return Line2D([], [], color=style.color, linewidth=2.2, label=f"{store} (= 1)")
    return Patch(
        label=store,
        facecolor=style.fill,
        edgecolor=style.color,
        hatch=style.hatch,
    )


def missing(results):
    """What the figures would draw and the file does not have."""
    workloads = {row["workload"] for row in results.rows if row["suite"] == "paper"}
    limits = {row["workload"] for row in results.rows if row["suite"] == "limits"}
    panels = [panel for _, *panels in FIGURES.values() for panel in panels]
    for panel in panels:
        if panel.workload not in workloads:
            yield f"paper/{panel.workload}"
    for name in sorted({limit.workload for panel in panels for limit in panel.limits} - limits):
        yield f"limits/{name}"
    for group in (group for line in BEYOND for group in line):
        if not comparison(results, group):
            yield f"{group.suite}/{', '.join(group.workloads)} of {BASE_STORE} and another store"


def save(figure, folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    print(path)


def merged(runs):
    """One of several runs: each suite as the first that has it measured it."""
    first, *others = runs
    for other in others:
        suites = {row["suite"] for row in first.rows}
        first.add([row for row in other.rows if row["suite"] not in suites])
    return first


def draw(runs, folder):
    """Writes the figures; gives how many."""
    of_ycsb, missing_of_ycsb = ycsb_figures.drawn(runs), list(ycsb_figures.missing(runs))
    results = merged(runs)  # adds to the first run
    # A reader's own settings must not change the figures; the salt makes the names within an SVG the same each time.
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({"svg.hashsalt": "icecore", "hatch.linewidth": 0.6})
    figures = {name: scaling_figure(results, title, panels) for name, (title, *panels) in FIGURES.items()}
    figures["beyond"] = beyond_figure(results)
    figures.update(of_ycsb)
    figures.update(resumable_figures.drawn(results))
    figures.update(packed_figures.drawn(results))
    drawn = {name: figure for name, figure in figures.items() if figure}
    for name, figure in drawn.items():
        save(figure, folder, name)
    for what in (*missing(results), *missing_of_ycsb):
        print(f"not measured, so not drawn: {what}")
    return len(drawn)


def main():
    parser = argparse.ArgumentParser(
        prog="figures", description="Draws the figures of a benchmark run, as SVG."
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="files that bench/run --json FILE wrote; each suite is drawn from the first that has it",
    )
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=DEFAULT_FOLDER, help="default: docs/figures")
    arguments = parser.parse_args()
    try:
        runs = []
        for file in arguments.files:
            try:
                runs.append(read_results(file))
            except WrongForm as error:
                print(f"figures: {file}: {error}", file=sys.stderr)
                return 2
        drawn = draw(runs, arguments.out)
    except OSError as error:
        print(f"figures: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    if not drawn:
        print(f"figures: {', '.join(arguments.files)}: no rows that any figure draws", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
