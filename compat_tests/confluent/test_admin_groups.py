"""The admin client on groups, accounts and rules."""

from __future__ import annotations

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from compat_tests.confluent.support import WAIT_S, code, consumer, until
from compat_tests.confluent.test_groups import owned, settings
from compat_tests.target import Target

ALTER_SCRAM = 51
CREATE_ACLS = 30


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    """An admin client."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.fixture
def idle(bootstrap: str, topic: str, unique) -> str:
    """A group without members that has committed offsets."""
    group = unique("idle")
    source = consumer(bootstrap, group)
    source.commit(offsets=[TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 4)], asynchronous=False)
    source.close()
    return group


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_describe_and_list_groups(target: Target, admin: AdminClient, topic: str, unique, protocol: str) -> None:
    """State, type, assignor, members with their partitions."""
    group = unique("g")
    member = consumer(target.bootstrap, group, **settings(target, protocol), **{"client.id": "me"})
    member.subscribe([topic])
    until(lambda: len(owned(member)) == 2, [member])
    kind = ConsumerGroupType.CONSUMER if protocol == "consumer" else ConsumerGroupType.CLASSIC
    found = admin.describe_consumer_groups([group])[group].result(WAIT_S)
    assert (found.group_id, found.state, found.type) == (group, ConsumerGroupState.STABLE, kind)
    assert found.partition_assignor == ("uniform" if protocol == "consumer" else "range")
    assert found.coordinator.id == 1
    (one,) = found.members
    assert one.client_id == "me" and {p.partition for p in one.assignment.topic_partitions} == {0, 1}
    assert group in listed(admin, states={ConsumerGroupState.STABLE}, types={kind})
    assert group not in listed(admin, states={ConsumerGroupState.EMPTY})
    assert code(admin.delete_consumer_groups([group])[group]) == KafkaError.NON_EMPTY_GROUP
    member.close()


def listed(admin: AdminClient, **filters: object) -> set[str]:
    """The ids of the groups that a filter leaves."""
    return {group.group_id for group in admin.list_consumer_groups(**filters).result(WAIT_S).valid}


def test_describe_unknown_group(admin: AdminClient, unique) -> None:
    """A group that is not there is dead, or not found."""
    name = unique("nobody")
    try:
        assert admin.describe_consumer_groups([name])[name].result(WAIT_S).state == ConsumerGroupState.DEAD
    except KafkaException as failure:
        assert failure.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_list_group_offsets(admin: AdminClient, topic: str, idle: str) -> None:
    """All offsets of a group, or those asked for."""
    for asked in (None, [TopicPartition(topic, 0), TopicPartition(topic, 1)]):
        found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(idle, asked)])[idle].result(WAIT_S)
        assert {p.partition: p.offset for p in found.topic_partitions} == {0: 3, 1: 4}


def test_alter_group_offsets(admin: AdminClient, topic: str, idle: str) -> None:
    """Offsets set from outside."""
    wanted = ConsumerGroupTopicPartitions(idle, [TopicPartition(topic, 0, 99)])
    admin.alter_consumer_group_offsets([wanted])[idle].result(WAIT_S)
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(idle)])[idle].result(WAIT_S)
    assert {p.partition: p.offset for p in found.topic_partitions} == {0: 99, 1: 4}


def test_delete_groups(admin: AdminClient, idle: str, unique) -> None:
    """An idle group goes; one that is not there is an error."""
    assert idle in listed(admin, states={ConsumerGroupState.EMPTY})
    admin.delete_consumer_groups([idle])[idle].result(WAIT_S)
    assert idle not in listed(admin)
    nobody = unique("nobody")
    assert code(admin.delete_consumer_groups([nobody])[nobody]) == KafkaError.GROUP_ID_NOT_FOUND


def accounts(admin: AdminClient, user: str) -> list[tuple[ScramMechanism, int]]:
    """The credentials that a user has, as far as the broker has heard."""
    try:
        found = admin.describe_user_scram_credentials([user])[user].result(WAIT_S)
    except KafkaException as failure:
        assert failure.args[0].code() == KafkaError.RESOURCE_NOT_FOUND
        return []
    return [(one.mechanism, one.iterations) for one in found.scram_credential_infos]


def test_an_unknown_scram_account(admin: AdminClient, unique) -> None:
    """Nobody has credentials before somebody makes them."""
    assert accounts(admin, unique("nobody")) == []


def test_scram_accounts(target: Target, admin: AdminClient, unique) -> None:
    """Credentials made, described and deleted."""
    target.require(ALTER_SCRAM, "AlterUserScramCredentials")
    user = unique("user")
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, b"password", b"salt-salt")])[
        user
    ].result(WAIT_S)
    until(lambda: accounts(admin, user) == [(ScramMechanism.SCRAM_SHA_256, 8192)])
    deletion = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])[user].result(WAIT_S)
    until(lambda: accounts(admin, user) == [])


def test_acls_without_an_authorizer(target: Target, admin: AdminClient) -> None:
    """Without an authorizer rules are refused with SECURITY_DISABLED."""
    target.require(CREATE_ACLS, "CreateAcls")
    args = (
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    binding = AclBinding(*args)
    assert code(admin.create_acls([binding])[binding]) == KafkaError.SECURITY_DISABLED
