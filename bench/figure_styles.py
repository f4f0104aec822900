"""The style of each store in all figures, and the parts around the panels that all figures share."""

from dataclasses import dataclass

SUBJECT = "icecore"


@dataclass(frozen=True)
class Style:
    """The style of a store in all figures; the marker of a store without files is hollow."""

    color: str
    marker: str
    in_file: bool = True
    line_width: float = 1.2
    marker_size: float = 5.5

    @property
    def fill(self):
        return self.color if self.in_file else "white"

    @property
    def hatch(self):
        return None if self.in_file else "//////"

    @property
    def line(self):
        """What matplotlib calls these of a line."""
        return dict(
            color=self.color,
            linewidth=self.line_width,
            marker=self.marker,
            markersize=self.marker_size,
            markerfacecolor=self.fill,
            markeredgewidth=1.2,
        )


# Hues after Okabe and Ito, which colour-blind readers tell apart; related stores share one and differ in the marker.
# icecore's lines often lie on each other: drawn in this order, each leaves the border of the one before to be seen.
STYLES = {
    "compacted": Style("#00284a", "s", line_width=2.2, marker_size=6.5),
    "icecore-none": Style("#0072b2", "o", line_width=5, marker_size=10),
    "icecore-tag": Style("#56b4e9", "D", line_width=3.2, marker_size=6.5),
    "icecore-operation": Style("#00284a", "s", line_width=1.8, marker_size=4.5),
    "ESkipList": Style("#009e73", "^"),
    "PSkipList": Style("#009e73", "v"),
    "LockedMap": Style("#7a7a7a", "P", in_file=False),
    "absl": Style("#000000", "X", in_file=False),
    "SQLiteMem": Style("#cc79a7", "<", in_file=False),
    "SQLiteReg": Style("#cc79a7", ">"),
    "LMDB": Style("#d55e00", "d"),
    "LMDB-batch": Style("#8f3f00", "p"),
    "RocksDB": Style("#e69f00", "h"),
    "LevelDB": Style("#b8a800", "*", marker_size=7.5),
    "WiredTiger": Style("#6a51a3", "x"),
    "BerkeleyDB": Style("#a3623a", "+", marker_size=7),
    "icecore-btree": Style("#56b4e9", "D"),
    "icecore-skip_list": Style("#009e73", "^"),
    "icecore-hash": Style("#cc79a7", "v"),
    "icecore-persistent": Style("#00284a", "s", line_width=2.2, marker_size=6.5),
    "icecore-persistent-pools": Style("#0072b2", "o"),
    "LMDB-nosync": Style("#d55e00", "d"),
    "LMDB-sync": Style("#8f3f00", "p"),
    "RocksDB-nosync": Style("#e69f00", "h"),
    "RocksDB-sync": Style("#b8a800", "*", marker_size=7.5),
    "pmemobj": Style("#cc79a7", ">"),
    "icecore": Style("#0072b2", "o", line_width=2.2, marker_size=6.5),
    "PDT": Style("#009e73", "^"),
    "volatile": Style("#7a7a7a", "P", in_file=False),
    "FS": Style("#e69f00", "h"),
    "FS-disk": Style("#d55e00", "d"),
}
UNKNOWN_STYLE = Style("#555555", "1")


def style_of(store):
    return STYLES.get(store, UNKNOWN_STYLE)


def is_subject(store):
    return store.startswith(SUBJECT)


def in_order(stores):
    """Those of STYLES as there, then the others by name."""
    known = list(STYLES)
    return sorted(stores, key=lambda store: (known.index(store) if store in known else len(known), store))


def cores_of(results):
    """As many threads as run at once; the most of any row if the file does not say."""
    fitting = [row["threads"] for row in results.rows if not row.get("oversubscribed")]
    return results.machine.get("hardware_threads", max(fitting, default=1))


def machine_line(results):
    machine = results.machine
    parts = [machine.get("processor"), f"{cores_of(results)} hardware threads", machine.get("kernel")]
    parts += [machine.get("folder"), f"icecore {results.version}"]
    return " · ".join(str(part) for part in parts if part)


def shade_oversubscription(axes, threads, cores):
    if max(threads) <= cores:
        return
    start = max([count for count in threads if count <= cores], default=min(threads) / 2)
    # Half way, on the logarithmic axis, from the last number that fits to the first that does not.
    start = (start * min(count for count in threads if count > cores)) ** 0.5
    axes.axvspan(start, max(threads) * 4, color="#000000", alpha=0.06, linewidth=0, zorder=0)
    axes.annotate(
        "more threads than cores →",
        (start, 1),
        xycoords=("data", "axes fraction"),
        xytext=(4, -5),
        textcoords="offset points",
        va="top",
        fontsize=8,
        color="#444444",
    )


def plain_number(value, _):
    return f"{value:g}" if 1e-3 <= value < 1e5 else f"{value:.0e}"


def head(figure, title, results):
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    figure.supxlabel(machine_line(results), x=0.01, ha="left", fontsize=8, color="#666666")
