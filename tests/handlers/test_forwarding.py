"""What becomes of a forwarded request that nobody answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafkapy.handlers.forwarding import forwarding
from kafkapy.handlers.wait import Wait
from kafkapy.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

CREATE_TOPICS = 19


class Channel:
    """Nobody answers."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def ask(self, request: Any, version: int, done: Any, timeout_ms: int) -> None:
        """Keep who asked."""
        self.done.append(done)


def test_who_is_elected_while_nobody_answers_decides_itself() -> None:
    """Its answer leaves when its own decision is committed, which is asked for once."""
    channel, committed, decided = Channel(), [False], []

    def handle(context: Any, request: Any) -> Any:
        decided.append(request)
        return Wait(("ticket",), 1000, lambda expired: CreateTopicsResponse() if committed[0] else None)

    broker = SimpleNamespace(
        controller=SimpleNamespace(is_active=False),
        controller_channel=channel,
        config=SimpleNamespace(request_timeout_ms=30_000),
        image=SimpleNamespace(offset=5),
        wake=lambda key: None,
    )
    connection = SimpleNamespace(client_host="127.0.0.1")
    context: Any = SimpleNamespace(broker=broker, api_version=7, client_id="c", connection=connection, now_ms=0)
    waiting = forwarding(handle, CREATE_TOPICS)(context, CreateTopicsRequest())
    channel.done[0](None)
    assert waiting.again(False) is None and waiting.again(False) is None
    committed[0] = True
    assert isinstance(waiting.again(False), CreateTopicsResponse)
    assert len(decided) == 1
