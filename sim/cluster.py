"""One run: brokers, clients and a nemesis on one queue; faults for a while, then none, and then everything must be well again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafkapy.types import ZERO_UUID, TopicPartition
from sim.broker import Broker
from sim.clients import Administrator, Consumer, Producer
from sim.disk import DiskRouter, SimulatedDisk
from sim.events import InvariantError, Process, Simulation
from sim.faults import Nemesis
from sim.invariants import Checker
from sim.network import Network
from sim.quorum_core import CoreQuorum, VoterLinks, virtual_world
from sim.quorum_model import ModelQuorum, QuorumModel

WALL_CLOCK_MS = 1_700_000_000_000

START_US = 4_000_000
FAULTY_US = 20_000_000
CALM_US = 8_000_000
QUIET_US = 4_000_000

# In one of so many seeds the metadata quorum is the real one.
REAL_QUORUM_SHARE = 8


@contextmanager
def silent_logs() -> Iterator[None]:
    """What the brokers log would be far too much."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


class Cluster:
    """The simulated cluster."""

    def __init__(self, seed: int, *, real_quorum: bool | None = None) -> None:
        self.seed = seed
        self.simulation = Simulation(seed)
        dice = self.dice = self.simulation.dice("shape")
        self.size = dice.choice((3, 3, 3, 5))
        self.ids = tuple(range(1, self.size + 1))
        self.real_quorum = dice.randrange(REAL_QUORUM_SHARE) == 0 if real_quorum is None else real_quorum
        self.network = Network(self.simulation)
        self.router = DiskRouter()
        self.checker = Checker()
        self.processes = {node_id: Process(f"broker-{node_id}") for node_id in self.ids}
        self.brokers: dict[int, Broker] = {}
        self.voters = self.ids if self.size == 3 else self.ids[: dice.choice((3, 5))]
        if self.real_quorum:
            self.voters = self.ids
        self.voter_network = VoterLinks(self.simulation, self.network)
        self.quorum_model = None if self.real_quorum else QuorumModel(self.simulation, self.network, self.ids)
        self.segment_bytes = dice.choice((1_000, 4_000, 1 << 20))
        self.topics: list[tuple[str, int, int, int]] = [("orders", 1, 3, 2)]
        if dice.random() < 0.6:
            self.topics.append(("payments", dice.choice((1, 2)), min(self.size, dice.choice((2, 3, 5))), 1))
        if self.size == 5:
            self.topics.append(("five", 1, 5, 3))
        self.administrator = Administrator(self)
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.uuids = self.simulation.dice("uuids")
        self.simulation.after_each = self._after_event

    # What clients and brokers ask.

    @property
    def wall_ms(self) -> int:
        """The time of day."""
        return WALL_CLOCK_MS + self.simulation.now_ms

    def properties(self, node_id: int) -> dict[str, str]:
        """The configuration of a broker."""
        return {
            "node.id": str(node_id),
            "process.roles": "broker,controller",
            "log.dirs": f"/{node_id}/data",
            "broker.session.timeout.ms": "3000",
            "min.insync.replicas": "1",
        }

    def new_uuid(self) -> bytes:
        """Random, but the same in each run of the seed."""
        return self.uuids.randbytes(16)

    def topic_id(self, name: str) -> bytes:
        """As clients know it from metadata."""
        image = self.checker.newest
        topic = image.topics.get(name) if image is not None else None
        return topic.id if topic is not None else ZERO_UUID

    def controller_id(self) -> int | None:
        """The node that believes to be the active controller in the latest epoch."""
        active = [broker for broker in self.brokers.values() if broker.controller.is_active]
        return max(active, key=lambda broker: broker.controller.epoch or 0).node_id if active else None

    def new_quorum(self, node_id: int, process: Process, folder: str) -> Any:
        """A node's connection to the quorum for its next life."""
        if self.quorum_model is not None:
            return ModelQuorum(self.quorum_model, process, node_id)
        dice = self.simulation.dice(f"quorum {node_id}.{process.life}")
        return CoreQuorum(self.voter_network, process, folder, node_id, self.voters, dice)

    # The lives of brokers; what the nemesis works on.

    def start(self, node_id: int) -> None:
        """A new process on the disk that is there."""
        process = self.processes[node_id]
        self.simulation.start(process)
        self.simulation.note(process, "starts")
        broker = self.brokers[node_id] = self.checker.brokers[node_id] = Broker(self, node_id, process)
        self.network.handlers[process.name] = broker.serve
        broker.start()

    def crash(self, node_id: int, *, power: bool) -> None:
        """`kill -9`, or the machine loses its power."""
        process = self.processes[node_id]
        if not process.is_alive:
            return
        if not self.may_lose(node_id):
            if self.checker.robbed and not self._comes_back_as_leader(node_id):
                return  # Together with what was lost before it could be too much.
            power = False
        self.simulation.note(process, "loses its power" if power else "is killed")
        self._end_life(node_id)
        disk = self.router.disks[str(node_id)]
        if power:
            self._rob(node_id)
            self.router.mount(str(node_id), disk.after_power_failure(self.dice))
        else:
            self.router.mount(str(node_id), disk.after_kill())

    def wipe(self, node_id: int) -> None:
        """Somebody puts an empty disk in the place of a dead broker's data; the metadata log is on another one."""
        process = self.processes[node_id]
        if not process.is_alive or not self.may_lose(node_id):
            return
        self.simulation.note(process, "dies, and its data folder is wiped")
        self._end_life(node_id)
        disk = self.router.disks[str(node_id)].after_kill()
        disk.forget(f"/{node_id}/data")
        self._rob(node_id)
        self.router.mount(str(node_id), disk)

    def stop(self, node_id: int) -> None:
        """A clean stop, with a controlled shutdown before."""
        process = self.processes[node_id]
        broker = self.brokers.get(node_id)
        if self.checker.robbed and not self.may_lose(node_id):
            return  # It may be the only one that still has what another was robbed of.
        if process.is_running and broker is not None:
            self.simulation.note(process, "is asked to stop")
            broker.begin_stop()

    def stopped(self, node_id: int) -> None:
        """A broker has stopped cleanly."""
        self.simulation.note(self.processes[node_id], "has stopped")
        self._end_life(node_id)
        self.router.mount(str(node_id), self.router.disks[str(node_id)].after_kill())
        self.simulation.at(self.dice.randrange(10_000, 3_000_000), lambda: self._start_again(node_id))

    def _start_again(self, node_id: int) -> None:
        if not self.processes[node_id].is_alive:
            self.start(node_id)

    def _end_life(self, node_id: int) -> None:
        process = self.processes[node_id]
        self.simulation.kill(process)
        self.network.died(process)
        self.checker.brokers.pop(node_id, None)
        self.brokers.pop(node_id).release()
        life = process.life

        def probed() -> None:
            for broker in self.brokers.values():
                if process.life == life and not self.network.is_cut(process, broker.process):
                    broker.controller_side.found_dead(node_id)

        if self.dice.random() < 0.7:
            self.simulation.at(self.dice.randrange(5_000, 100_000), probed)

    def may_lose(self, node_id: int) -> bool:
        """Whether the cluster has promised to survive that this broker loses what it hasn't flushed.

        It has where, for each partition, another member of the ISR or of the eligible replicas has everything that is committed.
        """
        image = self.checker.newest
        if image is None:
            return True
        for topic in image.topics.by_name.values():
            for number, state in enumerate(topic.partitions):
                name = TopicPartition(topic.name, number)
                if node_id not in state.replicas:
                    continue
                # Only an eligible set that held when the last record was committed is sure to be a true one.
                others = [one for one in (*state.isr, *state.eligible_leader_replicas) if one != node_id]
                if not any(self._has_all(one, name) for one in others):
                    return False
        return True

    def _comes_back_as_leader(self, node_id: int) -> bool:
        """Whether this broker leads all partitions of which another replica was robbed, and the controller knows that it was.

        Then `kill -9`, which the controller can't tell from worse, leaves them without a leader until this one is back.
        """
        image = self.checker.newest
        assert image is not None
        for other_id, name in self.checker.robbed:
            state = image.topics.partition(*name)
            other = self.brokers.get(other_id)
            if state is None or state.leader != node_id or other is None or not other.life.is_caught_up:
                return False
        return True

    def _has_all(self, node_id: int, name: TopicPartition) -> bool:
        """Whether a broker is up, counted in by the controller in this life, and has everything that is committed.

        Each unclean restart makes the controller doubt a replica, `kill -9` too, although that loses nothing.
        """
        broker = self.brokers.get(node_id)
        if broker is None or not broker.life.is_caught_up or (node_id, name) in self.checker.robbed:
            return False
        if broker.life.stopping:
            return False  # It leaves the ISR, and may be gone when it is needed.
        replica = broker.replicas.find(*name)
        return replica is not None and replica.log.log_end_offset >= self.checker.truth(name).end_offset

    def _rob(self, node_id: int) -> None:
        image = self.checker.newest
        for topic in image.topics.by_name.values() if image is not None else ():
            for number, state in enumerate(topic.partitions):
                if node_id in state.replicas:
                    self.checker.robbed.add((node_id, TopicPartition(topic.name, number)))

    # The run.

    def run(self) -> Cluster:
        """Raises InvariantError, or whatever a broker failed with."""
        with silent_logs(), virtual_world(self.simulation, self.router):
            try:
                self._run()
            finally:
                for broker in list(self.brokers.values()):
                    broker.release()
        return self

    def _run(self) -> None:
        simulation = self.simulation
        for node_id in self.ids:
            self.router.mount(str(node_id), SimulatedDisk())
            simulation.at(self.dice.randrange(200_000), lambda node_id=node_id: self.start(node_id))  # type: ignore[misc]
        simulation.at(1_500_000, self._populate)
        simulation.run(START_US)
        nemesis = Nemesis(simulation, self.network, self, START_US + FAULTY_US)
        nemesis.begin()
        simulation.run(START_US + FAULTY_US)
        nemesis.end()
        simulation.run(START_US + FAULTY_US + CALM_US)
        for producer in self.producers:
            producer.stopped = True
        simulation.run(START_US + FAULTY_US + CALM_US + QUIET_US)
        self._check_end()

    def _populate(self) -> None:
        number = 0
        for name, partitions, factor, min_insync in self.topics:
            self.administrator.create_topic(name, partitions, factor, min_insync)
            for index in range(partitions):
                partition = TopicPartition(name, index)
                for acks in (-1, -1, 1)[: self.dice.choice((1, 2, 3))]:
                    number += 1
                    self.producers.append(Producer(self, number, partition, acks))
                self.consumers.append(Consumer(self, number, partition))
        self.simulation.at(3_000_000, self.administrator.disturb)

    # What must hold.

    def _after_event(self, owner: Process | None) -> None:
        if owner is not None:
            for broker in self.brokers.values():
                if broker.process is owner:
                    broker.settle()
                    self.checker.check(broker)
                    return

    def _check_end(self) -> None:
        self.checker.check_end(list(self.brokers.values()))
        image = self.checker.newest
        for name in self.administrator.created:
            if image is None or image.topics.get(name) is None:
                raise InvariantError(f"topic {name} was acknowledged and is gone")
        if len(self.administrator.created) < len(self.topics):
            raise InvariantError(f"only {sorted(self.administrator.created)} could be created")
        for producer in self.producers:
            if producer.acks == -1 and not producer.is_done:
                raise InvariantError(
                    f"{producer.process} still waits for {len(producer.queue)} batches although all is well"
                )
        for consumer in self.consumers:
            end = self.checker.truth(consumer.partition).end_offset
            if consumer.offset != end:
                raise InvariantError(
                    f"{consumer.process} has read up to {consumer.offset} of {end} although all is well"
                )

    def summary(self) -> dict[str, Any]:
        """What happened, in numbers: a run in which little happened proves little."""
        return {
            "brokers": self.size,
            "quorum": "real" if self.real_quorum else "model",
            "events": self.simulation.steps,
            "committed": sum(truth.end_offset for truth in self.checker.truths.values()),
            "acknowledged": sum(producer.acknowledged for producer in self.producers),
            "leader epochs": sum(len(truth.leader_of_epoch) for truth in self.checker.truths.values()),
            "controller epochs": len(self.checker.controller_of_epoch),
        }
