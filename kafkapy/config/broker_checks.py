"""The checks between keys that a broker makes when it starts, and again when a dynamic change would break them.

The sentences are Kafka's where Kafka has the check. `ConfigException.name` is the key whose place in the file is shown.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.validators import ConfigException

_MIB = 1024 * 1024
_CODECS = range(5)
_ASSIGNORS = ("uniform", "range")


def check_broker_config(config: BrokerConfig) -> None:
    """Raise ConfigException at the first pair of keys that do not fit."""
    _check_node(config)
    _check_quorum(config)
    _check_listeners(config)
    _check_unavailable(config)
    _check_log(config)
    _check_limits(config)
    _check_groups(config)


def _require(holds: object, name: str, message: str) -> None:
    if not holds:
        raise ConfigException(message, name)


def _check_node(config: BrokerConfig) -> None:
    _require(
        config.broker_id == config.node_id, "broker.id", "You must set `node.id` to the same value as `broker.id`."
    )


def _check_quorum(config: BrokerConfig) -> None:
    """Whether the roles of this node agree with the list of controllers."""
    voters = config.controller_quorum_voters
    shown = f"controller.quorum.voters={','.join(map(str, sorted(voters)))}"
    if config.single_node:
        _require(
            config.is_broker and config.is_controller,
            "process.roles",
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
            "controllers or controller.quorum.voters must contain a parseable set of controllers.",
        )
    elif voters and config.is_controller:
        _require(
            config.node_id in voters,
            "node.id",
            f"If process.roles contains the 'controller' role, the node id {config.node_id} must be included in the "
            f"set of voters {shown}",
        )
    elif voters:
        _require(
            config.node_id not in voters,
            "node.id",
            f"If process.roles contains just the 'broker' role, the node id {config.node_id} must not be included in "
            f"the set of voters {shown}",
        )


def _check_listeners(config: BrokerConfig) -> None:
    names = [listener.name for listener in config.listeners]
    key = "controller.listener.names"
    if not config.is_controller:
        _require(
            not config.controller_listeners,
            key,
            f"{key} must not contain a value appearing in the 'listeners' configuration when running KRaft with just "
            "the broker role",
        )
    elif not config.single_node:
        _require(
            config.controller_listeners,
            key,
            f"{key} must contain at least one value appearing in the 'listeners' configuration when running the KRaft "
            "controller role",
        )
    if not config.is_broker:
        _require(
            not config.broker_listeners,
            "listeners",
            f"The listeners config must only contain KRaft controller listeners from {key} when "
            "process.roles=controller",
        )
        return
    _require(
        config.broker_listeners,
        "listeners",
        f"There must be at least one broker advertised listener. Perhaps all listeners appear in {key}?",
    )
    advertised = [listener.name for listener in config.advertised_listeners or config.broker_listeners]
    _require(
        set(advertised) <= set(names),
        "advertised.listeners",
        "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
        f"Found {','.join(advertised)}. The valid options based on the current configuration are {','.join(names)}",
    )
    for listener in config.advertised_listeners:
        _require(
            listener.host not in ("0.0.0.0", "::", ""),
            "advertised.listeners",
            f"advertised.listeners cannot use the nonroutable meta-address {listener.host or '(empty)'}. "
            "Use a routable IP address.",
        )
    _check_inter_broker_listener(config, advertised)
    early = config.values["early.start.listeners"]
    for name in early if isinstance(early, tuple) else ():
        _require(
            name.upper() in names or name.upper() in map(str.upper, config.controller_listener_names),
            "early.start.listeners",
            f"early.start.listeners contains listener {name}, but this is not contained in listeners or {key}",
        )


def _check_inter_broker_listener(config: BrokerConfig, advertised: list[str]) -> None:
    key = "inter.broker.listener.name"
    if config.values[key] is not None:
        _require(
            "security.inter.broker.protocol" not in config.static,
            key,
            f"Only one of {key} and security.inter.broker.protocol should be set.",
        )
        _require(
            config.inter_broker_listener_name in config.listener_security_protocol_map,
            key,
            f"Listener with name {config.inter_broker_listener_name} defined in {key} not found in "
            "listener.security.protocol.map.",
        )
    # A node that talks to no other broker may name its listeners as it likes.
    if not config.single_node or config.values[key] is not None:
        _require(
            config.inter_broker_listener_name in advertised,
            key,
            f"{key} must be a listener name defined in advertised.listeners. The valid options based on currently "
            f"configured listeners are {','.join(advertised)}",
        )


def _check_unavailable(config: BrokerConfig) -> None:
    """Refuse what would be silently unsafe if it were ignored."""
    for listener in config.listeners:
        _require(
            listener.protocol == "PLAINTEXT",
            "listeners",
            f"listeners: {listener} asks for {listener.protocol}, and kafkapy speaks PLAINTEXT only",
        )
    _require(
        not config.values["authorizer.class.name"],
        "authorizer.class.name",
        "authorizer.class.name is set, and kafkapy has no authorizer: everybody who can connect may do everything",
    )
    _require(
        not config.values["remote.log.storage.system.enable"],
        "remote.log.storage.system.enable",
        "remote.log.storage.system.enable is set, and kafkapy keeps all data on its own disks",
    )


def _check_log(config: BrokerConfig) -> None:
    values = config.values
    _require(config.log_roll_ms >= 1, "log.roll.ms", "log.roll.ms must be greater than or equal to 1")
    _require(
        config.log_roll_jitter_ms >= 0, "log.roll.jitter.ms", "log.roll.jitter.ms must be greater than or equal to 0"
    )
    _require(
        config.log_retention_ms != 0,
        "log.retention.ms",
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    _require(
        config.log_cleaner_dedupe_buffer_size > _MIB * max(1, config.log_cleaner_threads),
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    cordoned = values["cordoned.log.dirs"] or ()
    assert isinstance(cordoned, tuple)
    if "*" in cordoned:
        _require(
            len(cordoned) == 1,
            "cordoned.log.dirs",
            "When cordoned.log.dirs is set to *, it must not contain other values",
        )
    else:
        missing = [folder for folder in cordoned if folder not in config.log_dirs]
        _require(
            not missing,
            "cordoned.log.dirs",
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(missing)}",
        )
    _require(
        config.offsets_topic_compression_codec in _CODECS,
        "offsets.topic.compression.codec",
        f"Unknown compression type id: {config.offsets_topic_compression_codec}",
    )
    _require(
        values["share.coordinator.state.topic.compression.codec"] in _CODECS,
        "share.coordinator.state.topic.compression.codec",
        f"Unknown compression type id: {values['share.coordinator.state.topic.compression.codec']}",
    )


def _check_limits(config: BrokerConfig) -> None:
    _require(
        config.replica_fetch_wait_max_ms <= config.replica_socket_timeout_ms,
        "replica.socket.timeout.ms",
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket "
        "timeouts",
    )
    _require(
        config.replica_fetch_wait_max_ms <= config.replica_lag_time_max_ms,
        "replica.fetch.wait.max.ms",
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR",
    )
    _require(
        config.max_connections_per_ip > 0 or config.max_connections_per_ip_overrides,
        "max.connections.per.ip",
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    _require(
        config.queued_max_request_bytes <= 0 or config.queued_max_request_bytes >= config.socket_request_max_bytes,
        "queued.max.request.bytes",
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    delay = config.connection_failed_authentication_delay_ms
    idle = config.connections_max_idle_ms
    _require(
        idle < 0 or delay < idle,
        "connection.failed.authentication.delay.ms",
        f"connection.failed.authentication.delay.ms={delay} should always be less than connections.max.idle.ms={idle} "
        "to prevent failed authentication responses from timing out",
    )


def _check_groups(config: BrokerConfig) -> None:
    _require(
        "classic" in config.group_coordinator_rebalance_protocols,
        "group.coordinator.rebalance.protocols",
        "Disabling the 'classic' protocol is not supported.",
    )
    for assignor in config.group_consumer_assignors:
        _require(
            assignor in _ASSIGNORS,
            "group.consumer.assignors",
            f"group.consumer.assignors: there is no assignor {assignor}, only {' and '.join(_ASSIGNORS)}",
        )
    for kind in ("consumer", "share", "streams"):
        _check_bounds(config, kind, ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"))
        heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        _check_order(config, heartbeat, session, "less than", strict=True)
    _check_bounds(
        config, "share", ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"), True
    )
    _check_order(config, "group.share.max.size", "group.share.max.share.sessions", "greater than or equal to")
    _check_order(
        config,
        "group.streams.num.standby.replicas",
        "group.streams.max.standby.replicas",
        "less than or equal to",
    )


def _check_bounds(config: BrokerConfig, kind: str, settings: Iterable[str], name_maximum: bool = False) -> None:
    """For each setting: the minimum is at most the maximum, and the value lies between them."""
    for setting in settings:
        value, low, high = (f"group.{kind}.{prefix}{setting}" for prefix in ("", "min.", "max."))
        _check_order(config, low, high, "greater than or equal to")
        _check_order(config, low, value, "greater than or equal to")
        _check_order(config, value, high, "greater than or equal to" if name_maximum else "less than or equal to")


def _check_order(config: BrokerConfig, small: str, large: str, relation: str, strict: bool = False) -> None:
    """`small` must not be more than `large`; the sentence begins with the one that the relation is said of."""
    low, high = config.values[small], config.values[large]
    assert isinstance(low, int) and isinstance(high, int)
    first, second = (large, small) if relation.startswith("greater") else (small, large)
    _require(low < high or (low == high and not strict), first, f"{first} must be {relation} {second}")
