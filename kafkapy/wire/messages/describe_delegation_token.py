"""DescribeDelegationToken (key 41): the delegation tokens that the asker may see.

Versions
- 1: throttled clients wait by themselves (KIP-219). Version 0 is gone since Kafka 4.0.
- 2: flexible (KIP-482).
- 3: who asked for the token, which needn't be its owner (KIP-373).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, bytes_, int16, int32, int64, string


class DescribeDelegationTokenOwner(Struct):
    """An owner of tokens."""

    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(Request, key=41, versions="1-3", flexible="2+"):
    """Which tokens are there?"""

    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, nullable="1+")  # Null: all.


class DescribedDelegationTokenRenewer(Struct):
    """Somebody who may renew the token."""

    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    """A token."""

    principal_type: str = string()  # These two name the owner.
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Response, key=41, versions="1-3", flexible="2+"):
    """The tokens."""

    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
