"""From the command line to a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.config.loading import load
from kafkapy.errors import StartError


def written(tmp_path: Path, text: str) -> Path:
    """A properties file with this text."""
    path = tmp_path / "server.properties"
    path.write_text(text)
    return path


def test_options_beat_settings_beat_the_file(tmp_path: Path) -> None:
    """Each way to set a key is stronger than the one before."""
    path = written(tmp_path, "num.partitions=2\nnode.id=5\nlog.dirs=/file\n")
    config, warnings = load(path, ["num.partitions=3", "log.dirs=/set"], {"log.dirs": "/option"})
    assert (config.num_partitions, config.node_id, config.log_dirs) == (3, 5, ("/option",))
    assert warnings == ()


def test_nothing_given_starts_a_node_without_a_warning() -> None:
    """A bare start has nothing to complain about."""
    config, warnings = load()
    assert config.single_node and not warnings


def test_kafkas_own_properties_of_a_combined_node_load(tmp_path: Path) -> None:
    """The keys of the file that Apache Kafka ships load, and what changes nothing is said in one line."""
    path = written(
        tmp_path,
        """
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093
        inter.broker.listener.name=PLAINTEXT
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
        num.network.threads=3
        num.io.threads=8
        background.threads=10
        log.dirs=/tmp/kraft-combined-logs
        offsets.topic.replication.factor=1
        log.retention.hours=168
        log.segment.bytes=1073741824
        """,
    )
    config, warnings = load(path)
    assert config.controller_quorum_bootstrap_servers == (("localhost", 9093),)
    assert [listener.name for listener in config.advertised_listeners] == ["PLAINTEXT"]
    assert warnings == (
        "these keys change nothing in kafkapy: num.network.threads, num.io.threads, background.threads",
    )


def test_an_unknown_key_is_a_warning_with_a_suggestion(tmp_path: Path) -> None:
    """A typing mistake is found; keys of plug-ins and of single listeners are left alone."""
    path = written(tmp_path, "\nnum.partitons=3\nlistener.name.plaintext.x=1\nrsm.config.x=2\n")
    _, warnings = load(path, ["qqq=1", "zookeeper.connect=x"])
    assert warnings == (
        f"{path}:2: unknown key num.partitons is ignored; did you mean num.partitions?",
        "--set: unknown key qqq is ignored",
        "--set: zookeeper.connect does not exist in Kafka 4 and is ignored: there is no ZooKeeper any more",
    )


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        (
            "\nnum.partitions=x",
            [],
            "{path}:2: Invalid value x for configuration num.partitions: Not a number of type INT",
        ),
        ("log.roll.ms=0", [], "{path}:1: log.roll.ms must be greater than or equal to 1"),
        ("", ["num.partitions=0"], "--set: Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ("num.partitions=x", ["num.partitions=1", "a"], "--set a: expected KEY=VALUE"),
        ("a=\\u1", [], "{path}: line 1: \\u1 is not four hexadecimal digits"),
    ],
)
def test_a_wrong_value_is_one_line_that_says_where(
    tmp_path: Path, text: str, settings: list[str], message: str
) -> None:
    """The key, and the file and line that set it."""
    path = written(tmp_path, text)
    with pytest.raises(StartError) as caught:
        load(path, settings)
    assert str(caught.value) == message.format(path=path)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """Missing, or not a text."""
    with pytest.raises(StartError, match=r"cannot read .*nowhere: No such file or directory"):
        load(tmp_path / "nowhere")
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StartError, match="not a text file"):
        load(path)


def test_a_wrong_option_is_named_by_its_key() -> None:
    """What came by an option has no place in a file to show."""
    with pytest.raises(StartError, match=r"^Invalid value x for configuration listeners"):
        load(options={"listeners": "x"})
