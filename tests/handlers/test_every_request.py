"""Every request of the comparison with Apache Kafka, good and bad, sent to kafkapy alone: nothing breaks."""

from __future__ import annotations

import logging

import pytest

from compat_tests.differential.__main__ import CONFIG, run
from compat_tests.differential.cases import load
from compat_tests.differential.probe import SILENT
from kafkapy.testing import Broker


@pytest.mark.slow
def test_every_request_is_answered_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    """No case breaks, no request is left without an answer, and no handler fails."""
    with caplog.at_level(logging.ERROR, logger="kafkapy"), Broker(config=CONFIG) as broker:
        notes = run(load(), broker.bootstrap, set())
    assert [(case, note) for case, found in notes.items() for note in found if note[0] == "the case broke"] == []
    silent = {(case, label) for case, found in notes.items() for label, value in found if value == SILENT}
    # A long poll, which the case leaves before its time is over; it waits although another partition is unknown.
    assert silent == {("fetch_waiting", "an unknown partition does not end it v12")}
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
