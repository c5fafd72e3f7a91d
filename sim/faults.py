"""The nemesis: which fault comes when. Each seed has a mix of its own, so that rare mixes are met as well (swarm testing).

Faults of the network and of processes come one after the other and overlap; power losses and wiped disks come only where the world says that the
cluster has promised to survive them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from sim.events import Process, Simulation
from sim.network import Network

CALM_LATENCY_US = (50, 500)
PAUSE_BETWEEN_US = (100_000, 3_000_000)


class World(Protocol):
    """What the nemesis works on."""

    processes: dict[int, Process]

    def start(self, node_id: int) -> None: ...

    def crash(self, node_id: int, *, power: bool) -> None: ...

    def stop(self, node_id: int) -> None: ...

    def wipe(self, node_id: int) -> None: ...


class Nemesis:
    """Draws faults until told to end, then heals everything."""

    def __init__(self, simulation: Simulation, network: Network, world: World, until_us: int) -> None:
        self.simulation = simulation
        self.network = network
        self.world = world
        self.until_us = until_us
        self.dice = simulation.dice("faults")
        self.count = 0
        kinds: list[Callable[[], None]] = [
            self.kill_one,
            self.power_loss,
            self.stop_one,
            self.pause_one,
            self.cut_one,
            self.cut_one_way,
            self.split,
            self.break_connections,
            self.slow_link,
            self.kill_all,
            self.massacre,
            self.bounce,
            self.wipe_one,
            self.election_storm,
        ]
        self.kinds = self.dice.sample(kinds, self.dice.randrange(2, len(kinds) + 1))
        self._ended = False
        network.latency_us = (50, self.dice.choice((1_000, 3_000, 30_000)))

    def begin(self) -> None:
        """From now on."""
        self.simulation.at(self.dice.randrange(1_000_000, 2_500_000), self._next)

    def end(self) -> None:
        """No more faults, and everything that was broken works again."""
        self._ended = True
        self.simulation.note("nemesis", "ends: everything heals")
        self.network.heal()
        self.network.latency_us = CALM_LATENCY_US
        for node_id, process in self.world.processes.items():
            if process.is_paused:
                self.simulation.resume(process, timers_first=True)
            if not process.is_alive:
                self.world.start(node_id)

    def _next(self) -> None:
        if self._ended:
            return
        self.count += 1
        self.dice.choice(self.kinds)()
        self.simulation.at(self.dice.randrange(*PAUSE_BETWEEN_US), self._next)

    def _after(self, delay_us: int, callback: Callable[[], None]) -> None:
        def call() -> None:
            if not self._ended:
                callback()

        self.simulation.at(delay_us, call)

    def _one(self, *, alive: bool = True) -> int | None:
        found = [node_id for node_id, process in self.world.processes.items() if process.is_running == alive]
        return self.dice.choice(found) if found else None

    def _downtime_us(self) -> int:
        return self.dice.choice((1_000, 100_000, 1_000_000, 5_000_000)) + self.dice.randrange(300_000)

    def _restart_later(self, node_id: int) -> None:
        self._after(self._downtime_us(), lambda: self._revive(node_id))

    def _revive(self, node_id: int) -> None:
        if not self.world.processes[node_id].is_alive:
            self.world.start(node_id)

    # The faults.

    def kill_one(self) -> None:
        """`kill -9`."""
        node_id = self._one()
        if node_id is not None:
            self.world.crash(node_id, power=False)
            self._restart_later(node_id)

    def kill_all(self) -> None:
        """`kill -9` for all at once; they come back in any order."""
        for node_id in self.world.processes:
            self.world.crash(node_id, power=False)
            self._restart_later(node_id)

    def massacre(self) -> None:
        """One after the other is killed, and they come back in another order."""
        nodes = list(self.world.processes)
        self.dice.shuffle(nodes)
        delay_us = 0
        for node_id in nodes:
            self._after(delay_us, partial(self.world.crash, node_id, power=False))
            self._after(delay_us + self.dice.randrange(2_000_000, 9_000_000), partial(self._revive, node_id))
            delay_us += self.dice.randrange(200_000, 3_000_000)

    def bounce(self) -> None:
        """Processes die and are back at once, again and again: whatever they should remember, they have to have on disk."""
        delay_us = 0
        for _ in range(self.dice.randrange(5, 30)):
            delay_us += self.dice.choice((2_000, 20_000, 200_000)) + self.dice.randrange(50_000)
            self._after(delay_us, self._bounce_one)

    def _bounce_one(self) -> None:
        node_id = self._one()
        if node_id is not None:
            self.world.crash(node_id, power=self.dice.random() < 0.2)
            self._after(self.dice.choice((500, 10_000)), lambda: self._revive(node_id))

    def election_storm(self) -> None:
        """One dies, and while the others elect they are started anew again and again, and some don't hear of each other."""
        nodes = list(self.world.processes)
        self.world.crash(nodes[0] if self.dice.random() < 0.3 else self.dice.choice(nodes), power=False)
        one, other = self.dice.sample(self._names(), 2)
        self.network.cut_links({(one, other), (other, one)})
        for _ in range(40):
            self._after(self.dice.randrange(2_000_000), self._bounce_one)
        self._after(2_500_000, self.network.heal)
        for node_id in nodes:
            self._after(2_500_000, partial(self._revive, node_id))

    def wipe_one(self) -> None:
        """Somebody loses the disk with the records, and comes back without them."""
        node_id = self._one()
        if node_id is not None:
            self.world.wipe(node_id)
            self._restart_later(node_id)

    def power_loss(self) -> None:
        """A machine loses its power."""
        node_id = self._one()
        if node_id is not None:
            self.world.crash(node_id, power=True)
            self._restart_later(node_id)

    def stop_one(self) -> None:
        """A clean stop; the world starts it again when it has stopped."""
        node_id = self._one()
        if node_id is not None:
            self.world.stop(node_id)

    def pause_one(self) -> None:
        """SIGSTOP, and SIGCONT later."""
        node_id = self._one()
        if node_id is None:
            return
        process = self.world.processes[node_id]
        life = process.life
        self.simulation.note(process, "is paused")
        self.simulation.pause(process)

        def resume() -> None:
            if process.life == life and process.is_paused:
                self.simulation.note(process, "goes on")
                self.simulation.resume(process, timers_first=self.dice.random() < 0.5)

        self._after(self._downtime_us(), resume)

    def _names(self) -> list[str]:
        return [process.name for process in self.world.processes.values()]

    def _cut(self, links: set[tuple[str, str]], what: str) -> None:
        self.simulation.note("nemesis", what)
        self.network.cut_links(links)

        def heal() -> None:
            self.simulation.note("nemesis", "the links heal")
            self.network.heal()

        self._after(self.dice.randrange(100_000, 6_000_000), heal)

    def cut_one(self) -> None:
        """One is cut off from all others, both ways."""
        names = self._names()
        one = self.dice.choice(names)
        links = {(one, other) for other in names} | {(other, one) for other in names}
        self._cut(links, f"{one} is cut off")

    def cut_one_way(self) -> None:
        """Nothing passes from one to another, but the other way it does."""
        source, target = self.dice.sample(self._names(), 2)
        self._cut({(source, target)}, f"nothing passes from {source} to {target}")

    def split(self) -> None:
        """Two halves that don't hear of each other; perhaps with one between them that hears both."""
        names = self._names()
        self.dice.shuffle(names)
        middle = len(names) // 2
        first = names[:middle]
        second = names[middle + (self.dice.random() < 0.3) :]
        links = {(a, b) for a in first for b in second} | {(b, a) for a in first for b in second}
        self._cut(links, f"split: {first} and {second}")

    def break_connections(self) -> None:
        """Some connections break."""
        for _ in range(self.dice.randrange(1, 4)):
            broken = self.network.break_one()
            if broken is not None:
                self.simulation.note("nemesis", f"breaks the connection {broken.client} - {broken.server}")

    def slow_link(self) -> None:
        """A link becomes slow."""
        source, target = self.dice.sample(self._names(), 2)
        self.simulation.note("nemesis", f"{source} to {target} is slow")
        self.network.slow[source, target] = self.dice.choice((20_000, 200_000, 800_000))
