"""The handlers of group APIs: every version goes through the wire, in and out."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.handlers.wait import Wait
from kafkapy.types import ZERO_UUID
from kafkapy.wire.apis import api_by_name
from kafkapy.wire.messages.join_group import JoinGroupRequestProtocol
from kafkapy.wire.messages.leave_group import MemberIdentity
from kafkapy.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafkapy.wire.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafkapy.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.groups.fakes import World, subscription, topic_id

GROUP_ID_PARTITION_COUNT = 3


class Client:
    """Sends requests through the wire to the handlers, as somebody on one connection."""

    def __init__(self, world: World) -> None:
        self.world = world
        place = SimpleNamespace(host="broker", port=9092)
        node = SimpleNamespace(id=1, fenced=False, rack=None, listener=lambda name: place)
        offsets = SimpleNamespace(partitions=[SimpleNamespace(leader=1)] * GROUP_ID_PARTITION_COUNT)
        self.topics: dict[str, Any] = {"__consumer_offsets": offsets}
        self.broker = SimpleNamespace(
            groups=world.groups,
            replicas=world.catalog,
            config=SimpleNamespace(
                node_id=1, advertised_listeners=[SimpleNamespace(name="PLAINTEXT")], auto_create_topics_enable=False
            ),
            image=SimpleNamespace(topics=self.topics, brokers={1: node}, features={"group.version": 1}),
            controller=SimpleNamespace(is_active=False),
        )
        self.connection = SimpleNamespace(client_host="10.0.0.1", listener_name="PLAINTEXT")

    def send(self, api_name: str, version: int, **fields: Any) -> Any:
        """The decoded answer, or the Wait."""
        api = api_by_name(api_name)
        request = api.request.decode(api.request(**fields).encode(version), version)
        handler = importlib.import_module(f"kafkapy.handlers.{api.module_name}")
        context = SimpleNamespace(
            broker=self.broker,
            connection=self.connection,
            api_version=version,
            client_id="client",
            now_ms=self.world.now_ms,
        )
        return self.receive(api_name, version, handler.handle(context, request))

    @staticmethod
    def receive(api_name: str, version: int, answer: Any) -> Any:
        """What the client reads of an answer."""
        if isinstance(answer, Wait):
            return answer
        return api_by_name(api_name).response.decode(answer.encode(version), version)


def versions(api_name: str) -> list[int]:
    """All versions of an API."""
    supported = api_by_name(api_name).versions
    return list(range(supported.first, supported.last + 1))


def join(client: Client, version: int, member_id: str = "", topics: tuple[str, ...] = ("t",)) -> Any:
    """JoinGroup."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription(*topics))]
    return client.send(
        "JoinGroup",
        version,
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000 if version else -1,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols,
    )


@pytest.mark.parametrize("version", versions("JoinGroup"))
def test_join_group_in_every_version(version: int) -> None:
    """The answer, the wait of a second member, and the error that a waiting member may get."""
    world = World()
    client = Client(world)
    answer = join(client, version)
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert answer.protocol_name == (None if version >= 7 else "")
        answer = join(client, version, answer.member_id)
    assert (answer.error_code, answer.generation_id, answer.protocol_name, len(answer.members)) == (0, 1, "range", 1)
    assert world.shard.classic_groups["g"].members[answer.member_id].client_host == "/10.0.0.1"
    second = join(client, version)
    if version >= 4:
        second = join(client, version, second.member_id)
    assert isinstance(second, Wait)
    assert second.again(False) is None
    (waiting,) = [one for one in world.shard.classic_groups["g"].members if one != answer.member_id]
    world.leave(waiting)
    refused = Client.receive("JoinGroup", version, second.again(False))
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", versions("SyncGroup"))
def test_sync_group_in_every_version(version: int) -> None:
    """Assignment and error."""
    client = Client(World())
    member = join(client, 0).member_id
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    answer = client.send("SyncGroup", version, group_id="g", generation_id=1, member_id=member, **names)
    assert (answer.error_code, answer.assignment) == (0, b"")
    answer = client.send("SyncGroup", version, group_id="g", generation_id=1, member_id="nobody", **names)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", versions("Heartbeat"))
