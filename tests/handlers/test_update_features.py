"""UpdateFeatures on a running broker: what is changed is what ApiVersions tells."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.wire.messages.api_versions import ApiVersionsRequest
from kafkapy.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.wire_client import WireClient

SAFE_DOWNGRADE = 2


def level(wire: WireClient, name: str) -> int:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return {one.name: one.max_version_level for one in wire.request(request, 3).finalized_features}.get(name, 0)


def test_down_and_up(wire: WireClient) -> None:
    """A level that is changed is the cluster's as soon as the answer is there."""
    down = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=SAFE_DOWNGRADE)
    for validate_only, after in ((True, 2), (False, 1)):
        answer = wire.request(UpdateFeaturesRequest(feature_updates=[down], validate_only=validate_only), 2)
        assert (answer.error_code, answer.error_message) == (0, None)
        assert level(wire, "transaction.version") == after
    up = FeatureUpdateKey(feature="transaction.version", max_version_level=2)
    assert [one.error_code for one in wire.request(UpdateFeaturesRequest(feature_updates=[up]), 0).results] == [0]
    assert level(wire, "transaction.version") == 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_refused(wire: WireClient, version: int) -> None:
    """One error for the whole request, and no results."""
    high = FeatureUpdateKey(feature="group.version", max_version_level=9)
    answer = wire.request(UpdateFeaturesRequest(feature_updates=[high]), version)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert answer.error_message.startswith("The update failed for all features since")


def test_group_version_switches_consumer_groups(wire: WireClient) -> None:
    """At level 0 nobody joins a consumer group; at level 1 the coordinator is asked again."""
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="")
    for new_level in (0, 1):
        change = FeatureUpdateKey(
            feature="group.version", max_version_level=new_level, upgrade_type=1 if new_level else SAFE_DOWNGRADE
        )
        assert wire.request(UpdateFeaturesRequest(feature_updates=[change]), 2).error_code == 0
        refused = wire.request(heartbeat, 1).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert refused == (new_level == 0)
