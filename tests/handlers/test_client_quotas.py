"""AlterClientQuotas and DescribeClientQuotas on a running broker: what was set is told."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kafkapy.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.support.wire_client import WireClient


@pytest.mark.parametrize("version", [0, 1])
def test_set_and_told(wire: WireClient, version: int) -> None:
    """A dry run changes nothing; then the quota is there, and another is refused beside it."""
    name = f"user-{version}"
    good = EntryData(
        entity=[EntityData(entity_type="user", entity_name=name)], ops=[OpData(key="producer_byte_rate", value=9.0)]
    )
    bad = EntryData(entity=[EntityData(entity_type="user", entity_name="x")], ops=[OpData(key="nix", value=9.0)])
    for validate_only, expected in ((True, []), (False, [("producer_byte_rate", 9.0)])):
        answer = wire.request(AlterClientQuotasRequest(entries=[good, bad], validate_only=validate_only), version)
        assert [one.error_code for one in answer.entries] == [0, ErrorCode.INVALID_REQUEST]
        wanted = [ComponentData(entity_type="user", match_type=0, match=name)]
        told = wire.request(DescribeClientQuotasRequest(components=wanted, strict=True), version)
        assert [(value.key, value.value) for one in told.entries for value in one.values] == expected


def test_a_wrong_filter(wire: WireClient) -> None:
    """It is refused, with no list instead of an empty one."""
    wanted = [ComponentData(entity_type="nix", match_type=2, match=None)]
    answer = wire.request(DescribeClientQuotasRequest(components=wanted), 1)
    assert (answer.error_code, answer.entries) == (ErrorCode.UNSUPPORTED_VERSION, None)
