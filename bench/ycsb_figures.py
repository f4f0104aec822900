"""The figures of the suite ycsb, like those of S. Chowdhury, "A Scalable Recoverable Skip List for Persistent Memory on
NUMA Machines", University of Waterloo 2021, chapter 5. Each is named after the figure it resembles.

    thesis5.1, thesis5.2   throughput by threads, of all maps: workloads A and B, C and D
    thesis5.3              only reads, of indexes with one key per node: libpmemobj's two-word pointers and others
    thesis5.4              one pool compared with several
    thesis5.5, thesis5.6   latencies at percentiles, of two stores
    ycsb                   not in the thesis: loading, workloads E and F, only updates
"""

from dataclasses import dataclass

from figure_styles import SUBJECT, cores_of, head, in_order, plain_number, shade_oversubscription, style_of
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
from targets import LATENCIES, PERSISTENT, POOLS

SUITE = "ycsb"
TITLES = {
    "load": "Load",
    "A": "A: half reads, half updates",
    "B": "B: 95 % reads, 5 % updates",
    "C": "C: reads alone",
    "D": "D: 95 % reads of the latest, 5 % inserts",
    "E": "E: 95 % scans, 5 % inserts",
    "F": "F: half reads, half read-modify-writes",
    "updates": "Updates alone",
}


@dataclass(frozen=True)
class Throughput:
    """Panels of operations a second by threads."""

    title: str
    workloads: tuple
    stores: tuple = ()  # none: all
    fewest: int = 1  # stores without which it is not worth drawing

    def draw(self, results):
        panels = [(name, rows) for name in self.workloads if (rows := self.rows(results, name))]
        return throughput_figure(results, self.title, panels) if panels else None

    def rows(self, results, workload):
        found = {}
        for row in results.rows:
            if (row["suite"], row["workload"]) == (SUITE, workload) and row["store"] in (self.stores or (row["store"],)):
                found.setdefault(row["store"], []).append(row)
        if len(found) < self.fewest:
            return {}
        return {store: sorted(found[store], key=lambda row: row["threads"]) for store in in_order(found)}


@dataclass(frozen=True)
class Latency:
    """Latencies at percentiles of the subject beside a rival, a panel for each kind of operation."""

    title: str
    subjects: tuple  # the first one that was measured
    rival: str
    workloads: str = "ABCD"

    def draw(self, results):
        threads = self.threads(results)
        if threads is None:
            return None
        subject = next((store for store in self.subjects if self.row(results, "A", store, threads)), self.subjects[0])
        curves = {}
        for workload in self.workloads:
            for store in (subject, self.rival):
                row = self.row(results, workload, store, threads)
                for operation, taken in (row or {}).get("latency_ns", {}).items():
                    curves.setdefault(operation, []).append((workload, store, taken))
        return latency_figure(results, f"{self.title} (T = {threads})", curves) if curves else None

    def row(self, results, workload, store, threads):
        return results.row(SUITE, workload, store, threads)

    def threads(self, results):
        """The most, no more than cores, at which the rival was measured."""
        counts = [row["threads"] for row in results.rows if row["suite"] == SUITE and row["store"] == self.rival]
        return max((count for count in counts if count <= cores_of(results)), default=min(counts, default=None))


SUBJECTS = (PERSISTENT, "icecore-btree")
FIGURES = {
    "thesis5.1": Throughput("YCSB A and B (the thesis' figure 5.1)", ("A", "B")),
    "thesis5.2": Throughput("YCSB C and D (the thesis' figure 5.2)", ("C", "D")),
    "thesis5.3": Throughput(
        "Reads with a key a node, by pointers of one word and of two (the thesis' figure 5.3)",
        ("C",),
        ("icecore-skip_list", "pmemobj"),
        fewest=2,
    ),
    "thesis5.4": Throughput(
        "One pool and several (the thesis' figure 5.4)", ("A", "B", "C", "D"), (PERSISTENT, POOLS), fewest=2
    ),
    "thesis5.5": Latency("Latency beside LMDB without sync (the thesis' figure 5.5)", SUBJECTS, "LMDB-nosync"),
    "thesis5.6": Latency("Latency beside the skip list on libpmemobj (the thesis' figure 5.6)", SUBJECTS, "pmemobj"),
    "ycsb": Throughput("YCSB beyond the thesis", ("load", "E", "F", "updates")),
}
COLORS = {"A": "#0072b2", "B": "#d55e00", "C": "#009e73", "D": "#cc79a7"}
COLUMNS_MAX = 2


