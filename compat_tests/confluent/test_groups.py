"""Groups: assignors, static members, commits of every kind, rebalances, KIP-848."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from compat_tests.confluent.support import WAIT_S, consumer, produce, take, until, values
from compat_tests.target import CONSUMER_GROUP_HEARTBEAT, Target

PROTOCOLS = ["range", "roundrobin", "cooperative-sticky", "consumer"]


def settings(target: Target, protocol: str) -> dict[str, str]:
    """What makes a consumer speak one of the protocols."""
    if protocol == "consumer":
        target.require(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat")
        return {"group.protocol": "consumer"}
    return {
        "group.protocol": "classic",
        "partition.assignment.strategy": protocol,
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "200",
    }


def owned(member: Consumer) -> set[tuple[str, int]]:
    """What a member has now."""
    return {(partition.topic, partition.partition) for partition in member.assignment()}


def shared(members: list[Consumer], count: int) -> bool:
    """Whether so many partitions are spread over these members, each at one, with a share for everybody."""
    parts = [owned(member) for member in members]
    return all(parts) and sum(map(len, parts)) == len(set().union(*parts)) == count


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_group_of_one(target: Target, topic: str, unique, protocol: str) -> None:
    """One member gets all, commits, and the next one goes on there."""
    group = unique("g")
    produce(target.bootstrap, topic, [b"%d" % n for n in range(10)], partition=0)
    first = consumer(target.bootstrap, group, **settings(target, protocol))
    first.subscribe([topic])
    assert len(take(first, 10)) == 10
    assert owned(first) == {(topic, 0), (topic, 1)}
    committed = first.commit(asynchronous=False)
    assert [(p.partition, p.offset) for p in committed if p.offset >= 0] == [(0, 10)]
    first.close()
    produce(target.bootstrap, topic, [b"next"], partition=0)
    second = consumer(target.bootstrap, group, **settings(target, protocol))
    second.subscribe([topic])
    assert values(take(second, 1)) == [b"next"]
    second.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_group_grows_and_shrinks(target: Target, unique, protocol: str) -> None:
    """Two members share, a leaving one gives back, and every record is read once."""
    name, group = unique("topic"), unique("g")
    target.create_topic(name, 6)
    members = [consumer(target.bootstrap, group, **settings(target, protocol)) for _ in range(2)]
    members[0].subscribe([name])
    until(lambda: len(owned(members[0])) == 6, [members[0]])
    members[1].subscribe([name])
    until(lambda: shared(members, 6), members)
    for partition in range(6):
        produce(target.bootstrap, name, [b"%d" % partition], partition=partition)
    found = take(members[0], len(owned(members[0]))) + take(members[1], len(owned(members[1])))
    assert sorted(values(found)) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    members[0].close()
    until(lambda: len(owned(members[1])) == 6, [members[1]])
    members[1].close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_static_member_returns(target: Target, topic: str, unique, protocol: str) -> None:
    """A static member that goes and comes back keeps its partitions without a rebalance of the others."""
    group = unique("g")
    rebalances: list[str] = []

    def member(instance: str) -> Consumer:
        made = consumer(target.bootstrap, group, **{**settings(target, protocol), "group.instance.id": instance})
        made.subscribe([topic], on_revoke=lambda *_: rebalances.append(instance))
        return made

    one, two = member("one"), member("two")
    until(lambda: shared([one, two], 2), [one, two])
    before = owned(two)
    rebalances.clear()
    two.close()
    rebalances.clear()
    two = member("two")
    until(lambda: owned(two) == before, [one, two])
    assert "one" not in rebalances
    one.close()
    two.close()


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
def test_pattern_subscription(target: Target, unique, protocol: str) -> None:
    """A pattern follows topics that appear later."""
    prefix = unique("pattern")
    target.create_topic(f"{prefix}-a", 1)
    extra = {"topic.metadata.refresh.interval.ms": "500", "metadata.max.age.ms": "1000"}
    member = consumer(target.bootstrap, unique("g"), **settings(target, protocol), **extra)
    member.subscribe([f"^{prefix}-.*"])
    until(lambda: owned(member) == {(f"{prefix}-a", 0)}, [member])
    target.create_topic(f"{prefix}-b", 1)
    until(lambda: owned(member) == {(f"{prefix}-a", 0), (f"{prefix}-b", 0)}, [member])
    member.close()


def test_commit_specific_offsets(bootstrap: str, topic: str, unique) -> None:
    """Offsets and metadata given by the application, without a subscription."""
    group = unique("g")
    source = consumer(bootstrap, group)
    given = TopicPartition(topic, 1, 42, "note")
    source.commit(offsets=[given], asynchronous=False)
    found = source.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=WAIT_S)
    assert [(p.offset, p.metadata) for p in found] == [(OFFSET_INVALID, None), (42, "note")]
    source.close()


def test_commit_message(bootstrap: str, topic: str, unique) -> None:
    """Committing a message commits the offset after it."""
    produce(bootstrap, topic, [b"0", b"1", b"2"], partition=0)
    source = consumer(bootstrap, unique("g"))
    source.subscribe([topic])
    messages = take(source, 3)
    source.commit(message=messages[1], asynchronous=False)
    assert source.committed([TopicPartition(topic, 0)], timeout=WAIT_S)[0].offset == 2
    source.close()


def test_commit_asynchronously(bootstrap: str, topic: str, unique) -> None:
    """The callback gets the result."""
    results: list[tuple[KafkaError | None, list[int]]] = []
    config = {"on_commit": lambda error, partitions: results.append((error, [p.offset for p in partitions]))}
    source = Consumer({"bootstrap.servers": bootstrap, "group.id": unique("g"), "enable.auto.commit": False, **config})
    source.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=True)
    until(lambda: bool(results), [source])
    assert results == [(None, [5])]
    source.close()


def test_auto_commit(bootstrap: str, topic: str, unique) -> None:
    """enable.auto.commit commits at close what was handed out."""
    group = unique("g")
    produce(bootstrap, topic, [b"0", b"1", b"2"], partition=0)
    source = consumer(bootstrap, group, **{"enable.auto.commit": True})
    source.subscribe([topic])
    take(source, 3)
    source.close()
    after = consumer(bootstrap, group)
    assert after.committed([TopicPartition(topic, 0)], timeout=WAIT_S)[0].offset == 3
    after.close()


def test_commit_to_unknown_topic(bootstrap: str, unique) -> None:
    """A commit for a topic that is not there is an error of its partition."""
    source = consumer(bootstrap, unique("g"))
    with pytest.raises(KafkaException) as failure:
        source.commit(offsets=[TopicPartition(unique("nowhere"), 0, 1)], asynchronous=False)
    assert failure.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    source.close()


def test_commit_into_somebody_elses_group(bootstrap: str, topic: str, unique) -> None:
    """A commit from outside a group with members is refused with UNKNOWN_MEMBER_ID."""
    group = unique("g")
    member = consumer(bootstrap, group)
    member.subscribe([topic])
    until(lambda: bool(owned(member)), [member])
    outsider = consumer(bootstrap, group)
    with pytest.raises(KafkaException) as failure:
        outsider.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert failure.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    outsider.close()
    member.close()


def test_second_static_member_fences_the_first(bootstrap: str, topic: str, unique) -> None:
    """Of two members with one instance id the older one is told that it is fenced."""
    group = unique("g")
    config = {"group.instance.id": "same", "session.timeout.ms": "6000", "heartbeat.interval.ms": "300"}
    old = consumer(bootstrap, group, **config)
    old.subscribe([topic])
    until(lambda: bool(owned(old)), [old])
    new = consumer(bootstrap, group, **config)
    new.subscribe([topic])
    codes: list[int] = []

    def fenced() -> bool:
        new.poll(0.05)
        message = old.poll(0.05)
        if message is not None and message.error() is not None:
            codes.append(message.error().code())
        return bool(codes)

    until(fenced)
    assert codes[0] in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)
    new.close()
    old.close()


def test_partitions_added_under_a_group(target: Target, unique) -> None:
    """A topic that grows is rebalanced to its members."""
    from confluent_kafka.admin import AdminClient, NewPartitions

    name = unique("growing")
    target.create_topic(name, 1)
    member = consumer(
        target.bootstrap, unique("g"), **{"topic.metadata.refresh.interval.ms": 500, "metadata.max.age.ms": 1000}
    )
    member.subscribe([name])
    until(lambda: len(owned(member)) == 1, [member])
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    admin.create_partitions([NewPartitions(name, 4)])[name].result(WAIT_S)
    until(lambda: len(owned(member)) == 4, [member])
    member.close()
