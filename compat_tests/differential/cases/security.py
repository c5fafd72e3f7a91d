"""SASL, SCRAM credentials and delegation tokens, as a broker without any of them answers, and credentials kept and shown."""

from __future__ import annotations

from compat_tests.differential.cases import case
from compat_tests.differential.probe import Probe
from kafkapy.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkapy.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkapy.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkapy.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafkapy.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkapy.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkapy.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.wire.messages.sasl_handshake import SaslHandshakeRequest


@case
def sasl_on_a_plain_listener(probe: Probe) -> None:
    for version in (0, 1):
        for mechanism in ("PLAIN", "SCRAM-SHA-256", ""):
            probe.ask(f"handshake {mechanism!r}", SaslHandshakeRequest(mechanism=mechanism), version)
    probe.ask_all("authenticate", lambda version: SaslAuthenticateRequest(auth_bytes=b"\0a\0b"))


@case
def scram_credentials(probe: Probe) -> None:
    def describe(label: str, *names: str) -> None:
        users = [UserName(name=name) for name in names]
        probe.ask(label, DescribeUserScramCredentialsRequest(users=users), 0)

    def alter(label: str, deletions: list[tuple[str, int]], upsertions: list[tuple[str, int, int]]) -> None:
        request = AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in deletions],
            upsertions=[
                ScramCredentialUpsertion(
                    name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=bytes(32)
                )
                for name, mechanism, iterations in upsertions
            ],
        )
        probe.ask(label, request, 0)

    describe("nobody")
    describe("somebody unknown", "nobody")
    alter("both mechanisms", [], [("ann", 1, 4096), ("ann", 2, 8192), ("bob", 1, 4096)])
    alter("too few iterations", [], [("ann", 1, 100)])
    alter("too many iterations", [], [("ann", 1, 1_000_000)])
    alter("unknown mechanism", [], [("ann", 9, 4096)])
    alter("no name", [], [("", 1, 4096)])
    alter("twice", [], [("ann", 1, 4096), ("ann", 1, 4097)])
    alter("delete and insert", [("ann", 1)], [("ann", 1, 4097)])
    alter("delete what is not there", [("nobody", 1)], [])
    alter("nothing", [], [])
    probe.ask("everybody", DescribeUserScramCredentialsRequest(users=None), 0)
    describe("one", "ann")
    describe("one twice", "ann", "ann")
    alter("delete", [("ann", 1), ("bob", 1)], [])
    probe.ask("who is left", DescribeUserScramCredentialsRequest(users=None), 0)
    alter("delete the rest", [("ann", 2)], [])


@case
def delegation_tokens_without_a_secret(probe: Probe) -> None:
    probe.ask_all("create", lambda version: CreateDelegationTokenRequest(max_lifetime_ms=-1))
    probe.ask_all("renew", lambda version: RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1000))
    probe.ask_all("expire", lambda version: ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1))
    probe.ask_all("describe", lambda version: DescribeDelegationTokenRequest(owners=None))
