"""What concerns the whole cluster: access rules, quotas, elections, the quorum, features."""

from __future__ import annotations

from compat_tests.differential.cases import case
from compat_tests.differential.probe import Probe
from kafkapy.wire.messages import alter_client_quotas, describe_client_quotas, elect_leaders
from kafkapy.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.wire.messages.describe_acls import DescribeAclsRequest
from kafkapy.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartition, RequestTopic
from kafkapy.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kafkapy.wire.messages.unregister_broker import UnregisterBrokerRequest
from kafkapy.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


@case
def acls_without_an_authorizer(probe: Probe) -> None:
    everything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    one = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)
    probe.ask_all("describe", lambda version: DescribeAclsRequest(**everything))
    probe.ask_all("create", lambda version: CreateAclsRequest(creations=[one]))
    probe.ask_all("create nothing", lambda version: CreateAclsRequest())
    probe.ask_all("delete", lambda version: DeleteAclsRequest(filters=[DeleteAclsFilter(**everything)]))
    probe.ask_all("delete nothing", lambda version: DeleteAclsRequest())


@case
def elections(probe: Probe) -> None:
    probe.create_topic("el", 2)

    def request(version: int, kind: int, *topics: tuple[str, list[int]]) -> elect_leaders.ElectLeadersRequest:
        asked = [elect_leaders.TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics]
        return elect_leaders.ElectLeadersRequest(
            topic_partitions=asked, timeout_ms=5000, **({"election_type": kind} if version else {})
        )

    for version in range(3):
        for kind in (0, 1) if version else (0,):
            probe.ask(f"known {kind}", request(version, kind, ("el", [0, 1])), version)
            probe.ask(f"unknown {kind}", request(version, kind, ("el", [7]), ("el-nope", [0])), version)
            probe.ask(f"nothing {kind}", request(version, kind), version)


@case
def reassignments(probe: Probe) -> None:
    probe.create_topic("ra")
    topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 5]) for name in ("ra", "ra-nope")]
    probe.ask("all", ListPartitionReassignmentsRequest(topics=None), 0)
    probe.ask("some", ListPartitionReassignmentsRequest(topics=topics), 0)
    probe.ask("none", ListPartitionReassignmentsRequest(topics=[]), 0)
    for version in (0, 1):
        for label, topic, index, replicas in (
            ("where it is", "ra", 0, [1]),
            ("to a stranger", "ra", 0, [9]),
            ("to nobody", "ra", 0, []),
            ("twice to one", "ra", 0, [1, 1]),
            ("cancel what is not there", "ra", 0, None),
            ("unknown partition", "ra", 7, [1]),
            ("unknown topic", "ra-nope", 0, [1]),
        ):
            part = ReassignablePartition(partition_index=index, replicas=replicas)
            request = AlterPartitionReassignmentsRequest(
                timeout_ms=5000, topics=[ReassignableTopic(name=topic, partitions=[part])]
            )
            probe.ask(label, request, version)


@case
def client_quotas(probe: Probe) -> None:
    def alter(
        label: str, entity: list[tuple[str, str | None]], *ops: tuple[str, float, bool], version: int = 1
    ) -> None:
        entry = alter_client_quotas.EntryData(
            entity=[alter_client_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[alter_client_quotas.OpData(key=key, value=value, remove=remove) for key, value, remove in ops],
        )
        probe.ask(label, alter_client_quotas.AlterClientQuotasRequest(entries=[entry]), version)

    def describe(label: str, *parts: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> None:
        components = [describe_client_quotas.ComponentData(entity_type=k, match_type=m, match=n) for k, m, n in parts]
        request = describe_client_quotas.DescribeClientQuotasRequest(components=components, strict=strict)
        probe.ask(label, request, version)

    for version in (0, 1):
        alter("user", [("user", "quota-user")], ("producer_byte_rate", 1e6, False), version=version)
        alter("default client", [("client-id", None)], ("request_percentage", 50, False), version=version)
        describe("all", version=version)
        describe("users", ("user", 2, None), version=version)
        describe("that user", ("user", 0, "quota-user"), strict=True, version=version)
        describe("default client", ("client-id", 1, None), version=version)
    alter("both", [("user", "quota-user"), ("client-id", "c")], ("consumer_byte_rate", 5, False))
    alter("ip", [("ip", "127.0.0.1")], ("connection_creation_rate", 100, False))
    alter("remove", [("user", "quota-user")], ("producer_byte_rate", 0, True))
    alter("remove what is not there", [("user", "quota-other")], ("producer_byte_rate", 0, True))
    alter("unknown key", [("user", "quota-user")], ("nonsense", 1, False))
    alter("unknown entity", [("nonsense", "x")], ("producer_byte_rate", 1, False))
    alter("no entity", [], ("producer_byte_rate", 1, False))
    alter("zero", [("user", "quota-user")], ("producer_byte_rate", 0, False))
    alter("negative", [("user", "quota-user")], ("producer_byte_rate", -1, False))
    alter("a fraction of a byte", [("user", "quota-user")], ("producer_byte_rate", 0.5, False))
    alter("key of another entity", [("ip", "127.0.0.1")], ("producer_byte_rate", 1, False))
    alter("no address", [("ip", "no address at all")], ("connection_creation_rate", 1, False))
    alter("ip and user", [("ip", "127.0.0.1"), ("user", "x")], ("producer_byte_rate", 1, False))
    describe("all in the end")
    describe("unknown entity", ("nonsense", 0, "x"))
    describe("unknown match", ("user", 9, "x"))
    describe("twice", ("user", 0, "x"), ("user", 0, "y"))
    describe("ip and user", ("ip", 2, None), ("user", 2, None))


@case
def quorum(probe: Probe) -> None:
    for version in range(3):
        for topic, index in (("__cluster_metadata", 0), ("__cluster_metadata", 1), ("other", 0)):
            asked = [RequestTopic(topic_name=topic, partitions=[RequestPartition(partition_index=index)])]
            answer = probe.quietly(DescribeQuorumRequest(topics=asked), version)
            (told,) = answer.topics[0].partitions if answer.topics and answer.topics[0].partitions else (None,)
            voters = told and [one.replica_id for one in told.current_voters]
            partition = told and [told.error_code, told.leader_id, voters, told.high_watermark > 0]
            probe.note(f"{topic} {index} v{version}", [answer.error_code, partition, len(answer.nodes)])
    probe.ask("nothing", DescribeQuorumRequest(), 2)


@case
def features(probe: Probe) -> None:
    for version in range(3):

        def ask(label: str, name: str, level: int, upgrade: int = 1, version: int = version) -> None:
            if version:
                update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade)
                request = UpdateFeaturesRequest(feature_updates=[update], validate_only=True, timeout_ms=1000)
            else:
                update = FeatureUpdateKey(feature=name, max_version_level=level)
                request = UpdateFeaturesRequest(feature_updates=[update], timeout_ms=1000)
            probe.ask(label, request, version)

        ask("unknown feature", "no.such.feature", 1)
        ask("too high", "group.version", 99)
        ask("the same", "group.version", 1)
        ask("lower without leave", "group.version", 0)
        ask("empty", "", 1)
        probe.ask("nothing", UpdateFeaturesRequest(timeout_ms=1000), version)


@case
def unregister_a_broker(probe: Probe) -> None:
    for broker in (99, -1):
        probe.ask(f"broker {broker}", UnregisterBrokerRequest(broker_id=broker), 0)
