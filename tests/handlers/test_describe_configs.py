"""DescribeConfigs, ListConfigResources and the broker's loggers, over the wire classes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.dynamic import Change
from kafkapy.config.resources import ConfigOperation, ConfigSource, ResourceType
from kafkapy.errors import KafkaError
from kafkapy.handlers import broker_loggers, describe_configs, list_config_resources
from kafkapy.raft.image import ConfigResource, MetadataImage, TopicImage, TopicsImage
from kafkapy.raft.persistent_map import PersistentMap
from kafkapy.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafkapy.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

DATA = Path(__file__).parents[1] / "config" / "data"
ASKED = json.loads((DATA / "describe_configs.json").read_text())
CONFIGS = {ConfigResource(kind, name): values for kind, name, values in ASKED["configs"]}
FAILURES = [answer for answer in ASKED["answers"] if answer[1] != 0]


def context(api_version: int = 4) -> Any:
    """A request's surroundings: node 1 with one topic, a group and a subscription."""
    static = ASKED["static"]
    broker = BrokerConfig(static, CONFIGS[ConfigResource(4, "")], CONFIGS[ConfigResource(4, "1")])
    topics = TopicsImage(by_name=PersistentMap({"t1": TopicImage("t1", bytes(16), ())}))
    brokers: dict[int, Any] = {1: SimpleNamespace()}
    image = MetadataImage("cluster", configs=PersistentMap(CONFIGS), topics=topics, brokers=brokers)
    return SimpleNamespace(broker=SimpleNamespace(config=broker, image=image), api_version=api_version)


def ask(*resources: tuple[int, str, list[str] | None], version: int = 4, **flags: bool) -> list[DescribeConfigsResult]:
    """The answer as it comes out of the wire."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ],
        **flags,
    )
    response = describe_configs.handle(
        context(version), DescribeConfigsRequest.decode(request.encode(version), version)
    )
    return DescribeConfigsResponse.decode(response.encode(version), version).results


@pytest.mark.parametrize("answer", FAILURES, ids=lambda answer: f"{answer[0][0]}-{answer[0][1]}")
def test_what_cannot_be_described_is_answered_as_by_apache_kafka(answer: list[Any]) -> None:
    """The same code and message for topics, brokers and names that are not there."""
    question, code, message, _ = answer
    (result,) = ask(tuple(question))
    assert (result.error_code, result.error_message) == (code, message)
    assert (result.resource_type, result.resource_name, result.configs) == (question[0], question[1], [])


def test_an_unknown_type_spoils_the_whole_request() -> None:
    """As in Kafka, which fails before it looks at any of the resources."""
    results = ask((ResourceType.TOPIC, "t1", None), (3, "x", None))
    assert [(result.error_code, len(result.configs)) for result in results] == [(42, 0), (42, 0)]


def test_resources_are_answered_one_by_one_in_their_order() -> None:
    """A resource that fails does not keep the others from being described."""
    results = ask(
        (ResourceType.TOPIC, "t1", ["segment.bytes"]),
        (ResourceType.TOPIC, "nope", None),
        (ResourceType.BROKER, "", None),
        (ResourceType.BROKER, "1", ["log.segment.bytes"]),
        (ResourceType.GROUP, "g1", []),
        (ResourceType.CLIENT_METRICS, "cm1", ["match", "match"]),
    )
    assert [(result.error_code, len(result.configs)) for result in results] == [
        (0, 1),
        (3, 0),
        (0, 8),
        (0, 1),
        (0, 17),
        (0, 1),
    ]


def test_synonyms_and_documentation_come_when_asked_for() -> None:
    """Both are long, so they are sent only to those who want them."""
    question = (ResourceType.TOPIC, "t1", ["segment.bytes"])
    (plain,) = ask(question)[0].configs
    assert (plain.synonyms, plain.documentation, plain.config_source) == ([], None, ConfigSource.DYNAMIC_TOPIC_CONFIG)
    (full,) = ask(question, include_synonyms=True, include_documentation=True)[0].configs
    assert [(s.name, s.value, s.source) for s in full.synonyms] == [
        ("segment.bytes", "2000000", 1),
        ("log.segment.bytes", "3000000", 2),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert full.documentation and full.config_type == 3


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_is_answered(version: int) -> None:
    """Older versions lack types and documentation, nothing else."""
    (entry,) = ask((ResourceType.TOPIC, "t1", ["cleanup.policy"]), version=version)[0].configs
    assert (entry.name, entry.value) == ("cleanup.policy", "compact,delete")
    assert entry.config_type == (7 if version >= 3 else 0)


@pytest.mark.parametrize(
    ("version", "types", "listed"),
    [
        (0, [], [(16, "cm1")]),
        (1, [], [(32, "g1"), (16, "cm1"), (8, "1"), (4, "1"), (2, "t1")]),
        (1, [2], [(2, "t1")]),
        (1, [16, 32], [(32, "g1"), (16, "cm1")]),
        (1, [4, 8], [(8, "1"), (4, "1")]),
    ],
)
def test_resources_with_settings_are_listed(version: int, types: list[int], listed: list[tuple[int, str]]) -> None:
    """Version 0 knows client metrics only; the order is Kafka's."""
    response = list_config_resources.handle(context(version), ListConfigResourcesRequest(resource_types=types))
    decoded = ListConfigResourcesResponse.decode(response.encode(version), version)
    assert decoded.error_code == 0
    assert [(resource.resource_type, resource.resource_name) for resource in decoded.config_resources] == listed


