"""Chaos on real processes: stock clients write and read while brokers are killed, paused, cut off and run out of disk; then everything is checked.

    python -m chaos --minutes 3                 three brokers, faults from a seed that is printed
    python -m chaos --seed 7 --brokers 5        the same faults in the same order again
    python -m chaos --faults kill-leader,disk   only these

`network.py` and `disk.py` build the surroundings, `workload.py` and `transactions.py` write and read, `nemesis.py` breaks things, `check.py` says
whether anything acknowledged was lost, and `rounds.py` is the run itself.
"""
