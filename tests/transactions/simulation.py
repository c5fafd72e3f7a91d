"""A seeded simulation of transactional producers that crash, repeat themselves, are replaced and go on as zombies, over a coordinator
that fails over, with requests and markers that arrive late, twice, or out of order.

    python -m tests.transactions.simulation --seed 42           one seed, with what happened printed
    python -m tests.transactions.simulation --seeds 10000       many
    python -m tests.transactions.simulation --late-v1           how many seeds find the weakness of V1

Partitions check producers as real ones do (kafkapy.log.producer_state). What must hold is in `Transaction.check` and in `Partition`: every
transaction is wholly committed or wholly aborted, in every partition; none that was acknowledged is lost; nothing is appended for a
producer that was replaced; nothing stays open.

Requests of Transactions V2 are repeated at any time. V1 cannot tell an EndTxn that is late from one that means the next transaction: that
is committed before its producer asks for it (KAFKA-17754). So requests of V1 are only repeated until they are answered, or with --late-v1.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from random import Random
from typing import Any

from kafkapy.coordination import Reply
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.log.producer_state import ProducedBatch, ProducerTable
from kafkapy.transactions.shard import Marker
from kafkapy.transactions.states import TransactionState
from kafkapy.transactions.transaction import CLIENT_EPOCH_MAX, Producer
from kafkapy.wire.records import EndTxnMarker
from tests.support.coordinator_log import FakeLog
from tests.transactions.fakes import V1, V2, World

STEPS = 250
# Seeds from here on are short stories: most mistakes need few steps, but a rare beginning.
LONG_SEEDS = 1_000
SHORT_STEPS = 40
TOPIC_PARTITIONS = [("a", 0), ("a", 1), ("b", 0)]

RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Transaction:
    """One transaction as its producer sees it, and what became of its batches."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.acknowledged: set[tuple[tuple[str, int], int]] = set()  # (partition, number of the batch)
        self.appended: set[tuple[tuple[str, int], int]] = set()
        self.ends: dict[tuple[tuple[str, int], int], bool] = {}  # batch -> committed
        self.commit_asked = False
        self.told: bool | None = None  # what EndTxn was answered with NONE for

    def check(self) -> None:
        """All or nothing, and what the producer was told."""
        assert self.acknowledged <= self.appended, f"{self.name}: acknowledged batches are lost"
        ends = set(self.ends.values())
        assert len(ends) <= 1, f"{self.name} is torn: {self.ends}"
        assert self.commit_asked or True not in ends, f"{self.name} was committed, and nobody asked for it"
        assert self.told is None or ends <= {self.told}, f"{self.name} was told {self.told}, but ended with {ends}"

    def check_at_the_end(self) -> None:
        """Nothing is left undecided."""
        self.check()
        assert self.appended == set(self.ends), f"{self.name} hangs: {self.appended - set(self.ends)}"


class Partition:
    """One partition: the producers' state of a real one, and who has a transaction open."""

    def __init__(self, name: tuple[str, int]) -> None:
        self.name = name
        self.table = ProducerTable()
        self.end_offset = 0
        self.open: dict[int, list[tuple[Transaction, int]]] = {}
        self.closed: set[tuple[int, int]] = set()  # producer id and epoch of V2 markers that ended something

    def has_open(self, producer: Producer) -> bool:
        """Whether the leader need not ask the coordinator."""
        state = self.table.states.get(producer.producer_id)
        return state is not None and state.epoch == producer.producer_epoch and state.txn_first_offset >= 0

    def append(self, producer: Producer, sequence: int, transaction: Transaction, number: int) -> None:
        """A batch of one record, unless it is there already; raises KafkaError for one that is refused."""
        if self.table.check_produced(*producer, sequence, sequence, transactional=True, verified=True) is not None:
            return
        offset = self.end_offset
        batch = ProducedBatch(sequence, sequence, offset, offset, 0)
        self.table.add_batch(*producer, batch, transactional=True)
        self.end_offset += 1
        self.open.setdefault(producer.producer_id, []).append((transaction, number))
        transaction.appended.add((self.name, number))

    def mark(self, marker: Marker) -> ErrorCode:
        """A coordinator's marker arrives."""
        end = EndTxnMarker(marker.committed, marker.coordinator_epoch)
        producer_id, epoch = marker.producer_id, marker.producer_epoch
        try:
            self.table.check_marker(producer_id, epoch, end, marker.transaction_version)
        except KafkaError as error:
            return error.code
        completed = self.table.add_marker(producer_id, epoch, end, self.end_offset, 0)
        self.end_offset += 1
        if completed is not None:
            self.table.complete(completed)
            self.table.high_watermark_reached(self.end_offset)
            if marker.transaction_version >= V2:
                assert (producer_id, epoch) not in self.closed, "two markers of one epoch have ended something"
                self.closed.add((producer_id, epoch))
        for transaction, number in self.open.pop(producer_id, ()):
            transaction.ends[self.name, number] = marker.committed
            transaction.check()
        return ErrorCode.NONE


