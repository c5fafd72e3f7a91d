"""Every API of Apache Kafka 4.3 by its key: versions, who answers it, and where its messages are declared.

    API_BY_KEY[0].request       -> kafkapy.wire.messages.produce.ProduceRequest
    api_by_name("Fetch").response.decode(body, 12)

The message modules are imported the first time that somebody asks: a broker that starts needs about twenty of them, and
ApiVersions must tell all version ranges without importing any. Keys 4 to 7 have no versions left since Kafka 4.0.
"""

from __future__ import annotations

import importlib
import re
from types import ModuleType

from kafkapy.wire.schema import Request, Response, Versions

BROKER = "broker"
CONTROLLER = "controller"
BOTH = "broker controller"

# Key, name, first and last version, the first version with compact encodings (None: there is none), who listens.
_TABLE: tuple[tuple[int, str, int, int, int | None, str], ...] = (
    (0, "Produce", 3, 13, 9, BROKER),
    (1, "Fetch", 4, 18, 12, BOTH),
    (2, "ListOffsets", 1, 11, 6, BROKER),
    (3, "Metadata", 0, 13, 9, BROKER),
    (8, "OffsetCommit", 2, 10, 8, BROKER),
    (9, "OffsetFetch", 1, 10, 6, BROKER),
    (10, "FindCoordinator", 0, 6, 3, BROKER),
    (11, "JoinGroup", 0, 9, 6, BROKER),
    (12, "Heartbeat", 0, 4, 4, BROKER),
    (13, "LeaveGroup", 0, 5, 4, BROKER),
    (14, "SyncGroup", 0, 5, 4, BROKER),
    (15, "DescribeGroups", 0, 6, 5, BROKER),
    (16, "ListGroups", 0, 5, 3, BROKER),
    (17, "SaslHandshake", 0, 1, None, BOTH),
    (18, "ApiVersions", 0, 4, 3, BOTH),
    (19, "CreateTopics", 2, 7, 5, BOTH),
    (20, "DeleteTopics", 1, 6, 4, BOTH),
    (21, "DeleteRecords", 0, 2, 2, BROKER),
    (22, "InitProducerId", 0, 6, 2, BROKER),
    (23, "OffsetForLeaderEpoch", 2, 4, 4, BROKER),
    (24, "AddPartitionsToTxn", 0, 5, 3, BROKER),
    (25, "AddOffsetsToTxn", 0, 4, 3, BROKER),
    (26, "EndTxn", 0, 5, 3, BROKER),
    (27, "WriteTxnMarkers", 1, 2, 1, BROKER),
    (28, "TxnOffsetCommit", 0, 5, 3, BROKER),
    (29, "DescribeAcls", 1, 3, 2, BOTH),
    (30, "CreateAcls", 1, 3, 2, BOTH),
    (31, "DeleteAcls", 1, 3, 2, BOTH),
    (32, "DescribeConfigs", 1, 4, 4, BOTH),
    (33, "AlterConfigs", 0, 2, 2, BOTH),
    (34, "AlterReplicaLogDirs", 1, 2, 2, BROKER),
    (35, "DescribeLogDirs", 1, 5, 2, BROKER),
    (36, "SaslAuthenticate", 0, 2, 2, BOTH),
    (37, "CreatePartitions", 0, 3, 2, BOTH),
    (38, "CreateDelegationToken", 1, 3, 2, BOTH),
    (39, "RenewDelegationToken", 1, 2, 2, BOTH),
    (40, "ExpireDelegationToken", 1, 2, 2, BOTH),
    (41, "DescribeDelegationToken", 1, 3, 2, BOTH),
    (42, "DeleteGroups", 0, 2, 2, BROKER),
    (43, "ElectLeaders", 0, 2, 2, BOTH),
    (44, "IncrementalAlterConfigs", 0, 1, 1, BOTH),
    (45, "AlterPartitionReassignments", 0, 1, 0, BOTH),
    (46, "ListPartitionReassignments", 0, 0, 0, BOTH),
    (47, "OffsetDelete", 0, 0, None, BROKER),
    (48, "DescribeClientQuotas", 0, 1, 1, BROKER),
    (49, "AlterClientQuotas", 0, 1, 1, BOTH),
    (50, "DescribeUserScramCredentials", 0, 0, 0, BOTH),
    (51, "AlterUserScramCredentials", 0, 0, 0, BOTH),
    (52, "Vote", 0, 2, 0, CONTROLLER),
    (53, "BeginQuorumEpoch", 0, 1, 1, CONTROLLER),
    (54, "EndQuorumEpoch", 0, 1, 1, CONTROLLER),
    (55, "DescribeQuorum", 0, 2, 0, BOTH),
    (56, "AlterPartition", 2, 3, 2, CONTROLLER),
    (57, "UpdateFeatures", 0, 2, 0, BOTH),
    (58, "Envelope", 0, 0, 0, CONTROLLER),
    (59, "FetchSnapshot", 0, 1, 0, CONTROLLER),
    (60, "DescribeCluster", 0, 2, 0, BOTH),
    (61, "DescribeProducers", 0, 0, 0, BROKER),
    (62, "BrokerRegistration", 0, 4, 0, CONTROLLER),
    (63, "BrokerHeartbeat", 0, 2, 0, CONTROLLER),
    (64, "UnregisterBroker", 0, 0, 0, BOTH),
    (65, "DescribeTransactions", 0, 0, 0, BROKER),
    (66, "ListTransactions", 0, 2, 0, BROKER),
    (67, "AllocateProducerIds", 0, 0, 0, CONTROLLER),
    (68, "ConsumerGroupHeartbeat", 0, 1, 0, BROKER),
    (69, "ConsumerGroupDescribe", 0, 1, 0, BROKER),
    (70, "ControllerRegistration", 0, 0, 0, CONTROLLER),
    (71, "GetTelemetrySubscriptions", 0, 0, 0, BROKER),
    (72, "PushTelemetry", 0, 0, 0, BROKER),
    (73, "AssignReplicasToDirs", 0, 0, 0, CONTROLLER),
    (74, "ListConfigResources", 0, 1, 0, BROKER),
    (75, "DescribeTopicPartitions", 0, 0, 0, BROKER),
    (76, "ShareGroupHeartbeat", 1, 1, 1, BROKER),
    (77, "ShareGroupDescribe", 1, 1, 1, BROKER),
    (78, "ShareFetch", 1, 2, 1, BROKER),
    (79, "ShareAcknowledge", 1, 2, 1, BROKER),
    (80, "AddRaftVoter", 0, 1, 0, BOTH),
    (81, "RemoveRaftVoter", 0, 0, 0, BOTH),
    (82, "UpdateRaftVoter", 0, 0, 0, CONTROLLER),
    (83, "InitializeShareGroupState", 0, 0, 0, BROKER),
    (84, "ReadShareGroupState", 0, 0, 0, BROKER),
    (85, "WriteShareGroupState", 0, 1, 0, BROKER),
    (86, "DeleteShareGroupState", 0, 0, 0, BROKER),
    (87, "ReadShareGroupStateSummary", 0, 1, 0, BROKER),
    (88, "StreamsGroupHeartbeat", 0, 0, 0, BROKER),
    (89, "StreamsGroupDescribe", 0, 0, 0, BROKER),
    (90, "DescribeShareGroupOffsets", 0, 1, 0, BROKER),
    (91, "AlterShareGroupOffsets", 0, 0, 0, BROKER),
    (92, "DeleteShareGroupOffsets", 0, 0, 0, BROKER),
)

