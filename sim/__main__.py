"""`python -m sim`: run the simulation from the command line, which is what `make sim` does.

python -m sim --seed 42                 one seed, with everything that happens
python -m sim --seeds 1000              many, on all cores; the seeds that fail are reported and make the exit status 1
python -m sim --seeds 200 --plant X     with a bug in it, until it is found
"""

from __future__ import annotations

import argparse
import os
import sys
import time

HASH_SEED = "PYTHONHASHSEED"


def main() -> int:
    """Parse, run, report."""
    if os.environ.get(HASH_SEED) != "0":
        # The order in which topics are walked depends on it, and with it the history that a seed stands for.
        os.execve(sys.executable, [sys.executable, "-m", "sim", *sys.argv[1:]], {**os.environ, HASH_SEED: "0"})
    from sim.planted import BUGS

    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, help="run this one and print what happens")
    parser.add_argument("--seeds", type=int, default=200, help="run so many")
    parser.add_argument("--first", type=int, default=0, help="from this one on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no seed after this time")
    parser.add_argument("--plant", choices=sorted(BUGS), help="put this bug into the code, and stop when it is found")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return _run_one(arguments.seed, arguments.plant)
    return _run_many(arguments)


def _run_one(seed: int, planted: str | None) -> int:
    from sim.run import line, run_seed

    result = run_seed(seed, planted, lambda when_us, text: print(line(when_us, text)))
    if result.error:
        print(f"\n{result.details}\nseed {seed} ({result.world}): {result.error}")
        return 1
    print(f"\nseed {seed} ({result.world}): all is well in {result.seconds:.2f} s: {result.summary}")
    return 0


def _run_many(arguments: argparse.Namespace) -> int:
    from sim.run import run_seeds

    began = time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    count = events = 0
    failed: list[int] = []
    for result in run_seeds(seeds, arguments.plant, arguments.jobs, began + 60 * arguments.minutes):
        count += 1
        events += result.summary["events"]
        if result.error:
            failed.append(result.seed)
            print(result.report(arguments.plant), end="\n\n", flush=True)
            if arguments.plant:
                break
    seconds = time.monotonic() - began
    verdict = f"{len(failed)} failed: {sorted(failed)}" if failed else "all well"
    print(f"{count} seeds, {events} events in {seconds:.1f} s ({seconds / max(1, count):.2f} s each): {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
