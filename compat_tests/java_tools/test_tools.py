"""Apache Kafka's console clients and admin tools, one JVM at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests import kafka_broker, kafka_jars, tools
from compat_tests.target import CONSUMER_GROUP_HEARTBEAT, Target

TOOLS = "org.apache.kafka.tools."
JVM = ["-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
DESCRIBE_QUORUM = 55
CREATE_ACLS = 30
ELECT_LEADERS = 43
REASSIGN = 45
Java = Callable[..., str]


def command(main: str, *arguments: str) -> list[str]:
    """How a tool is started."""
    kafka_jars.fetch()
    lacking = kafka_broker.missing()
    if lacking is not None:
        pytest.skip(lacking)
    log4j = Path(__file__).with_name("log4j2.yaml")
    return ["java", *JVM, f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{kafka_broker.libs()}/*", main, *arguments]


@pytest.fixture
def java(bootstrap: str) -> Java:
    """Runs a tool of org.apache.kafka.tools against the target and gives its output."""

    def run(tool: str, *arguments: str, stdin: str = "", check: bool = True) -> str:
        main = tool if "." in tool and tool[0].islower() and tool.startswith("kafka.") else TOOLS + tool
        return tools.run(
            command(main, "--bootstrap-server", bootstrap, *arguments), stdin=stdin, timeout_s=90, check=check
        )

    return run


def consume(java: Java, topic: str, count: int, *arguments: str) -> list[str]:
    """So many lines of the console consumer."""
    options = ["--topic", topic, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "20000", *arguments]
    return java("consumer.ConsoleConsumer", *options).splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_and_consumer(java: Java, topic: str, codec: str) -> None:
    """Idempotent by default, with every codec."""
    lines = [f"record {number}" for number in range(200)]
    java("ConsoleProducer", "--topic", topic, "--compression-codec", codec, stdin="\n".join(lines) + "\n")
    assert sorted(consume(java, topic, 200)) == sorted(lines)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_console_consumer_in_a_group(target: Target, java: Java, topic: str, unique, protocol: str) -> None:
    """Both group protocols; the group goes on where it stopped, and the group tool shows it."""
    if protocol == "consumer":
        target.require(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat")
    group = unique("g")
    for text in (["a", "b", "c"], ["d"]):
        java("ConsoleProducer", "--topic", topic, stdin="\n".join(text) + "\n")
        options = ("--group", group, "--command-property", f"group.protocol={protocol}")
        assert sorted(consume(java, topic, len(text), *options)) == text
    rows = [
        line.split()
        for line in java("consumer.group.ConsumerGroupCommand", "--describe", "--group", group).splitlines()
    ]
    lags = [(row[3], row[5]) for row in rows if len(row) > 5 and row[1] == topic]
    assert sum(int(offset) for offset, _ in lags if offset != "-") == 4 and {lag for _, lag in lags} <= {"0", "-"}


def test_keys_and_headers(java: Java, topic: str) -> None:
    """Parsed on the way in, printed on the way out."""
    reader = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
    java("ConsoleProducer", "--topic", topic, *reader, stdin="h1:v1,h2:v2\tkey\tvalue\n")
    shown = [
        part
        for name in ("key", "headers", "timestamp", "offset")
        for part in ("--formatter-property", f"print.{name}=true")
    ]
    (line,) = consume(java, topic, 1, *shown)
    assert line.startswith("CreateTime:") and line.endswith("Offset:0\th1:v1,h2:v2\tkey\tvalue")


def test_read_committed_console_consumer(java: Java, topic: str) -> None:
    """The isolation level is no obstacle to plain records."""
    java("ConsoleProducer", "--topic", topic, stdin="a\n")
    assert consume(java, topic, 1, "--isolation-level", "read_committed") == ["a"]


def test_topic_tool(java: Java, unique) -> None:
    """kafka-topics: create, describe, alter, list, delete."""
    name = unique("tooled")
    java(
        "TopicCommand",
        "--create",
        "--topic",
        name,
        "--partitions",
        "3",
        "--replication-factor",
        "1",
        "--config",
        "retention.ms=60000",
    )
    described = java("TopicCommand", "--describe", "--topic", name)
    assert "PartitionCount: 3" in described and "retention.ms=60000" in described and described.count("Leader: 1") == 3
    java("TopicCommand", "--alter", "--topic", name, "--partitions", "5")
    assert "PartitionCount: 5" in java("TopicCommand", "--describe", "--topic", name)
    assert name in java("TopicCommand", "--list").split()
    java("TopicCommand", "--delete", "--topic", name)
    assert name not in java("TopicCommand", "--list").split()
    assert "does not exist" in java("TopicCommand", "--describe", "--topic", name, check=False)


def test_topic_tool_reports_trouble(java: Java) -> None:
    """kafka-topics --unavailable-partitions and the like find nothing."""
    for option in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert java("TopicCommand", "--describe", option).strip() == ""


def test_config_tool(java: Java, topic: str) -> None:
    """kafka-configs for topics and brokers."""
    entity = ("--entity-type", "topics", "--entity-name", topic)
    java(
        "kafka.admin.ConfigCommand",
        *entity,
        "--alter",
        "--add-config",
        "retention.ms=12345,cleanup.policy=[compact,delete]",
    )
    described = java("kafka.admin.ConfigCommand", *entity, "--describe")
    assert "retention.ms=12345" in described and "cleanup.policy=compact,delete" in described
    java("kafka.admin.ConfigCommand", *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in java("kafka.admin.ConfigCommand", *entity, "--describe")
    everything = java(
        "kafka.admin.ConfigCommand", "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"
    )
    assert "num.partitions=2" in everything and "STATIC_BROKER_CONFIG" in everything


def test_group_tool(java: Java, topic: str, unique) -> None:
    """kafka-consumer-groups: list, describe, state, reset, delete offsets, delete."""
    group, tool = unique("g"), "consumer.group.ConsumerGroupCommand"
    java("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    consume(java, topic, 3, "--group", group)
    assert group in java(tool, "--list").split()
    assert "Empty" in java(tool, "--describe", "--state", "--group", group)
    reset = java(tool, "--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    assert [line.split()[-1] for line in reset.splitlines() if topic in line] == ["0", "0"]
    java(tool, "--group", group, "--topic", topic, "--delete-offsets")
    assert topic not in java(tool, "--describe", "--offsets", "--group", group, check=False)
    java(tool, "--group", group, "--delete")
    assert group not in java(tool, "--list").split()


def test_groups_tool(java: Java, topic: str, unique) -> None:
    """kafka-groups lists types and protocols."""
    group = unique("g")
    java("ConsoleProducer", "--topic", topic, stdin="a\n")
    consume(java, topic, 1, "--group", group)
    row = next(line.split() for line in java("GroupsCommand", "--list").splitlines() if line.startswith(group))
    assert row[1] == "Classic"


def test_offsets_tool(java: Java, topic: str) -> None:
    """kafka-get-offsets by every kind of time."""
    java("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    for when, total in (("-1", 3), ("latest", 3), ("earliest", 0), ("1000", 0)):
        rows = [line.split(":") for line in java("GetOffsetShell", "--topic", topic, "--time", when).split()]
        assert sum(int(row[2]) for row in rows if row[2]) == total, when
    newest = [line.split(":") for line in java("GetOffsetShell", "--topic", topic, "--time", "max-timestamp").split()]
    assert max(int(row[2]) for row in newest) >= 0


def test_log_dirs_tool(java: Java, topic: str) -> None:
    """kafka-log-dirs shows the size of each partition."""
    java("ConsoleProducer", "--topic", topic, stdin="a\n")
    found = json.loads(java("LogDirsCommand", "--describe", "--topic-list", topic).splitlines()[-1])
    (folder,) = found["brokers"][0]["logDirs"]
    sizes = {row["partition"]: row["size"] for row in folder["partitions"]}
    assert folder["error"] is None and set(sizes) == {f"{topic}-0", f"{topic}-1"} and sum(sizes.values()) > 60


def test_delete_records_tool(java: Java, topic: str, tmp_path: Path) -> None:
    """kafka-delete-records moves the beginning."""
    java(
        "ConsoleProducer",
        "--topic",
        topic,
        "--command-property",
        "partitioner.class=" + ROUND_ROBIN,
        stdin="a\nb\nc\nd\n",
    )
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": -1}], "version": 1}))
    java("DeleteRecordsCommand", "--offset-json-file", str(wanted))
    first = dict(line.split(":")[1:] for line in java("GetOffsetShell", "--topic", topic, "--time", "earliest").split())
    last = dict(line.split(":")[1:] for line in java("GetOffsetShell", "--topic", topic, "--time", "latest").split())
    assert first["0"] == last["0"] and first["1"] == "0"


ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"


def test_cluster_tool(bootstrap: str) -> None:
    """kafka-cluster: the id, and the brokers."""
    at = ("--bootstrap-server", bootstrap)
    assert len(tools.run(command(TOOLS + "ClusterTool", "cluster-id", *at)).strip().rpartition(" ")[2]) == 22
    assert "127.0.0.1" in tools.run(command(TOOLS + "ClusterTool", "list-endpoints", *at))


def test_api_versions_tool(java: Java) -> None:
    """kafka-broker-api-versions finds every API usable, whose highest version is not above the client's."""
    shown = java("BrokerApiVersionsCommand")
    assert "Produce(0): 0 to 13 [usable: 13]" in shown and "Fetch(1): 4 to 18 [usable: 18]" in shown


