"""Asks one broker and notes its answers in a form that can be compared with another broker's."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkapy.errors import KafkaError
from kafkapy.handlers import SERVED
from kafkapy.types import ZERO_UUID
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.json_form import uuid_text
from kafkapy.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkapy.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.wire.record_batch import iterate_batches
from kafkapy.wire.schema import Request
from tests.support.requests import list_offsets
from tests.support.wire_client import Closed, WireClient

CLOSED = "the connection was closed"
SILENT = "no answer"
ANSWERED = "an answer"

# Apache Kafka answers within milliseconds, or never; a case that waits on purpose says so.
SILENCE_S = 1.0

UNKNOWN_ID = bytes(range(1, 17))
NOW_MS = int(time.time() * 1000)
RECENT_MS = 86_400_000

_HIDDEN = {
    "clusterId": "cluster",
    "host": "host",
    "logDir": "folder",
    "finalizedFeaturesEpoch": "epoch",
    "totalBytes": "bytes",
    "usableBytes": "bytes",
}


class Probe:
    """One broker, and what it has answered."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.address = host, int(port)
        self.notes: list[tuple[str, Any]] = []
        self.asked: set[tuple[int, int]] = set()
        self._wire: WireClient | None = None
        self._names: dict[str, str] = {}

    # ---- connections

    @property
    def wire(self) -> WireClient:
        """The connection of this case; a new one after the broker has closed it."""
        if self._wire is None:
            self._wire = self.open()
        return self._wire

    def open(self) -> WireClient:
        """Another connection."""
        return WireClient(*self.address, client_id="differential")

    def close(self) -> None:
        """The case is over."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    # ---- asking

    def ask(self, label: str, request: Request, version: int, timeout_s: float = SILENCE_S * 10) -> Any:
        """Send, note the answer, return it; None if there was none. What kafkapy does not serve is not asked of anybody."""
        if request.SCHEMA.key not in SERVED:
            return None
        answer = self.quietly(request, version, timeout_s)
        self.note(f"{label} v{version}", answer if isinstance(answer, str) else answer.to_json(version))
        return None if isinstance(answer, str) else answer

    def quietly(self, request: Request, version: int, timeout_s: float = SILENCE_S * 10) -> Any:
        """Send and return the answer, or CLOSED or SILENT, without a note."""
        self.asked.add((request.SCHEMA.key, version))
        try:
            return self.wire.request(request, version, timeout_s)
        except Closed:
            self.close()
            return CLOSED
        except TimeoutError:
            self.close()
            return SILENT

    def ask_bytes(self, label: str, data: bytes, timeout_s: float = SILENCE_S, exact: bool = False) -> bytes | None:
        """Send bytes and note whether a frame comes back (`exact`: which), or how it did not."""
        self.wire.send_bytes(data)
        try:
            answer = self.wire.receive_frame(timeout_s)
        except Closed:
            self.note(label, CLOSED)
        except TimeoutError:
            self.note(label, SILENT)
        else:
            self.note(label, answer.hex() if exact else ANSWERED)
            return answer
        self.close()
        return None

    def ask_all(self, label: str, make: Callable[[int], Request]) -> None:
        """The same question in every version."""
        for version in versions_of(make(0)):
            self.ask(label, make(version), version)

    def note(self, label: str, value: Any) -> None:
        """Keep an answer for the comparison."""
        self.notes.append((label, self._canonical(None, value)))

    # ---- what cases need

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> bytes:
        """Make a topic without noting anything; its id."""
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
        answer = self.quietly(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert not isinstance(answer, str), f"CreateTopics {name}: {answer}"
        if answer.topics[0].error_code:
            raise KafkaError(answer.topics[0].error_code, f"{name}: {answer.topics[0].error_message}")
        return self.topic_id(name)

    def topic_id(self, name: str) -> bytes:
        """The id of a topic, once its leader is known."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        for _ in range(50):
            topic = self.quietly(request, 12).topics[0]
            if not topic.error_code and all(self._is_led(name, one.partition_index) for one in topic.partitions):
                self._names[uuid_text(topic.topic_id)] = f"id of {name}"
                return bytes(topic.topic_id)
            time.sleep(0.1)
        raise AssertionError(f"no leader for {name}: {topic}")

    def _is_led(self, name: str, index: int) -> bool:
        """Whether the leader takes requests: Kafka's Metadata knows of it a little earlier than the leader itself."""
        return not self.quietly(list_offsets(name, -1, index=index), 1).topics[0].partitions[0].error_code

    # ---- what is compared

    def _canonical(self, name: str | None, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._canonical(key, part) for key, part in value.items()}
        if name == "records":
            return _batches(value)
        if isinstance(value, list):
            return [self._canonical(name, part) for part in value]
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return _number(name, value)
        if isinstance(value, str):
            return self._text(name, value)
        return value

    def _text(self, name: str | None, value: str) -> str:
        if name in _HIDDEN:
            return _HIDDEN[name] if value else ""
        if name in ("errorMessage", "batchIndexErrorMessage"):
            return "text" if value else ""
        if name in ("topicId", "id", "directoryId"):
            fixed = {uuid_text(ZERO_UUID): "zero", uuid_text(UNKNOWN_ID): "unknown"}
            return fixed.get(value) or self._names.get(value, "an id")
        if name in ("memberId", "leader", "member") and len(value) > 20:
            # Generated ids have a random part, so that they are known by the order in which they came.
            return self._names.setdefault(value, f"member {sum(v.startswith('member') for v in self._names.values())}")
        return value


def _number(name: str | None, value: int) -> Any:
    if name == "port":
        return "port" if value > 0 else value
    if name == "sessionId":
        return "session" if value else 0
    if name == "producerId":
        return "producer" if value >= 0 else value
    if name in _HIDDEN:
        return _HIDDEN[name] if value >= 0 else value
    if abs(value - NOW_MS) < RECENT_MS and name in (
        "logAppendTimeMs",
        "lastTimestamp",
        "timestamp",
        "transactionStartTimeMs",
    ):
        return "now"
    return value


def _batches(value: str | None) -> Any:
    """What can be said of records without their bytes: offsets, epochs, sizes, checksums."""
    if value is None:
        return None
    data = base64.b64decode(value)
    return [
        {
            "baseOffset": header.base_offset,
            "lastOffsetDelta": header.last_offset_delta,
            "leaderEpoch": header.partition_leader_epoch,
            "size": header.size,
            "attributes": header.attributes,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
        }
        for _, header in iterate_batches(data)
    ]


def versions_of(request: Request) -> Sequence[int]:
    """All versions of the request's API that Kafka serves."""
    api = API_BY_KEY[request.SCHEMA.key]
    return range(api.versions.first, api.advertised.last + 1)
