"""AlterClientQuotas (key 49): sets and removes quotas of users, client ids and addresses.

Versions
- 0: KIP-546.
- 1: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, float64, int16, int32, string


class EntityData(Struct):
    """One part of the quota holder's name."""

    entity_type: str = string()  # user, client-id or ip.
    entity_name: str | None = string(nullable="0+")  # Null: the default.


class OpData(Struct):
    """One quota to set or to remove."""

    key: str = string()  # Such as producer_byte_rate.
    value: float = float64()
    remove: bool = boolean()


class EntryData(Struct):
    """A quota holder and what to change."""

    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Request, key=49, versions="0-1", flexible="1+"):
    """Change these quotas."""

    entries: list[EntryData] = array(EntryData)
    validate_only: bool = boolean()


class ResponseEntry(Struct):
    """How it went for one quota holder."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    """How it went, holder by holder."""

    throttle_time_ms: int = int32()
    entries: list[ResponseEntry] = array(ResponseEntry)
