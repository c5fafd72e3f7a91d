"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions."""

from __future__ import annotations

from compat_tests.differential.cases import case
from compat_tests.differential.probe import UNKNOWN_ID, Probe
from kafkapy.wire.messages.api_versions import ApiVersionsRequest
from kafkapy.wire.messages.describe_cluster import DescribeClusterRequest
from kafkapy.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kafkapy.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.requests import metadata
from tests.support.wire_client import frame, header


@case
def api_versions_every_version(probe: Probe) -> None:
    named = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    last = probe.ask("named", named, 4)
    for version in range(4):
        answer = probe.quietly(named if version == 3 else ApiVersionsRequest(), version)
        probe.note(
            f"the same rows v{version}",
            [row.api_key for row in answer.api_keys] == [row.api_key for row in last.api_keys],
        )
        answer.api_keys = []
        probe.note(f"without rows v{version}", answer.to_json(version))


@case
def api_versions_software_names(probe: Probe) -> None:
    for name in ("", "a", "-a", "a-", "a.b-c", "a b", "a_b", "\u00e9", "a" * 300):
        for label, request in (
            ("name", ApiVersionsRequest(client_software_name=name, client_software_version="1.0")),
            ("version", ApiVersionsRequest(client_software_name="test", client_software_version=name)),
        ):
            answer = probe.quietly(request, 3)
            probe.note(
                f"{label} {name[:9]!r} {len(name)}",
                [answer.error_code, len(answer.api_keys) > 0, answer.finalized_features_epoch >= 0],
            )


@case
def api_versions_from_the_future(probe: Probe) -> None:
    for version in (5, 99, 32767, -1):
        probe.ask_bytes(f"version {version}", frame(header(18, version) + b"\0garbage"), exact=True)
        probe.ask_bytes(f"version {version} without body", frame(header(18, version)), exact=True)


@case
def metadata_every_version(probe: Probe) -> None:
    probe.create_topic("m-known", 3)
    probe.ask_all("known", lambda version: metadata("m-known", create=version < 4))
    probe.ask_all("none", lambda version: metadata(create=version < 4) if version else metadata("m-known", create=True))
    probe.ask_all("unknown", lambda version: metadata("m-nope") if version >= 4 else metadata("m-known", create=True))
    probe.ask_all(
        "operations",
        lambda version: MetadataRequest(
            topics=[MetadataRequestTopic(name="m-known")],
            allow_auto_topic_creation=version < 4,
            include_cluster_authorized_operations=8 <= version <= 10,
            include_topic_authorized_operations=version >= 8,
        ),
    )
    answer = probe.quietly(MetadataRequest(topics=None), 12)
    probe.note("all has it", "m-known" in [topic.name for topic in answer.topics])


@case
def metadata_names(probe: Probe) -> None:
    probe.create_topic("m-names")
    names = ["", ".", "..", "a b", "a/b", "\u00e9", "a" * 249, "a" * 250, "a:b", "m-nothing", "_ok", "a.b_c-d"]
    for version in (1, 4, 9, 12):
        for name in (
            names if version >= 4 else [n for n in names if n not in ("m-nothing", "_ok", "a.b_c-d", "a" * 249)]
        ):
            probe.ask(f"name {name[:9]!r} {len(name)}", metadata(name, create=version < 4), version)
    probe.ask("twice", metadata("m-names", "m-names"), 12)
    probe.ask("internal that is not there", metadata("__transaction_state"), 12)
    probe.ask("the metadata log", metadata("__cluster_metadata"), 12)


@case
def metadata_creates(probe: Probe) -> None:
    for version in (0, 3, 4, 9, 12, 13):
        name = f"m-created-{version}"
        probe.quietly(metadata(name, create=True), version)
        probe.topic_id(name)
        probe.ask("created", metadata(name, create=version < 4), version)
    for name in ("a b", "", "..", "a" * 250):
        probe.ask(f"create {name[:9]!r} {len(name)}", metadata(name, create=True), 12)
    probe.quietly(metadata("m.collides", create=True), 12)
    probe.topic_id("m.collides")
    probe.ask("collides", metadata("m_collides", create=True), 12)


@case
def metadata_by_id(probe: Probe) -> None:
    topic_id = probe.create_topic("m-by-id")
    for version in (10, 11, 12, 13):

        def by_id(label: str, topic: MetadataRequestTopic, version: int = version) -> None:
            probe.ask(label, MetadataRequest(topics=[topic], allow_auto_topic_creation=False), version)

        by_id("id", MetadataRequestTopic(topic_id=topic_id, name=None))
        by_id("unknown id", MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None))
        by_id("name and id", MetadataRequestTopic(topic_id=topic_id, name="m-by-id"))
        by_id("other name and id", MetadataRequestTopic(topic_id=topic_id, name="m-other"))
        by_id("name and unknown id", MetadataRequestTopic(topic_id=UNKNOWN_ID, name="m-by-id"))
        by_id("neither", MetadataRequestTopic(name=None))
        both = [MetadataRequestTopic(topic_id=topic_id, name=None), MetadataRequestTopic(name="m-by-id")]
        probe.ask("an id and a name", MetadataRequest(topics=both, allow_auto_topic_creation=False), version)


@case
def describe_cluster(probe: Probe) -> None:
    probe.ask_all("plain", lambda version: DescribeClusterRequest())
    probe.ask_all("operations", lambda version: DescribeClusterRequest(include_cluster_authorized_operations=True))
    for version in (1, 2):
        for kind in (0, 2, 3, -1):
            probe.ask(f"endpoint type {kind}", DescribeClusterRequest(endpoint_type=kind), version)
    probe.ask("fenced", DescribeClusterRequest(include_fenced_brokers=True), 2)


@case
def describe_topic_partitions(probe: Probe) -> None:
    for name, partitions in (("dt-a", 3), ("dt-b", 1), ("dt-c", 4)):
        probe.create_topic(name, partitions)
    names = [TopicRequest(name=name) for name in ("dt-c", "dt-a", "dt-b")]
    for limit in (2000, 1, 2, 3, 4, 5, 0, -1):
        probe.ask(f"limit {limit}", DescribeTopicPartitionsRequest(topics=names, response_partition_limit=limit), 0)
        for topic, index in (
            ("dt-a", 1),
            ("dt-b", 0),
            ("dt-a", 7),
            ("dt-aa", 0),
            ("dt-z", 0),
            ("dt-a", -1),
            ("dt-c", 3),
        ):
            cursor = Cursor(topic_name=topic, partition_index=index)
            request = DescribeTopicPartitionsRequest(topics=names, response_partition_limit=limit, cursor=cursor)
            probe.ask(f"limit {limit} from {topic} {index}", request, 0)
    for name in ("dt-nope", "dt nope", "", "__consumer_offsets"):
        probe.ask(
            f"topic {name!r}",
            DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)], response_partition_limit=100),
            0,
        )
    mixed = [TopicRequest(name=name) for name in ("dt-a", "dt-nope", "dt-a")]
    probe.ask("mixed", DescribeTopicPartitionsRequest(topics=mixed, response_partition_limit=100), 0)