# What ApiVersions says, where it is not the range itself: librdkafka takes a broker without Produce 0 for one that is
# too old, although 0 to 2 are refused; and InitProducerId 6 (two-phase commit) is not finished in Kafka 4.3.
_ADVERTISED = {0: Versions(0, 13), 22: Versions(0, 5)}


class Api:
    """One API. `versions` is what can be read and written, `advertised` what ApiVersions reports."""

    __slots__ = (
        "_module",
        "_request",
        "_response",
        "advertised",
        "flexible_from",
        "key",
        "listeners",
        "name",
        "versions",
    )

    def __init__(self, key: int, name: str, first: int, last: int, flexible_from: int | None, listeners: str) -> None:
        self.key = key
        self.name = name
        self.versions = Versions(first, last)
        self.advertised = _ADVERTISED.get(key, self.versions)
        # Past the last version when no version is flexible, so that a comparison is all that anyone needs.
        self.flexible_from = last + 1 if flexible_from is None else flexible_from
        self.listeners = frozenset(listeners.split())
        self._module: ModuleType | None = None
        self._request: type[Request] | None = None
        self._response: type[Response] | None = None

    @property
    def module_name(self) -> str:
        """The last part of the names of the modules in wire/messages/ and handlers/: snake_case of the API's name."""
        return snake_case(self.name)

    @property
    def module(self) -> ModuleType:
        """The module with both declarations and the structures that they nest."""
        if self._module is None:
            self._module = importlib.import_module(f"kafkapy.wire.messages.{self.module_name}")
        return self._module

    @property
    def request(self) -> type[Request]:
        """The request's class."""
        if self._request is None:
            self._request = getattr(self.module, f"{self.name}Request")
        return self._request

    @property
    def response(self) -> type[Response]:
        """The response's class."""
        if self._response is None:
            self._response = getattr(self.module, f"{self.name}Response")
        return self._response

    def request_header_version(self, version: int) -> int:
        """2 (with a tag section) for flexible versions, 1 otherwise."""
        return 2 if version >= self.flexible_from else 1

    def response_header_version(self, version: int) -> int:
        """1 (with a tag section) for flexible versions, 0 otherwise.

        ApiVersions always answers with 0: a client that doesn't know the broker's versions yet must be able to read it.
        """
        return 1 if version >= self.flexible_from and self.key != 18 else 0

    def __repr__(self) -> str:
        return f"<Api {self.key} {self.name} {self.versions!r}>"


def snake_case(name: str) -> str:
    """DescribeUserScramCredentials -> describe_user_scram_credentials."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


API_BY_KEY: dict[int, Api] = {row[0]: Api(*row) for row in _TABLE}
_API_BY_NAME: dict[str, Api] = {api.name.lower(): api for api in API_BY_KEY.values()}


def api_by_name(name: str) -> Api:
    """The API of that name, whatever its case, or of that key in digits; KeyError if there is none."""
    if name.isdigit():
        return API_BY_KEY[int(name)]
    return _API_BY_NAME[name.lower().replace("_", "")]
