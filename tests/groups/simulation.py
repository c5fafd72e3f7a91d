"""A seeded simulation of groups: clients of both protocols that join, leave, pause, die, commit and repeat themselves, in
groups that change their protocol under them; brokers that fail over.

    python -m tests.groups.simulation --seed 42           one seed, with what happened printed
    python -m tests.groups.simulation --seeds 10000       many

After every step the invariants of `Checker` hold. Then everybody behaves for a while, and every group must settle. At the end, when all
is quiet, everybody has been answered, every group is empty, and the log alone yields the same state.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from kafkapy.coordination import Reply
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.consumer_group import ConsumerGroup
from kafkapy.groups.states import GroupState
from kafkapy.wire.protocol_data import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from kafkapy.wire.record_framing import decode_blob, encode_blob
from tests.groups.consumer_clients import ConsumerClient
from tests.groups.fakes import World, make_catalog, subscription

PARTITIONS = 6
STEPS = 120
# Seeds from here on are short stories: most mistakes need few steps, but a rare beginning.
LONG_SEEDS = 1_000
SHORT_STEPS = 25
CALM_ROUNDS = 60

# What a client does next, when it is free to choose; repeated entries are likelier.
CHOICES = ("heartbeat", "heartbeat", "heartbeat", "commit", "commit", "transaction", "rejoin", "leave", "pause", "die")


class Client:
    """One consumer, as far as it goes: what it knows of itself, and which answers it waits for."""

    def __init__(self, name: str, group: str, random: Random) -> None:
        self.name = name
        self.group = group
        self.version = random.choice((0, 3, 4, 5, 8, 9, 9, 9))
        self.instance = name if self.version >= 5 and random.random() < 0.3 else None
        self.topics = random.choice((("t",), ("t", "u")))
        self.session_ms = random.choice((6_000, 10_000))
        self.rebalance_ms = random.choice((7_000, 20_000))
        self.asleep_until_ms = 0
        self.reset()

    def reset(self) -> None:
        """Forget everything, as a process that starts anew."""
        self.member_id = ""
        self.generation = -1
        self.joining: Reply | None = None
        self.syncing: Reply | None = None
        self.owned: frozenset[tuple[str, int]] = frozenset()

    def step(self, simulation: Simulation) -> None:
        """Go on."""
        simulation.act_classic(self)


class Checker:
    """What must hold, whatever happens."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.owners: dict[tuple[Any, ...], str] = {}
        self.lives: dict[str, int] = {}
        self.replies: list[Reply] = []
        # (group, partition) -> the highest offset that a client was told is committed. Offsets only ever grow here.
        self.acknowledged: dict[tuple[str, int], int] = {}

    def is_classic(self, group_id: str) -> bool:
        """Whether the group is there and classic."""
        return any(group_id in shard.classic_groups for shard in self.world.groups.shards.values())

    def owns(self, client: Client, generation: int) -> None:
        """No partition belongs to two members within a generation; a static member is the same under every id.

        A group that was a consumer group in between, or was gone, begins to count anew.
        """
        if not self.is_classic(client.group):
            return
        for partition in client.owned:
            key = (client.group, self.lives.get(client.group, 0), generation, partition)
            owner = client.instance or client.member_id
            assert self.owners.setdefault(key, owner) == owner, f"{key}: {self.owners[key]} and {owner}"

    def check_owners(self, clients: list[Any]) -> None:
        """In a consumer group no partition has two owners at any time, among those who are members and believe to be."""
        for group_id in {client.group for client in clients}:
            if not self.is_classic(group_id):
                self.lives[group_id] = self.lives.get(group_id, 0) + 1
        for shard in self.world.groups.shards.values():
            for group in shard.consumer_groups.values():
                owners: dict[tuple[str, int], str] = {}
                for client in clients:
                    if client.group == group.group_id and client.member_id in group.members:
                        for partition in client.owned:
                            other = owners.setdefault(partition, client.name)
                            assert other == client.name, f"{partition} of {client.group}: {other}, {client.name}"

    def check(self) -> None:
        """The bookkeeping of every group adds up, and no acknowledged offset is lost."""
        for shard in self.world.groups.shards.values():
            for group in shard.classic_groups.values():
                check_group(group)
            for consumer_group in shard.consumer_groups.values():
                check_consumer_group(consumer_group)
        for (group_id, partition), offset in self.acknowledged.items():
            assert self.world.committed(partition, group=group_id) >= offset, f"{group_id}-{partition} lost {offset}"

    def check_replay(self) -> None:
        """The log alone yields the durable state."""
        world = self.world
        for partition, shard in world.groups.shards.items():
            copy = World(catalog=world.catalog, partitions=0).groups.elected(partition)
            for batch in world.log.batches.get(partition, ()):
                copy.load(batch)
            assert copy.offsets.snapshot() == shard.offsets.snapshot()
            assert copy.stored_groups == shard.stored_groups
            assert copy.consumer_groups.keys() == shard.consumer_groups.keys()
            for group_id, group in shard.consumer_groups.items():
                assert copy.consumer_groups[group_id].snapshot() == group.snapshot()


