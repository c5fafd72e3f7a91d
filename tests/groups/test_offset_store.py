"""The store of committed offsets against a model made of lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkapy.groups.loading import Loader, decode_offset_key
from kafkapy.groups.offsets import OffsetStore, decode_offset
from kafkapy.groups.records import offset_record, offset_tombstone
from kafkapy.wire.group_records import OffsetCommitValue
from kafkapy.wire.record_batch import NO_PRODUCER_ID
from kafkapy.wire.record_framing import encode_value
from kafkapy.wire.records import BatchBuilder, encode_end_txn_marker

KEYS = [("g", "t", 0), ("g", "t", 1), ("g", "u", 0), ("h", "t", 0)]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from(KEYS), st.sampled_from([NO_PRODUCER_ID, 1, 2])),
        st.tuples(st.just("delete"), st.sampled_from(KEYS), st.just(NO_PRODUCER_ID)),
        st.tuples(st.just("end"), st.sampled_from([True, False]), st.sampled_from([1, 2])),
    ),
    max_size=40,
)


class Model:
    """What should be: the list of commits that count, per partition, as (position, offset)."""

    def __init__(self) -> None:
        self.committed: dict[tuple[str, str, int], tuple[int, int]] = {}
        self.pending: dict[int, dict[tuple[str, str, int], tuple[int, int]]] = {1: {}, 2: {}}

    def end(self, producer_id: int, commit: bool) -> None:
        """A transaction's end; the later position wins."""
        pending, self.pending[producer_id] = self.pending[producer_id], {}
        if commit:
            for key, value in pending.items():
                self.committed[key] = max(value, self.committed.get(key, (-1, -1)))

    def delete(self, key: tuple[str, str, int]) -> None:
        """A tombstone takes pending offsets with it."""
        for one in (self.committed, *self.pending.values()):
            one.pop(key, None)


@given(STEPS)
def test_any_history_gives_what_the_model_says(steps: list[tuple]) -> None:
    """Record by record, and loaded from a log in one go."""
    model, store, loaded = Model(), OffsetStore(), OffsetStore()
    log = bytearray()
    for position, (what, subject, producer_id) in enumerate(steps):
        if what == "end":
            model.end(producer_id, subject)
            store.end_transaction(producer_id, commit=subject)
            log += encode_end_txn_marker(subject, 0, producer_id, 0, 0)
            continue
        if what == "commit":
            target = model.committed if producer_id == NO_PRODUCER_ID else model.pending[producer_id]
            target[subject] = (position, position * 10)
            key, value = offset_record(
                *subject, offset=position * 10, leader_epoch=0, metadata="", commit_timestamp_ms=0
            )
        else:
            model.delete(subject)
            key, value = offset_tombstone(*subject)
        store.replay(*subject, value, position, producer_id)
        options = {"producer_id": producer_id, "transactional": True} if producer_id != NO_PRODUCER_ID else {}
        builder = BatchBuilder(base_offset=position, **options)
        builder.append(0, key, value)
        log += builder.build()
    for key in KEYS:
        found = store.get(*key)
        assert (found and (found.record_offset, found.offset)) == model.committed.get(key)
        assert store.is_pending(*key) == any(key in one for one in model.pending.values())
    wanted = {key[0] for one in (model.committed, *model.pending.values()) for key in one}
    assert {group for group in ("g", "h") if store.has_group(group)} == wanted
    assert set(store.group_ids()) == wanted

    def replay(key: bytes, value: bytes | None, offset: int, producer_id: int) -> None:
        loaded.replay(*decode_offset_key(key), value, offset, producer_id)

    Loader(0, loaded, replay).feed(log)
    assert loaded.snapshot() == store.snapshot()


@given(
    version=st.integers(0, 4),
    metadata=st.sampled_from(["", "x", "grüße", "y" * 30]),
    offset=st.integers(-1, 2**62),
    topic_id=st.binary(min_size=16, max_size=16),
)
def test_every_version_of_a_value_is_read(version: int, metadata: str, offset: int, topic_id: bytes) -> None:
    """The quick ways for frequent values give what the declared layout gives."""
    value = OffsetCommitValue(
        offset=offset, metadata=metadata, leader_epoch=3, commit_timestamp=9, expire_timestamp=8, topic_id=topic_id
    )
    bytes_ = encode_value(value, version)
    expected = OffsetCommitValue.decode(bytes_[2:], version)
    found = decode_offset(bytes_, 17)
    assert found == (
        expected.offset,
        expected.leader_epoch,
        expected.metadata,
        expected.commit_timestamp,
        expected.expire_timestamp,
        expected.topic_id,
        17,
    )
