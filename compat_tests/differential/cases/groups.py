"""Groups: finding the coordinator, joining, committing, describing, and everything that is refused."""

from __future__ import annotations

from compat_tests.differential.cases import case
from compat_tests.differential.probe import UNKNOWN_ID, Probe
from kafkapy.types import ZERO_UUID
from kafkapy.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.wire.messages.delete_groups import DeleteGroupsRequest
from kafkapy.wire.messages.describe_groups import DescribeGroupsRequest
from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.wire.messages.heartbeat import HeartbeatRequest
from kafkapy.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.wire.messages.list_groups import ListGroupsRequest
from kafkapy.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkapy.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkapy.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


def ready(probe: Probe) -> None:
    """Wait until groups can be coordinated: their topic is made when somebody asks for the first time."""
    import time

    for _ in range(100):
        found = probe.quietly(FindCoordinatorRequest(key="any"), 0)
        if not found.error_code:
            probe.topic_id("__consumer_offsets")
            if not probe.quietly(DescribeGroupsRequest(groups=["any", "b", "c", "d", "e"]), 0).groups[0].error_code:
                return
        time.sleep(0.1)
    raise AssertionError("no coordinator")


@case
def find_coordinator(probe: Probe) -> None:
    ready(probe)
    for version in range(4):
        probe.ask("group", FindCoordinatorRequest(key="g"), version)
        probe.ask("empty", FindCoordinatorRequest(key=""), version)
        if version:
            for kind in (1, 2, 3, -1):
                probe.quietly(FindCoordinatorRequest(key="g", key_type=kind), version)
    for version in range(4, 7):
        for kind in (0, 3, -1):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["a", "b", ""])
            probe.ask(f"type {kind}", request, version)
        probe.ask("nothing", FindCoordinatorRequest(key_type=0), version)


def join(group: str, member: str = "", version: int = 9, **options: object) -> JoinGroupRequest:
    given: dict[str, object] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"meta")],
        **options,
    }
    if version >= 1:
        given.setdefault("rebalance_timeout_ms", 10_000)
    return JoinGroupRequest(**given)


def member_of(probe: Probe, group: str) -> tuple[str, int]:
    """Join and sync alone: (member id, generation)."""
    first = probe.quietly(join(group), 9)
    joined = probe.quietly(join(group, first.member_id), 9)
    assert not joined.error_code, joined
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
    )
    assert not probe.quietly(sync, 5).error_code
    return joined.member_id, joined.generation_id


@case
def join_group_every_version(probe: Probe) -> None:
    ready(probe)
    for version in range(10):
        group = f"jg-{version}"
        answer = probe.ask("empty member", join(group, version=version), version)
        if version >= 4:
            answer = probe.ask("given member", join(group, answer.member_id, version), version)
        for sync_version in range(6):
            assigned = [SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"mine")]
            named = {"protocol_type": "consumer", "protocol_name": "range"} if sync_version >= 5 else {}
            request = SyncGroupRequest(
                group_id=group,
                generation_id=answer.generation_id,
                member_id=answer.member_id,
                assignments=assigned,
                **named,
            )
            probe.ask(f"sync after {version}", request, sync_version)
        for beat_version in range(5):
            beat = HeartbeatRequest(group_id=group, generation_id=answer.generation_id, member_id=answer.member_id)
            probe.ask(f"heartbeat after {version}", beat, beat_version)
        probe.ask("again", join(group, answer.member_id, version), version)
        for describe_version in range(7):
            described = probe.quietly(DescribeGroupsRequest(groups=[group]), describe_version).groups[0]
            probe.note(
                f"described after {version} v{describe_version}",
                [
                    described.error_code,
                    described.group_state,
                    described.protocol_type,
                    described.protocol_data,
                    len(described.members),
                ],
            )
        for leave_version in range(6):
            members = (
                {"members": [MemberIdentity(member_id=answer.member_id)]}
                if leave_version >= 3
                else {"member_id": answer.member_id}
            )
            probe.ask(f"leave after {version}", LeaveGroupRequest(group_id=group, **members), leave_version)


