"""UpdateFeatures (key 57, v0-2): change the levels at which the cluster runs its features. kafka-features, Admin.

v1: the kind of a change, and dry runs. v2: no results of single features any more, because all change or none does.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.features import update_features
from kafkapy.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


def handle(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse | Wait:
    """Decide on all updates at once."""
    config = context.broker.config

    def refuse(code: ErrorCode, message: str | None) -> UpdateFeaturesResponse:
        return UpdateFeaturesResponse(error_code=code, error_message=message or code.explanation)

    response: UpdateFeaturesResponse | Wait = decide(
        context,
        request.timeout_ms,
        lambda image: update_features(image, request, config.node_id, config.min_insync_replicas),
        refuse,
    )
    return response
