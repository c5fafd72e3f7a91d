"""Quotas of users, client ids and addresses: filters and changes as pure functions of an image, with Apache Kafka's codes and sentences.

An entity is a user, a client id, a user with a client id, or an address; each part is a name or the default (None). Which keys it may have
stands in config/quota_configs.py. Each entity is changed or refused by itself.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from kafkapy.config.definitions import DOUBLE, INT, INT_MAX, LONG_MAX, ConfigKey
from kafkapy.config.quota_configs import IP_QUOTA_KEYS, USER_CLIENT_QUOTA_KEYS
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision
from kafkapy.raft.image import MetadataImage, QuotaEntity
from kafkapy.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    OpData,
    ResponseEntry,
)
from kafkapy.wire.messages.alter_client_quotas import EntityData as AlteredEntity
from kafkapy.wire.messages.describe_client_quotas import ComponentData
from kafkapy.wire.metadata_records import ClientQuotaRecord, EntityData
from kafkapy.wire.schema import Record

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = 0, 1, 2

# How far from a whole number a value may be that has to be one.
FRACTION_MAX = 1e-6

_ADDRESS = re.compile(r"[0-9A-Fa-f:.]+(%[0-9A-Za-z]+)?")
_HOST_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_-]{1,63})*\.?")


def alter_client_quotas(image: MetadataImage, request: AlterClientQuotasRequest) -> Decision:
    """Set and remove quotas."""
    records: list[Record] = []
    entries: list[ResponseEntry] = []
    entities = [_entity(entry) for entry in request.entries]
    times = Counter(entities)
    told: set[QuotaEntity] = set()
    for entry, entity in zip(request.entries, entities, strict=True):
        if entity in told:
            continue
        told.add(entity)
        result = ResponseEntry(
            error_message=None, entity=[AlteredEntity(entity_type=kind, entity_name=name) for kind, name in entity]
        )
        entries.append(result)
        try:
            if times[entity] > 1 or _has_duplicate_keys(entry):
                raise _refusal(f"Ignoring duplicate entity ClientQuotaEntity(entries={_shown(entity)})")
            changed = _changes(image, entity, entry.ops)
            if len(records) + len(changed) > DECISION_RECORDS_MAX:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of changes per request.")
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            records += changed
    return Decision([] if request.validate_only else records, AlterClientQuotasResponse(entries=entries))


def _entity(entry: EntryData) -> QuotaEntity:
    """Its parts sorted by type; of two parts of the same type the last one counts."""
    return tuple(sorted({part.entity_type: part.entity_name for part in entry.entity}.items()))


def _changes(image: MetadataImage, entity: QuotaEntity, ops: list[OpData]) -> list[Record]:
    """One record for each quota that differs. To remove what isn't there changes nothing, whatever its key is."""
    keys = _keys_of(entity)
    current: Mapping[str, float] = image.client_quotas.get(entity) or {}
    records: list[Record] = []
    for op in ops:
        if not op.remove:
            key = keys.get(op.key)
            if key is None:
                raise _refusal(f"Invalid configuration key {op.key}")
            _check_value(key, op.value)
        if (op.key in current) if op.remove else (current.get(op.key) != op.value):
            records.append(
                ClientQuotaRecord(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    key=op.key,
                    value=0.0 if op.remove else op.value,
                    remove=op.remove,
                )
            )
    return records


def _keys_of(entity: QuotaEntity) -> Mapping[str, ConfigKey]:
    """The quotas that such an entity may have."""
    if not entity:
        raise _refusal("Invalid empty client quota entity")
    kinds = {kind for kind, _ in entity}
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _refusal(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refusal(f"Empty {kind} not supported")
    if IP not in kinds:
        return USER_CLIENT_QUOTA_KEYS
    if len(kinds) > 1:
        raise _refusal(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"  # Kafka's spelling
        )
    address = entity[0][1]
    if address is not None and not (_ADDRESS.fullmatch(address) or _HOST_NAME.fullmatch(address)):
        raise _refusal(f"{address} is not a valid IP or resolvable host.")
    return IP_QUOTA_KEYS


def _check_value(key: ConfigKey, value: float) -> None:
    if value <= 0:
        raise _refusal(f"Quota {key.name} must be greater than 0")
    if key.type is DOUBLE:
        return
    kind, largest = ("an INT", INT_MAX) if key.type is INT else ("a LONG", LONG_MAX)
    if not value <= largest:
        raise _refusal(f"Proposed value for {key.name} is too large for {kind}.")
    if abs(value - math.floor(value + 0.5)) > FRACTION_MAX:
        raise _refusal(f"{key.name} cannot be a fractional value.")


def _has_duplicate_keys(entry: EntryData) -> bool:
    return len({op.key for op in entry.ops}) < len(entry.ops)


def _shown(entity: QuotaEntity) -> str:
    """As Java shows a map, for the sentence."""
    return "{" + ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity) + "}"


def matching_quotas(
    image: MetadataImage, components: list[ComponentData], strict: bool
) -> Iterator[tuple[QuotaEntity, dict[str, float]]]:
    """The entities that have all parts asked for, and with `strict` no others."""
    _check_components(components)
    for entity in sorted(image.client_quotas, key=repr):
        parts = dict(entity)
        if strict and len(parts) != len(components):
            continue
        if all(one.entity_type in parts and _matches(one, parts[one.entity_type]) for one in components):
            yield entity, image.client_quotas[entity]


def _matches(component: ComponentData, name: str | None) -> bool:
    if component.match_type == EXACT:
        return name == component.match
    return component.match_type == ANY or name is None


def _check_components(components: list[ComponentData]) -> None:
    seen: set[str] = set()
    for one in components:
        if one.entity_type in seen:
            raise _refusal(f"Entity type {one.entity_type} cannot appear more than once in the filter.")
        if not one.entity_type:
            raise _refusal("Invalid empty entity type.")
        if one.entity_type not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}")
        if one.match_type == EXACT and one.match is None:
            raise _refusal("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if one.match_type in (DEFAULT, ANY) and one.match is not None:
            name = "MATCH_TYPE_DEFAULT" if one.match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
            raise _refusal(f"Request specified {name}, but also specified a match string.")
        if one.match_type not in (EXACT, DEFAULT, ANY):
            raise _refusal(f"Unknown match type {one.match_type}")
        seen.add(one.entity_type)
    if IP in seen and len(seen) > 1:
        raise _refusal(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )


def _refusal(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
