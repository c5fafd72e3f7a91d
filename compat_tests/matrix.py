"""MATRIX.md: client x capability x result, one column per target; a run replaces only what it ran.

The file is its own memory: it is read back before it is written, so that a run against kafkapy keeps what the last run against
Apache Kafka found, and the other way round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

import pytest

COLUMNS = {"kafkapy": "kafkapy", "kafka": "Apache Kafka 4.3.1"}
_HEAD = """# Stock clients against kafkapy and Apache Kafka

Written by `make compat` (`pytest compat_tests`, and `--target=kafka`). A skip says what is missing. What differs is explained in
[FINDINGS.md](FINDINGS.md).
"""


class Result(NamedTuple):
    """How a test ended."""

    outcome: str
    note: str = ""

    @classmethod
    def from_report(cls, report: pytest.TestReport) -> Self:
        """Of one phase of a test: its call, or the set-up that kept it from being called."""
        if report.passed:
            return cls("pass")
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            return cls("skip", reason.removeprefix("Skipped: "))
        return cls("FAIL")

    def cell(self) -> str:
        """As a table's cell."""
        return f"{self.outcome}: {self.note}".replace("|", "/").replace("\n", " ") if self.note else self.outcome


class Matrix:
    """All results known, by (client, capability)."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, str], dict[str, str]] = {}
        self._versions: dict[str, str] = {}

    @classmethod
    def load(cls, file: Path) -> Self:
        """What the file says; nothing if there is none."""
        matrix = cls()
        client = ""
        for line in file.read_text().splitlines() if file.exists() else []:
            if line.startswith("## "):
                client, _, version = line[3:].partition(" · ")
                matrix._versions[client] = version
            elif client and line.startswith("| ") and not line.startswith("| Capability"):
                capability, *cells = [cell.strip() for cell in line.strip("|").split("|")]
                matrix._cells[client, capability] = dict(zip(COLUMNS, cells, strict=True))
        return matrix

    def put(self, row: tuple[str, str], target: str, result: Result, version: str) -> None:
        """Replace one cell."""
        self._cells.setdefault(row, {})[target] = result.cell()
        self._versions[row[0]] = version

    def prune(self, seen: set[tuple[str, str]]) -> None:
        """Forget the tests that are gone, of those clients that were collected."""
        clients = {client for client, _ in seen}
        self._cells = {row: cells for row, cells in self._cells.items() if row in seen or row[0] not in clients}

    def save(self, file: Path) -> None:
        """Write the file anew."""
        lines = [_HEAD.rstrip(), ""]
        for client in self._clients():
            lines += [f"## {client} · {self._versions.get(client, '')}", ""]
            lines += ["| Capability | " + " | ".join(COLUMNS.values()) + " |", "|---" * (1 + len(COLUMNS)) + "|"]
            for (of, capability), cells in sorted(self._cells.items()):
                if of == client:
                    lines.append(
                        f"| {capability} | "
                        + " | ".join(cells.get(target, "not run") or "not run" for target in COLUMNS)
                        + " |"
                    )
            lines.append("")
        file.write_text("\n".join(lines))

    def summary(self, target: str) -> Iterable[str]:
        """One line per client, then what did not pass."""
        for client in self._clients():
            cells = {
                row[1]: found[target]
                for row, found in sorted(self._cells.items())
                if row[0] == client and target in found
            }
            counts = Counter(cell.partition(":")[0] for cell in cells.values())
            version = self._versions.get(client, "")
            yield f"{client + ' ' + version:44} " + ", ".join(
                f"{count} {outcome}" for outcome, count in sorted(counts.items())
            )
            yield from (
                f"    {capability}: {cell}" for capability, cell in cells.items() if cell not in ("pass", "not run")
            )

    def _clients(self) -> list[str]:
        return sorted({client for client, _ in self._cells})
