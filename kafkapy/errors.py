"""Kafka's error codes, and the three exceptions that everything here raises for a reason outside our own code.

`ProtocolError`: the bytes of a peer make no sense, nothing can be answered and the connection is closed.
`KafkaError`: the request was understood and is refused; its code travels in the answer.
`StorageError`: a disk failed; the log directory under the path goes offline.

Anything else that escapes is a mistake of ours. This module is imported by everything, so it costs next to nothing.
"""

from __future__ import annotations

from enum import IntEnum


class ProtocolError(Exception):
    """The peer's bytes are not what the protocol says: close the connection, there is no answer to give."""


class KafkaError(Exception):
    """A request that is answered with an error code; `message` is the text that newer versions send along."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message or self.code.explanation}"


class StartError(Exception):
    """The broker cannot start; the message says what is wrong and what to do, in one line."""


class StorageError(Exception):
    """Reading or writing `path` failed, so nothing under its log directory can be trusted any longer."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class ErrorCode(IntEnum):
    """The int16 that answers carry. 0 is success, -1 an error that has no code of its own."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later, as Kafka's clients decide it."""
        return self in _RETRIABLE

    @property
    def explanation(self) -> str:
        """One short sentence for a person; the name in lower case where it says everything already."""
        return _EXPLANATIONS.get(self) or self.name.lower().replace("_", " ")


_RETRIABLE = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    )
)

