"""What administrators ask of consumer groups: which there are, who is in them, how far they have read; and changing or deleting that.

Each group has a coordinator, one broker that decides about it; it is looked up and asked, again if it has just moved. Offsets are asked for and
committed by topic name (version 9 and less), so that a group's offsets in a deleted topic still have a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafkapy.client.client import Client, error_of
from kafkapy.client.offsets import by_topic
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.wire.schema import Request

GROUP = 0
MANY_KEYS_VERSION = 4
MANY_GROUPS_VERSION = 8
LAST_VERSION_WITH_NAMES = 9
CONSUMER_GROUP_DESCRIBE_KEY = 69

CLASSIC = "classic"
CONSUMER = "consumer"

# The coordinator is another one, or not ready yet.
_PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)


class Listed(NamedTuple):
    """A group and the broker that coordinates it. State and type are empty where the broker is too old to tell."""

    group: str
    coordinator: int
    protocol_type: str
    state: str
    type: str


class Member(NamedTuple):
    """A member of a group with the partitions that it has been given."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]
    epoch: int  # -1 in classic groups, whose members have none of their own


class Described(NamedTuple):
    """A group. The epoch is -1 where a classic group keeps it to itself."""

    group: str
    coordinator: int
    type: str
    state: str
    assignor: str
    epoch: int
    members: tuple[Member, ...]


class Committed(NamedTuple):
    """How far a group has read a partition."""

    offset: int
    leader_epoch: int
    metadata: str


# Finding the broker that decides


def coordinator_of(client: Client, group: str) -> int:
    """The broker that coordinates a group. It need not exist: the name alone decides."""
    for is_last in client.attempts():
        connection = client.any_broker()
        if connection.version_for(API_BY_KEY[FindCoordinatorRequest.SCHEMA.key]) >= MANY_KEYS_VERSION:
            request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group])
            (answer,) = connection.request(request).coordinators
        else:
            answer = connection.request(FindCoordinatorRequest(key=group, key_type=GROUP))
        if not answer.error_code:
            return int(answer.node_id)
        if is_last or answer.error_code not in _PASSING:
            raise error_of(answer.error_code, f"group {group}", answer.error_message)
    raise AssertionError("the last attempt returns or raises")


def _ask(
    client: Client, group: str, request: Request, codes: Callable[[Any], Iterable[int]], *, last_version: int = 99
) -> Any:
    """Ask the group's coordinator, the new one if it has moved."""
    api = API_BY_KEY[request.SCHEMA.key]
    for is_last in client.attempts():
        connection = client.node(coordinator_of(client, group))
        answer = connection.request(request, version=min(connection.version_for(api), last_version))
        if is_last or _PASSING.isdisjoint(codes(answer)):
            return answer
    raise AssertionError("the last attempt returns")


# Looking


def list_groups(client: Client, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Listed]:
    """All groups, by name, that have one of these states and one of these types."""
    from kafkapy.wire.messages.list_groups import ListGroupsRequest

    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    found: list[Listed] = []
    for node in sorted(broker.node_id for broker in client.metadata([]).brokers):
        for is_last in client.attempts():
            answer = client.request(request, node=node)
            if is_last or answer.error_code not in _PASSING:
                break
        if answer.error_code:
            raise error_of(answer.error_code, "groups")
        found += [
            Listed(one.group_id, node, one.protocol_type, one.group_state, one.group_type.lower())
            for one in answer.groups
        ]
    return sorted(found)


def describe_group(client: Client, group: str) -> Described:
    """A group of either protocol; GROUP_ID_NOT_FOUND if there is none."""
    if client.any_broker().serves(CONSUMER_GROUP_DESCRIBE_KEY):
        described = _describe_consumer(client, group)
        if described is not None:
            return described
    return _describe_classic(client, group)


def _describe_consumer(client: Client, group: str) -> Described | None:
    from kafkapy.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    request = ConsumerGroupDescribeRequest(group_ids=[group])
    (found,) = _ask(client, group, request, lambda answer: [one.error_code for one in answer.groups]).groups
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    if found.error_code:
        raise error_of(found.error_code, f"group {group}", found.error_message)
    members = tuple(
        Member(
            one.member_id,
            one.instance_id,
            one.client_id,
            one.client_host.lstrip("/"),
            tuple(
                TopicPartition(topic.topic_name, index)
                for topic in one.assignment.topic_partitions
                for index in topic.partitions
            ),
            one.member_epoch,
        )
        for one in found.members
    )
    return Described(
        group,
        coordinator_of(client, group),
        CONSUMER,
        found.group_state,
        found.assignor_name,
        found.group_epoch,
        members,
    )


