"""CreateDelegationToken (key 38): makes a token with which others can act as a user, without the user's password.

Versions
- 1: throttled clients wait by themselves (KIP-219). Version 0 is gone since Kafka 4.0.
- 2: flexible (KIP-482).
- 3: for another user than the requester (KIP-373).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, bytes_, int16, int32, int64, string


class CreatableRenewers(Struct):
    """Somebody who may renew the token before it expires."""

    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Request, key=38, versions="1-3", flexible="2+"):
    """Make a token."""

    owner_principal_type: str | None = string("3+", nullable="3+")  # Null or empty: the requester is the owner.
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()  # -1: as long as the broker allows.


class CreateDelegationTokenResponse(Response, key=38, versions="1-3", flexible="2+"):
    """The token."""

    error_code: int = int16()
    principal_type: str = string()  # These two name the owner.
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()  # The secret.
    throttle_time_ms: int = int32()
