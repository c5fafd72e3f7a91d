"""A broker's configuration: resolution of keys that belong together, and the checks between them."""

from __future__ import annotations

import pytest

from kafkapy.config.broker_checks import check_broker_config
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.broker_configs import BROKER_KEYS
from kafkapy.config.listeners import Listener
from kafkapy.config.validators import ConfigException

CLUSTER = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093,2@[::1]:9095",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://localhost:9093",
}


def checked(**changes: str | None) -> BrokerConfig:
    """The configuration of a node of a cluster with changes; `__` stands for a dot, None takes a key away."""
    texts = CLUSTER | {name.replace("__", "."): text for name, text in changes.items() if text is not None}
    config = BrokerConfig(
        {name: text for name, text in texts.items() if changes.get(name.replace(".", "__"), "") is not None}
    )
    check_broker_config(config)
    return config


def test_nothing_at_all_is_a_node_of_its_own() -> None:
    """Without any key a node serves localhost:9092 and replicates nothing."""
    config = BrokerConfig()
    check_broker_config(config)
    assert config.single_node and config.is_broker and config.is_controller
    assert config.listeners == (Listener("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert config.broker_listeners == config.listeners and config.controller_listeners == ()
    assert config.advertised_listeners == ()
    assert (config.node_id, config.broker_id, config.log_dirs) == (1, 1, ("kafkapy-data",))
    assert config.offsets_topic_replication_factor == config.transaction_state_log_min_isr == 1
    assert config.group_initial_rebalance_delay_ms == 0


def test_a_node_of_a_cluster_has_kafkas_defaults() -> None:
    """Who names controllers gets no development defaults."""
    config = checked()
    assert not config.single_node
    assert config.offsets_topic_replication_factor == 3
    assert config.group_initial_rebalance_delay_ms == 3000
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.controller_quorum_voters == {1: ("localhost", 9093), 2: ("::1", 9095)}
    assert [listener.name for listener in config.controller_listeners] == ["CONTROLLER"]
    assert [str(listener) for listener in config.broker_listeners] == ["PLAINTEXT://:9092"]


def test_every_key_is_an_attribute() -> None:
    """Code may read any key, also those that change nothing here."""
    config = BrokerConfig()
    for key in BROKER_KEYS.values():
        assert hasattr(config, key.attribute), key.name
    assert config.num_io_threads == 8


def test_attributes_do_not_change() -> None:
    """A configuration that is shared must not be altered in place."""
    with pytest.raises(AttributeError, match="does not change"):
        BrokerConfig().node_id = 3


@pytest.mark.parametrize(
    ("texts", "attribute", "value"),
    [
        ({"log.retention.hours": "2"}, "log_retention_ms", 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "1"}, "log_retention_ms", 60_000),
        ({"log.retention.minutes": "1", "log.retention.ms": "5"}, "log_retention_ms", 5),
        ({"log.retention.hours": "-3"}, "log_retention_ms", -1),
        ({"log.retention.ms": "-1"}, "log_retention_ms", -1),
        ({"log.roll.hours": "2"}, "log_roll_ms", 7_200_000),
        ({"log.roll.hours": "2", "log.roll.ms": "9"}, "log_roll_ms", 9),
        ({"log.roll.jitter.hours": "1"}, "log_roll_jitter_ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": "7"}, "log_flush_interval_ms", 7),
        ({"log.flush.scheduler.interval.ms": "7", "log.flush.interval.ms": "3"}, "log_flush_interval_ms", 3),
        ({"log.dir": "/a"}, "log_dirs", ("/a",)),
        ({"log.dir": "/a", "log.dirs": "/b,/c,/b"}, "log_dirs", ("/b", "/c")),
        ({"log.dirs": "/b,/c"}, "metadata_log_dir", "/b"),
        ({"metadata.log.dir": "/m"}, "metadata_log_dir", "/m"),
        ({"broker.id": "7"}, "node_id", 7),
        ({"node.id": "7"}, "broker_id", 7),
        ({"log.cleanup.policy": "compact,delete"}, "log_cleanup_policy", frozenset({"compact", "delete"})),
        (
            {"max.connections.per.ip.overrides": "127.0.0.1:5, ::1:6"},
            "max_connections_per_ip_overrides",
            {"127.0.0.1": 5, "::1": 6},
        ),
        (
            {"advertised.listeners": "plaintext://h:1"},
            "advertised_listeners",
            (Listener("PLAINTEXT", "h", 1, "PLAINTEXT"),),
        ),
        ({"listeners": "PLAINTEXT://[::1]:0"}, "listeners", (Listener("PLAINTEXT", "::1", 0, "PLAINTEXT"),)),
        ({"inter.broker.listener.name": "plaintext"}, "inter_broker_listener_name", "PLAINTEXT"),
    ],
)
def test_keys_that_belong_together_are_resolved(texts: dict[str, str], attribute: str, value: object) -> None:
    """The smaller unit goes before the larger one, the plural before the singular."""
    config = BrokerConfig(texts)
    check_broker_config(config)
    assert getattr(config, attribute) == value


