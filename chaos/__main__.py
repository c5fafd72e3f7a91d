"""`python -m chaos`: break a cluster for a while and see whether it keeps its promises. Exit code 0 if it does."""

from __future__ import annotations

import argparse
import random
import shlex
import signal
import sys
import traceback
from pathlib import Path

from chaos.rounds import Options, Run


def main() -> int:
    """Run, and say how to repeat a failure."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="how long to go on (3)")
    parser.add_argument("--rounds", type=int, help="how many rounds, in place of a time")
    parser.add_argument("--seed", type=int, help="which faults, which nodes, how long (a new one each time)")
    parser.add_argument("--brokers", type=int, choices=(3, 5), default=3, help="3 or 5 (3)")
    parser.add_argument("--faults", default="", help="only these, separated by commas")
    parser.add_argument("--folder", type=Path, help="where the data is (a temporary folder)")
    parser.add_argument("--no-network", action="store_true", help="no network namespaces, and no faults of the network")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1_000_000)
    faults = tuple(name.strip() for name in args.faults.split(",") if name.strip())
    options = Options(args.minutes, args.rounds, seed, args.brokers, faults, args.folder, not args.no_network)
    # Whoever ends the run early still gets the machine back as it was: without brokers, namespaces and mounts.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"seed {seed}, {args.brokers} brokers", flush=True)
    try:
        Run(options).go()
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 -- any failure of a run is told with how to repeat it
        traceback.print_exc()
        print(f"\nFAILED: {error}", file=sys.stderr)
        again = ["python", "-m", "chaos", "--seed", str(seed), "--brokers", str(args.brokers)]
        again += ["--faults", args.faults] if args.faults else []
        print(f"again: {shlex.join(again)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