@pytest.mark.parametrize("kind", [0, 1, 3, 64])
def test_listing_a_type_that_nobody_knows_is_refused(kind: int) -> None:
    """UNSUPPORTED_VERSION, for a newer version might know it."""
    response = list_config_resources.handle(context(1), ListConfigResourcesRequest(resource_types=[2, kind]))
    assert (response.error_code, response.config_resources) == (35, [])


@pytest.fixture
def foo_logger() -> Iterator[logging.Logger]:
    """A logger of the broker, and the root's level put back afterwards."""
    logger = logging.getLogger("kafkapy.test_foo")
    root_level = logging.root.level
    logger.setLevel(logging.INFO)
    yield logger
    logger.setLevel(logging.NOTSET)
    logging.root.setLevel(root_level)


def test_loggers_are_described_with_their_levels(foo_logger: logging.Logger) -> None:
    """The source says that they are loggers."""
    (entry,) = ask((ResourceType.BROKER_LOGGER, "1", ["kafkapy.test_foo", "elsewhere"]))[0].configs
    assert (entry.value, entry.config_source, entry.read_only, entry.config_type) == ("INFO", 6, False, 0)
    foo_logger.setLevel(3)
    assert broker_loggers.describe_loggers({"kafkapy.test_foo"})[0].value == "TRACE"
    foo_logger.setLevel(logging.CRITICAL)
    assert broker_loggers.describe_loggers({"kafkapy.test_foo"})[0].value == "FATAL"
    assert broker_loggers.describe_loggers({"root"})[0].name == "root"


def test_levels_change_and_go_back_to_the_roots(foo_logger: logging.Logger) -> None:
    """SET gives a logger its own level, DELETE takes it away; validate_only does neither."""
    change = Change("kafkapy.test_foo", ConfigOperation.SET, "DEBUG")
    broker_loggers.alter_loggers("1", 1, [change], validate_only=True)
    assert foo_logger.level == logging.INFO
    broker_loggers.alter_loggers("1", 1, [change, Change("root", ConfigOperation.SET, "ERROR")])
    assert (foo_logger.level, logging.root.level) == (logging.DEBUG, logging.ERROR)
    broker_loggers.alter_loggers("1", 1, [Change("kafkapy.test_foo", ConfigOperation.DELETE, None)])
    assert foo_logger.getEffectiveLevel() == logging.ERROR


def test_changes_of_loggers_are_refused_as_by_apache_kafka(foo_logger: logging.Logger) -> None:
    """The same code and message for each change that was tried; ours is called kafkapy.test_foo where Kafka's was kafka.foo."""
    rows = [
        row for row in json.loads((DATA / "alter_configs.json").read_text()) if row[0] == ResourceType.BROKER_LOGGER
    ]
    assert len(rows) > 10
    for _, name, changes, code, message in rows:
        renamed = [Change(key.replace("kafka.foo", "kafkapy.test_foo"), *rest) for key, *rest in changes]
        got: tuple[int, str | None] = (0, None)
        try:
            broker_loggers.alter_loggers(name, 1, renamed, validate_only=True)
        except KafkaError as error:
            got = (int(error.code), error.message)
        assert got == (code, message.replace("kafka.foo", "kafkapy.test_foo") if message else None), changes
