"""DescribeUserScramCredentials: what the image has, without secrets, in Apache Kafka's words."""

from __future__ import annotations

from types import SimpleNamespace

from kafkapy.errors import ErrorCode
from kafkapy.handlers.describe_user_scram_credentials import handle
from kafkapy.raft.image import MetadataImage
from kafkapy.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafkapy.wire.metadata_records import UserScramCredentialRecord
from tests.raft.support import CLUSTER_ID
from tests.raft.worlds import replay
from tests.support.wire_client import WireClient


def users(*names: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])


def test_a_new_cluster_has_none(wire: WireClient) -> None:
    """All users are none; a user that is named is unknown, one that is named twice is refused."""
    for request in (DescribeUserScramCredentialsRequest(users=None), users()):
        answer = wire.request(request, 0)
        assert (answer.error_code, answer.error_message, answer.results) == (0, "", [])
    answer = wire.request(users("bob", "al", "bob"), 0)
    assert {(one.user, one.error_code) for one in answer.results} == {
        ("bob", ErrorCode.DUPLICATE_RESOURCE),
        ("al", ErrorCode.RESOURCE_NOT_FOUND),
    }


def test_credentials_are_told_without_secrets() -> None:
    """Each user once, with all mechanisms."""
    records = [
        UserScramCredentialRecord(
            name="al", mechanism=one, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        )
        for one in (2, 1)
    ]
    context = SimpleNamespace(broker=SimpleNamespace(image=replay(MetadataImage(CLUSTER_ID), records)))
    for request in (users(), users("al")):
        (result,) = handle(context, request).results  # type: ignore[arg-type]
        assert [(one.mechanism, one.iterations) for one in result.credential_infos] == [(1, 4096), (2, 4096)]
