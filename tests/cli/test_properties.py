"""Client properties from the command line and from files."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kafkapy.cli.properties import ClientProperties


def test_java_and_librdkafka_names_mean_the_same() -> None:
    """A property has two names where the two worlds differ."""
    java = ClientProperties.load(
        "", ["bootstrap.servers=a:1", "request.timeout.ms=5", "compression.type=zstd", "acks=all"]
    )
    other = ClientProperties.load(
        "", ["metadata.broker.list=a:1", "socket.timeout.ms=5", "compression.codec=zstd", "request.required.acks=-1"]
    )
    assert vars(java) == vars(other)
    assert (java.bootstrap, java.timeout_ms, java.codec, java.acks) == ("a:1", 5, "zstd", -1)


def test_the_command_line_is_stronger_than_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys of the file that mean nothing here are told; they may be meant for another client."""
    path = tmp_path / "client.properties"
    path.write_text("# a comment\nclient.id=file\nisolation.level = read_committed\ngroup.id=g\n")
    properties = ClientProperties.load(str(path), ["client.id=line"])
    assert (properties.client_id, properties.read_committed) == ("line", True)
    assert capsys.readouterr().err == f"{path}: no use for group.id\n"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("acks", "write KEY=VALUE"),
        ("ack=1", "no such client property. There are: acks"),
        ("acks=2", "must be one of 0, 1, -1, all"),
        ("request.timeout.ms=soon", "must be a number from 1"),
        ("request.timeout.ms=0", "must be a number from 1"),
        ("enable.idempotence=maybe", "must be one of true, false"),
        ("security.protocol=SSL", "only PLAINTEXT"),
    ],
)
def test_wrong_properties_are_refused(assignment: str, message: str) -> None:
    """What was typed is meant; the error says what would be right."""
    with pytest.raises(click.UsageError, match=message):
        ClientProperties.load("", [assignment])


def test_an_error_in_a_file_has_its_line(tmp_path: Path) -> None:
    """So that it is found."""
    path = tmp_path / "client.properties"
    path.write_text("client.id=x\nacks=7\n")
    with pytest.raises(click.UsageError, match=r"client\.properties, line 2: acks=7"):
        ClientProperties.load(str(path), [])
