"""DescribeClientQuotas (key 48): the quotas of users, client ids and addresses.

Versions
- 0: KIP-546.
- 1: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, float64, int8, int16, int32, string


class ComponentData(Struct):
    """What one part of the quota holder's name must be."""

    entity_type: str = string()  # user, client-id or ip.
    match_type: int = int8()  # 0 exactly `match`, 1 the default, 2 any that is given.
    match: str | None = string(nullable="0+")


class DescribeClientQuotasRequest(Request, key=48, versions="0-1", flexible="1+"):
    """Which quotas are there?"""

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()  # Holders with other parts than these don't match.


class EntityData(Struct):
    """One part of the quota holder's name."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")  # Null: the default.


class ValueData(Struct):
    """A quota."""

    key: str = string()  # Such as producer_byte_rate.
    value: float = float64()


class EntryData(Struct):
    """A quota holder and its quotas."""

    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    """The quotas."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[EntryData] | None = array(EntryData, nullable="0+")
