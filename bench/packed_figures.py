"""The figure of icecore_packed: a store that was packed beside one that was just written, LMDB and maps in memory."""

from figure_styles import head, in_order, style_of
from matplotlib.figure import Figure
from matplotlib.patches import Patch

SUITE = "packed"
# What is asked, and how the rates are told.
PANELS = (
    ("find", "Find at a version", 1e6, "million a second"),
    ("find_many", "Find many at once", 1e6, "million keys a second"),
    ("history", "Histories of 1 or 2 changes", 1e6, "million a second"),
    ("deep history", "Histories of 1,000 changes", 1e3, "thousand a second"),
    ("snapshot", "Snapshots, each thread its own", 1, "a second"),
)
ALONE = "packed"  # the records without a store


def draw_bars(axes, rows, threads, stores, unit):
    width = 0.86 / len(stores)
    for position, count in enumerate(threads):
        for index, store in enumerate(stores):
            row = rows.get((store, count))
            if row is None:
                continue
            style = style_of(store)
            x = position + (index - (len(stores) - 1) / 2) * width
            look = dict(facecolor=style.fill, edgecolor=style.color, linewidth=0.8, hatch=style.hatch, zorder=3)
            axes.bar(x, row["ops_per_second"] / unit, width * 0.88, **look)
            axes.vlines(x, row["min"] / unit, row["max"] / unit, color="#333333", linewidth=0.7, zorder=4)
    axes.set_xticks(range(len(threads)), [f"{count} thread" + "s" * (count > 1) for count in threads])
    axes.grid(True, axis="y", which="major", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_ylim(bottom=0)


def drawn(results):
    """The figure, or None."""
    rows = {}
    for row in results.rows:
        if row["suite"] == SUITE and row["store"] != ALONE:
            rows.setdefault(row["workload"], {})[row["store"], row["threads"]] = row
    panels = [panel for panel in PANELS if panel[0] in rows]
    if not panels:
        return {}
    all_stores = in_order({store for of_panel in rows.values() for store, _ in of_panel})
    figure = Figure(figsize=(2.2 + 2.9 * len(panels), 3.9), layout="constrained")
    for (workload, title, unit, label), axes in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0]):
        of_panel = rows[workload]
        stores = [store for store in all_stores if any(store == of for of, _ in of_panel)]
        draw_bars(axes, of_panel, sorted({count for _, count in of_panel}), stores, unit)
        axes.set_title(title, fontsize=10, fontweight="bold", loc="left")
        axes.set_ylabel(label)
    handles = [
        Patch(label=store, facecolor=style.fill, edgecolor=style.color, hatch=style.hatch)
        for store, style in ((store, style_of(store)) for store in all_stores)
    ]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9)
    head(figure, "Packed by compact(), and beside it", results)
    return {"packed": figure}