def test_listeners_may_have_names_of_their_own() -> None:
    """The map says what they speak; controllers' names are plain text as long as the map is the default."""
    config = BrokerConfig(
        {
            "listeners": "IN://:9092,OUT://10.0.0.1:9093,V6://[::]:9093",
            "listener.security.protocol.map": "IN:PLAINTEXT, out : plaintext ,V6:PLAINTEXT",
            "inter.broker.listener.name": "IN",
        }
    )
    check_broker_config(config)
    assert [listener.name for listener in config.listeners] == ["IN", "OUT", "V6"]


def test_dynamic_changes_lie_on_top() -> None:
    """A change for this broker beats one for all, and both beat the file."""
    config = BrokerConfig({"log.retention.hours": "2", "log.roll.ms": "1"})
    after = config.reconfigured({"log.retention.ms": "10", "log.roll.ms": "20"}, {"log.retention.ms": "5"})
    assert (after.log_retention_ms, after.log_roll_ms) == (5, 20)
    assert (config.log_retention_ms, config.log_roll_ms) == (7_200_000, 1)
    assert after.reconfigured({}, {}).log_retention_ms == 7_200_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"broker__id": "2"}, "You must set `node.id` to the same value as `broker.id`."),
        ({"node__id": None}, 'Missing required configuration "node.id" which has no default value.'),
        ({"process__roles": None}, 'Missing required configuration "process.roles" which has no default value.'),
        ({"process__roles": "broker"}, "If process.roles contains just the 'broker' role, the node id 1 must not be"),
        (
            {"node__id": "9"},
            "If process.roles contains the 'controller' role, the node id 9 must be included in the set",
        ),
        (
            {"process__roles": "broker", "node__id": "9"},
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration",
        ),
        ({"listeners": "PLAINTEXT://:9092"}, "controller.listener.names must contain at least one value appearing in"),
        (
            {"process__roles": "controller"},
            "The listeners config must only contain KRaft controller listeners from controller.listener.names",
        ),
        ({"listeners": "CONTROLLER://:9093"}, "There must be at least one broker advertised listener."),
        ({"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9094,CONTROLLER://:9093"}, "must have a different name"),
        ({"listeners": "PLAINTEXT://:9092,CONTROLLER://:9092"}, "must have a different port"),
        ({"listeners": "PLAINTEXT://:9092,EXT://:9094,CONTROLLER://:9093"}, "No security protocol defined for"),
        ({"listeners": "PLAINTEXT://:99999,CONTROLLER://:9093"}, "a port from 0 to 65535"),
        ({"listeners": "PLAINTEXT:9092"}, "expected NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://:9092,foo"}, "expected NAME://HOST:PORT"),
        ({"listeners": ""}, "Configuration 'listeners' must not be empty."),
        ({"listeners": "SSL://:9092,CONTROLLER://:9093"}, "inter.broker.listener.name must be a listener name defined"),
        (
            {
                "listeners": "PLAINTEXT://:1,SSL://:2,CONTROLLER://:3",
                "listener__security__protocol__map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            },
            "asks for SSL, and kafkapy speaks PLAINTEXT only",
        ),
        ({"advertised__listeners": "PLAINTEXT://0.0.0.0:9092"}, "cannot use the nonroutable meta-address 0.0.0.0."),
        (
            {"advertised__listeners": "PLAINTEXT://h:1,SSL://h:1"},
            "advertised.listeners listener names must be equal to",
        ),
        ({"advertised__listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, "must have a different name"),
        (
            {"inter__broker__listener__name": "FOO"},
            "Listener with name FOO defined in inter.broker.listener.name not found",
        ),
        ({"inter__broker__listener__name": "SSL"}, "inter.broker.listener.name must be a listener name defined in"),
        (
            {"inter__broker__listener__name": "PLAINTEXT", "security__inter__broker__protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
        ({"listener__security__protocol__map": "PLAINTEXT:FOO"}, "Invalid security protocol `FOO` defined in"),
        ({"listener__security__protocol__map": "PLAINTEXT"}, "is not of the form NAME:PROTOCOL"),
        ({"early__start__listeners": "FOO"}, "early.start.listeners contains listener FOO, but this is not contained"),
        ({"authorizer__class__name": "a.B"}, "kafkapy has no authorizer"),
        ({"remote__log__storage__system__enable": "true"}, "kafkapy keeps all data on its own disks"),
        ({"controller__quorum__voters": "1@x"}, "Failed to parse host name from entry 1@x for the configuration"),
        ({"controller__quorum__voters": "x@h:1"}, "Failed to parse voter ID as an integer from x"),
        ({"controller__quorum__voters": "foo"}, "Each entry should be in the form `{id}@{host}:{port}`."),
        ({"controller__quorum__voters": "1@h:x"}, "Failed to parse host port from entry 1@h:x"),
        ({"controller__quorum__bootstrap__servers": "x"}, "Failed to parse host name from x for the configuration"),
        ({"controller__quorum__bootstrap__servers": "x:y"}, "Failed to parse port from x:y"),
        ({"log__roll__ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log__roll__jitter__ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        ({"log__retention__minutes": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"log__cleaner__threads": "200"}, "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."),
        ({"log__dirs": ""}, "Configuration 'log.dirs' must not be empty."),
        ({"cordoned__log__dirs": "/zzz"}, "All entries in cordoned.log.dirs must be present in log.dirs or log.dir."),
        ({"cordoned__log__dirs": "*,/x"}, "When cordoned.log.dirs is set to *, it must not contain other values"),
        ({"offsets__topic__compression__codec": "9"}, "Unknown compression type id: 9"),
        ({"replica__fetch__wait__max__ms": "40000"}, "replica.socket.timeout.ms should always be at least"),
        ({"replica__lag__time__max__ms": "1"}, "replica.fetch.wait.max.ms should always be less than or equal to"),
        ({"max__connections__per__ip": "0"}, "max.connections.per.ip can be set to zero only if"),
        ({"max__connections__per__ip__overrides": "x"}, "'x' is not of the form HOST:COUNT"),
        ({"queued__max__request__bytes": "100"}, "queued.max.request.bytes must be larger or equal to"),
        ({"connections__max__idle__ms": "50"}, "should always be less than connections.max.idle.ms=50"),
        (
            {"group__coordinator__rebalance__protocols": "consumer"},
            "Disabling the 'classic' protocol is not supported.",
        ),
        ({"group__consumer__assignors": "foo"}, "there is no assignor foo"),
        (
            {"group__consumer__session__timeout__ms": "1"},
            "group.consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"group__streams__heartbeat__interval__ms": "20000"},
            "group.streams.heartbeat.interval.ms must be less than or equal to group.streams.max.heartbeat.interval.ms",
        ),
        (
            {"group__share__session__timeout__ms": "5000", "group__share__min__session__timeout__ms": "1000"},
            "group.share.heartbeat.interval.ms must be less than group.share.session.timeout.ms",
        ),
        (
            {"group__share__delivery__count__limit": "10", "group__share__max__delivery__count__limit": "9"},
            "group.share.max.delivery.count.limit must be greater than or equal to group.share.delivery.count.limit",
        ),
        (
            {"group__share__max__share__sessions": "1"},
            "group.share.max.share.sessions must be greater than or equal to group.share.max.size",
        ),
        (
            {"group__streams__num__standby__replicas": "3"},
            "group.streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, str | None], message: str) -> None:
    """One sentence that names the key, Kafka's where Kafka has the check."""
    with pytest.raises(ConfigException) as caught:
        checked(**changes)
    assert message in str(caught.value)
    assert caught.value.name in BROKER_KEYS


def test_a_broker_without_controllers_is_refused() -> None:
    """A node that is only a broker must know where the controllers are."""
    with pytest.raises(ConfigException, match=r"controller\.quorum\.voters must contain a parseable set"):
        check_broker_config(BrokerConfig({"process.roles": "broker"}))


def test_a_single_node_may_keep_its_controller_listener() -> None:
    """The stock properties of a combined node work with and without the list of voters."""
    config = BrokerConfig({"listeners": CLUSTER["listeners"], "controller.listener.names": "CONTROLLER"})
    check_broker_config(config)
    assert [listener.port for listener in config.controller_listeners] == [9093]
