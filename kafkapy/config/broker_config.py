"""The broker's configuration as the code reads it: one frozen object, one attribute per key.

An attribute has the key's name in snake_case and the parsed value. Some hold more than the key alone says, because Kafka
spreads one setting over several keys: `log_retention_ms` counts the minutes and hours in, `log_dirs` falls back on `log.dir`,
`listeners` are parsed, `inter_broker_listener_name` follows the security protocol. `values` has the plain values of all keys.

Configurations never change. A dynamic change of a key makes a new object by `reconfigured`, and the broker swaps it in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from kafkapy.config.broker.quorum_entries import parse_bootstrap_servers, parse_voters
from kafkapy.config.broker_configs import BROKER_KEYS
from kafkapy.config.definitions import Value, parse_all
from kafkapy.config.listeners import Listener, parse_listeners, parse_protocol_map
from kafkapy.config.topic_configs import MS_PER_HOUR, MS_PER_MINUTE
from kafkapy.config.validators import ConfigException

# What a node that names no controllers is given, as if it stood in its properties file: it is a cluster of one, for
# development, which no other machine reaches until it is told to listen to them.
SINGLE_NODE_DEFAULTS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092",
    "log.dirs": "kafkapy-data",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}

# What a node of a cluster is given in the same way: a broker that hangs is missed after three seconds instead of nine. A killed one is
# noticed at once.
CLUSTER_DEFAULTS: Mapping[str, str] = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}

_OWN_ATTRIBUTES = (
    "broker_listeners",
    "controller_listeners",
    "dynamic_broker",
    "dynamic_default",
    "single_node",
    "static",
    "values",
)


class BrokerConfig:
    """The configuration of one broker: `BrokerConfig({"log.dirs": "/data"})`, or from files by `loading.load`."""

    __slots__ = tuple(key.attribute for key in BROKER_KEYS.values()) + _OWN_ATTRIBUTES

    # Node, listeners, connections
    process_roles: tuple[str, ...]
    node_id: int
    broker_rack: str | None
    request_timeout_ms: int
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    listener_security_protocol_map: Mapping[str, str]
    inter_broker_listener_name: str
    controller_listener_names: tuple[str, ...]
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    connections_max_idle_ms: int
    socket_request_max_bytes: int
    socket_receive_buffer_bytes: int
    socket_send_buffer_bytes: int
    socket_listen_backlog_size: int
    socket_connection_setup_timeout_ms: int
    queued_max_request_bytes: int
    max_request_partition_size_limit: int
    telemetry_max_bytes: int
    # Log
    log_dirs: tuple[str, ...]
    num_recovery_threads_per_data_dir: int
    log_initial_task_delay_ms: int
    log_segment_bytes: int
    log_roll_ms: int
    log_roll_jitter_ms: int
    log_index_size_max_bytes: int
    log_index_interval_bytes: int
    log_preallocate: bool
    log_segment_delete_delay_ms: int
    log_flush_interval_messages: int
    log_flush_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_cleanup_policy: frozenset[str]
    log_retention_bytes: int
    log_retention_ms: int
    log_retention_check_interval_ms: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    message_max_bytes: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    # Topics, replicas, quorum
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    num_partitions: int
    default_replication_factor: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    unclean_leader_election_interval_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    replica_lag_time_max_ms: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_socket_timeout_ms: int
    controlled_shutdown_enable: bool
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    controller_socket_timeout_ms: int
    controller_quorum_voters: Mapping[int, tuple[str, int]]
    controller_quorum_bootstrap_servers: tuple[tuple[str, int], ...]
    kafkapy_quorum_secret: str | None
    controller_quorum_election_timeout_ms: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    metadata_log_dir: str
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    internal_metadata_log_segment_bytes: int | None
    # Groups
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_min_session_timeout_ms: int
    group_max_size: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_load_buffer_size: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    group_consumer_max_size: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_regex_refresh_interval_ms: int
    # Share and streams groups
    group_share_max_size: int
    group_share_max_share_sessions: int
    group_share_heartbeat_interval_ms: int
    group_share_min_heartbeat_interval_ms: int
    group_share_max_heartbeat_interval_ms: int
    group_share_session_timeout_ms: int
    group_share_min_session_timeout_ms: int
    group_share_max_session_timeout_ms: int
    group_share_assignment_interval_ms: int
    group_share_min_assignment_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_delivery_count_limit: int
    group_share_min_delivery_count_limit: int
    group_share_max_delivery_count_limit: int
    group_share_partition_max_record_locks: int
    group_share_min_partition_max_record_locks: int
    group_share_max_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int
    group_share_min_record_lock_duration_ms: int
    group_share_max_record_lock_duration_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_write_timeout_ms: int
    group_streams_max_size: int
    group_streams_heartbeat_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_session_timeout_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_min_assignment_interval_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_num_standby_replicas: int
    group_streams_max_standby_replicas: int
    # Transactions and quotas
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    transaction_two_phase_commit_enable: bool
    transaction_state_log_load_buffer_size: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int

    # Where the values come from: the texts of the properties file (with everything that counts as if it stood there), of
    # the changes made for all brokers, and of those made for this one, each stronger than the one before.
    static: Mapping[str, str]
    dynamic_default: Mapping[str, str]
    dynamic_broker: Mapping[str, str]
    # The parsed values of all keys, without what other keys add.
    values: Mapping[str, Value]
    # `listeners` apart: those for clients and brokers, and those of controller.listener.names.
    broker_listeners: tuple[Listener, ...]
    controller_listeners: tuple[Listener, ...]
    # Whether no controllers are named, so that this node is a cluster of its own.
    single_node: bool

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
    ) -> None:
        """Parse and check. Raises ConfigException, which names the key."""
        given = properties or {}
        single_node = not (given.get("controller.quorum.voters") or given.get("controller.quorum.bootstrap.servers"))
        self._set("single_node", single_node)
        static = _with_node_id(_with_single_node_defaults(given) if single_node else _with_cluster_defaults(given))
        self._set("static", static)
        self._set("dynamic_default", dynamic_default or {})
        self._set("dynamic_broker", dynamic_broker or {})
        for key in BROKER_KEYS.values():
            if key.required and key.name not in static:
                message = f'Missing required configuration "{key.name}" which has no default value.'
                raise ConfigException(message, key.name)
        values = parse_all(BROKER_KEYS, {**static, **self.dynamic_default, **self.dynamic_broker})
        self._set("values", values)
        for name, value in values.items():
            self._set(BROKER_KEYS[name].attribute, value)
        self._resolve(values)

    def reconfigured(self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> BrokerConfig:
        """This configuration with other dynamic changes on top of the same file."""
        return BrokerConfig(self.static, dynamic_default, dynamic_broker)

    @property
    def is_broker(self) -> bool:
        """Whether this node serves clients."""
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        """Whether this node votes in the metadata quorum."""
        return "controller" in self.process_roles

    def _resolve(self, values: dict[str, Value]) -> None:
        """Replace the attributes that mean more than their own key says."""
        self._set("log_dirs", values["log.dirs"] or values["log.dir"])
        self._set("metadata_log_dir", values["metadata.log.dir"] or self.log_dirs[0])
        self._set("log_cleanup_policy", frozenset(cast("tuple[str, ...]", values["log.cleanup.policy"])))
        self._set("log_roll_ms", _first(values, ("log.roll.ms", 1), ("log.roll.hours", MS_PER_HOUR)))
        jitter = _first(values, ("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", MS_PER_HOUR))
        self._set("log_roll_jitter_ms", jitter)
        retention = _first(
            values,
            ("log.retention.ms", 1),
            ("log.retention.minutes", MS_PER_MINUTE),
            ("log.retention.hours", MS_PER_HOUR),
        )
        self._set("log_retention_ms", -1 if retention < 0 else retention)
        flush = _first(values, ("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1))
        self._set("log_flush_interval_ms", flush)
        self._set("max_connections_per_ip_overrides", _parse_per_ip(str(values["max.connections.per.ip.overrides"])))
        name = "controller.quorum.voters"
        self._set("controller_quorum_voters", parse_voters(name, cast("tuple[str, ...]", values[name])))
        name = "controller.quorum.bootstrap.servers"
        servers = parse_bootstrap_servers(name, cast("tuple[str, ...]", values[name]))
        self._set("controller_quorum_bootstrap_servers", tuple(servers))
        self._resolve_listeners(values)

    def _resolve_listeners(self, values: dict[str, Value]) -> None:
        key = BROKER_KEYS["listener.security.protocol.map"]
        text = str(values[key.name])
        controllers = {name.upper() for name in self.controller_listener_names}
        protocols = parse_protocol_map(text, controllers, is_default=text == key.default)
        self._set("listener_security_protocol_map", protocols)
        listeners = parse_listeners("listeners", cast("tuple[str, ...]", values["listeners"]), protocols)
        self._set("listeners", listeners)
        self._set("controller_listeners", tuple(one for one in listeners if one.name in controllers))
        self._set("broker_listeners", tuple(one for one in listeners if one.name not in controllers))
        advertised = cast("tuple[str, ...] | None", values["advertised.listeners"]) or ()
        parsed = parse_listeners("advertised.listeners", advertised, protocols, distinct_ports=False)
        self._set("advertised_listeners", tuple(one for one in parsed if one.name not in controllers))
        name = values["inter.broker.listener.name"] or values["security.inter.broker.protocol"]
        self._set("inter_broker_listener_name", str(name).upper())

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a configuration does not change: make another one with {name} set")

    if TYPE_CHECKING:  # Keys that change nothing in kafkapy have no annotation above, but their attribute.

        def __getattr__(self, name: str) -> Any: ...


def _with_single_node_defaults(given: Mapping[str, str]) -> dict[str, str]:
    """The given properties, and what a cluster of one needs besides; a key set under another name is left alone."""
    texts = dict(SINGLE_NODE_DEFAULTS)
    if "log.dir" in given:
        del texts["log.dirs"]
    if "broker.id" in given:
        del texts["node.id"]
    return {**texts, **given}


def _with_cluster_defaults(given: Mapping[str, str]) -> dict[str, str]:
    """The given properties, and a quicker failure detection unless they say something about it themselves."""
    return dict(given) if CLUSTER_DEFAULTS.keys() & given.keys() else {**CLUSTER_DEFAULTS, **given}


def _with_node_id(given: Mapping[str, str]) -> dict[str, str]:
    """`broker.id` and `node.id` stand for each other where only one is given."""
    texts = dict(given)
    if "broker.id" in texts:
        texts.setdefault("node.id", texts["broker.id"])
    elif "node.id" in texts:
        texts["broker.id"] = texts["node.id"]
    return texts


def _first(values: Mapping[str, Value], *names: tuple[str, int]) -> int:
    """The first key that has a value, in the unit of the last; the last one always has."""
    for name, unit in names[:-1]:
        value = values[name]
        if value is not None:
            return cast(int, value) * unit
    name, unit = names[-1]
    return cast(int, values[name]) * unit


def _parse_per_ip(text: str) -> dict[str, int]:
    """`HOST:COUNT,HOST:COUNT`; an IPv6 host holds colons of its own."""
    name = "max.connections.per.ip.overrides"
    counts: dict[str, int] = {}
    for entry in filter(None, (item.strip() for item in text.split(","))):
        host, _, count = entry.rpartition(":")
        if not host or not count.strip().isdecimal():
            raise ConfigException.invalid(name, text, f"{entry!r} is not of the form HOST:COUNT")
        counts[host.strip()] = int(count)
    return counts
