"""What is done to the brokers. Each fault is a method: it breaks something, holds it broken for a while, mends it, and says what it did.

Which fault, which node and how long all come from one random generator, so that a seed repeats a run as far as real processes can repeat: who
leads at that moment is theirs to decide.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from chaos.disk import Disks
from chaos.network import CLIENTS, Network
from kafkapy.testing import Cluster


class Nemesis:
    """Breaks and mends one cluster. Without a network or disks their faults are not in `faults`."""

    def __init__(
        self,
        cluster: Cluster,
        rng: random.Random,
        topic: str,
        partitions: int,
        network: Network | None,
        disks: Disks | None,
    ) -> None:
        self._cluster = cluster
        self._rng = rng
        self._topic = topic
        self._partitions = partitions
        self._network = network
        # As many nodes may be away as leave a majority, and as many copies as must be in sync.
        self._minority = (len(cluster.nodes) - 1) // 2
        self.faults: dict[str, Callable[[], str]] = {
            "kill-leader": self.kill_leader,
            "kill-follower": self.kill_follower,
            "kill-controller": self.kill_controller,
            "kill-all": self.kill_all,
            "kill-again": self.kill_again,
            "pause-leader": self.pause_leader,
            "pause-follower": self.pause_follower,
            "pause-controller": self.pause_controller,
            "pause-blink": self.pause_blink,
            "restart": self.restart,
            "stop-all": self.stop_all,
        }
        if self._minority > 1:
            self.faults |= {"kill-two": self.kill_two, "pause-and-kill": self.pause_and_kill}
        if network is not None:
            self.faults |= {
                "cut-leader": self.cut_leader,
                "cut-controller": self.cut_controller,
                "cut-out": self.cut_out,
                "cut-in": self.cut_in,
                "cut-pair": self.cut_pair,
                "cut-off": self.cut_off,
                "cut-and-kill": self.cut_and_kill,
            }
        if disks is not None:
            self.faults |= {"disk": self.disk}

    def unexpectedly_dead(self) -> list[str]:
        """Brokers that have ended although nobody killed them, with the end of their log."""
        dead = []
        for node in self._cluster.running:
            code = self._cluster.exit_code(node)
            if code is not None:
                dead.append(
                    f"broker {node} has ended with status {code}:\n" + "\n".join(self._cluster.log_lines(node)[-15:])
                )
        return dead

    # ---- deaths

    def kill_leader(self) -> str:
        """kill -9 of the leader of some partition."""
        partition = self._rng.randrange(self._partitions)
        return self._kill([self._cluster.leader(self._topic, partition)], f"leader of {self._topic}-{partition}")

    def kill_follower(self) -> str:
        """kill -9 of a broker that does not lead the quorum."""
        controller = self._cluster.controller()
        node = self._rng.choice([node for node in self._cluster.nodes if node != controller])
        return self._kill([node], "no controller")

    def kill_controller(self) -> str:
        """kill -9 of the leader of the metadata quorum."""
        return self._kill([self._cluster.controller()], "controller")

    def kill_two(self) -> str:
        """kill -9 of two at once, of five."""
        return self._kill(self._rng.sample(self._cluster.nodes, 2), "two at once")

    def kill_all(self) -> str:
        """kill -9 of all at once; they come back in any order."""
        order = self._rng.sample(self._cluster.nodes, len(self._cluster.nodes))
        self._cluster.kill_all()
        gap = self._rng.choice((0.0, 0.0, 1.0))
        for node in order:
            self._cluster.launch(node)
            time.sleep(gap)
        for node in order:
            self._cluster.wait_ready(node, 60)
        return f"kill -9 of all, started again in the order {order}, {gap:.0f} s apart"

    def kill_again(self) -> str:
        """kill -9 of a broker three times, before it has caught up."""
        node = self._rng.choice(self._cluster.nodes)
        pauses = [self._seconds(0.2, 2.5) for _ in range(3)]
        for pause in pauses:
            self._cluster.kill(node)
            self._cluster.launch(node)
            time.sleep(pause)
        self._cluster.wait_ready(node, 60)
        return f"kill -9 of {node} three times, {', '.join(f'{pause:.1f}' for pause in pauses)} s after each start"

    def _kill(self, nodes: Sequence[int], who: str) -> str:
        seconds = self._seconds(0.5, 6)
        for node in nodes:
            self._cluster.kill(node)
        time.sleep(seconds)
        for node in nodes:
            self._cluster.launch(node)
        for node in nodes:
            self._cluster.wait_ready(node, 60)
        return f"kill -9 of {_names(nodes)} ({who}) for {seconds:.1f} s"

    # ---- clean stops

    def restart(self) -> str:
        """A rolling restart: one after the other, each when the one before is in sync again."""
        for node in self._cluster.nodes:
            self._cluster.restart(node)
            self._cluster.wait_in_sync(60)
        return "rolling restart of all"

    def stop_all(self) -> str:
        """All are stopped cleanly at the same time."""
        self._cluster.stop_all()
        self._cluster.start_all()
        return "stop of all, and start of all"

    # ---- pauses

    def pause_leader(self) -> str:
        """SIGSTOP of a leader, longer than the session timeout: it wakes up and does not know that it leads no more."""
        partition = self._rng.randrange(self._partitions)
        return self._pause([self._cluster.leader(self._topic, partition)], f"leader of {self._topic}-{partition}")

    def pause_follower(self) -> str:
        """SIGSTOP of a broker that does not lead the quorum."""
        controller = self._cluster.controller()
        node = self._rng.choice([node for node in self._cluster.nodes if node != controller])
        return self._pause([node], "no controller")

    def pause_controller(self) -> str:
        """SIGSTOP of the leader of the quorum."""
        return self._pause([self._cluster.controller()], "controller")

    def pause_blink(self) -> str:
        """All are paused in turn, each for less than the session timeout."""
        pauses = {node: self._seconds(0.2, 2.0) for node in self._cluster.nodes}
        for node, seconds in pauses.items():
            self._cluster.pause(node)
            time.sleep(seconds)
            self._cluster.resume(node)
        return "SIGSTOP of each in turn for " + ", ".join(f"{seconds:.1f}" for seconds in pauses.values()) + " s"

    def pause_and_kill(self) -> str:
        """One is paused and another one killed, of five."""
        paused, killed = self._rng.sample(self._cluster.nodes, 2)
        seconds = self._seconds(2, 8)
        self._cluster.pause(paused)
        self._cluster.kill(killed)
        time.sleep(seconds)
        self._cluster.resume(paused)
        self._cluster.start(killed)
        return f"SIGSTOP of {paused} and kill -9 of {killed} for {seconds:.1f} s"

    def _pause(self, nodes: Sequence[int], who: str) -> str:
        seconds = self._seconds(1, 9)
        for node in nodes:
            self._cluster.pause(node)
        time.sleep(seconds)
        for node in nodes:
            self._cluster.resume(node)
        return f"SIGSTOP of {_names(nodes)} ({who}) for {seconds:.1f} s"

    # ---- the network

    def cut_leader(self) -> str:
        """A leader is cut off from all other brokers, but not from clients: it must not acknowledge."""
        partition = self._rng.randrange(self._partitions)
        node = self._cluster.leader(self._topic, partition)
        self._net.cut_both_ways([node], self._others(node))
        return self._hold(f"leader {node} of {self._topic}-{partition} cut off from all other brokers")

    def cut_controller(self) -> str:
        """The leader of the quorum is cut off from all other brokers."""
        node = self._cluster.controller()
        self._net.cut_both_ways([node], self._others(node))
        return self._hold(f"controller {node} cut off from all other brokers")

    def cut_out(self) -> str:
        """What a broker sends to others is lost; it hears them."""
        node = self._rng.choice(self._cluster.nodes)
        self._net.cut([node], self._others(node))
        return self._hold(f"{node} not heard by other brokers")

    def cut_in(self) -> str:
        """What others send to a broker is lost; they hear it."""
        node = self._rng.choice(self._cluster.nodes)
        self._net.cut(self._others(node), [node])
        return self._hold(f"{node} does not hear other brokers")

    def cut_pair(self) -> str:
        """Two do not reach each other, and both reach the rest."""
        one, other = self._rng.sample(self._cluster.nodes, 2)
        self._net.cut_both_ways([one], [other])
        return self._hold(f"{one} and {other} cut off from each other")

    def cut_off(self) -> str:
        """A minority is cut off from everybody, clients too."""
        nodes = self._rng.sample(self._cluster.nodes, self._minority)
        rest = [node for node in self._cluster.nodes if node not in nodes]
        self._net.cut_both_ways(nodes, [*rest, CLIENTS])
        return self._hold(f"{_names(nodes)} cut off from everybody")

    def cut_and_kill(self) -> str:
        """A leader is cut off and, while it still is, killed and started again."""
        partition = self._rng.randrange(self._partitions)
        node = self._cluster.leader(self._topic, partition)
        self._net.cut_both_ways([node], self._others(node))
        time.sleep(self._seconds(0.5, 4))
        self._cluster.kill(node)
        self._cluster.launch(node)
        text = self._hold(f"leader {node} of {self._topic}-{partition} cut off from all other brokers and killed,")
        self._cluster.wait_ready(node, 60)
        return text

    @property
    def _net(self) -> Network:
        assert self._network is not None
        return self._network

    def _hold(self, what: str) -> str:
        seconds = self._seconds(1, 10)
        time.sleep(seconds)
        self._net.heal()
        return f"{what} for {seconds:.1f} s"

    # ---- disks

    def disk(self) -> str:
        """The disk of a broker is full, then there is room again, and the broker is started again."""
        node = self._rng.choice(self._cluster.nodes)
        seconds = self._seconds(1, 6)
        Disks.fill(self._cluster.data(node))
        time.sleep(seconds)
        died = self._cluster.exit_code(node) is not None
        Disks.free(self._cluster.data(node))
        with suppress(RuntimeError):
            # How it ends is not the point here: its disk was full.
            self._cluster.stop(node)
        self._cluster.start(node)
        return f"disk of {node} full for {seconds:.1f} s, {'which ended it' if died else 'which it survived'}"

    # ----

    def _others(self, node: int) -> list[int]:
        return [other for other in self._cluster.nodes if other != node]

    def _seconds(self, least: float, most: float) -> float:
        return self._rng.uniform(least, most)


def _names(nodes: Sequence[int]) -> str:
    return " and ".join(map(str, nodes))
