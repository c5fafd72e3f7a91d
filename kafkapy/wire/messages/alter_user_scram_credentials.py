"""AlterUserScramCredentials (key 51): makes, replaces and deletes SCRAM credentials of users (KIP-554).

The client salts the password itself, so that no broker ever sees it.
"""

from kafkapy.wire.schema import Request, Response, Struct, array, bytes_, int8, int16, int32, string


class ScramCredentialDeletion(Struct):
    """A credential to delete."""

    name: str = string()
    mechanism: int = int8()  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.


class ScramCredentialUpsertion(Struct):
    """A credential to make, or to replace."""

    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = bytes_()
    salted_password: bytes = bytes_()


class AlterUserScramCredentialsRequest(Request, key=51, versions="0", flexible="0+"):
    """Change these credentials."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    """How it went for one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    """How it went, user by user."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