def test_heartbeat_in_every_version(version: int) -> None:
    """Alive or unknown."""
    client = Client(World())
    member = join(client, 0).member_id
    for one, code in ((member, 0), ("nobody", ErrorCode.UNKNOWN_MEMBER_ID)):
        answer = client.send("Heartbeat", version, group_id="g", generation_id=1, member_id=one)
        assert answer.error_code == code


@pytest.mark.parametrize("version", versions("LeaveGroup"))
def test_leave_group_in_every_version(version: int) -> None:
    """One member, or a list of them."""
    client = Client(World())
    member = join(client, 0).member_id
    fields = {"members": [MemberIdentity(member_id=member)]} if version >= 3 else {"member_id": member}
    answer = client.send("LeaveGroup", version, group_id="g", **fields)
    assert (answer.error_code, [one.error_code for one in answer.members]) == (0, [0] if version >= 3 else [])
    again = client.send("LeaveGroup", version, group_id="g", **fields)
    codes = {again.error_code, *(one.error_code for one in again.members)}
    assert ErrorCode.UNKNOWN_MEMBER_ID in codes


@pytest.mark.parametrize("version", versions("OffsetCommit"))
def test_offset_commit_in_every_version(version: int) -> None:
    """Good partitions are committed, the others have their errors, in the order of the request."""
    world = World()
    client = Client(world)

    def topic(name: str, *partitions: int) -> OffsetCommitRequestTopic:
        return OffsetCommitRequestTopic(
            name=name if version < 10 else "",
            topic_id=topic_id(name) if version >= 10 else ZERO_UUID,
            partitions=[OffsetCommitRequestPartition(partition_index=one, committed_offset=5) for one in partitions],
        )

    answer = client.send("OffsetCommit", version, group_id="g", topics=[topic("x", 0), topic("t", 9, 1)])
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    codes = [[one.error_code for one in topic.partitions] for topic in answer.topics]
    assert codes == [[missing], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]]
    assert world.committed(1) == 5
    assert world.shard.offsets.by_group["g"]["t"][1].topic_id == topic_id("t")
    nothing = client.send("OffsetCommit", version, group_id="g", topics=[topic("x", 0)])
    assert nothing.topics[0].partitions[0].error_code == missing


