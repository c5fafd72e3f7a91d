"""ConsumerGroupDescribe (key 69, v0-1): state, epochs, members and assignments of consumer groups.

Anything that is no consumer group is GROUP_ID_NOT_FOUND; Admin then asks DescribeGroups. v1 says which protocol each
member speaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkapy.errors import KafkaError
from kafkapy.groups.consumer_group import ConsumerGroup, ConsumerMember
from kafkapy.handlers.cluster_view import GROUP_OPERATIONS
from kafkapy.handlers.context import RequestContext
from kafkapy.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Describe each group on its own."""
    described = []
    for group_id in request.group_ids:
        try:
            group = context.broker.groups.describe_consumer_group(group_id)
        except KafkaError as error:
            described.append(DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message))
            continue
        shown = _describe(context, group)
        if request.include_authorized_operations:
            shown.authorized_operations = GROUP_OPERATIONS
        described.append(shown)
    return ConsumerGroupDescribeResponse(groups=described)


def _describe(context: RequestContext, group: ConsumerGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=context.broker.groups.assignor_of(group),
        members=[_describe_member(context, group, member) for member in group.members.values()],
    )


def _describe_member(context: RequestContext, group: ConsumerGroup, member: ConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(context, member.assigned),
        target_assignment=_assignment(context, group.target.get(member.member_id, {})),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(context: RequestContext, partitions: Mapping[bytes, Iterable[int]]) -> Assignment:
    topics = context.broker.replicas.by_id
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topics[topic_id].name, partitions=sorted(owned))
            for topic_id, owned in partitions.items()
            if topic_id in topics
        ]
    )
