"""Markers are read alike in the form that brokers write and in any other that means the same."""

from __future__ import annotations

import pytest

from kafkapy.log.producer_replay import read_marker
from kafkapy.wire.record_batch import read_header
from kafkapy.wire.records import EndTxnMarker, encode_batch, encode_end_txn_marker, read_records


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("coordinator_epoch", [0, 7, 2**31 - 1])
def test_a_plain_marker_is_read_as_it_was_written(committed: bool, coordinator_epoch: int) -> None:
    """The short cut finds what was put in."""
    batch = encode_end_txn_marker(committed, coordinator_epoch, 55, 3, 1_700_000_000_000)
    assert read_marker(batch, read_header(batch)) == EndTxnMarker(committed, coordinator_epoch)


def test_a_marker_in_another_form_is_read_record_by_record() -> None:
    """A header on the record makes the batch longer, and it still is a marker."""
    plain = encode_end_txn_marker(True, 7, 55, 3, 1_700_000_000_000)
    (record,) = read_records(plain, 0, read_header(plain))
    unusual = encode_batch([record._replace(headers=[("why", b"odd")])])
    assert read_marker(unusual, read_header(unusual)) == EndTxnMarker(True, 7)