@case
def join_group_refused(probe: Probe) -> None:
    ready(probe)
    for version in (0, 4, 5, 9):
        probe.ask("no group", join("", version=version), version)
        probe.ask("short session", join("jr", version=version, session_timeout_ms=1), version)
        probe.ask("long session", join("jr", version=version, session_timeout_ms=10_000_000), version)
        probe.ask("unknown member", join("jr", "nobody", version=version), version)
        probe.ask("no protocol type", join("jr", version=version, protocol_type=""), version)
        probe.ask("no protocols", join("jr", version=version, protocols=[]), version)
    member, generation = member_of(probe, "jr-known")
    probe.ask("other type", join("jr-known", protocol_type="connect"), 9)
    probe.ask("other protocols", join("jr-known", protocols=[JoinGroupRequestProtocol(name="other", metadata=b"")]), 9)
    for version in (0, 4, 5):

        def sync(label: str, version: int = version, **options: object) -> None:
            given = {"group_id": "jr-known", "generation_id": generation, "member_id": member, **options}
            probe.ask(f"sync {label}", SyncGroupRequest(**given), version)

        sync("no group", group_id="")
        sync("unknown group", group_id="jr-nope")
        sync("unknown member", member_id="nobody")
        sync("wrong generation", generation_id=77)
        if version == 5:
            sync("no protocol")
            sync("wrong protocol", protocol_type="consumer", protocol_name="other")
    for version in (0, 3, 4):
        for label, options in {
            "no group": {"group_id": ""},
            "unknown group": {"group_id": "jr-nope"},
            "unknown member": {"member_id": "nobody"},
            "wrong generation": {"generation_id": 77},
        }.items():
            given = {"group_id": "jr-known", "generation_id": generation, "member_id": member, **options}
            probe.ask(f"heartbeat {label}", HeartbeatRequest(**given), version)
    for version in (3, 5):
        for label, identities in {
            "unknown member": [MemberIdentity(member_id="nobody")],
            "unknown instance": [MemberIdentity(member_id="", group_instance_id="nobody")],
            "nobody": [],
        }.items():
            probe.ask(f"leave {label}", LeaveGroupRequest(group_id="jr-known", members=identities), version)
            probe.ask(
                f"leave unknown group {label}", LeaveGroupRequest(group_id="jr-nope", members=identities), version
            )
            probe.ask(f"leave no group {label}", LeaveGroupRequest(group_id="", members=identities), version)


@case
def static_members(probe: Probe) -> None:
    ready(probe)
    first = probe.ask("join", join("sm", group_instance_id="one"), 9)
    sync = SyncGroupRequest(
        group_id="sm",
        generation_id=first.generation_id,
        member_id=first.member_id,
        group_instance_id="one",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=first.member_id, assignment=b"mine")],
    )
    probe.ask("sync", sync, 5)
    second = probe.ask("join again", join("sm", group_instance_id="one"), 9)
    beat = HeartbeatRequest(
        group_id="sm", generation_id=first.generation_id, member_id=first.member_id, group_instance_id="one"
    )
    probe.ask("the old one's heartbeat", beat, 4)
    beat.member_id = second.member_id
    probe.ask("the new one's heartbeat", beat, 4)
    probe.ask("describe", DescribeGroupsRequest(groups=["sm"]), 6)
    probe.ask(
        "leave by instance", LeaveGroupRequest(group_id="sm", members=[MemberIdentity(group_instance_id="one")]), 5
    )
    probe.ask("describe", DescribeGroupsRequest(groups=["sm"]), 6)


def commit(
    group: str,
    topic: str,
    offset: int = 5,
    index: int = 0,
    topic_id: bytes = ZERO_UUID,
    metadata: str | None = "note",
    **options: object,
) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[part])], **options
    )


