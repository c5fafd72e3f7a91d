"""What is wrong in a group or a transaction, one mistake at a time. `--table` prints these cases as the table in docs/error-codes.md."""

from __future__ import annotations

import json
import struct
import time
from typing import Any

from compat_tests.differential.cases import case
from compat_tests.differential.cases.groups import commit, fetch_offsets, join, member_of, ready
from compat_tests.differential.cases.transactions import open_producer, transactions_ready
from compat_tests.differential.probe import Probe
from kafkapy.errors import ErrorCode
from kafkapy.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kafkapy.wire.messages.end_txn import EndTxnRequest
from kafkapy.wire.messages.heartbeat import HeartbeatRequest
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest
from kafkapy.wire.messages.join_group import JoinGroupRequestProtocol
from kafkapy.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.wire.messages.offset_fetch import OffsetFetchRequestGroup
from kafkapy.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkapy.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkapy.wire.schema import Request
from tests.support.requests import batch, produce


def tell(probe: Probe, label: str, request: Request, version: int) -> Any:
    """Ask, and note nothing but the error codes, by name."""
    answer = probe.quietly(request, version)
    name = f"{type(request).__name__.removesuffix('Request')} v{version}: {label}"
    probe.note(name, answer if isinstance(answer, str) else ", ".join(_codes(answer.to_json(version))) or "NONE")
    return answer


