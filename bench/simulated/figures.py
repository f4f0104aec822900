"""Draws the results of bench/simulated/run as the figures 6 and 7 of the paper.

    bench/simulated/figures.py FILE [--out FOLDER]      FOLDER: docs/figures by default

figure6: finds per second, one at a time. figure7: seconds until a snapshot of all nodes is extracted.
"""

import argparse
import json
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "docs" / "figures"

# Hues after Okabe and Ito.
FINDS = {
    "routed": ("routed: the owner is asked", "#0072b2", "o"),
    "broadcast": ("broadcast: all are asked (the paper's)", "#d55e00", "s"),
}
EXTRACTIONS = {
    "naive_merge_linear": ("NaiveMerge, all heads compared", "#d55e00", "s"),
    "naive_merge_tournament": ("NaiveMerge, tournament", "#e69f00", "D"),
    "stream": ("stream", "#cc79a7", "v"),
    "opt_merge": ("OptMerge, 1 thread", "#0072b2", "o"),
    "opt_merge_2_threads": ("OptMerge, 2 threads", "#56b4e9", "p"),
    "gather": ("gather (not in order)", "#7a7a7a", "P"),
    "distributed": ("distributed (a stretch on each)", "#009e73", "^"),
    "extract": ("one node's own part", "#000000", "x"),
}


def axes_of(title, ylabel, nodes):
    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(nodes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.grid(True, color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel("simulated nodes, one rank each")
    axes.set_ylabel(ylabel)
    axes.set_title(title, fontsize=11, loc="left", fontweight="bold")
    return figure, axes


def draw_lines(axes, rows, field, lines):
    for name, (label, color, marker) in lines.items():
        points = [(row["ranks"], row[field][name]) for row in rows if name in row[field]]
        if points:
            axes.plot(*zip(*points), label=label, color=color, marker=marker, linewidth=1.5, markersize=5.5)
    axes.legend(frameon=False, fontsize=9)


def find_figure(rows):
    figure, axes = axes_of("Find (the paper's figure 6)", "queries a second", [row["ranks"] for row in rows])
    draw_lines(axes, rows, "queries_per_second", FINDS)
    return figure


def extract_figure(rows):
    pairs = rows[0]["pairs_per_rank"]
    title = f"Extract snapshot, {pairs:,} pairs a node (the paper's figure 7)"
    figure, axes = axes_of(title, "seconds", [row["ranks"] for row in rows])
    draw_lines(axes, rows, "seconds", EXTRACTIONS)
    return figure


def save(figure, folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, default=DEFAULT_FOLDER, metavar="FOLDER")
    arguments = parser.parse_args()
    results = json.loads(arguments.file.read_text())
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({"svg.hashsalt": "icecore"})
    save(find_figure(results["find"]), arguments.out, "figure6")
    save(extract_figure(results["extract"]), arguments.out, "figure7")


if __name__ == "__main__":
    main()