def check_group(group: Any) -> None:
    """Counters and indexes of a group agree with its members."""
    members = group.members
    assert group.awaiting_join == sum(1 for one in members.values() if one.join_reply is not None)
    supported: dict[str, int] = {}
    for member in members.values():
        for name in member.protocols:
            supported[name] = supported.get(name, 0) + 1
    assert supported == group.supported
    static = {one.instance_id: one.member_id for one in members.values() if one.instance_id is not None}
    assert static == group.static_members
    assert group.leader_id in members if members else group.state is not GroupState.STABLE
    assert not members or group.state is not GroupState.EMPTY
    assert not set(group.pending_sync) - set(members)
    assert not set(group.pending_members) & set(members)
    for member in members.values():
        assert member.sync_reply is None or group.state is GroupState.COMPLETING_REBALANCE
        if member.join_reply is not None:
            # In Stable only a static member waits, for its new id to be stored.
            assert group.state is GroupState.PREPARING_REBALANCE or member.instance_id is not None


def check_consumer_group(group: ConsumerGroup) -> None:
    """The indexes of a consumer group agree with its members, and its target gives nothing twice."""
    owners: dict[tuple[bytes, int], str] = {}
    for member in group.members.values():
        for owned in (member.assigned, member.revoking):
            for topic, partitions in owned.items():
                for partition in partitions:
                    assert owners.setdefault((topic, partition), member.member_id) == member.member_id
        assert member.epoch <= group.epoch
    assert owners == group.owners
    static = {one.instance_id: one.member_id for one in group.members.values() if one.instance_id is not None}
    assert static == group.static_members
    assert group.assignment_epoch <= group.epoch
    assert group.target.keys() <= group.members.keys()
    wanted = [(topic, one) for target in group.target.values() for topic in target for one in target[topic]]
    assert len(wanted) == len(set(wanted))


