"""Quotas: what may be set, what a filter finds, held against Apache Kafka 4.3.1's answers to the same requests."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.image_records import image_records
from kafkapy.raft.quotas import ANY, DEFAULT, EXACT, alter_client_quotas, matching_quotas
from kafkapy.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kafkapy.wire.messages.describe_client_quotas import ComponentData
from tests.raft.support import CLUSTER_ID
from tests.raft.worlds import replay

Entity = list[tuple[str, str | None]]


def entry(entity: Entity, **quotas: float | None) -> EntryData:
    """What to change; None removes."""
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


def alter(image: MetadataImage, *entries: EntryData) -> tuple[MetadataImage, list[tuple[int, str | None]]]:
    decision = alter_client_quotas(image, AlterClientQuotasRequest(entries=list(entries)))
    told = [(one.error_code, one.error_message) for one in decision.response.entries]
    return replay(image, decision.records) if decision.records else image, told


def cluster() -> MetadataImage:
    image, told = alter(
        MetadataImage(CLUSTER_ID),
        entry([("user", "alice")], producer_byte_rate=1000.0, consumer_byte_rate=2000.0),
        entry([("user", None)], producer_byte_rate=5.0),
        entry([("user", "alice"), ("client-id", "c1")], request_percentage=12.5),
        entry([("client-id", "c2")], controller_mutation_rate=0.5),
        entry([("ip", "10.1.2.3")], connection_creation_rate=7.0),
        entry([("ip", None)], connection_creation_rate=8.0),
    )
    assert told == [(0, None)] * 6
    return image


@pytest.mark.parametrize(
    ("entity", "key", "value", "reason"),
    [
        ([("user", "a")], "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        ([("ip", "::1")], "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        (
            [("ip", "no such host")],
            "connection_creation_rate",
            1.0,
            "no such host is not a valid IP or resolvable host.",
        ),
        (
            [("ip", "::1"), ("user", "u")],
            "connection_creation_rate",
            1.0,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        ([], "producer_byte_rate", 1.0, "Invalid empty client quota entity"),
        ([("nix", "a")], "producer_byte_rate", 1.0, "Unhandled client quota entity type: nix"),
        ([("user", "")], "producer_byte_rate", 1.0, "Empty user not supported"),
        ([("user", "a")], "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        ([("user", "a")], "producer_byte_rate", -1.0, "Quota producer_byte_rate must be greater than 0"),
        ([("user", "a")], "request_percentage", 0.0, "Quota request_percentage must be greater than 0"),
        ([("user", "a")], "producer_byte_rate", 1e30, "Proposed value for producer_byte_rate is too large for a LONG."),
        (
            [("ip", None)],
            "connection_creation_rate",
            1e12,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_refusals(entity: Entity, key: str, value: float, reason: str) -> None:
    """Each entity is refused by itself, the others are changed."""
    image, told = alter(
        MetadataImage(CLUSTER_ID), entry(entity, **{key: value}), entry([("user", "ok")], producer_byte_rate=1.0)
    )
    assert told == [(ErrorCode.INVALID_REQUEST, reason), (0, None)]
    assert dict(image.client_quotas.items()) == {(("user", "ok"),): {"producer_byte_rate": 1.0}}


def test_duplicates() -> None:
    """An entity that comes twice is refused, once for all."""
    twice = entry([("user", "d")], producer_byte_rate=1.0)
    image, told = alter(MetadataImage(CLUSTER_ID), twice, twice)
    assert told == [(ErrorCode.INVALID_REQUEST, "Ignoring duplicate entity ClientQuotaEntity(entries={user=d})")]
    assert not len(image.client_quotas)


def test_removal() -> None:
    """A quota that is removed is gone, the last one with its entity; removing nothing is no error, whatever the key."""
    image, told = alter(
        cluster(),
        entry([("user", "alice")], producer_byte_rate=None, nix=None),
        entry([("user", None)], producer_byte_rate=None),
        entry([("user", "nobody")], producer_byte_rate=None),
    )
    assert told == [(0, None)] * 3
    assert image.client_quotas[("user", "alice"),] == {"consumer_byte_rate": 2000.0}
    assert (("user", None),) not in image.client_quotas
    assert not alter_client_quotas(image, AlterClientQuotasRequest(entries=[entry([("user", None)])])).records


def test_a_snapshot_keeps_them() -> None:
    """The image's records rebuild the same quotas."""
    image = cluster()
    again = replay(MetadataImage(CLUSTER_ID), list(image_records(image)))
    assert dict(again.client_quotas.items()) == dict(image.client_quotas.items())


@pytest.mark.parametrize(
    ("components", "strict", "count"),
    [
        ([], False, 6),
        ([], True, 0),
        ([("user", ANY, None)], False, 3),
        ([("user", ANY, None)], True, 2),
        ([("user", DEFAULT, None)], False, 1),
        ([("user", EXACT, "alice")], False, 2),
        ([("user", EXACT, "alice")], True, 1),
        ([("user", ANY, None), ("client-id", ANY, None)], True, 1),
        ([("ip", ANY, None)], True, 2),
        ([("user", EXACT, "")], False, 0),
    ],
)
def test_filters(components: list[tuple[str, int, str | None]], strict: bool, count: int) -> None:
    """All parts asked for must be there; a strict filter takes no others."""
    wanted = [ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components]
    assert len(list(matching_quotas(cluster(), wanted, strict))) == count


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("nix", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", ANY, None), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 9, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "x")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_make_no_sense(components: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    """They are refused as a whole."""
    wanted = [ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components]
    with pytest.raises(KafkaError) as refused:
        list(matching_quotas(cluster(), wanted, False))
    assert refused.value.code == code
