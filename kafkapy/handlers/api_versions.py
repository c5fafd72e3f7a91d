"""ApiVersions (key 18, v0-4): what this broker serves; the first request of every modern client.

v0-2: keys and version ranges. v3: flexible body, client software name and version, features (KIP-511, KIP-584).
v4: supported features may have a minimum of 0 (KAFKA-17011); to v3 those are not told.
A version from the future is answered in v0 with error 35 and the range of ApiVersions itself, so that the client can ask again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kafkapy.errors import ErrorCode
from kafkapy.handlers import SERVED
from kafkapy.handlers.context import RequestContext
from kafkapy.raft.cluster import SUPPORTED_FEATURES
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Tell what is served."""
    return answer(context, request, SERVED)


def answer(context: RequestContext, request: ApiVersionsRequest, served: Iterable[int]) -> ApiVersionsResponse:
    """What this kind of listener serves, and the features of the cluster."""
    if context.api_version >= 3 and not (
        _SOFTWARE_NAME.fullmatch(request.client_software_name)
        and _SOFTWARE_NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = context.broker.image
    return ApiVersionsResponse(
        api_keys=[_row(key) for key in sorted(served)],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.min_level, max_version=levels.max_level)
            for name, levels in SUPPORTED_FEATURES.items()
            if levels.min_level > 0 or context.api_version >= 4
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in image.features.items()
            # A metadata log that Apache Kafka began may have features that are not ours.
            if level > 0 and name in SUPPORTED_FEATURES
        ],
    )


def handle_unsupported(context: RequestContext, request: None) -> ApiVersionsResponse:
    """Answer a version that this broker does not know."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_row(18)])


def _row(key: int) -> ApiVersion:
    advertised = API_BY_KEY[key].advertised
    return ApiVersion(api_key=key, min_version=advertised.first, max_version=advertised.last)
