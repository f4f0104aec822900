"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

ROWS_MAX = 20
"""The number of rows in a table; below them it says how many more there are."""

_TEXT_MAX = 60


def shortened(value: bytes | None) -> str:
    """A short, readable form: the beginning of the value as a bytes literal, and its size if it is long."""
    if value is None:
        return "–"
    if len(value) <= _TEXT_MAX:
        return repr(bytes(value))
    return f"{bytes(value[:_TEXT_MAX])!r}… ({len(value):,} bytes)"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "", left_out: int = 0) -> str:
    """An HTML table; everything in it is escaped. It says that ``left_out`` rows are not shown; below 0: an unknown
    number."""
    parts = ["<table>"]
    if caption:
        parts.append(f"<caption>{escape(caption)}</caption>")
    if any(head):
        parts.append("<thead><tr>" + "".join(f"<th>{escape(h)}</th>" for h in head) + "</tr></thead>")
    parts.append("<tbody>")
    parts += ["<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows]
    if left_out:
        more = f"… {left_out:,} more" if left_out > 0 else "… and more"
        parts.append(f'<tr><td colspan="{len(head)}">{more}</td></tr>')
    parts.append("</tbody></table>")
    return "".join(parts)