class Network:
    """The partitions, with markers that are written, refused, or on their way for a while."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.partitions = {name: Partition(name) for name in TOPIC_PARTITIONS}
        self.under_way: list[tuple[Marker, str, int]] = []
        self.is_quiet = False

    def write_marker(self, marker: Marker, topic: str, partition: int) -> ErrorCode | None:
        """Now, later, or not."""
        dice = 0.0 if self.is_quiet else self.random.random()
        if dice < 0.6:
            return self.partitions[topic, partition].mark(marker)
        if dice < 0.85:
            self.under_way.append((marker, topic, partition))
            return None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER


class Client:
    """One life of a producer. Another life may begin while this one does not know that it is over."""

    def __init__(self, name: str, transactional_id: str, version: int, number: int) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self.version = version
        self.number = number  # of all lives under this transactional id
        self.producer: Producer | None = None
        self.transaction: Transaction | None = None
        self.announced: set[tuple[str, int]] = set()
        self.sequences: dict[tuple[str, int], int] = {}
        self.transactions = 0
        self.batches = 0
        self.waiting: Reply | None = None
        self.request: Callable[[], Reply] | None = None
        self.then: Callable[[ErrorCode, Producer], None] | None = None
        self.alive = True

    def become(self, producer: Producer) -> None:
        """Go on under another epoch; sequences start anew."""
        if producer != self.producer:
            self.producer = producer
            self.sequences = {}

    def next_transaction(self) -> Transaction:
        """A new one, without partitions."""
        self.transactions += 1
        self.announced = set()
        self.transaction = Transaction(f"{self.name}/{self.transactions}")
        return self.transaction


class Simulation:
    """One run. The same seed gives the same run."""

    def __init__(self, seed: int, *, say: Callable[[str], None] | None = None, late_v1: bool = False) -> None:
        self.random = random = Random(seed)
        self.steps = STEPS if seed < LONG_SEEDS else SHORT_STEPS
        self.say = say
        self.late_versions = (V1, V2) if late_v1 else (V2,)
        self.network = Network(random)
        self.world = World(partitions=2, markers=self.network)
        self.ids = ["x", "y", "z"][: random.randint(1, 3)]
        self.lives = dict.fromkeys(self.ids, 0)
        self.initialized = dict.fromkeys(self.ids, 0)  # the last life that InitProducerId let in
        self.clients: list[Client] = []
        self.transactions: list[Transaction] = []
        self.late: list[Callable[[], Reply]] = []
        self.replicates = random.random() < 0.5
        self.begins_exhausted = random.random() < 0.3

    # The run.

    def run(self) -> None:
        """All steps, then silence."""
        for _ in range(self.steps):
            self.step()
        self.finish()

    def step(self) -> None:
        """Something happens."""
        random, world = self.random, self.world
        world.log.replicated = self.replicates or random.random() < 0.6
        dice = random.random()
        if dice < 0.72:
            self.act()
        elif dice < 0.82:
            world.replicate()
        elif dice < 0.88:
            self.deliver_marker()
        elif dice < 0.93:
            world.advance(random.choice((5, 50, 150, 500, 15_000)))
        elif dice < 0.97:
            if self.late:
                self.note("an old request arrives")
                self.late.pop(random.randrange(len(self.late)))()
        else:
            self.fail_over()

    def finish(self) -> None:
        """Everybody falls silent; what is open times out."""
        world = self.world
        self.network.is_quiet = True
        world.log.replicated = True
        for _ in range(3):
            world.replicate()
            self.deliver_all_markers()
            world.advance(120_000)
        self.check_replay()
        for _, transaction in world.coordinator.transactions():
            state = transaction.state
            assert state in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
        for partition in self.network.partitions.values():
            assert partition.table.first_unstable_offset < 0 and not partition.open, f"{partition.name} hangs"
        for one in self.transactions:
            one.check_at_the_end()

    def check_replay(self) -> None:
        """The log alone yields the durable state."""
        before = dict(self.world.coordinator.transactions())
        self.world.restart()
        assert dict(self.world.coordinator.transactions()) == before

    # The coordinator's side.

    def fail_over(self) -> None:
        """Another broker takes over; what was not replicated may be lost."""
        world = self.world
        if self.random.random() < 0.5:
            self.note("fail-over with loss")
            lose_uncommitted(world.log)
        else:
            self.note("fail-over")
            world.log.high_watermarks.update(world.log.ends)
        world.restart()

    def deliver_marker(self) -> None:
        """One of the markers under way arrives, perhaps from a coordinator that is gone; its answer may be lost."""
        under_way = self.network.under_way
        if under_way:
            self._deliver(*under_way.pop(self.random.randrange(len(under_way))))

    def deliver_all_markers(self) -> None:
        """Nothing is under way any more."""
        while self.network.under_way:
            self._deliver(*self.network.under_way.pop())

    def _deliver(self, marker: Marker, topic: str, partition: int) -> None:
        code = self.network.partitions[topic, partition].mark(marker)
        self.note(f"marker of {marker.transactional_id} {marker.producer_epoch} in {topic}-{partition}: {code.name}")
        if not self.network.is_quiet and self.random.random() < 0.2:
            code = ErrorCode.NETWORK_EXCEPTION
            if marker.transaction_version < V2:
                return self.world.coordinator.marker_written(
                    marker, topic, partition, ErrorCode.NONE, self.world.now_ms
                )
        self.world.coordinator.marker_written(marker, topic, partition, code, self.world.now_ms)

    # The producers' side.

    def act(self) -> None:
        """A producer goes on, or one more comes."""
        random = self.random
        alive = [client for client in self.clients if client.alive]
        if not alive or random.random() < 0.04:
            self.start_client()
            return
        client = random.choice(alive)
        if random.random() < 0.01:
            self.note(f"{client.name} dies")
            client.alive = False
        elif client.waiting is not None:
            self.look_for_answer(client)
        elif client.producer is None:
            self.init(client)
        elif client.transaction is None:
            self.begin(client)
        else:
            self.go_on(client)

    def start_client(self) -> None:
        """Another life; the one before need not have ended."""
        transactional_id = self.random.choice(self.ids)
        self.lives[transactional_id] += 1
        number = self.lives[transactional_id]
        version = self.random.choice((V1, V2, V2))
        name = f"{transactional_id}{number}{'' if version == V2 else 'v1'}"
        self.note(f"{name} starts")
        self.clients.append(Client(name, transactional_id, version, number))

    def init(self, client: Client, expected: Producer | None = None) -> None:
        """InitProducerId."""
        number, transactional_id = client.number, client.transactional_id

        def make(code: ErrorCode, producer: Producer) -> Any:
            if code is ErrorCode.NONE and expected is None:
                self.initialized[transactional_id] = number
            return code, producer

        def request() -> Reply:
            world = self.world
            return world.coordinator.init_producer_id(transactional_id, 60_000, expected, world.now_ms, make)

        def then(code: ErrorCode, producer: Producer) -> None:
            self.note(f"{client.name} is {producer} {code.name}")
            if code:
                client.alive = False
            else:
                client.become(producer)
                client.transaction = None

        self.send(client, f"init {expected or ''}", request, then)

    def begin(self, client: Client) -> None:
        """A new transaction; with V1 it is announced."""
        self.transactions.append(client.next_transaction())
        if self.begins_exhausted:
            self.exhaust(client)

    def exhaust(self, client: Client) -> None:
        """Once in a run the epochs of a producer are nearly used up."""
        shard = self.world.coordinator._led[self.world.coordinator.partition_of(client.transactional_id)].shard
        entry = shard.entries.get(client.transactional_id)
        if entry is None or entry.transaction.producer != client.producer or self.initialized_later(client):
            return
        if entry.transaction.state is not TransactionState.EMPTY:
            return
        self.begins_exhausted = False
        nearly = entry.transaction._replace(producer_epoch=CLIENT_EPOCH_MAX - 1)
        self.world.log.replicated = True
        self.world.replicate()
        shard.write(client.transactional_id, nearly, self.world.now_ms, lambda code, now_ms: None)
        client.become(nearly.producer)

    def initialized_later(self, client: Client) -> bool:
        """Whether another life has taken over."""
        return self.initialized[client.transactional_id] != client.number

    def go_on(self, client: Client) -> None:
        """Produce some more, or end."""
        dice = self.random.random()
        partition = self.random.choice(TOPIC_PARTITIONS)
        if dice < 0.6:
            if client.version == V1 and partition not in client.announced:
                self.announce(client, partition)
            else:
                self.produce(client, partition)
        elif dice < 0.95:
            self.end(client, commit=self.random.random() < 0.7)
        else:
            self.init(client, client.producer)

    def announce(self, client: Client, partition: tuple[str, int]) -> None:
        """AddPartitionsToTxn of V1."""
        producer, transactional_id = client.producer, client.transactional_id
        assert producer is not None

        def request() -> Reply:
            return self.world.add(producer, partition, transactional_id=transactional_id, version=V1)

        def then(code: ErrorCode, _: Producer) -> None:
            if code:
                client.alive = False
            else:
                client.announced.add(partition)

        self.send(client, f"announces {partition}", request, then)

    def produce(self, client: Client, name: tuple[str, int]) -> None:
        """Produce one batch, which the partition's leader lets in once the coordinator does."""
        producer, transaction, partition = client.producer, client.transaction, self.network.partitions[name]
        assert producer is not None and transaction is not None
        client.batches += 1
        number = client.batches
        sequence = client.sequences.get(name, 0)
        client.sequences[name] = sequence + 1

        def request() -> Reply:
            reply = Reply(self.world.woken.append)

            def append(code: ErrorCode) -> None:
                if not code:
                    code = self.append(client, partition, producer, sequence, transaction, number)
                reply.give((code, producer))

            if partition.has_open(producer):
                append(ErrorCode.NONE)
            else:
                self.world.coordinator.verify_or_add(
                    client.transactional_id,
                    producer,
                    frozenset({name}),
                    self.world.now_ms,
                    lambda codes: append(codes[name]),
                    add=client.version == V2,
                )
            return reply

        def then(code: ErrorCode, _: Producer) -> None:
            if code:
                client.alive = False
            else:
                transaction.acknowledged.add((name, number))

        self.send(client, f"produces {number} to {name}", request, then)

    def append(
        self,
        client: Client,
        partition: Partition,
        producer: Producer,
        sequence: int,
        transaction: Transaction,
        number: int,
    ) -> ErrorCode:
        """What the leader does with a batch that may come in."""
        before = partition.end_offset
        try:
            partition.append(producer, sequence, transaction, number)
        except KafkaError as error:
            return error.code
        if partition.end_offset > before:
            assert not self.initialized_later(client), (
                f"{client.name} wrote, but {client.transactional_id} was taken over"
            )
        return ErrorCode.NONE

    def end(self, client: Client, *, commit: bool) -> None:
        """EndTxn."""
        producer, transaction, transactional_id = client.producer, client.transaction, client.transactional_id
        assert producer is not None and transaction is not None
        version = client.version
        if (version == V1 and not client.announced) or (commit and not transaction.acknowledged):
            return  # clients know that there is nothing to end
        transaction.commit_asked |= commit

        def request() -> Reply:
            return self.world.end(producer, commit=commit, transactional_id=transactional_id, version=version)

        def then(code: ErrorCode, following: Producer) -> None:
            if code:
                client.alive = False
                return
            transaction.told = commit
            transaction.check()
            client.transaction = None
            if version == V2:
                client.become(following)

        self.send(client, f"ends {transaction.name}, commit {commit}", request, then)

    def send(
        self, client: Client, what: str, request: Callable[[], Reply], then: Callable[[ErrorCode, Producer], None]
    ) -> None:
        """The request arrives, unless it is lost or late."""
        self.note(f"{client.name} {what}")
        client.request, client.then = request, then
        if client.version in self.late_versions and self.random.random() < 0.1:
            self.late.append(request)
        if self.random.random() < 0.1:
            client.waiting = Reply(self.world.woken.append)
            client.waiting.give((ErrorCode.NETWORK_EXCEPTION, None))
        else:
            client.waiting = request()

    def look_for_answer(self, client: Client) -> None:
        """Take the answer, or ask again where it says so or was lost."""
        assert client.waiting is not None and client.request is not None and client.then is not None
        if client.waiting.response is None:
            return
        code, producer = client.waiting.response
        if code in RETRIABLE or code is ErrorCode.NETWORK_EXCEPTION or self.random.random() < 0.1:
            client.waiting = client.request()
            return
        client.waiting = None
        self.note(f"{client.name} is answered {code.name}")
        client.then(code, producer)

    def note(self, text: str) -> None:
        """Tell what happens, if anybody listens."""
        if self.say is not None:
            self.say(f"{self.world.now_ms} {text}")


def lose_uncommitted(log: FakeLog) -> None:
    """The new leader never had what was not replicated."""
    for partition, batches in log.batches.items():
        keep = log.high_watermarks.get(partition, 0)
        del batches[keep:]  # every batch holds one record here
        log.ends[partition] = len(batches)


def main() -> None:
    """Run seeds from the command line."""
    parser = argparse.ArgumentParser(description="Simulate transactional producers.")
    parser.add_argument("--seed", type=int, help="one seed, with what happens")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument(
        "--late-v1", action="store_true", help="let requests of V1 be late too, and count what goes wrong"
    )
    arguments = parser.parse_args()
    logging.getLogger("kafkapy.transactions").setLevel(logging.ERROR)
    if arguments.seed is not None:
        Simulation(arguments.seed, say=print, late_v1=arguments.late_v1).run()
        return
    found = 0
    for seed in range(arguments.seeds):
        try:
            Simulation(seed, late_v1=arguments.late_v1).run()
        except AssertionError as error:
            if not arguments.late_v1:
                raise SystemExit(f"seed {seed}: {error}") from error
            found += 1
    print(f"{arguments.seeds} seeds, {found or 'nothing'} found")


if __name__ == "__main__":
    main()