class Simulation:
    """One run. The same seed gives the same run."""

    def __init__(self, seed: int, *, say: Callable[[str], None] | None = None) -> None:
        self.random = random = Random(seed)
        self.steps = STEPS if seed < LONG_SEEDS else SHORT_STEPS
        self.say = say
        self.world = World(
            partitions=2,
            catalog=make_catalog(t=PARTITIONS, u=2),
            group_consumer_assignment_interval_ms=random.choice((0, 0, 1_000)),
            group_initial_rebalance_delay_ms=random.choice((0, 0, 500)),
            group_max_size=random.choice((2, 100, 100)),
            offsets_retention_minutes=10_000,
        )
        self.checker = Checker(self.world)
        groups = ["a", "b", "c"][: random.randint(1, 3)]
        modern = random.choice((0.0, 0.5, 1.0))
        self.clients: list[Any] = [
            (ConsumerClient if random.random() < modern else Client)(f"c{n}", random.choice(groups), random)
            for n in range(random.randint(2, 6))
        ]
        self.is_calm = False
        self.replicates = random.random() < 0.5
        self.history: list[Callable[[], Any]] = []
        self.next_offset = 0
        self.transactions: dict[int, list[tuple[str, int, int, Reply]]] = {}

    def run(self) -> None:
        """All steps, then silence."""
        for _ in range(self.steps):
            self.step()
            self.checker.check()
            self.checker.check_owners(self.clients)
        self.converge()
        self.finish()

    def step(self) -> None:
        """Something happens."""
        random, world = self.random, self.world
        world.log.replicated = self.replicates or random.random() < 0.7
        dice = random.random()
        if dice < 0.80:
            self.act(random.choice(self.clients))
        elif dice < 0.88:
            world.advance(random.choice((10, 300, 1_000, 3_000, 7_000)))
        elif dice < 0.93:
            world.replicate()
        elif dice < 0.96:
            self.end_transaction()
        elif dice < 0.985:
            self.repeat()
        else:
            self.fail_over()

    def act(self, client: Any) -> None:
        """A client goes on."""
        if client.asleep_until_ms <= self.world.now_ms:
            client.step(self)

    def act_classic(self, client: Client) -> None:
        """A client of the classic protocol goes on."""
        if client.joining is not None:
            self.after_join(client)
        elif client.syncing is not None:
            self.after_sync(client)
        elif client.generation < 0:
            self.join(client)
        else:
            getattr(self, "heartbeat" if self.is_calm else self.random.choice(CHOICES))(client)

    def repeat(self) -> None:
        """An old request arrives once more. In a consumer group an old JoinGroup would say that its member gave everything up, so there none does."""
        group_ids = {group_id for shard in self.world.groups.shards.values() for group_id in shard.consumer_groups}
        if self.history and not group_ids:
            self.note("an old request again")
            self.random.choice(self.history)()

    def is_unlucky(self) -> bool:
        """Whether an answer is lost on its way."""
        return not self.is_calm and self.random.random() < 0.1

    def converge(self) -> None:
        """Everybody behaves: the groups settle, and every partition that somebody reads has an owner."""
        world = self.world
        self.is_calm = True
        self.note("calm")
        world.log.replicated = True
        world.replicate()
        for client in self.clients:
            client.asleep_until_ms = 0
        for _ in range(CALM_ROUNDS):
            world.advance(1_000)
            for client in self.clients:
                self.act(client)
                self.checker.check_owners(self.clients)
        self.checker.check()
        for shard in world.groups.shards.values():
            for classic in shard.classic_groups.values():
                assert classic.state in (GroupState.STABLE, GroupState.EMPTY), classic.state
            for group in shard.consumer_groups.values():
                assert group.state.value in ("Stable", "Empty"), group.state
                owned = {one for client in self.clients if client.group == group.group_id for one in client.owned}
                wanted = {
                    (name, one)
                    for name in group.subscribed
                    for one in range(world.catalog.topics[name].partition_count)
                }
                assert owned == wanted, f"{group.group_id}: {owned ^ wanted}"

    # Joining.

    def join(self, client: Client) -> None:
        """JoinGroup with what the client knows of itself."""

        def request(member_id: str = client.member_id) -> Reply:
            return self.track(
                self.world.join(
                    member_id,
                    group=client.group,
                    version=client.version,
                    instance=client.instance,
                    protocols={"range": subscription(*client.topics)},
                    session_ms=client.session_ms,
                    rebalance_ms=client.rebalance_ms,
                )
            )

        self.note(f"{client.name} joins as {client.member_id!r}")
        # These clients are eager: they give everything up before they join.
        client.owned = frozenset()
        self.history.append(request)
        client.joining = request()

    def after_join(self, client: Client) -> None:
        """Look for the answer; sometimes it was lost, and the client asks again."""
        assert client.joining is not None
        answer = client.joining.response
        if answer is None:
            return
        client.joining = None
        if self.is_unlucky():
            self.note(f"{client.name} lost its JoinGroup answer")
            return
        code = ErrorCode(answer.error_code)
        self.note(f"{client.name} joined: {code.name} generation {answer.generation_id}")
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif code:
            client.reset()
        else:
            client.member_id, client.generation = answer.member_id, answer.generation_id
            assignments = None
            if answer.leader == client.member_id and not answer.skip_assignment:
                assignments = assign(answer.members)
            self.sync(client, assignments)

    def sync(self, client: Client, assignments: dict[str, bytes] | None) -> None:
        """SyncGroup, with the assignment if the client leads."""

        def request(member_id: str = client.member_id, generation: int = client.generation) -> Reply:
            return self.track(
                self.world.sync(
                    member_id, generation, assignments, group=client.group, instance=client.instance, version=4
                )
            )

        self.history.append(request)
        client.syncing = request()

    def after_sync(self, client: Client) -> None:
        """Take the assignment."""
        assert client.syncing is not None
        answer = client.syncing.response
        if answer is None:
            return
        client.syncing = None
        self.note(f"{client.name} synced: {ErrorCode(answer.error_code).name} {answer.assignment!r}")
        if answer.error_code:
            self.failed(client, ErrorCode(answer.error_code))
        else:
            client.owned = partitions_of(answer.assignment)
            self.checker.owns(client, client.generation)

    def failed(self, client: Client, code: ErrorCode) -> None:
        """What clients do with errors: join again, under a new id where the old one is not known."""
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            client.generation = -1
        elif code not in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
            client.reset()

    # A member's life.

    def heartbeat(self, client: Client) -> None:
        """Alive."""
        code = self.world.heartbeat(client.member_id, client.generation, group=client.group, instance=client.instance)
        self.note(f"{client.name} heartbeat: {code.name}")
        self.failed(client, code)

    def commit(self, client: Client) -> None:
        """A higher offset than any before."""
        self.next_offset += 1
        offset, partition = self.next_offset, self.random.randrange(PARTITIONS)

        def request(member_id: str = client.member_id, generation: int = client.generation) -> Reply:
            return self.world.commit(
                offset, member_id, generation, group=client.group, partition=partition, instance=client.instance
            )

        reply = self.track(request())
        self.note(f"{client.name} commits {offset} for {partition}: {reply.response}")
        if reply.response == [ErrorCode.NONE]:
            self.checker.acknowledged[client.group, partition] = offset
        elif reply.response is not None:
            self.failed(client, reply.response[0])

    def transaction(self, client: Client) -> None:
        """An offset inside a transaction that stays open."""
        self.next_offset += 1
        offset, partition = self.next_offset, self.random.randrange(PARTITIONS)
        producer = SimpleNamespace(producer_id=self.random.randrange(3), producer_epoch=0)
        reply = self.track(
            self.world.commit(
                offset,
                client.member_id,
                client.generation,
                group=client.group,
                partition=partition,
                instance=client.instance,
                producer=producer,
            )
        )
        self.note(f"{client.name} commits {offset} for {partition} in transaction {producer.producer_id}")
        pending = self.transactions.setdefault(producer.producer_id, [])
        pending.append((client.group, partition, offset, reply))

    def end_transaction(self) -> None:
        """A marker on every partition of the offsets topic."""
        if not self.transactions:
            return
        producer_id = self.random.choice(sorted(self.transactions))
        commit = self.random.random() < 0.5
        self.note(f"transaction {producer_id} ends, committed: {commit}")
        # The transaction coordinator repeats a marker until it is replicated, so here it is at once.
        self.world.log.replicated = True
        self.world.replicate()
        self.world.end_transaction(producer_id, commit=commit)
        for group, partition, offset, reply in self.transactions.pop(producer_id):
            if commit and reply.response == [ErrorCode.NONE]:
                key = (group, partition)
                self.checker.acknowledged[key] = max(offset, self.checker.acknowledged.get(key, -1))

    def rejoin(self, client: Client) -> None:
        """Join again, perhaps with other topics."""
        if self.random.random() < 0.5:
            client.topics = self.random.choice((("t",), ("t", "u")))
        client.generation = -1
        self.join(client)

    def leave(self, client: Client) -> None:
        """A good-bye; sometimes as an administrator says it, by the instance."""

        def request(member_id: str = client.member_id) -> Reply:
            return self.track(self.world.leave((member_id, client.instance), group=client.group))

        self.note(f"{client.name} leaves")
        self.history.append(request)
        request()
        client.reset()

    def pause(self, client: Client) -> None:
        """Silence that the session may or may not outlast."""
        client.asleep_until_ms = self.world.now_ms + self.random.choice((1_000, 8_000, 30_000))

    def die(self, client: Client) -> None:
        """A new process takes over; what the old one waits for nobody reads."""
        self.note(f"{client.name} dies")
        client.reset()

    # The broker.

    def fail_over(self) -> None:
        """Another broker takes over with what was replicated."""
        self.note("fail-over")
        self.world.fail_over()
        self.checker.check_replay()

    def finish(self) -> None:
        """Everybody falls silent: all answers are given, all groups run empty, nothing is lost."""
        world = self.world
        world.log.replicated = True
        world.replicate()
        world.advance(3_600_000)
        self.checker.check()
        self.checker.check_replay()
        for reply in self.checker.replies:
            assert reply.response is not None, "somebody was never answered"
        for listed in world.groups.list_groups():
            assert listed.state == "Empty", listed

    def track(self, reply: Reply) -> Reply:
        """Remember an answer that must come."""
        self.checker.replies.append(reply)
        return reply

    def note(self, what: str) -> None:
        """For whoever reads along."""
        if self.say is not None:
            self.say(f"{self.world.now_ms % 100_000_000:>9} {what}")


