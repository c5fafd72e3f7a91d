"""Regular expressions of subscriptions, friendly and hostile."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.regexes import matching_topics


def test_the_whole_name_must_match() -> None:
    """As in Apache Kafka; internal topics are names like others."""
    names = ["orders", "old-orders", "orders-2", "__consumer_offsets"]
    assert matching_topics("orders", names) == {"orders"}
    assert matching_topics("orders.*", names) == {"orders", "orders-2"}
    assert matching_topics("(?i)ORDERS|__.*", names) == {"orders", "__consumer_offsets"}
    assert matching_topics("", names) == frozenset()


@pytest.mark.parametrize("wrong", ["(", "[", "a**", r"\1", "(?=a)", "a{1001}", "(((a{100}){100}){100}){100}"])
def test_what_cannot_be_compiled_is_refused(wrong: str) -> None:
    """Errors of syntax, what only backtracking could do, and patterns that would need too much memory."""
    with pytest.raises(KafkaError) as caught:
        matching_topics(wrong, ["a"])
    assert caught.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert wrong in str(caught.value.message)


def test_hostile_patterns_take_no_longer_than_others() -> None:
    """Python's own engine would need longer than the universe for this."""
    assert matching_topics("(a+a+)+b", ["a" * 249] * 100) == frozenset()
    assert matching_topics("(.*)*(.*)*(.*)*x", ["a" * 249] * 100) == frozenset()
