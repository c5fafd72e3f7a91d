"""The one table that a run prints: kafkapy, Apache Kafka, their ratio, the goal, and whether it is met."""

from __future__ import annotations

from collections.abc import Mapping

from bench.figures import FIGURES
from bench.peers import KAFKA, KAFKAPY, TITLES

Results = Mapping[str, Mapping[str, float]]  # kind -> figure -> value


def number(value: float | None) -> str:
    """Three digits that matter, without exponents."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 or not value else f"{value:.5f}"


def rows(results: Results) -> list[tuple[str, ...]]:
    """The cells of all figures that were measured."""
    table: list[tuple[str, ...]] = []
    for figure in FIGURES:
        own, other = (results.get(kind, {}).get(figure.name) for kind in (KAFKAPY, KAFKA))
        if own is None and other is None:
            continue
        ratio = own / other if own is not None and other is not None and other > 0 else None
        met = None if own is None else figure.is_met(own, ratio)
        verdict = {None: "", True: "met", False: "missed"}[met]
        title = f"{figure.title} ({figure.unit})" if figure.unit else figure.title
        shown = "-" if ratio is None else f"{ratio:.2f}x"
        table.append((title, number(own), number(other), shown, figure.goal_text(), verdict))
    return table


def render(results: Results, *, markdown: bool = False) -> str:
    """The table as text for a terminal, or in Markdown."""
    header = ("", TITLES[KAFKAPY], TITLES[KAFKA], "ratio", "goal", "")
    body = rows(results)
    if markdown:
        lines = [header, ("---", "---:", "---:", "---:", "---:", "---"), *body]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    text = []
    for line in (header, *body):
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        text.append("  ".join((line[0].ljust(widths[0]), *cells[1:])).rstrip())
    verdicts = [line[-1] for line in body if line[-1]]
    if verdicts:
        text.append(f"{verdicts.count('met')} of {len(verdicts)} goals met in this run")
    return "\n".join(text)
