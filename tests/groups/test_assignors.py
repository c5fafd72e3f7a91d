"""The server-side assignors, on whatever members and topics hypothesis thinks of."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from kafkapy.groups.assignors import Assignment, Subscriber, assign_range, assign_uniform
from tests.groups.fakes import topic_id

TOPICS = [topic_id(name) for name in "tuvw"]
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12))
SUBSCRIPTIONS = st.lists(st.frozensets(st.sampled_from(TOPICS)), max_size=8)


def members_of(subscriptions: list[frozenset[bytes]]) -> dict[str, Subscriber]:
    """Members with these topics."""
    return {f"m{number}": Subscriber(None, topics) for number, topics in enumerate(subscriptions)}


def flat(assignment: Assignment) -> list[tuple[bytes, int]]:
    """All partitions that are assigned, each as often as it is."""
    return [
        (topic, partition)
        for target in assignment.values()
        for topic, partitions in target.items()
        for partition in partitions
    ]


def check_complete(assignment: Assignment, members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> None:
    """Every partition that somebody reads has one owner, who reads it."""
    read = {topic for member in members.values() for topic in member.topic_ids}
    wanted = sorted((topic, one) for topic in counts if topic in read for one in range(counts[topic]))
    assert sorted(flat(assignment)) == wanted
    for member_id, target in assignment.items():
        assert target.keys() <= members[member_id].topic_ids
    assert assignment.keys() == members.keys()


@given(SUBSCRIPTIONS, COUNTS)
def test_range_gives_every_partition_to_one_reader_in_runs(
    subscriptions: list[frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    """And shares of a topic differ by one at most."""
    members = members_of(subscriptions)
    assignment = assign_range(members, counts, {})
    check_complete(assignment, members, counts)
    for topic, count in counts.items():
        shares = [sorted(assignment[one].get(topic, ())) for one in members if topic in members[one].topic_ids]
        assert all(share == list(range(share[0], share[-1] + 1)) for share in shares if share)
        sizes = [len(share) for share in shares]
        assert not sizes or max(sizes) - min(sizes) <= 1
        assert not sizes or sum(sizes) == count


def test_range_brings_equal_numbers_of_two_topics_together() -> None:
    """Joins need it."""
    members = members_of([frozenset(TOPICS[:2])] * 3)
    assignment = assign_range(members, {TOPICS[0]: 7, TOPICS[1]: 7}, {})
    assert all(target[TOPICS[0]] == target[TOPICS[1]] for target in assignment.values())


def test_range_orders_static_members_by_their_instance() -> None:
    """So one that comes back under another id gets what it had."""
    topics = frozenset(TOPICS[:1])
    before = {"x": Subscriber("a", topics), "b": Subscriber(None, topics)}
    after = {"b": Subscriber(None, topics), "y": Subscriber("a", topics)}
    counts = {TOPICS[0]: 4}
    assert assign_range(before, counts, {})["x"] == assign_range(after, counts, {})["y"]


@given(SUBSCRIPTIONS, COUNTS, SUBSCRIPTIONS, COUNTS)
def test_uniform_gives_every_partition_to_one_reader_and_shares_evenly(
    earlier: list[frozenset[bytes]],
    earlier_counts: dict[bytes, int],
    subscriptions: list[frozenset[bytes]],
    counts: dict[bytes, int],
) -> None:
    """Whatever was assigned before. No partition could move to a reader that has two fewer."""
    previous = assign_uniform(members_of(earlier), earlier_counts, {})
    members = members_of(subscriptions)
    assignment = assign_uniform(members, counts, previous)
    check_complete(assignment, members, counts)
    sizes = {member_id: sum(map(len, target.values())) for member_id, target in assignment.items()}
    for member_id, target in assignment.items():
        for topic in target:
            readers = [one for one, member in members.items() if topic in member.topic_ids]
            assert sizes[member_id] - min(sizes[one] for one in readers) < 2


@given(st.integers(1, 8), st.integers(0, 30), st.integers(0, 30))
def test_uniform_moves_as_little_as_possible(size: int, before: int, after: int) -> None:
    """The same readers keep what they had, as far as the shares allow; a second run changes nothing."""
    topics = frozenset(TOPICS[:1])
    members = members_of([topics] * size)
    previous = assign_uniform(members, {TOPICS[0]: before}, {})
    now = assign_uniform(members, {TOPICS[0]: after}, previous)
    assert assign_uniform(members, {TOPICS[0]: after}, now) == now
    if after >= before:
        assert all(set(previous[one].get(TOPICS[0], ())) <= set(now[one].get(TOPICS[0], ())) for one in members)
    newcomer = {**members, "new": Subscriber(None, topics)}
    with_new = assign_uniform(newcomer, {TOPICS[0]: after}, now)
    moved = [one for one in flat(with_new) if not any(one[1] in now[m].get(TOPICS[0], ()) for m in now)]
    assert not moved
    kept = sum(len(now[one].get(TOPICS[0], frozenset()) & with_new[one].get(TOPICS[0], frozenset())) for one in members)
    assert kept == after - sum(map(len, with_new["new"].values()))


def test_uniform_heals_a_log_in_which_two_members_have_one_partition() -> None:
    """Whoever wrote it."""
    topics = frozenset(TOPICS[:1])
    members = members_of([topics] * 2)
    wrong = {one: {TOPICS[0]: frozenset({0, 1})} for one in members}
    check_complete(assign_uniform(members, {TOPICS[0]: 2}, wrong), members, {TOPICS[0]: 2})


def test_no_members_no_assignment() -> None:
    """Nothing to divide by."""
    assert assign_uniform({}, {TOPICS[0]: 3}, {}) == assign_range({}, {TOPICS[0]: 3}, {}) == {}