def assign(members: list[Any]) -> dict[str, bytes]:
    """What a leader hands out: each partition to one member that reads it."""
    shares: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in members}
    for topic, count in (("t", PARTITIONS), ("u", 2)):
        readers = [
            one.member_id for one in members if topic in decode_blob(ConsumerProtocolSubscription, one.metadata).topics
        ]
        for partition in range(count if readers else 0):
            shares[readers[partition % len(readers)]].setdefault(topic, []).append(partition)
    return {
        member_id: encode_blob(
            ConsumerProtocolAssignment(
                assigned_partitions=[TopicPartitions(topic=topic, partitions=ones) for topic, ones in share.items()]
            ),
            0,
        )
        for member_id, share in shares.items()
    }


def partitions_of(assignment: bytes) -> frozenset[tuple[str, int]]:
    """What a member was given."""
    if not assignment:
        return frozenset()
    topics = decode_blob(ConsumerProtocolAssignment, assignment).assigned_partitions
    return frozenset((one.topic, partition) for one in topics for partition in one.partitions)


def main() -> None:
    """Run one seed aloud, or many quietly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", type=int, default=1000)
    options = parser.parse_args()
    logging.getLogger("kafkapy.groups").setLevel(logging.ERROR)
    if options.seed is not None:
        Simulation(options.seed, say=print).run()
        return
    for seed in range(options.seeds):
        try:
            Simulation(seed).run()
        except (AssertionError, KafkaError) as error:
            raise SystemExit(f"seed {seed}: {error!r}") from error
    print(f"{options.seeds} seeds")


if __name__ == "__main__":
    main()