def grid_of(count, height):
    columns = min(count, COLUMNS_MAX)
    lines = -(-count // columns)
    figure = Figure(figsize=(2.4 + 4.9 * columns, 0.9 + height * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).flatten()
    for unused in panels[count:]:
        unused.set_visible(False)
    return figure, panels


def draw_throughput(axes, rows):
    for store, store_rows in rows.items():
        rates = [row["ops_per_second"] / 1e6 for row in store_rows]
        below = [(row["ops_per_second"] - row["min"]) / 1e6 for row in store_rows]
        above = [(row["max"] - row["ops_per_second"]) / 1e6 for row in store_rows]
        threads = [row["threads"] for row in store_rows]
        axes.errorbar(threads, rates, yerr=[below, above], elinewidth=0.8, capsize=2, **style_of(store).line)


def throughput_figure(results, title, panels):
    figure, grid = grid_of(len(panels), 3.6)
    for axes, (workload, rows) in zip(grid, panels):
        draw_throughput(axes, rows)
        threads = sorted({row["threads"] for store_rows in rows.values() for row in store_rows})
        axes.set_xscale("log", base=2)
        axes.set_xlim(min(threads) / 1.25, max(threads) * 1.25)
        axes.xaxis.set_major_locator(FixedLocator(threads))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
        axes.set_ylim(bottom=0)
        axes.grid(True, which="major", color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)
        shade_oversubscription(axes, threads, cores_of(results))
        axes.set_title(TITLES[workload], fontsize=10, fontweight="bold", loc="left")
        axes.set_xlabel("threads T")
        axes.set_ylabel("million operations a second")
    stores = in_order({store for _, rows in panels for store in rows})
    handles = [Line2D([], [], label=store, **style_of(store).line) for store in stores]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9, handlelength=3.2)
    head(figure, title, results)
    return figure


def draw_latencies(axes, curves):
    for workload, store, taken in curves:
        axes.plot(
            range(len(LATENCIES)),
            [taken[name][0] / 1000 for name in LATENCIES],
            color=COLORS[workload],
            linestyle="-" if store.startswith(SUBJECT) else "--",
            marker=style_of(store).marker,
            markersize=5,
        )


def latency_figure(results, title, curves):
    figure, grid = grid_of(len(curves), 3.6)
    for axes, (operation, drawn) in zip(grid, curves.items()):
        draw_latencies(axes, drawn)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(plain_number))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(range(len(LATENCIES)), LATENCIES)
        axes.grid(True, which="major", color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.set_title(f"{operation}s".replace("_", "-"), fontsize=10, fontweight="bold", loc="left")
        axes.set_ylabel("microseconds")
    shown = {(workload, store) for drawn in curves.values() for workload, store, _ in drawn}
    handles = [
        Line2D(
            [],
            [],
            label=f"{workload}, {store}",
            color=COLORS[workload],
            linestyle="-" if store.startswith(SUBJECT) else "--",
            marker=style_of(store).marker,
        )
        for workload, store in sorted(shown, key=lambda one: (one[1], one[0]))
    ]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9, handlelength=3.2)
    head(figure, title, results)
    return figure


def drawn(runs):
    """Each figure, or None, from the first run that has what it sets side by side: no figure mixes runs."""
    return {name: next(filter(None, map(wanted.draw, runs)), None) for name, wanted in FIGURES.items()}


def missing(runs):
    """What these figures would draw and no run has, though one has the suite."""
    if not any(results.has(SUITE) for results in runs):
        yield f"{SUITE}/all of it"
        return
    for name, wanted in FIGURES.items():
        if not any(wanted.draw(results) for results in runs):
            yield f"{SUITE}: what {name} shows"