def _describe_classic(client: Client, group: str) -> Described:
    from kafkapy.wire.messages.describe_groups import DescribeGroupsRequest

    request = DescribeGroupsRequest(groups=[group])
    (found,) = _ask(client, group, request, lambda answer: [one.error_code for one in answer.groups]).groups
    # Brokers from before version 6 of the request say "dead" of what they do not know.
    code = found.error_code or (ErrorCode.GROUP_ID_NOT_FOUND if found.group_state == "Dead" else ErrorCode.NONE)
    if code:
        raise error_of(code, f"group {group}", found.error_message)
    reads_topics = found.protocol_type == CONSUMER
    members = tuple(
        Member(
            one.member_id,
            one.group_instance_id,
            one.client_id,
            one.client_host.lstrip("/"),
            assigned_partitions(one.member_assignment) if reads_topics else (),
            -1,
        )
        for one in found.members
    )
    coordinator = coordinator_of(client, group)
    return Described(group, coordinator, CLASSIC, found.group_state, found.protocol_data, -1, members)


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """What a classic consumer's leader has given it. A member that waits for its share has an empty assignment."""
    from kafkapy.wire.protocol_data import ConsumerProtocolAssignment

    if not assignment:
        return ()
    # Every version so far has the same fields, and what newer ones add stands behind them.
    found = ConsumerProtocolAssignment.decode(assignment, 0, 2)
    return tuple(
        TopicPartition(topic.topic, index) for topic in found.assigned_partitions for index in topic.partitions
    )


def committed_offsets(client: Client, group: str) -> dict[TopicPartition, Committed]:
    """All that the group has committed; nothing for a group that does not exist."""
    from kafkapy.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

    connection = client.node(coordinator_of(client, group))
    # Null topics ask for all.
    if connection.version_for(API_BY_KEY[OffsetFetchRequest.SCHEMA.key]) >= MANY_GROUPS_VERSION:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    else:
        request = OffsetFetchRequest(group_id=group, topics=None)

    def part(answer: Any) -> Any:
        return answer.groups[0] if answer.groups else answer

    answer = part(
        _ask(client, group, request, lambda answer: [part(answer).error_code], last_version=LAST_VERSION_WITH_NAMES)
    )
    if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    if answer.error_code:
        raise error_of(answer.error_code, f"group {group}")
    return {
        TopicPartition(topic.name, row.partition_index): Committed(
            row.committed_offset, row.committed_leader_epoch, row.metadata or ""
        )
        for topic in answer.topics
        for row in topic.partitions
        if row.committed_offset >= 0
    }


# Changing. Each returns one result per partition or group: an error, or None where it has been done.


def commit_offsets(
    client: Client, group: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, KafkaError | None]:
    """Set how far the group has read. It must have no members, which would otherwise disagree."""
    from kafkapy.wire.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=item.partition, committed_offset=offsets[item], committed_metadata=""
                )
                for item in items
            ],
        )
        for name, items in by_topic(offsets)
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    answer = _ask(client, group, request, _partition_codes, last_version=LAST_VERSION_WITH_NAMES)
    return _partition_results(answer, group)


def delete_offsets(
    client: Client, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """Forget how far the group has read, in topics that none of its members reads."""
    from kafkapy.wire.messages.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
    )

    topics = [
        OffsetDeleteRequestTopic(
            name=name,
            partitions=[OffsetDeleteRequestPartition(partition_index=item.partition) for item in items],
        )
        for name, items in by_topic(partitions)
    ]
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    answer = _ask(client, group, request, lambda answer: [answer.error_code, *_partition_codes(answer)])
    if answer.error_code:
        raise error_of(answer.error_code, f"group {group}")
    return _partition_results(answer, group)


def delete_group(client: Client, group: str) -> KafkaError | None:
    """Delete a group that has no members, with its offsets."""
    from kafkapy.wire.messages.delete_groups import DeleteGroupsRequest

    request = DeleteGroupsRequest(groups_names=[group])
    (result,) = _ask(client, group, request, lambda answer: [one.error_code for one in answer.results]).results
    return error_of(result.error_code, f"group {group}") if result.error_code else None


def _partition_codes(answer: Any) -> list[int]:
    return [row.error_code for topic in answer.topics for row in topic.partitions]


def _partition_results(answer: Any, group: str) -> dict[TopicPartition, KafkaError | None]:
    return {
        TopicPartition(topic.name, row.partition_index): _group_error(row.error_code, group, topic.name, row)
        for topic in answer.topics
        for row in topic.partitions
    }


def _group_error(code: int, group: str, topic: str, row: Any) -> KafkaError | None:
    """The coordinator knows no member of our name, so it names that; what it means is that there are others."""
    if not code:
        return None
    subject = f"group {group}, {topic}-{row.partition_index}"
    return error_of(code, subject, "the group is not empty" if code == ErrorCode.UNKNOWN_MEMBER_ID else None)
