"""Plots of stats as one HTML page with SVG in it: no library, nothing to load, opens anywhere."""

from __future__ import annotations

import datetime
import html
from collections.abc import Mapping, Sequence
from typing import Any

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 860, 180, 90, 24, 12
_COLOURS = ("#1f6feb", "#d1242f", "#1a7f37")
# Title, unit, and the columns that are drawn in it.
_PLOTS = (
    ("Throughput", "records/s", ("records_s",)),
    ("Throughput", "bytes/s", ("bytes_s",)),
    ("Size of records", "bytes", ("size_p50", "size_p99", "size_max")),
    ("Distinct keys", "keys", ("keys",)),
    ("Lateness within a partition", "ms", ("late_ms_p50", "late_ms_p99", "late_ms_max")),
    ("Lag from event to log", "ms", ("lag_ms_p50", "lag_ms_p99", "lag_ms_max")),
)
_STYLE = "body{font:14px system-ui,sans-serif;margin:2em;max-width:60em}svg{display:block}text{font-size:11px;fill:#57606a}h2{margin-top:2em}"


def page(rows: Sequence[Mapping[str, Any]], window: str) -> str:
    """The page: a section for each topic, a plot for each quantity that is known."""
    parts = [
        f"<!doctype html><meta charset=utf-8><title>Topics, by windows of {html.escape(window)}</title><style>{_STYLE}</style>"
    ]
    for topic in sorted({row["topic"] for row in rows}):
        mine = [row for row in rows if row["topic"] == topic]
        parts.append(f"<h2>{html.escape(topic)}</h2>")
        for title, unit, columns in _PLOTS:
            if any(row[column] is not None for row in mine for column in columns):
                parts.append(plot(mine, title, unit, columns))
    return "\n".join(parts) + "\n"


def plot(rows: Sequence[Mapping[str, Any]], title: str, unit: str, columns: Sequence[str]) -> str:
    """One plot over time, a line for each column."""
    times = [row["start"].replace(tzinfo=datetime.UTC).timestamp() for row in rows]
    first, span = min(times), max(max(times) - min(times), 1.0)
    top = max((row[column] or 0 for row in rows for column in columns), default=0) or 1

    def at(time: float, value: float) -> tuple[float, float]:
        x = _LEFT + (time - first) / span * (_WIDTH - _LEFT - 10)
        return x, _TOP + (1 - value / top) * (_HEIGHT - _TOP - _BOTTOM)

    shapes = []
    for step in (0.0, 0.5, 1.0):
        y = at(first, top * step)[1]
        shapes.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d0d7de"/>')
        shapes.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{top * step:,.4g}</text>')
    for colour, column in zip(_COLOURS, columns, strict=False):
        points = [at(time, row[column]) for time, row in zip(times, rows, strict=True) if row[column] is not None]
        shapes.append(
            f'<polyline fill="none" stroke="{colour}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
        )
        shapes += [f'<circle r="2" fill="{colour}" cx="{x:.1f}" cy="{y:.1f}"/>' for x, y in points]
    for time, anchor in ((first, "start"), (first + span, "end")):
        text = datetime.datetime.fromtimestamp(time, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
        shapes.append(f'<text x="{at(time, 0)[0]:.1f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{text}</text>')
    names = ", ".join(
        f'<span style="color:{colour}">{column}</span>' for colour, column in zip(_COLOURS, columns, strict=False)
    )
    return (
        f'<p>{html.escape(title)} ({unit}): {names}</p><svg width="{_WIDTH}" height="{_HEIGHT}">{"".join(shapes)}</svg>'
    )