def test_features_tool(java: Java) -> None:
    """kafka-features shows what is finalized."""
    shown = java("FeatureCommand", "describe")
    assert "Feature: metadata.version" in shown and "Feature: transaction.version" in shown


def test_transactions_tool(java: Java, topic: str) -> None:
    """kafka-transactions: list, describe-producers, find-hanging."""
    java("ConsoleProducer", "--topic", topic, stdin="a\n")
    assert "TransactionalId" in java("TransactionsCommand", "list")
    shown = java("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", "0")
    assert "ProducerId" in shown
    java("TransactionsCommand", "find-hanging", "--broker-id", "1")


def test_quorum_tool(target: Target, java: Java) -> None:
    """kafka-metadata-quorum describe --status and --replication."""
    target.require(DESCRIBE_QUORUM, "DescribeQuorum")
    assert "LeaderId:" in java("MetadataQuorumCommand", "describe", "--status")
    assert "Leader" in java("MetadataQuorumCommand", "describe", "--replication")


def test_leader_election_tool(target: Target, java: Java, topic: str) -> None:
    """kafka-leader-election finds nothing to do on one node."""
    target.require(ELECT_LEADERS, "ElectLeaders")
    shown = java(
        "LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", "0", check=False
    )
    assert "Valid replica already elected" in shown


