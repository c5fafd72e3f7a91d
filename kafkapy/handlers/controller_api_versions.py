"""ApiVersions as a controller's listener answers it: the same, with what is served there."""

from __future__ import annotations

from kafkapy.handlers import CONTROLLER_SERVED, api_versions
from kafkapy.handlers.api_versions import handle_unsupported
from kafkapy.handlers.context import RequestContext
from kafkapy.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

__all__ = ["handle", "handle_unsupported"]


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Tell what is served."""
    return api_versions.answer(context, request, CONTROLLER_SERVED)
