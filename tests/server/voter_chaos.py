"""Kills controllers of a real quorum of three while somebody proposes all the time, and checks that nothing acknowledged is missing.

    python -m tests.server.voter_chaos ROUNDS [SEED]      by hand, for as long as one likes

The short run is tests/server/test_voter_kill.py. What a kill is: the leader, a follower, all three at once, a process right between the writing of a
snapshot and the trimming of its journal, or a pause (SIGSTOP) of the leader for longer than the others wait.
"""

from __future__ import annotations

import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.support.ports import free_ports

SNAPSHOT_BYTES = 6000
IN_FLIGHT = 4
KINDS = ("leader", "leader", "follower", "all", "snapshot", "pause")
PAUSE_S = 2.5
# On a machine that has other work a process may take seconds to start.
PATIENCE_S = 60.0


class VoterHandle:
    """One controller's process, seen from outside."""

    def __init__(self, node_id: int, data_dir: Path, voters: str, lines: queue.Queue[tuple[int, str]]) -> None:
        self.node_id = node_id
        self.data_dir = data_dir
        self.voters = voters
        self.lines = lines
        self.process: subprocess.Popen[str] | None = None
        self.life = 0

    def start(self, dies_in_snapshot: int = 0) -> None:
        """A new process on the folder that is there."""
        self.data_dir.mkdir(exist_ok=True)
        self.life += 1
        arguments = (str(self.node_id), str(self.data_dir), self.voters, str(SNAPSHOT_BYTES))
        environment = {**os.environ, "VOTER_DIES_IN_SNAPSHOT": str(dies_in_snapshot)}
        with (self.data_dir.parent / f"voter-{self.node_id}.log").open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.server.voter_process", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
                env=environment,
            )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if line.endswith("\n"):
                    self.lines.put((self.node_id, line.strip()))
        self.lines.put((self.node_id, "ended"))

    def tell(self, line: str) -> None:
        """A line to its standard input; one that has died meanwhile doesn't hear it."""
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(line + "\n")
        except (BrokenPipeError, ValueError):
            return

    def signal(self, number: int) -> None:
        """Kill, stop or continue it."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> None:
        """Until it has ended."""
        assert self.process is not None
        self.process.wait(10)
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                self.process.stdin = None

    @property
    def lives(self) -> bool:
        """Whether the process is there."""
        return self.process is not None and self.process.poll() is None


class Quorum:
    """Three controllers, somebody who proposes, and the account of what was acknowledged."""

    def __init__(self, root: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        self.lines: queue.Queue[tuple[int, str]] = queue.Queue()
        ports = free_ports(3)
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in enumerate(ports, 1))
        self.voters = {n: VoterHandle(n, root / str(n), voters, self.lines) for n in (1, 2, 3)}
        self.leader: int | None = None
        self.acknowledged: set[str] = set()
        self.open: dict[str, int] = {}
        self.states: dict[int, str] = {}
        self.kills: Counter[str] = Counter()
        self.proposals = 0
        self.question = 0
        self.last_ack_at = time.monotonic()
        self.longest_pause_s = 0.0
        self.pauses: dict[str, list[float]] = {}

    def run_for(self, seconds: float, until_acks: int = 0) -> None:
        """Propose and count; ends early after so many acknowledgements."""
        ends_at = time.monotonic() + seconds
        enough = len(self.acknowledged) + until_acks if until_acks else None
        while (left_s := ends_at - time.monotonic()) > 0:
            self._propose()
            try:
                self._take(*self.lines.get(timeout=min(left_s, 0.2)))
            except queue.Empty:
                continue
            if enough is not None and len(self.acknowledged) >= enough:
                return

    def _propose(self) -> None:
        while self.leader is not None and len(self.open) < IN_FLIGHT:
            self.proposals += 1
            name = f"topic-{self.proposals}"
            self.open[name] = self.leader
            self.voters[self.leader].tell(f"propose {name}")

    def _take(self, node_id: int, line: str) -> None:
        verb, _, rest = line.partition(" ")
        if verb == "elected":
            self.leader = node_id
        elif verb in ("resigned", "ended"):
            self.open = {name: asked for name, asked in self.open.items() if asked != node_id}
            if self.leader == node_id:
                self.leader = None
        elif verb in ("committed", "failed"):
            self.open.pop(rest, None)
            if verb == "committed":
                now = time.monotonic()
                self.longest_pause_s = max(self.longest_pause_s, now - self.last_ack_at)
                self.last_ack_at = now
                self.acknowledged.add(rest)
            elif self.leader == node_id:
                self.leader = None
        elif verb == "topics":
            question, _, state = rest.partition(" ")
            if (
                int(question) == self.question
            ):  # An answer that comes late tells of a state before the last acknowledgements.
                self.states[node_id] = state

    def kill(self, kind: str) -> None:
        """One kill of a kind, the restart, and life until changes are acknowledged again."""
        leader = self.leader or self.dice.choice((1, 2, 3))
        followers = [node_id for node_id in self.voters if node_id != leader]
        chosen = {"leader": [leader], "all": [1, 2, 3], "snapshot": [self.dice.choice((1, 2, 3))], "pause": [leader]}
        victims = chosen.get(kind, [self.dice.choice(followers)])
        self.longest_pause_s = 0.0
        if kind == "snapshot":
            self._die_in_snapshot(victims[0])
        elif kind == "pause":
            self.voters[leader].signal(signal.SIGSTOP)
            self.leader = None
            self.open.clear()
            self.run_for(PAUSE_S)
            self.voters[leader].signal(signal.SIGCONT)
        else:
            for node_id in victims:
                self.voters[node_id].signal(signal.SIGKILL)
            for node_id in victims:
                self.voters[node_id].wait()
            self.run_for(self.dice.uniform(0.0, 1.0) if kind != "all" else 0.0)
            for node_id in victims:
                self.voters[node_id].start()
        self.kills[kind] += len(victims)
        self.run_for(PATIENCE_S, until_acks=self.dice.randrange(20, 80))
        self.pauses.setdefault(kind, []).append(round(self.longest_pause_s, 2))

    def _die_in_snapshot(self, node_id: int) -> None:
        """Start it anew so that it kills itself between a snapshot's renaming and the trimming of the journal."""
        voter = self.voters[node_id]
        voter.signal(signal.SIGKILL)
        voter.wait()
        voter.start(dies_in_snapshot=self.dice.randrange(1, 3))
        ends_at = time.monotonic() + PATIENCE_S
        while voter.lives and time.monotonic() < ends_at:
            self.run_for(0.2)
        assert not voter.lives, "it has made no snapshot"
        voter.wait()
        voter.start()

    def check(self) -> int:
        """All three come to the same state, and it has everything that was acknowledged. Returns how many topics there are."""
        ends_at = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends_at:
            self.states.clear()
            self.question += 1
            asked_when_quiet = not self.open
            proposing, self._propose = self._propose, lambda: None  # type: ignore[method-assign]
            for voter in self.voters.values():
                voter.tell(f"count {self.question}")
            self.run_for(0.5)
            self._propose = proposing  # type: ignore[method-assign]
            if len(self.states) == 3 and len(set(self.states.values())) == 1 and not self.open and asked_when_quiet:
                break
        assert len(self.states) == 3 and len(set(self.states.values())) == 1, {
            n: state[:60] for n, state in self.states.items()
        }
        names = set(self.states[1].split(" ")[2].split(","))
        missing = self.acknowledged - names
        assert not missing, f"{len(missing)} acknowledged changes are lost: {sorted(missing)[:5]}"
        return len(names)

    def stop(self) -> None:
        """End all processes."""
        for voter in self.voters.values():
            if voter.lives:
                voter.signal(signal.SIGKILL)
            voter.wait()


def run(root: Path, kinds: Iterable[str], seed: int) -> Quorum:
    """A run with a kill of each of these kinds, one after the other."""
    quorum = Quorum(root, seed)
    try:
        for voter in quorum.voters.values():
            voter.start()
        quorum.run_for(PATIENCE_S, until_acks=20)
        for kind in kinds:
            quorum.kill(kind)
        quorum.check()
    finally:
        quorum.stop()
    return quorum


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
        done = run(Path(folder), random.Random(seed).choices(KINDS, k=int(sys.argv[1])), seed)
        print("kills", dict(done.kills), "acknowledged", len(done.acknowledged), "lost 0")
        for kind, pauses in done.pauses.items():
            print(f"{kind}: longest time without an acknowledgement, s: {sorted(pauses)}")