def _codes(value: Any) -> list[str]:
    """The names of all error codes in an answer; NONE only where there is nothing else."""
    found: list[int] = []

    def look(key: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                look(name, inner)
        elif isinstance(value, list):
            for inner in value:
                look(key, inner)
        elif key.endswith("rrorCode"):
            found.append(value)

    look("", json.loads(json.dumps(value)))
    return [ErrorCode(code).name for code in dict.fromkeys(found) if code]


def sync_request(group: str, member: str, generation: int, **options: Any) -> SyncGroupRequest:
    given = {"group_id": group, "member_id": member, "generation_id": generation, **options}
    return SyncGroupRequest(**{"protocol_type": "consumer", "protocol_name": "range", **given})


@case
def wrong_classic_members(probe: Probe) -> None:
    ready(probe)
    probe.create_topic("wc", 2)
    member, generation = member_of(probe, "wc-group")
    tell(probe, "empty group id", join(""), 9)
    tell(probe, "session timeout too short", join("wc-group", session_timeout_ms=1), 9)
    tell(probe, "session timeout too long", join("wc-group", session_timeout_ms=10_000_000), 9)
    tell(probe, "first join without a member id", join("wc-other"), 9)
    tell(probe, "unknown member", join("wc-group", "nobody"), 9)
    tell(probe, "unknown member of an unknown group", join("wc-nope", "nobody"), 9)
    tell(probe, "other protocol type", join("wc-group", protocol_type="connect"), 9)
    other = [JoinGroupRequestProtocol(name="other", metadata=b"")]
    tell(probe, "no protocol in common", join("wc-group", protocols=other), 9)
    tell(probe, "no protocols", join("wc-new", protocols=[]), 9)
    tell(probe, "unknown member with an instance", join("wc-group", "nobody", group_instance_id="nobody"), 9)
    for label, options in {
        "empty group id": {"group_id": ""},
        "unknown group": {"group_id": "wc-nope"},
        "unknown member": {"member_id": "nobody"},
        "stale generation": {"generation_id": generation - 1},
        "future generation": {"generation_id": generation + 1},
        "unknown instance": {"group_instance_id": "nobody"},
    }.items():
        given = {"group_id": "wc-group", "member_id": member, "generation_id": generation, **options}
        tell(probe, label, HeartbeatRequest(**given), 4)
        tell(probe, label, SyncGroupRequest(protocol_type="consumer", protocol_name="range", **given), 5)
        who = {"member_id": given["member_id"], "generation_id_or_member_epoch": given["generation_id"]}
        who["group_instance_id"] = given.get("group_instance_id")
        tell(probe, label, commit(str(given["group_id"]), "wc", **who), 9)
    wrong_name = sync_request("wc-group", member, generation, protocol_name="other")
    tell(probe, "other protocol name", wrong_name, 5)
    tell(probe, "no protocol name", sync_request("wc-group", member, generation, protocol_name=None), 5)
    for label, identity in {
        "unknown member": MemberIdentity(member_id="nobody"),
        "unknown instance": MemberIdentity(member_id="", group_instance_id="nobody"),
    }.items():
        tell(probe, label, LeaveGroupRequest(group_id="wc-group", members=[identity]), 5)
    tell(probe, "empty group id", LeaveGroupRequest(group_id=""), 5)


@case
def wrong_classic_instances(probe: Probe) -> None:
    ready(probe)
    probe.create_topic("wi", 1)
    first = probe.quietly(join("wi-group", group_instance_id="one"), 9)
    old, generation = first.member_id, first.generation_id
    share = [SyncGroupRequestAssignment(member_id=old, assignment=b"mine")]
    probe.quietly(sync_request("wi-group", old, generation, group_instance_id="one", assignments=share), 5)
    again = probe.quietly(join("wi-group", group_instance_id="one"), 9)
    who = {"member_id": old, "generation_id": again.generation_id, "group_instance_id": "one"}
    tell(probe, "fenced instance", HeartbeatRequest(group_id="wi-group", **who), 4)
    tell(probe, "fenced instance", sync_request("wi-group", old, again.generation_id, group_instance_id="one"), 5)
    tell(probe, "fenced instance", join("wi-group", old, group_instance_id="one"), 9)
    commits = {
        "member_id": old,
        "generation_id_or_member_epoch": again.generation_id,
        "group_instance_id": "one",
    }
    tell(probe, "fenced instance", commit("wi-group", "wi", **commits), 9)
    leaver = MemberIdentity(member_id=old, group_instance_id="one")
    tell(probe, "fenced instance", LeaveGroupRequest(group_id="wi-group", members=[leaver]), 5)


@case
def wrong_moment_in_a_rebalance(probe: Probe) -> None:
    ready(probe)
    probe.create_topic("wm", 1)
    member, generation = member_of(probe, "wm-group")
    with probe.open() as second:
        newcomer = second.request(join("wm-group"), 9).member_id
        second.send(join("wm-group", newcomer), 9)
        while (
            probe.quietly(
                HeartbeatRequest(group_id="wm-group", member_id=member, generation_id=generation), 4
            ).error_code
            == 0
        ):
            pass
        beat = HeartbeatRequest(group_id="wm-group", member_id=member, generation_id=generation)
        tell(probe, "while members join", beat, 4)
        tell(probe, "while members join", sync_request("wm-group", member, generation), 5)
        who = {"member_id": member, "generation_id_or_member_epoch": generation}
        tell(probe, "while members join", commit("wm-group", "wm", **who), 9)
        joined = probe.quietly(join("wm-group", member), 9)
        second.receive()
        who["generation_id_or_member_epoch"] = joined.generation_id
        tell(probe, "before the leader's assignment", commit("wm-group", "wm", **who), 9)
        beat.generation_id = joined.generation_id
        tell(probe, "before the leader's assignment", beat, 4)
        strange = [SyncGroupRequestAssignment(member_id="nobody", assignment=b"\xff")]
        tell(
            probe,
            "assignment for a member that is not there",
            sync_request("wm-group", member, joined.generation_id, assignments=strange),
            5,
        )


@case
def wrong_offsets(probe: Probe) -> None:
    ready(probe)
    topic_id = probe.create_topic("wo", 1)
    for version in (8, 10):
        tell(probe, "oversized metadata", commit("wo-g", "wo", metadata="x" * 5000, topic_id=topic_id), version)
        tell(probe, "unknown topic", commit("wo-g", "wo-nope", topic_id=bytes(range(16))), version)
        tell(probe, "unknown partition", commit("wo-g", "wo", index=9, topic_id=topic_id), version)
        tell(
            probe,
            "no group, a generation",
            commit("wo-none", "wo", topic_id=topic_id, generation_id_or_member_epoch=3),
            version,
        )
        tell(probe, "no group, a member", commit("wo-none", "wo", topic_id=topic_id, member_id="m"), version)
    tell(probe, "invalid group id", fetch_offsets("", 8, "wo"), 8)


@case
def wrong_consumer_members(probe: Probe) -> None:
    ready(probe)
    topic_id = probe.create_topic("wk", 2)

    def beat(label: str, version: int = 1, **options: Any) -> Any:
        given = {
            "group_id": "wk-group",
            "member_id": "one",
            "member_epoch": 0,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": ["wk"],
            "topic_partitions": [],
            **options,
        }
        return tell(probe, label, ConsumerGroupHeartbeatRequest(**given), version)

    beat("empty group id", group_id="")
    beat("empty member id", member_id="")
    beat("epoch below -2", member_epoch=-3)
    beat("no rebalance timeout", rebalance_timeout_ms=-1)
    beat("no subscription", subscribed_topic_names=None)
    beat("unknown assignor", server_assignor="nope")
    beat("invalid pattern", subscribed_topic_names=None, subscribed_topic_regex="[")
    beat("empty instance id", instance_id="")
    beat("unknown group", member_epoch=3)
    epoch = beat("join").member_epoch
    beat("unknown member", member_id="two", member_epoch=epoch)
    beat("future epoch", member_epoch=epoch + 1)
    beat("leave of an unknown member", member_id="two", member_epoch=-1)
    claims = [TopicPartitions(topic_id=topic_id, partitions=[0])]
    beat("join with partitions", member_id="three", topic_partitions=claims)
    who = {"member_id": "one", "topic_id": topic_id}
    for version in (9, 10):
        for label, given in {
            "stale epoch": {"generation_id_or_member_epoch": epoch - 1},
            "future epoch": {"generation_id_or_member_epoch": epoch + 7},
            "unknown member": {"member_id": "two", "generation_id_or_member_epoch": epoch},
            "from outside": {"member_id": "", "generation_id_or_member_epoch": -1},
        }.items():
            tell(probe, f"consumer group, {label}", commit("wk-group", "wk", **{**who, **given}), version)
    stale = {"member_id": "one", "generation_id_or_member_epoch": epoch - 1}
    tell(probe, "consumer group, stale epoch", commit("wk-group", "wk", **stale), 8)
    for label, member, at in (
        ("stale epoch", "one", epoch - 1),
        ("future epoch", "one", epoch + 7),
        ("unknown member", "two", epoch),
    ):
        request = fetch_offsets("wk-group", 9, "wk")
        request.groups[0] = OffsetFetchRequestGroup(
            group_id="wk-group", member_id=member, member_epoch=at, topics=request.groups[0].topics
        )
        tell(probe, f"consumer group, {label}", request, 9)
    beat("static join", member_id="s1", instance_id="i")
    beat("instance that is taken", member_id="s2", instance_id="i")
    beat("unknown instance", member_id="s3", instance_id="j", member_epoch=2)
    beat("wrong member of an instance", member_id="s2", instance_id="i", member_epoch=1)
    truncated = [JoinGroupRequestProtocol(name="range", metadata=b"\0")]
    tell(probe, "classic member, malformed subscription", join("wk-group", protocols=truncated), 9)
    tell(probe, "classic member, other protocol type", join("wk-group", protocol_type="connect"), 9)
    subscription = struct.pack(">hih2si", 0, 1, 2, b"wk", -1)
    named = [JoinGroupRequestProtocol(name="range", metadata=subscription)]
    tell(probe, "classic member, unknown id", join("wk-group", "nobody", protocols=named), 9)
    member_of(probe, "wk-classic")
    beat("classic group of members that no consumer can follow", group_id="wk-classic")


def _wrong_producers(probe: Probe, who: dict[str, Any], good: dict[str, Any]) -> None:
    for label, options in {
        "unknown id with a producer id": {"transactional_id": "wt-fresh", "producer_id": 5, "producer_epoch": 0},
        "another producer id": {**good, "producer_id": who["producer_id"] + 5000},
        "future epoch": {**good, "producer_epoch": who["producer_epoch"] + 9},
        "timeout above the maximum": {"transactional_id": "wt-id", "transaction_timeout_ms": 900_001},
        "empty transactional id": {"transactional_id": ""},
        "producer id without an epoch": {"transactional_id": "wt-id", "producer_id": 5},
    }.items():
        tell(probe, label, InitProducerIdRequest(**{"transaction_timeout_ms": 1000, **options}), 4)


@case
def wrong_transactions(probe: Probe) -> None:
    transactions_ready(probe)
    ready(probe)
    probe.create_topic("wt", 2)
    who = open_producer(probe, "wt-id")
    good = {"transactional_id": "wt-id", **who}
    mistakes: dict[str, dict[str, Any]] = {
        "unknown transactional id": {"transactional_id": "wt-nope"},
        "empty transactional id": {"transactional_id": ""},
        "unknown producer id": {"producer_id": who["producer_id"] + 5000},
        "older epoch": {"producer_epoch": who["producer_epoch"] - 1},
        "newer epoch": {"producer_epoch": who["producer_epoch"] + 1},
    }

    def add(version: int, identity: dict[str, Any], index: int = 0) -> AddPartitionsToTxnRequest:
        fields = {f"v3_and_below_{key}": value for key, value in identity.items()}
        topics = [AddPartitionsToTxnTopic(name="wt", partitions=[index])]
        return AddPartitionsToTxnRequest(v3_and_below_topics=topics, **fields)

    def offsets(label: str, version: int, **options: Any) -> None:
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topics = [TxnOffsetCommitRequestTopic(name="wt", partitions=[part])]
        given = {**good, "group_id": "wt-group", "topics": topics, **options}
        tell(probe, label, TxnOffsetCommitRequest(**given), version)

    for label, mistake in mistakes.items():
        identity = {**good, **mistake}
        for version in (0, 3):
            tell(probe, label, add(version, identity), version)
        for version in (0, 4):
            tell(probe, label, AddOffsetsToTxnRequest(group_id="wt-group", **identity), version)
        for version in (0, 4, 5):
            tell(probe, label, EndTxnRequest(committed=True, **identity), version)
        for version in (3, 4, 5):
            offsets(label, version, **mistake)
    for version in (0, 4):
        tell(probe, "nothing to end", EndTxnRequest(committed=True, **good), version)
    _wrong_producers(probe, who, good)
    data = batch(b"a", base_sequence=0, transactional=True, **who)
    for version in (9, 11):
        tell(probe, "partition not added", produce("wt", data, index=1, acks=-1, transactional_id="wt-id"), version)
    probe.quietly(add(3, good), 3)
    tell(probe, "in the transaction", produce("wt", data, acks=-1, transactional_id="wt-id"), 9)
    gap = batch(b"b", base_sequence=7, transactional=True, **who)
    tell(probe, "a gap in the sequence", produce("wt", gap, acks=-1, transactional_id="wt-id"), 9)
    plain = batch(b"b", base_sequence=1, **who)
    tell(probe, "outside of its transaction", produce("wt", plain, acks=-1), 9)
    nameless = batch(b"b", base_sequence=1, transactional=True, **who)
    tell(probe, "transactional batch, no transactional id", produce("wt", nameless, acks=-1), 9)
    for label, options in {
        "unknown member": {"member_id": "nobody", "generation_id": 1},
        "stale generation": {"generation_id": 4},
        "unknown instance": {"member_id": "nobody", "generation_id": 1, "group_instance_id": "nobody"},
        "empty group id": {"group_id": ""},
    }.items():
        probe.quietly(AddOffsetsToTxnRequest(**{**good, "group_id": str(options.get("group_id", "wt-group"))}), 3)
        offsets(f"group, {label}", 3, **options)
    takeover = InitProducerIdRequest(transactional_id="wt-id", transaction_timeout_ms=60_000)
    while probe.quietly(takeover, 4).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        time.sleep(0.05)
    for version in (0, 1, 2, 3):
        tell(probe, "fenced producer", add(version, good), version)
    for version in (0, 1, 2, 4, 5):
        tell(probe, "fenced producer", EndTxnRequest(committed=True, **good), version)
    for version in (0, 2, 4):
        tell(probe, "fenced producer", AddOffsetsToTxnRequest(group_id="wt-group", **good), version)
    for version in (3, 4, 5):
        offsets("fenced producer", version)
    for version in (9, 11, 12):
        tell(probe, "fenced producer", produce("wt", gap, acks=-1, transactional_id="wt-id"), version)


@case
def wrong_markers(probe: Probe) -> None:
    transactions_ready(probe)
    probe.create_topic("wr")

    def mark(label: str, **options: Any) -> None:
        given = {
            "producer_id": 777,
            "producer_epoch": 3,
            "coordinator_epoch": 5,
            "topics": [WritableTxnMarkerTopic(name="wr", partition_indexes=[0])],
            **options,
        }
        for version in (1, 2):
            tell(probe, label, WriteTxnMarkersRequest(markers=[WritableTxnMarker(**given)]), version)

    mark("first")
    mark("older coordinator", coordinator_epoch=4)
    mark("older producer epoch", producer_epoch=2)
    mark("unknown topic", topics=[WritableTxnMarkerTopic(name="wr-nope", partition_indexes=[0])])
    mark("unknown partition", topics=[WritableTxnMarkerTopic(name="wr", partition_indexes=[9])])
