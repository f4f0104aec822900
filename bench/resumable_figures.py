"""The figures of icecore_resumable, like those of M. Sa and P. Sutra, "Efficient Resumable Filter Queries".

    resumable1   throughput of other operations by threads, beside a query that sleeps at each item
    resumable2   the time of a query that is killed at half: of each structure, and of the hash table by size of item
"""

from figure_styles import cores_of, head, in_order, plain_number, shade_oversubscription, style_of
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from query_targets import COMPLETION, THROUGHPUT

SKIP_LIST, HASH_TABLE = "skip list", "hash table"
MIXES = ("10/45/45", "80/20")
SMALL = "8 B"


def rows_of(results, suite, workload):
    found = {}
    for row in results.rows:
        if (row["suite"], row["workload"]) == (suite, workload):
            found.setdefault(row["store"], []).append(row)
    return {store: sorted(found[store], key=lambda row: row["threads"]) for store in in_order(found)}


def draw_lines(axes, results, title, rows):
    for store, of_store in rows.items():
        rates = [row["ops_per_second"] / 1e6 for row in of_store]
        below = [(row["ops_per_second"] - row["min"]) / 1e6 for row in of_store]
        above = [(row["max"] - row["ops_per_second"]) / 1e6 for row in of_store]
        threads = [row["threads"] for row in of_store]
        axes.errorbar(threads, rates, yerr=[below, above], elinewidth=0.8, capsize=2, **style_of(store).line)
    threads = sorted({row["threads"] for of_store in rows.values() for row in of_store})
    axes.set_xscale("log", base=2)
    axes.set_xlim(min(threads) / 1.25, max(threads) * 1.25)
    axes.xaxis.set_major_locator(FixedLocator(threads))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
    axes.set_ylim(bottom=0)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    shade_oversubscription(axes, threads, cores_of(results))
    axes.set_title(title, fontsize=10, fontweight="bold", loc="left")
    axes.set_xlabel("threads")
    axes.set_ylabel("million operations a second")


def throughput_figure(results):
    lines = [[(f"{of} {mix}", rows_of(results, THROUGHPUT, f"{of} {mix}")) for mix in MIXES] for of in (SKIP_LIST, HASH_TABLE)]
    lines = [[(title, rows) for title, rows in line if rows] for line in lines]
    lines = [line for line in lines if line]
    if not lines:
        return None
    columns = max(map(len, lines))
    figure = Figure(figsize=(2.4 + 4.9 * columns, 0.9 + 3.6 * len(lines)), layout="constrained")
    grid = figure.subplots(len(lines), columns, squeeze=False)
    for line, of_line in zip(lines, grid):
        for unused in of_line[len(line) :]:
            unused.set_visible(False)
        for (title, rows), axes in zip(line, of_line):
            draw_lines(axes, results, title, rows)
    stores = in_order({store for line in lines for _, rows in line for store in rows})
    figure.legend(
        handles=[Line2D([], [], label=store, **style_of(store).line) for store in stores],
        loc="outside right center",
        frameon=False,
        fontsize=9,
        handlelength=3.2,
    )
    head(figure, "Operations beside a query of 100 µs an item (the paper's figure 1)", results)
    return figure


def draw_bars(axes, title, labels, groups, stores):
    width = 0.86 / len(stores)
    for position, rows in enumerate(groups):
        for index, store in enumerate(stores):
            if store not in rows:
                continue
            row, style = rows[store][0], style_of(store)
            x = position + (index - (len(stores) - 1) / 2) * width
            look = dict(facecolor=style.fill, edgecolor=style.color, linewidth=0.8, hatch=style.hatch, zorder=3)
            axes.bar(x, 1 / row["ops_per_second"], width * 0.88, **look)
            axes.vlines(x, 1 / row["max"], 1 / row["min"], color="#333333", linewidth=0.7, zorder=4)
    axes.set_xticks(range(len(labels)), labels)
    axes.grid(True, axis="y", which="major", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_title(title, fontsize=10, fontweight="bold", loc="left")
    axes.set_ylabel("seconds (lower is better)")


def completion_figure(results):
    workloads = {row["workload"] for row in results.rows if row["suite"] == COMPLETION}
    structures = [of for of in (SKIP_LIST, HASH_TABLE) if f"{of} {SMALL}" in workloads]
    sizes = sorted(int(name.split()[-2]) for name in workloads if name.startswith(HASH_TABLE))
    if not structures or not sizes:
        return None
    left = [rows_of(results, COMPLETION, f"{of} {SMALL}") for of in structures]
    right = [rows_of(results, COMPLETION, f"{HASH_TABLE} {size} B") for size in sizes]
    stores = in_order({store for rows in (*left, *right) for store in rows})
    figure = Figure(figsize=(12, 4.4), layout="constrained")
    one, two = figure.subplots(1, 2, width_ratios=[len(left), len(right)])
    draw_bars(one, "Items of 8 bytes", structures, left, stores)
    draw_bars(two, "Hash table, by size of item", [f"{size:,} B" for size in sizes], right, stores)
    handles = [
        Patch(label=store, facecolor=style.fill, edgecolor=style.color, hatch=style.hatch)
        for store, style in ((store, style_of(store)) for store in stores)
    ]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9)
    head(figure, "A query that is killed at half and recovers (the paper's figure 2)", results)
    return figure


def drawn(results):
    """Each figure, or None."""
    return {"resumable1": throughput_figure(results), "resumable2": completion_figure(results)}
