"""Running seeds: one, or many on all cores, each with a report that a person can go on with when something must not have happened."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, NamedTuple

from sim.cluster import Cluster, silent_logs
from sim.planted import BUGS, CLUSTER, VOTERS, plant
from sim.voters import VoterWorld

# One seed in so many is a run of the metadata quorum alone.
VOTERS_SHARE = 4
TRACE_SHOWN = 60


class Result(NamedTuple):
    """What came of a seed."""

    seed: int
    world: str
    summary: dict[str, Any]
    seconds: float
    error: str = ""
    details: str = ""
    trace: tuple[str, ...] = ()

    def report(self, planted: str | None = None) -> str:
        """For people: what is wrong, what happened last, how to see it again."""
        extra = f" PLANT={planted}" if planted else ""
        lines = [
            f"seed {self.seed} ({self.world}): {self.error}",
            "",
            *self.trace[-TRACE_SHOWN:],
            "",
            f"again, with everything that happened: make sim SEED={self.seed}{extra}",
        ]
        if not self.error.startswith("InvariantError"):
            lines[1:1] = ["", self.details]
        return "\n".join(lines)


def world_of(seed: int, planted: str | None) -> str:
    """Which simulation a seed stands for."""
    if planted is not None:
        return BUGS[planted].world
    return VOTERS if seed % VOTERS_SHARE == VOTERS_SHARE - 1 else CLUSTER


def run_seed(seed: int, planted: str | None = None, on_trace: Callable[[int, str], None] | None = None) -> Result:
    """One seed from beginning to end."""
    began = time.monotonic()
    world = world_of(seed, planted)
    run: Cluster | VoterWorld = Cluster(seed) if world == CLUSTER else VoterWorld(seed)
    run.simulation.on_trace = on_trace
    error = details = ""
    with silent_logs(), plant(planted):
        try:
            run.run()
        except Exception as problem:  # noqa: BLE001  whatever it is, it is what we are looking for
            error = f"{type(problem).__name__}: {problem}"
            details = traceback.format_exc()
    trace = tuple(line(when_us, text) for when_us, text in run.simulation.trace) if error else ()
    return Result(seed, world, run.summary(), time.monotonic() - began, error, details, trace)


def line(when_us: int, text: str) -> str:
    """One line of a trace."""
    return f"{when_us / 1_000_000:9.4f} s {text}"


def run_seeds(
    seeds: range, planted: str | None = None, jobs: int = 1, deadline: float = float("inf")
) -> Iterator[Result]:
    """Many seeds, as they finish; none is begun after the deadline (of time.monotonic)."""
    if jobs == 1:
        for seed in seeds:
            if time.monotonic() >= deadline:
                return
            yield run_seed(seed, planted)
        return
    with ProcessPoolExecutor(jobs) as pool:
        waiting = iter(seeds)
        running = {pool.submit(run_seed, seed, planted) for _, seed in zip(range(2 * jobs), waiting, strict=False)}
        while running:
            done = next(as_completed(running))
            running.remove(done)
            following = next(waiting, None)
            if following is not None and time.monotonic() < deadline:
                running.add(pool.submit(run_seed, following, planted))
            yield done.result()