def fetch_offsets(
    group: str, version: int, topic: str | None, topic_id: bytes = ZERO_UUID, indexes: tuple[int, ...] = (0, 1)
) -> OffsetFetchRequest:
    if version < 8:
        topics = None if topic is None else [OffsetFetchRequestTopic(name=topic, partition_indexes=list(indexes))]
        return OffsetFetchRequest(group_id=group, topics=topics)
    many = (
        None
        if topic is None
        else [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=list(indexes))]
    )
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=many)])


@case
def offsets_every_version(probe: Probe) -> None:
    ready(probe)
    topic_id = probe.create_topic("oc", 2)
    for version in range(2, 11):
        group = f"oc-{version}"
        probe.ask("commit", commit(group, "oc", topic_id=topic_id), version)
        probe.ask("unknown topic", commit(group, "oc-nope", topic_id=UNKNOWN_ID), version)
        probe.ask("unknown partition", commit(group, "oc", index=7, topic_id=topic_id), version)
        probe.ask("negative offset", commit(group, "oc", offset=-5, index=1, topic_id=topic_id), version)
        probe.ask("no metadata", commit(group, "oc", metadata=None, index=1, topic_id=topic_id), version)
        probe.ask("long metadata", commit(group, "oc", metadata="x" * 5000, topic_id=topic_id), version)
        probe.ask("no group", commit("", "oc", topic_id=topic_id), version)
        probe.ask(
            "a member that is not there",
            commit(group, "oc", topic_id=topic_id, member_id="nobody", generation_id_or_member_epoch=1),
            version,
        )
        probe.ask("nothing", OffsetCommitRequest(group_id=group), version)
        for fetch_version in range(1, 11):
            probe.ask(f"fetch after {version}", fetch_offsets(group, fetch_version, "oc", topic_id), fetch_version)
            if fetch_version >= 2:
                probe.ask(f"fetch all after {version}", fetch_offsets(group, fetch_version, None), fetch_version)
    for version in range(1, 11):
        probe.ask("fetch of nobody", fetch_offsets("oc-nobody", version, "oc", topic_id), version)
        probe.ask("fetch unknown topic", fetch_offsets("oc-5", version, "oc-nope", UNKNOWN_ID), version)
        probe.ask("fetch no group", fetch_offsets("", version, "oc", topic_id), version)


