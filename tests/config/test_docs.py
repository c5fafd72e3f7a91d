"""docs/configuration.md is what the definitions say."""

from __future__ import annotations

from pathlib import Path

from kafkapy.config.broker_configs import BROKER_KEYS
from kafkapy.config.docs import page
from kafkapy.config.topic_configs import TOPIC_KEYS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    """After a change of a definition: python -m kafkapy.config.docs > docs/configuration.md."""
    assert PAGE.read_text() == page()


def test_every_key_stands_on_the_page() -> None:
    """Keys with and without effect alike."""
    text = page()
    assert [name for name in (*BROKER_KEYS, *TOPIC_KEYS) if f"| `{name}`" not in text] == []