_EXPLANATIONS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker failed in a way that it did not expect; its log says more",
    ErrorCode.NONE: "success",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the offset is below the start or beyond the end of the log",
    ErrorCode.CORRUPT_MESSAGE: "the records do not match their checksum or are otherwise damaged",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "this broker has no such topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader at the moment",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "this broker does not lead the partition; the metadata is out of date",
    ErrorCode.REQUEST_TIMED_OUT: "the request took longer than its timeout",
    ErrorCode.BROKER_NOT_AVAILABLE: "the broker cannot be reached",
    ErrorCode.REPLICA_NOT_AVAILABLE: "this broker holds no replica of the partition that can be read",
    ErrorCode.MESSAGE_TOO_LARGE: "the batch is larger than the topic allows (max.message.bytes)",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "the text committed with the offset is too long (offset.metadata.max.bytes)",
    ErrorCode.NETWORK_EXCEPTION: "the connection was lost before an answer came",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still reading its state; try again",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the coordinator is not available yet; try again",
    ErrorCode.NOT_COORDINATOR: "another broker is the coordinator of this group or transaction",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "not a legal topic name, or not allowed on this topic",
    ErrorCode.RECORD_LIST_TOO_LARGE: "the batch is larger than a segment may be (segment.bytes)",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "the records are written, but too few replicas are in sync",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be -1 (all), 0 or 1",
    ErrorCode.ILLEGAL_GENERATION: "the group has moved on to another generation; rejoin",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the group's members share no protocol with this one",
    ErrorCode.INVALID_GROUP_ID: "not a legal group id",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group knows no such member; rejoin",
    ErrorCode.INVALID_SESSION_TIMEOUT: "the session timeout is outside what the broker allows",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing; rejoin",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not allowed on this topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not allowed on this group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not allowed on the cluster",
    ErrorCode.INVALID_TIMESTAMP: "a timestamp lies outside the range that the topic allows",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "the broker does not offer this SASL mechanism",
    ErrorCode.ILLEGAL_SASL_STATE: "the request does not belong into this step of the authentication",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not support this version of the request",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic of this name exists already",
    ErrorCode.INVALID_PARTITIONS: "not a legal number of partitions",
    ErrorCode.INVALID_REPLICATION_FACTOR: "not a legal replication factor, or more than there are brokers",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "the replica assignment is not legal",
    ErrorCode.INVALID_CONFIG: "a configuration key or its value is not legal",
    ErrorCode.NOT_CONTROLLER: "another node is the active controller",
    ErrorCode.INVALID_REQUEST: "the request contradicts itself or the protocol",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "the stored message format cannot do this",
    ErrorCode.POLICY_VIOLATION: "a policy of the cluster forbids it",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "the producer's sequence has a gap",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "the producer sent this sequence before",
    ErrorCode.INVALID_PRODUCER_EPOCH: "a newer producer with the same id has taken over",
    ErrorCode.INVALID_TXN_STATE: "the transaction is in a state that does not allow this",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the producer id does not belong to this transactional id",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "the timeout is larger than transaction.max.timeout.ms",
    ErrorCode.CONCURRENT_TRANSACTIONS: "the previous transaction is still being completed; try again",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "a newer transaction coordinator has taken over",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not allowed with this transactional id",
    ErrorCode.SECURITY_DISABLED: "the cluster has no authorizer",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "not attempted, because another part of the same request failed",
    ErrorCode.KAFKA_STORAGE_ERROR: "the disk that holds the partition failed",
    ErrorCode.LOG_DIR_NOT_FOUND: "the broker has no such log directory",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "the credentials were not accepted",
    ErrorCode.UNKNOWN_PRODUCER_ID: "the broker has no state of this producer id",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "the partition is being reassigned",
    ErrorCode.NON_EMPTY_GROUP: "the group still has members",
    ErrorCode.GROUP_ID_NOT_FOUND: "no such group",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "the fetch session is gone; a new one begins",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "the fetch session is out of step; a new one begins",
    ErrorCode.LISTENER_NOT_FOUND: "the leader has no listener of the name that the request came in by",
    ErrorCode.TOPIC_DELETION_DISABLED: "the broker does not delete topics (delete.topic.enable)",
    ErrorCode.FENCED_LEADER_EPOCH: "the leader epoch is older than the broker's",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "the leader epoch is newer than the broker's",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "this version of the request cannot carry the compression",
    ErrorCode.STALE_BROKER_EPOCH: "the broker has registered anew since",
    ErrorCode.OFFSET_NOT_AVAILABLE: "the new leader does not know its high watermark yet; try again",
    ErrorCode.MEMBER_ID_REQUIRED: "join again with the member id that was just given",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the preferred leader is not available",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group is full (group.max.size)",
    ErrorCode.FENCED_INSTANCE_ID: "another member has taken over this group.instance.id",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "no replica that may lead is available",
    ErrorCode.ELECTION_NOT_NEEDED: "the partition already has the leader that the election would give it",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "the partition is not being reassigned",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "a member of the group is subscribed to the topic",
    ErrorCode.INVALID_RECORD: "a record was refused",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "a transaction that commits these offsets is still open; try again",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "the quota is used up; try again later",
    ErrorCode.PRODUCER_FENCED: "a newer producer with the same transactional id has taken over",
    ErrorCode.RESOURCE_NOT_FOUND: "no such resource",
    ErrorCode.DUPLICATE_RESOURCE: "the resource is named twice in the request",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "the credential cannot be stored as given",
    ErrorCode.SNAPSHOT_NOT_FOUND: "no such snapshot",
    ErrorCode.UNKNOWN_TOPIC_ID: "this broker has no topic of that id",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "a living broker has registered this node id",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "no broker of that id is registered",
    ErrorCode.INCONSISTENT_TOPIC_ID: "the topic's id has changed; the metadata is out of date",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the node belongs to another cluster",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "no such transactional id",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "the fetch session began without topic ids and now has them",
    ErrorCode.INELIGIBLE_REPLICA: "a replica in the request may not join the in-sync set",
    ErrorCode.FENCED_MEMBER_EPOCH: "the member has been fenced by the group coordinator; rejoin",
    ErrorCode.UNRELEASED_INSTANCE_ID: "another living member uses this group.instance.id",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "the group coordinator has no such assignor",
    ErrorCode.STALE_MEMBER_EPOCH: "the member epoch is old; wait for the next heartbeat",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "the request was sent to a broker instead of a controller, or the reverse",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "the client metrics subscription has changed",
    ErrorCode.TELEMETRY_TOO_LARGE: "the metrics are larger than telemetry.max.bytes",
    ErrorCode.TRANSACTION_ABORTABLE: "the transaction cannot be committed; abort it",
    ErrorCode.INVALID_RECORD_STATE: "the record is in a state that does not allow this acknowledgement",
    ErrorCode.SHARE_SESSION_NOT_FOUND: "the share session is gone; a new one begins",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: "the share session is out of step; a new one begins",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "the regular expression cannot be compiled",
    ErrorCode.REBOOTSTRAP_REQUIRED: "the client must start again from its bootstrap servers",
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "the broker has no room for another share session",
}
