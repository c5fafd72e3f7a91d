"""Runs franz-go's own tests: those that talk to a broker, built from the pinned module's source, nothing of which is kept here.

TestGroupETL and TestTxnEtl chain three groups whose members come and go, with every balancer, both protocols and static members,
and fail on any record that is lost, doubled or out of order. KGO_TEST_RECORDS says how many records they use; franz-go's own default is 500,000.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compat_tests import tools
from compat_tests.go_franz import version

RECORDS = "50000"
TIMEOUT_S = 300

TESTS = (
    "Test848RegexBrokerResolves",
    "TestAddRemovePartitions",
    "TestClient_Produce",
    "TestClient_ProduceLargeMessages",
    "TestConsumeMaxDecompressBatchBytes",
    "TestConsumeRegex",
    "TestConsumeTopicRetrieval",
    "TestConsumeTopicRetrieval_Many",
    "TestDirectPartitionPurge",
    "TestGroupETL",
    "TestGroupSimple",
    "TestHookPollStart",
    "TestIssue1034",
    "TestIssue325",
    "TestIssue337",
    "TestIssue434",
    "TestIssue523",
    "TestIssue648",
    "TestIssue769",
    "TestIssue810",
    "TestIssue831",
    "TestIssue865",
    "TestIssueFetchLargerThanBrokerMaxReadBytes",
    "TestPauseIssue489",
    "TestPauseIssueOct2023",
    "TestPing",
    "TestPooling",
    "TestTxnEtl",
    "TestUnknownGroupOffsetFetchPinned",
)


@pytest.mark.parametrize("name", TESTS)
def test_own(bootstrap: str, name: str, tmp_path: Path) -> None:
    """One of franz-go's tests, in a process of its own; one that skips itself is no pass."""
    program = tools.go_own_tests("github.com/twmb/franz-go", version(), "pkg/kgo")
    environment = {
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": os.environ.get("KGO_TEST_RECORDS", RECORDS),
        "KGO_LOG_LEVEL": "none",
    }
    command = [program, f"-test.run=^{name}$", "-test.v", f"-test.timeout={TIMEOUT_S}s"]
    output = tools.run(command, env=environment, cwd=tmp_path, timeout_s=TIMEOUT_S + 10)
    assert f"--- PASS: {name} " in output, output[-2000:]
