"""Three brokers without sockets, whose partitions move a step each time that somebody asks, for commands that watch them."""

from __future__ import annotations

from typing import Any

from kafkapy.types import TopicPartition
from kafkapy.wire.messages import alter_partition_reassignments as alter
from kafkapy.wire.messages import describe_cluster, describe_configs, describe_log_dirs, describe_quorum
from kafkapy.wire.messages import describe_topic_partitions as describe
from kafkapy.wire.messages import elect_leaders as elect
from kafkapy.wire.messages import incremental_alter_configs as configs
from kafkapy.wire.messages import list_partition_reassignments as moves
from tests.client.fakes import FakeBroker, FakeCluster

SIZE = 1000


class Partition:
    """One partition as the controller knows it."""

    def __init__(self, replicas: list[int]) -> None:
        self.leader = replicas[0]
        self.replicas = replicas
        self.isr = list(replicas)
        self.elr: list[int] = []
        self.adding: list[int] = []
        self.removing: list[int] = []
        self.copied = 0


class MovingCluster(FakeCluster):
    """Brokers 1 to 3. `steps`: how often one must ask until a move is done."""

    def __init__(self, partitions: dict[str, list[list[int]]], *, steps: int = 2) -> None:
        super().__init__()
        self.steps = steps
        self.partitions = {
            TopicPartition(topic, index): Partition(replicas)
            for topic, found in partitions.items()
            for index, replicas in enumerate(found)
        }
        self.fenced: set[int] = set()
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.configs_history: list[tuple[str, str, str | None]] = []
        self.quorum = describe_quorum.ResponsePartition(leader_id=2, leader_epoch=7, high_watermark=90)
        self.quorum.current_voters = [
            describe_quorum.ReplicaState(
                replica_id=node, log_end_offset=end, last_fetch_timestamp=at, last_caught_up_timestamp=at
            )
            for node, end, at in ((1, 95, 40_000), (2, 100, 50_000), (3, -1, -1))
        ]
        self.handlers = {
            describe.DescribeTopicPartitionsRequest: self._describe,
            moves.ListPartitionReassignmentsRequest: self._list,
            alter.AlterPartitionReassignmentsRequest: self._alter,
            elect.ElectLeadersRequest: self._elect,
            describe_cluster.DescribeClusterRequest: self._brokers,
            describe_log_dirs.DescribeLogDirsRequest: self._sizes,
            describe_configs.DescribeConfigsRequest: self._configs,
            configs.IncrementalAlterConfigsRequest: self._alter_configs,
            describe_quorum.DescribeQuorumRequest: self._quorum,
        }

    def replicas(self, topic: str) -> list[list[int]]:
        """Where the partitions of a topic are."""
        return [found.replicas for key, found in sorted(self.partitions.items()) if key.topic == topic]

    def _describe(self, broker: FakeBroker, request: Any) -> Any:
        answer = describe.DescribeTopicPartitionsResponse()
        for name in [topic.name for topic in request.topics] or sorted({key.topic for key in self.partitions}):
            rows = [
                describe.DescribeTopicPartitionsResponsePartition(
                    partition_index=key.partition,
                    leader_id=found.leader,
                    leader_epoch=4,
                    replica_nodes=found.replicas,
                    isr_nodes=found.isr,
                    eligible_leader_replicas=found.elr,
                    last_known_elr=[],
                )
                for key, found in self.partitions.items()
                if key.topic == name
            ]
            error = 0 if rows else 3
            answer.topics.append(
                describe.DescribeTopicPartitionsResponseTopic(name=name, partitions=rows, error_code=error)
            )
        # A page holds two topics, so that paging is met.
        names = [topic.name for topic in answer.topics]
        after = request.cursor.topic_name if request.cursor else ""
        answer.topics = [topic for topic in answer.topics if topic.name >= after]
        if len(answer.topics) > 2:
            answer.next_cursor = describe.Cursor(topic_name=names[names.index(answer.topics[1].name) + 1])
            answer.topics = answer.topics[:2]
        return answer

    def _list(self, broker: FakeBroker, request: Any) -> Any:
        answer = moves.ListPartitionReassignmentsResponse()
        asked = None
        if request.topics is not None:
            asked = {TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
        for key, found in self.partitions.items():
            if not (found.adding or found.removing) or (asked is not None and key not in asked):
                continue
            row = moves.OngoingPartitionReassignment(
                partition_index=key.partition,
                replicas=[*found.replicas],
                adding_replicas=[*found.adding],
                removing_replicas=[*found.removing],
            )
            answer.topics.append(moves.OngoingTopicReassignment(name=key.topic, partitions=[row]))
            if asked is not None:
                self._step(found)
        return answer

    def _step(self, found: Partition) -> None:
        found.copied += 1
        if found.copied >= self.steps:
            found.replicas = [one for one in found.replicas if one not in found.removing]
            found.isr, found.leader = list(found.replicas), found.replicas[0]
            found.adding, found.removing = [], []

    def _alter(self, broker: FakeBroker, request: Any) -> Any:
        answer = alter.AlterPartitionReassignmentsResponse()
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                found = self.partitions[TopicPartition(topic.name, asked.partition_index)]
                rows.append(alter.ReassignablePartitionResponse(partition_index=asked.partition_index))
                if asked.replicas is None:
                    found.replicas = [one for one in found.replicas if one not in found.adding]
                    found.adding, found.removing = [], []
                    continue
                found.adding = [one for one in asked.replicas if one not in found.replicas]
                found.removing = [one for one in found.replicas if one not in asked.replicas]
                found.replicas = [*asked.replicas, *found.removing]
                found.copied = 0
            answer.responses.append(alter.ReassignableTopicResponse(name=topic.name, partitions=rows))
        return answer

    def _elect(self, broker: FakeBroker, request: Any) -> Any:
        answer = elect.ElectLeadersResponse()
        asked = request.topic_partitions
        for key, found in self.partitions.items():
            if asked is not None and not any(
                one.topic == key.topic and key.partition in one.partitions for one in asked
            ):
                continue
            wanted = found.replicas[0] if request.election_type == 0 else found.leader
            error = 84
            if found.leader != wanted or found.leader < 0:
                error = 0 if found.replicas[0] not in self.fenced else 80
            if not error:
                found.leader = found.replicas[0]
            if asked is None and error == 84:
                continue
            row = elect.PartitionResult(partition_id=key.partition, error_code=error)
            answer.replica_election_results.append(elect.ReplicaElectionResult(topic=key.topic, partition_result=[row]))
        return answer

    def _brokers(self, broker: FakeBroker, request: Any) -> Any:
        brokers = [
            describe_cluster.DescribeClusterBroker(
                broker_id=node, host=f"broker{node}", port=9092, rack=f"r{node}", is_fenced=node in self.fenced
            )
            for node in (1, 2, 3)
        ]
        return describe_cluster.DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=brokers)

    def _sizes(self, broker: FakeBroker, request: Any) -> Any:
        topics = []
        for key, found in self.partitions.items():
            if broker.node_id in found.replicas:
                size = SIZE * found.copied // self.steps if broker.node_id in found.adding else SIZE
                row = describe_log_dirs.DescribeLogDirsPartition(partition_index=key.partition, partition_size=size)
                topics.append(describe_log_dirs.DescribeLogDirsTopic(name=key.topic, partitions=[row]))
        folder = describe_log_dirs.DescribeLogDirsResult(log_dir="/d", topics=topics)
        return describe_log_dirs.DescribeLogDirsResponse(results=[folder])

    def _configs(self, broker: FakeBroker, request: Any) -> Any:
        answer = describe_configs.DescribeConfigsResponse()
        for asked in request.resources:
            own = self.configs.get((asked.resource_type, asked.resource_name), {})
            rows = [
                describe_configs.DescribeConfigsResourceResult(
                    name=key, value=own.get(key, "2"), config_source=1 if key in own else 5
                )
                for key in asked.configuration_keys or ()
            ]
            answer.results.append(
                describe_configs.DescribeConfigsResult(resource_name=asked.resource_name, configs=rows)
            )
        return answer

    def _alter_configs(self, broker: FakeBroker, request: Any) -> Any:
        answer = configs.IncrementalAlterConfigsResponse()
        for asked in request.resources:
            assert asked.resource_type == 2 or int(asked.resource_name) == broker.node_id, "another broker's own keys"
            own = self.configs.setdefault((asked.resource_type, asked.resource_name), {})
            for change in asked.configs:
                self.configs_history.append((asked.resource_name, change.name, change.value))
                own.pop(change.name, None)
                if change.config_operation == 0:
                    own[change.name] = change.value
            answer.responses.append(configs.AlterConfigsResourceResponse(resource_name=asked.resource_name))
        return answer

    def _quorum(self, broker: FakeBroker, request: Any) -> Any:
        topic = describe_quorum.ResponseTopic(topic_name="__cluster_metadata", partitions=[self.quorum])
        return describe_quorum.DescribeQuorumResponse(topics=[topic])
