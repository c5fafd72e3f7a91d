"""Three controllers as real processes, killed while somebody proposes: what was acknowledged is there, on all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.voter_chaos import run


@pytest.mark.slow
def test_no_acknowledged_change_is_lost(tmp_path: Path) -> None:
    """One kill of each kind that differs on disk; `python -m tests.server.voter_chaos` does as many as one likes, and pauses too."""
    quorum = run(tmp_path, ("leader", "all", "snapshot"), seed=5)
    assert quorum.kills == {"leader": 1, "all": 3, "snapshot": 1}
    assert len(quorum.acknowledged) > 50
