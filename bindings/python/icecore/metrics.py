"""Metrics of tags: the last line of a tag's note, if it is a JSON object.

So other languages and the command line show and write them, and a note may say more in the lines before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Union

from . import tables
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from .information import Tag

Metric = Union[float, int, bool, str, None]

COLUMNS = ("version", "name", "time", "note")
"""The columns that a frame of tags has besides the metrics."""


def note_with(note: str, metrics: Mapping[str, Any] | None) -> str:
    """The note, and behind it a line with the metrics as a JSON object, if there are any."""
    if metrics is None:
        return note
    if not isinstance(metrics, Mapping):
        raise TypeError(f"metrics must be a mapping from names to numbers, not {type(metrics).__name__}")
    if not isinstance(note, str):
        raise TypeError(f"a tag's note must be a str, not {type(note).__name__}")
    line = json.dumps({_name(name): _plain(name, value) for name, value in metrics.items()}, ensure_ascii=False)
    return f"{note}\n{line}" if note else line


def metrics_in(note: str) -> dict[str, Metric]:
    """The metrics of a note; none if its last line is no JSON object."""
    line = note.rpartition("\n")[2]
    if not line.startswith("{"):
        return {}
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a metric must be a str, not {type(name).__name__}")
    if not name or name in COLUMNS:
        raise InvalidArgumentError(f"a metric cannot be called {name!r}: {', '.join(COLUMNS)} are what each tag has")
    return name


def _plain(name: str, value: Any) -> Metric:
    """A number, str or None, also if it is given as a NumPy scalar, or an array or tensor of one item."""
    if value is None or type(value) in (bool, int, float, str):
        return value  # type: ignore[no-any-return]
    if hasattr(value, "item"):
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):  # it has more than one item
            pass
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"metric {name!r} must be a number, a str or None, not {type(value).__name__}")


def frame_of(tags: Sequence[Tag]) -> Any:
    """See Tags.to_pandas."""
    try:
        import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise ImportError(
            "to_pandas() needs pandas: pip install pandas. Without it, [tag.metrics for tag in store.tags()] has the numbers"
        ) from None
    made = pandas.DataFrame(_columns_of(tags))
    made["time"] = pandas.to_datetime(made["time"], unit="ns", utc=True)
    return made


def polars_of(tags: Sequence[Tag]) -> Any:
    """See Tags.to_polars."""
    try:
        import polars  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ImportError("to_polars() needs polars: pip install polars") from None
    time = polars.Datetime("ns", "UTC")
    columns = {
        name: polars.Series(name, values, {"version": polars.UInt64, "time": polars.Int64, "name": polars.String}.get(name))
        if name in COLUMNS
        else polars.Series(name, _of_one_type(name, values))
        for name, values in _columns_of(tags).items()
    }
    return polars.DataFrame(list(columns.values())).with_columns(polars.col("time").cast(time))


def arrow_of(tags: Sequence[Tag], batch_rows: int) -> tables.ArrowStream:
    """See Tags.to_arrow."""
    fixed = {"version": "version", "name": "str", "time": "time", "note": "str"}
    columns = {}
    for name, values in _columns_of(tags).items():
        made = values if name in fixed else _of_one_type(name, values)
        kind = fixed.get(name) or next((type(value).__name__ for value in made if value is not None), "float")
        if kind not in ("version", "str", "time", "int", "float", "bool"):
            raise InvalidArgumentError(f"metric {name!r} has values of the type {kind}, and a column of Arrow has numbers or str")
        if kind == "int" and any(value is not None and not -(2**63) <= value < 2**63 for value in made):
            raise InvalidArgumentError(f"metric {name!r} has whole numbers of more than 64 bits: to_pandas() takes them")
        columns[name] = kind, made
    return tables.stream_of(columns, f"{len(tags)} tags", batch_rows)


def _columns_of(tags: Sequence[Tag]) -> dict[str, list[Any]]:
    """The columns of a frame of tags, times in nanoseconds."""
    columns: dict[str, list[Any]] = {
        "version": [tag.version for tag in tags],
        "name": [tag.name for tag in tags],
        "time": [tag.time_ns for tag in tags],
        "note": [tag.note for tag in tags],
    }
    found = [tag.metrics for tag in tags]
    for name in _names(found):
        column = f"{name} (metric)" if name in COLUMNS else name
        columns[column] = [metrics.get(name) for metrics in found]
    return columns


def _of_one_type(name: str, values: list[Any]) -> list[Any]:
    """The values of a metric, whole numbers among floats as floats."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1:
        raise InvalidArgumentError(
            f"metric {name!r} has values of several types, {', '.join(sorted(kind.__name__ for kind in kinds))}, and a column "
            "of polars or Arrow has one: to_pandas() takes them"
        )
    return values


def plot_of(tags: Sequence[Tag], names: Sequence[str], over: str, axes: Any) -> Any:
    """See Tags.plot."""
    if over not in ("version", "time"):
        raise InvalidArgumentError(f"over {over!r} is not one of version, time")
    found = [tag.metrics for tag in tags]
    known = _names(found)
    for name in names:
        if name not in known:
            there = ", ".join(known) if known else "none"
            raise InvalidArgumentError(f"no tag has a metric {name!r}; there are: {there}")
    lines = [(name, *_line(tags, found, name, over)) for name in names or _numeric(found, known)]
    try:
        import matplotlib.pyplot as plt  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ImportError("plot() needs matplotlib: pip install matplotlib") from None
    if axes is not None and not hasattr(axes, "set_xlabel"):
        raise TypeError(f"ax must be matplotlib's axes, not {type(axes).__name__}")
    if axes is None:
        axes = plt.subplots()[1]
    for name, places, values in lines:
        axes.plot(places, values, marker=".", label=name)
    axes.set_xlabel(over)
    if lines:
        axes.legend()
    return axes


def _line(tags: Sequence[Tag], found: list[dict[str, Metric]], name: str, over: str) -> tuple[list[Any], list[float]]:
    """Where a metric was measured, and what it was."""
    places: list[int | datetime] = []
    values: list[float] = []
    for tag, metrics in zip(tags, found):
        value = metrics.get(name)
        if value is None:
            continue
        if isinstance(value, (str, bool)) or not isinstance(value, (int, float)):
            raise InvalidArgumentError(f"metric {name!r} of version {tag.version} is no number, but {value!r}")
        places.append(tag.version if over == "version" else tag.time)
        values.append(value)
    return places, values


def _names(found: Iterable[dict[str, Metric]]) -> list[str]:
    """The names of all metrics, in the order in which they first appear."""
    return list(dict.fromkeys(name for metrics in found for name in metrics))


def _numeric(found: list[dict[str, Metric]], names: list[str]) -> list[str]:
    def is_number(value: Metric) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    values = {name: [metrics[name] for metrics in found if metrics.get(name) is not None] for name in names}
    return [name for name in names if values[name] and all(is_number(value) for value in values[name])]