@pytest.mark.parametrize("version", versions("OffsetFetch"))
def test_offset_fetch_in_every_version(version: int) -> None:
    """Some partitions, all of them, and those of a group that does not exist."""
    world = World()
    client = Client(world)
    world.commit(5, partition=1)

    def fetch(group_id: str, *, everything: bool) -> Any:
        if version < 8:
            topics = None if everything else [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
            answer = client.send("OffsetFetch", version, group_id=group_id, topics=topics)
            return answer.topics
        by_name = {"name": "t"} if version < 10 else {"topic_id": topic_id("t")}
        topics = None if everything else [OffsetFetchRequestTopics(partition_indexes=[0, 1], **by_name)]
        asked = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        (group,) = client.send("OffsetFetch", version, groups=[asked]).groups
        assert (group.group_id, group.error_code) == (group_id, 0)
        return group.topics

    def shown(topics: Any) -> list[tuple[int, int]]:
        return [(one.partition_index, one.committed_offset) for topic in topics for one in topic.partitions]

    assert shown(fetch("g", everything=False)) == [(0, -1), (1, 5)]
    assert shown(fetch("none", everything=False)) == [(0, -1), (1, -1)]
    if version >= 2:
        assert shown(fetch("g", everything=True)) == [(1, 5)]
        assert fetch("none", everything=True) == []


@pytest.mark.parametrize("version", versions("OffsetFetch"))
def test_offset_fetch_from_the_wrong_broker(version: int) -> None:
    """Every version has a place for the error: each partition, the answer, or the group."""
    world = World()
    client = Client(world)
    world.groups.resigned(0, world.now_ms)
    if version < 8:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        answer = client.send("OffsetFetch", version, group_id="g", topics=topics)
        code = answer.error_code if version >= 2 else answer.topics[0].partitions[0].error_code
    else:
        answer = client.send("OffsetFetch", version, groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        code = answer.groups[0].error_code
    assert code == ErrorCode.NOT_COORDINATOR


def test_offset_fetch_by_an_unknown_topic_id() -> None:
    """UNKNOWN_TOPIC_ID in each partition; offsets of a topic that is gone cannot be named and are left out."""
    world = World()
    client = Client(world)
    world.commit(5, topic="gone")
    some = [OffsetFetchRequestTopics(topic_id=topic_id("gone"), partition_indexes=[0])]
    asked = [OffsetFetchRequestGroup(group_id="g", topics=topics) for topics in (some, None)]
    by_id, everything = client.send("OffsetFetch", 10, groups=asked).groups
    assert by_id.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert everything.topics == []


@pytest.mark.parametrize("version", versions("FindCoordinator"))
def test_find_coordinator_in_every_version(version: int) -> None:
    """One key or many; groups, and key types that are not served."""
    client = Client(World())
    keys = {"coordinator_keys": ["g", "h"]} if version >= 4 else {"key": "g"}
    answer = client.send("FindCoordinator", version, **keys)
    places = answer.coordinators if version >= 4 else [answer]
    assert [(one.node_id, one.host, one.port, one.error_code) for one in places] == [(1, "broker", 9092, 0)] * len(
        places
    )
    if version >= 1:
        answer = client.send("FindCoordinator", version, key_type=9, **keys)
        places = answer.coordinators if version >= 4 else [answer]
        assert {(one.node_id, one.error_code) for one in places} == {(-1, ErrorCode.INVALID_REQUEST)}


def test_find_coordinator_while_there_is_none() -> None:
    """The topic cannot be created, or its partition has no leader: COORDINATOR_NOT_AVAILABLE, try again."""
    client = Client(World())
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    client.topics["__consumer_offsets"].partitions = [SimpleNamespace(leader=-1)]
    assert client.send("FindCoordinator", 2, key="g").error_code == unavailable
    client.topics.clear()
    client.broker.config.offsets_topic_num_partitions = 50
    client.broker.config.offsets_topic_replication_factor = 3
    client.broker.config.offsets_topic_segment_bytes = 1 << 20
    client.broker.topics_under_way = set()
    client.broker.wake = lambda key: None
    client.broker.controller_channel = SimpleNamespace(ask=lambda request, version, done, timeout_ms: done(None))
    waiting = client.send("FindCoordinator", 2, key="g")
    assert waiting.again(False).error_code == unavailable


@pytest.mark.parametrize("version", versions("ListGroups"))
def test_list_groups_in_every_version(version: int) -> None:
    """With filters where there are any; case does not count."""
    world = World()
    client = Client(world)
    world.stable_group(group="a")
    world.commit(1, group="b")
    world.enter_consumer("N", group="c")
    assert [one.group_id for one in client.send("ListGroups", version).groups] == ["a", "c", "b"]
    if version >= 4:
        listed = client.send("ListGroups", version, states_filter=["STABLE"]).groups
        assert [(one.group_id, one.group_state) for one in listed] == [("a", "Stable"), ("c", "Stable")]
        assert client.send("ListGroups", version, states_filter=["nonsense"]).groups == []
    if version >= 5:
        listed = client.send("ListGroups", version, states_filter=["stable"], types_filter=["Consumer"]).groups
        assert [(one.group_id, one.group_type) for one in listed] == [("c", "consumer")]


def test_list_groups_waits_for_the_log() -> None:
    """A list that lacks groups would be a lie."""
    world = World()
    world.groups.resigned(0, world.now_ms)
    world.groups.elected(0)
    assert Client(world).send("ListGroups", 5).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("version", versions("DescribeGroups"))
def test_describe_groups_in_every_version(version: int) -> None:
    """A stable group with its members, one that rebalances without, and one that is none."""
    world = World()
    client = Client(world)
    (member,) = world.stable_group()
    world.enter_consumer("N", group="modern")
    groups = client.send("DescribeGroups", version, groups=["g", "none", "modern"]).groups
    stable, none, modern = groups
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == ("Stable", "consumer", "range")
    assert [(one.member_id, one.member_assignment) for one in stable.members] == [(member, member.encode())]
    for one, why in ((none, "not found"), (modern, "not a classic group")):
        assert (one.group_state, one.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        assert version < 6 or why in one.error_message
    world.enter()
    (rebalancing,) = client.send("DescribeGroups", version, groups=["g"]).groups
    assert (rebalancing.group_state, rebalancing.protocol_data) == ("PreparingRebalance", "")
    assert [one.member_metadata for one in rebalancing.members] == [b"", b""]
    if version >= 3:
        groups = client.send("DescribeGroups", version, groups=["g", "none"], include_authorized_operations=True).groups
        assert [one.authorized_operations for one in groups] == [3400, 3400 if version < 6 else -(2**31)]


@pytest.mark.parametrize("version", versions("DeleteGroups"))
def test_delete_groups_in_every_version(version: int) -> None:
    """Each group once, with its code."""
    world = World()
    world.commit(1)
    answer = Client(world).send("DeleteGroups", version, groups_names=["g", "none", "g"])
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("g", 0),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def test_offset_delete() -> None:
    """Partitions that do not exist have their error; a group that does not is the answer's."""
    world = World()
    client = Client(world)
    world.commit(1, partition=1)
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in partitions]
        )
        for name, partitions in (("x", [0]), ("t", [7, 1]))
    ]
    answer = client.send("OffsetDelete", 0, group_id="g", topics=topics)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[one.error_code for one in topic.partitions] for topic in answer.topics] == [[missing], [missing, 0]]
    assert world.committed(1) == -1
    assert client.send("OffsetDelete", 0, group_id="none").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert client.send("OffsetDelete", 0, group_id="").error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", versions("ConsumerGroupHeartbeat"))
