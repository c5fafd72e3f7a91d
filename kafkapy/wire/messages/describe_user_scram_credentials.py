"""DescribeUserScramCredentials (key 50): which users can log in with which SCRAM mechanisms (KIP-554)."""

from kafkapy.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class UserName(Struct):
    """A user."""

    name: str = string()


class DescribeUserScramCredentialsRequest(Request, key=50, versions="0", flexible="0+"):
    """Which credentials are there?"""

    users: list[UserName] | None = array(UserName, nullable="0+")  # Null or empty: of all users.


class CredentialInfo(Struct):
    """A credential, without its secrets."""

    mechanism: int = int8()  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Struct):
    """A user's credentials."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    """The credentials, user by user."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
