"""DescribeUserScramCredentials (key 50, v0): which users have which SCRAM credentials, without their secrets. kafka-configs, Admin."""

from __future__ import annotations

from collections import Counter

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer from the image, for the users named or for all that have credentials."""
    found: dict[str, list[CredentialInfo]] = {}
    credentials = context.broker.image.scram_credentials
    for user, mechanism in sorted(credentials):
        iterations = credentials[user, mechanism].iterations
        found.setdefault(user, []).append(CredentialInfo(mechanism=mechanism, iterations=iterations))
    times = Counter(user.name for user in request.users or ()) or Counter(found.keys())
    return DescribeUserScramCredentialsResponse(
        results=[_result(user, count, found.get(user)) for user, count in times.items()]
    )


def _result(user: str, count: int, infos: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif infos is None:
        code = ErrorCode.RESOURCE_NOT_FOUND
        text = f"Attempt to describe a user credential that does not exist: {user}"
    else:
        return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=text)