def test_reassignment_tool(target: Target, java: Java) -> None:
    """kafka-reassign-partitions --list."""
    target.require(REASSIGN, "AlterPartitionReassignments")
    assert "No partition reassignments found" in java("reassign.ReassignPartitionsCommand", "--list")


def test_acl_tool(target: Target, java: Java) -> None:
    """kafka-acls without an authorizer says that security is disabled."""
    target.require(CREATE_ACLS, "CreateAcls")
    assert "No Authorizer is configured" in java("AclCommand", "--list", check=False)


def test_performance_tools(java: Java, topic: str) -> None:
    """kafka-producer-perf-test and kafka-consumer-perf-test run to their end."""
    load = ["--topic", topic, "--num-records", "20000", "--record-size", "200", "--throughput", "-1"]
    shown = java("ProducerPerformance", *load)
    assert "20000 records sent" in shown
    shown = java("ConsumerPerformance", "--topic", topic, "--num-records", "20000", "--hide-header")
    assert shown.strip()


def test_verifiable_producer(java: Java, topic: str) -> None:
    """The system tests' producer sees every acknowledgement."""
    lines = [
        json.loads(line) for line in java("VerifiableProducer", "--topic", topic, "--max-messages", "500").splitlines()
    ]
    assert sum(line["name"] == "producer_send_success" for line in lines) == 500
    assert {"startup_complete", "shutdown_complete"} <= {line["name"] for line in lines}


def test_verifiable_consumer(java: Java, bootstrap: str, topic: str, unique) -> None:
    """The system tests' consumer gets an assignment, the records, and its commit through."""
    java("VerifiableProducer", "--topic", topic, "--max-messages", "100")
    options = ["--topic", topic, "--group-id", unique("g"), "--max-messages", "100", "--reset-policy", "earliest"]
    with subprocess.Popen(
        command(TOOLS + "VerifiableConsumer", "--bootstrap-server", bootstrap, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            events = [json.loads(line) for line in process.stdout]
        finally:
            os.kill(process.pid, signal.SIGKILL)
    names = [event["name"] for event in events]
    assert {"partitions_assigned", "records_consumed", "offsets_committed"} <= set(names)
    assert sum(event.get("count", 0) for event in events if event["name"] == "records_consumed") == 100
    assert all(event["success"] for event in events if event["name"] == "offsets_committed")


def test_end_to_end_latency_tool(java: Java, topic: str) -> None:
    """Produce one, read one, a hundred times."""
    shown = java(
        "EndToEndLatency", "--topic", topic, "--num-records", "100", "--producer-acks", "1", "--record-size", "100"
    )
    assert "Avg latency" in shown


def test_dump_log_reads_our_segments(target: Target, java: Java, topic: str) -> None:
    """kafka-dump-log finds every record and nothing wrong in the files, indexes included."""
    if target.data_dir is None:
        pytest.skip("the data of this target is not on this machine")
    java(
        "ConsoleProducer",
        "--topic",
        topic,
        "--compression-codec",
        "zstd",
        stdin="".join(f"record {n}\n" for n in range(50)),
    )
    folders = [target.data_dir / f"{topic}-{partition}" for partition in (0, 1)]
    logs = [log for folder in folders for log in sorted(folder.glob("*.log"))]
    assert logs
    main = TOOLS + "DumpLogSegments"
    shown = tools.run(
        command(main, "--deep-iteration", "--print-data-log", "--files", ",".join(map(str, logs))), timeout_s=60
    )
    assert shown.count("payload: record ") == 50 and "isvalid: true" in shown and "isvalid: false" not in shown
