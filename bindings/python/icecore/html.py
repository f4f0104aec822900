"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

ROWS_MAX = 20
"""The number of rows in a table; below them it says how many more there are."""

_TEXT_MAX = 60


def shortened(value: bytes | memoryview | None) -> str:
    """A short, readable form: the beginning of the value as a bytes literal, and its size if it is long."""
    if value is None:
        return "–"
    if len(value) <= _TEXT_MAX:
        return repr(bytes(value))
    return f"{bytes(value[:_TEXT_MAX])!r}… ({len(value):,} bytes)"


def text(given: object) -> str:
    """Escaped for HTML. What no page can show, such as the halves of characters that stand for bytes that are no text, is
    written as in a Python literal."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in str(given))
    return escape(shown)


def paragraph(given: object) -> str:
    """A line of text."""
    return f"<p>{text(given)}</p>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "", left_out: int = 0) -> str:
    """An HTML table; everything in it is escaped. It says that ``left_out`` rows are not shown; below 0: an unknown
    number."""
    parts = ["<table>"]
    if caption:
        parts.append(f"<caption>{text(caption)}</caption>")
    if any(head):
        parts.append("<thead><tr>" + "".join(f"<th>{text(h)}</th>" for h in head) + "</tr></thead>")
    parts.append("<tbody>")
    parts += ["<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    if left_out:
        more = f"… {left_out:,} more" if left_out > 0 else "… and more"
        parts.append(f'<tr><td colspan="{len(head)}">{more}</td></tr>')
    parts.append("</tbody></table>")
    return "".join(parts)