@case
def offsets_of_a_live_group(probe: Probe) -> None:
    ready(probe)
    probe.create_topic("ol", 2)
    member, generation = member_of(probe, "ol-group")
    who = {"member_id": member, "generation_id_or_member_epoch": generation}
    for version in (2, 7, 9):
        probe.ask("member", commit("ol-group", "ol", **who), version)
        probe.ask(
            "wrong generation",
            commit("ol-group", "ol", member_id=member, generation_id_or_member_epoch=generation + 1),
            version,
        )
        probe.ask(
            "unknown member",
            commit("ol-group", "ol", member_id="nobody", generation_id_or_member_epoch=generation),
            version,
        )
        probe.ask("a stranger", commit("ol-group", "ol"), version)
    part = [OffsetDeleteRequestTopic(name="ol", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    probe.ask("delete offsets", OffsetDeleteRequest(group_id="ol-group", topics=part), 0)
    probe.ask("delete offsets of nobody", OffsetDeleteRequest(group_id="ol-nope", topics=part), 0)
    for version in range(3):
        probe.ask("delete groups", DeleteGroupsRequest(groups_names=["ol-group", "ol-nope", ""]), version)
    probe.quietly(LeaveGroupRequest(group_id="ol-group", members=[MemberIdentity(member_id=member)]), 5)
    probe.ask("delete offsets when empty", OffsetDeleteRequest(group_id="ol-group", topics=part), 0)
    unknown = [OffsetDeleteRequestTopic(name="ol-nope", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    probe.ask("delete offsets of an unknown topic", OffsetDeleteRequest(group_id="ol-group", topics=unknown), 0)
    probe.ask("delete when empty", DeleteGroupsRequest(groups_names=["ol-group"]), 2)


@case
def describe_and_list_groups(probe: Probe) -> None:
    ready(probe)
    member_of(probe, "dg-live")
    probe.create_topic("dg")
    probe.quietly(commit("dg-empty", "dg"), 8)
    for version in range(7):
        probe.ask("describe", DescribeGroupsRequest(groups=["dg-live", "dg-empty", "dg-nope", ""]), version)
        if version >= 3:
            probe.ask(
                "operations", DescribeGroupsRequest(groups=["dg-live"], include_authorized_operations=True), version
            )
    for version in range(6):
        filters: list[dict[str, list[str]]] = [{}]
        if version >= 4:
            filters += [{"states_filter": ["Stable"]}, {"states_filter": ["empty"]}, {"states_filter": ["nonsense"]}]
        if version >= 5:
            filters += [{"types_filter": ["classic"]}, {"types_filter": ["consumer"]}, {"types_filter": ["nonsense"]}]
        for chosen in filters:
            answer = probe.quietly(ListGroupsRequest(**chosen), version)
            found = [
                [one.group_id, one.protocol_type, one.group_state, one.group_type]
                for one in answer.groups
                if one.group_id.startswith("dg-")
            ]
            probe.note(f"list {chosen} v{version}", [answer.error_code, sorted(found)])


@case
def consumer_groups(probe: Probe) -> None:
    ready(probe)
    topic_id = probe.create_topic("cg", 2)
    probe.quietly(commit("cg-classic", "cg"), 8)

    def beat(label: str, version: int = 1, **options: object) -> object:
        given = {
            "group_id": "cg-group",
            "member_id": "member-one-of-the-group",
            "member_epoch": 0,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": ["cg"],
            "topic_partitions": [],
            **options,
        }
        return probe.ask(label, ConsumerGroupHeartbeatRequest(**given), version)

    beat("no group", group_id="")
    beat("no member id", member_id="")
    beat("no member id", 0, member_id="", group_id="cg-old")
    beat("negative epoch", member_epoch=-7)
    beat("no timeout", rebalance_timeout_ms=-1)
    beat("no topics", subscribed_topic_names=None)
    beat("owns something", topic_partitions=None)
    beat("unknown assignor", server_assignor="nonsense")
    beat("bad pattern", subscribed_topic_names=None, subscribed_topic_regex="(")
    beat("empty instance", instance_id="")
    beat("unknown member", member_epoch=5)
    joined = beat("join")
    beat(
        "again",
        member_epoch=getattr(joined, "member_epoch", 1),
        subscribed_topic_names=None,
        rebalance_timeout_ms=-1,
        topic_partitions=None,
    )
    beat("too high an epoch", member_epoch=99)
    for version in (0, 1):
        probe.ask(
            "describe", ConsumerGroupDescribeRequest(group_ids=["cg-group", "cg-nope", "cg-classic", ""]), version
        )
    probe.ask("describe as classic", DescribeGroupsRequest(groups=["cg-group"]), 6)
    probe.ask(
        "commit",
        commit(
            "cg-group",
            "cg",
            topic_id=topic_id,
            member_id="member-one-of-the-group",
            generation_id_or_member_epoch=getattr(joined, "member_epoch", 1),
        ),
        10,
    )
    probe.ask(
        "commit stale",
        commit(
            "cg-group", "cg", topic_id=topic_id, member_id="member-one-of-the-group", generation_id_or_member_epoch=77
        ),
        10,
    )
    probe.ask(
        "commit in the old version",
        commit("cg-group", "cg", member_id="member-one-of-the-group", generation_id_or_member_epoch=77),
        8,
    )
    beat("leave", member_epoch=-1)
    beat("leave again", member_epoch=-1)
