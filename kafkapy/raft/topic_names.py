"""Which names a topic may have.

A dot and an underscore become the same character in the names of metrics, so two topics that differ only there are refused. `collision_key` is
what such names have in common.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import OFFSETS_TOPIC, TRANSACTION_TOPIC

NAME_LENGTH_MAX = 249
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

INTERNAL_TOPICS = frozenset((OFFSETS_TOPIC, TRANSACTION_TOPIC, "__share_group_state"))


def check_topic_name(name: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION, in Kafka's words."""
    reason = _reason(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def is_valid_topic_name(name: str) -> bool:
    """Whether a topic may be called so."""
    return _reason(name) is None


def has_collision_chars(name: str) -> bool:
    """Whether another name might collide with this one."""
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """The same for all names that collide."""
    return name.replace(".", "_")


def _reason(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _ALLOWED.issuperset(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