def test_consumer_group_heartbeat_in_every_version(version: int) -> None:
    """An assignment, and a refusal with its sentence."""
    client = Client(World())
    fields = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    answer = client.send("ConsumerGroupHeartbeat", version, group_id="g", member_id="A", member_epoch=0, **fields)
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 2, 5_000)
    assert answer.assignment.topic_partitions[0].partitions == [0, 1, 2]
    refused = client.send("ConsumerGroupHeartbeat", version, group_id="g", member_id="A", member_epoch=9)
    assert (refused.error_code, bool(refused.error_message)) == (ErrorCode.FENCED_MEMBER_EPOCH, True)


@pytest.mark.parametrize("version", versions("ConsumerGroupDescribe"))
def test_consumer_group_describe_in_every_version(version: int) -> None:
    """Members of both protocols with what they own; groups of another kind are not found."""
    world = World()
    client = Client(world)
    world.enter_consumer("A", subscribed_topic_regex="t.*")
    world.enter(version=9)
    world.commit(1, group="classic")
    described = client.send(
        "ConsumerGroupDescribe", version, group_ids=["g", "classic", "none", ""], include_authorized_operations=True
    ).groups
    not_found = ErrorCode.GROUP_ID_NOT_FOUND
    assert [one.error_code for one in described] == [0, not_found, not_found, ErrorCode.INVALID_GROUP_ID]
    group = described[0]
    assert (group.group_state, group.group_epoch, group.assignor_name) == ("Reconciling", 3, "uniform")
    assert group.authorized_operations == 3400
    modern, classic = group.members
    assert modern.assignment.topic_partitions[0].topic_name == "t"
    assert len(modern.target_assignment.topic_partitions[0].partitions) == 2
    assert modern.subscribed_topic_regex == "t.*"
    if version >= 1:
        assert (modern.member_type, classic.member_type) == (1, 0)


def test_a_group_may_have_times_of_its_own() -> None:
    """consumer.heartbeat.interval.ms and consumer.session.timeout.ms of the GROUP resource."""
    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.groups.coordinator import GroupCoordinator

    world = World()
    config = BrokerConfig({"process.roles": "broker,controller", "node.id": "1"})
    overrides = {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "50000"}
    world.groups = GroupCoordinator(
        lambda: config,
        world.catalog,
        world.log,
        world.new_id,
        lambda key: None,
        group_overrides=lambda group_id: overrides if group_id == "own" else {},
    )
    for partition in range(config.offsets_topic_num_partitions):
        world.groups.elected(partition)
        world.groups.loaded(partition, world.now_ms)
    assert world.enter_consumer("A", group="own").response.heartbeat_interval_ms == 7_000
    assert world.enter_consumer("A", group="other").response.heartbeat_interval_ms == 5_000
    world.advance(49_000)
    assert {one.group_id: one.state for one in world.groups.list_groups()} == {"own": "Stable", "other": "Empty"}
    world.advance(1_000)
    assert {one.state for one in world.groups.list_groups()} == {"Empty"}
