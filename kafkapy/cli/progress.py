"""A progress bar on standard error, for bounded long work and only at a terminal; elsewhere nothing at all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]

_STEPS_A_SECOND = 10


def _nothing(_: int) -> None:
    """Progress that nobody watches."""


@contextmanager
def progress(title: str, total: int | None, *, unit: str = "records") -> Iterator[Advance]:
    """Yields a function to be called with what has been done since. Unit "bytes" shows sizes; a total of None shows no bar."""
    if total is None or not sys.stderr.isatty():
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    done = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        done,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        refresh_per_second=_STEPS_A_SECOND,
        transient=True,
    ) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)
