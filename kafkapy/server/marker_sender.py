"""Brings transaction markers to the leaders of their partitions: into a log here, or by WriteTxnMarkers to another broker.

Markers for another broker are collected until the current piece of work is done, so that all that it decides leaves in one request per broker.
They have a connection of their own: its answers come in order, and each waits for followers. Whatever goes wrong is told to the
coordinator, which tries again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.handlers.wait import Wait
from kafkapy.handlers.write_txn_markers import Appended, append_marker
from kafkapy.server.waiting import NOBODY
from kafkapy.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

if TYPE_CHECKING:
    from kafkapy.server.broker import Broker
    from kafkapy.server.peers import Peer
    from kafkapy.transactions.shard import Marker

WRITE_TXN_MARKERS_VERSION = 2


class Sent(NamedTuple):
    """A marker on its way to one partition."""

    marker: Marker
    topic: str
    partition: int


class MarkerSender:
    """Writes markers here and elsewhere: kafkapy.transactions.markers.MarkerWriter."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._collected: dict[int, list[Sent]] = {}  # by the broker that they go to
        self._peers: dict[int, Peer] = {}

    def write_marker(self, marker: Marker, topic: str, partition: int) -> ErrorCode | None:
        """See MarkerWriter. Metadata that is behind answers as if the partition were elsewhere, and the coordinator tries again."""
        broker = self._broker
        replicas = broker.replicas.find(topic, partition)
        if replicas is not None and replicas.is_leader:
            return self._write_here(Sent(marker, topic, partition))
        image = broker.image.topics.get(topic)
        if image is None or partition >= len(image.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        leader = image.partitions[partition].leader
        if leader in (-1, broker.config.node_id):
            return ErrorCode.LEADER_NOT_AVAILABLE
        if not self._collected:
            trio.lowlevel.current_trio_token().run_sync_soon(self._send_collected)
            broker.readiness.give_way()
        self._collected.setdefault(leader, []).append(Sent(marker, topic, partition))
        return None

    # ---- here

    def _write_here(self, sent: Sent) -> ErrorCode | None:
        broker, marker = self._broker, sent.marker
        try:
            appended = append_marker(
                broker,
                sent.topic,
                sent.partition,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                committed=marker.committed,
                transaction_version=marker.transaction_version,
                now_ms=broker.clock_ms(),
            )
        except KafkaError as error:
            return error.code
        code = appended.code
        if code is None:
            again = partial(self._ask_again, sent, appended)
            deadline_ms = broker.clock_ms() + broker.config.request_timeout_ms
            broker.waiting.park(Wait((appended.partition,), deadline_ms, again), NOBODY)
        return code

    def _ask_again(self, sent: Sent, appended: Appended, expired: bool) -> bool | None:
        """The partition has changed: the followers have the marker, or this broker leads no more."""
        code = appended.code
        if code is None:
            if not expired:
                return None
            code = ErrorCode.REQUEST_TIMED_OUT
        self._written(sent, code)
        return True

    def _written(self, sent: Sent, code: ErrorCode) -> None:
        self._broker.transactions.marker_written(*sent, code, self._broker.clock_ms())

    # ---- elsewhere

    def _send_collected(self) -> None:
        collected, self._collected = self._collected, {}
        for node, markers in collected.items():
            peer = self._peers.get(node)
            if peer is None:
                peer = self._peers[node] = self._broker.peers.dedicated(node)
            timeout_ms = self._broker.config.request_timeout_ms
            peer.ask(request_of(markers), WRITE_TXN_MARKERS_VERSION, partial(self._answered, markers), timeout_ms)

    def _answered(self, markers: list[Sent], response: Any) -> None:
        """Tell the coordinator of each marker. No answer, or one that leaves a partition out, is a broken connection to it."""
        codes: dict[tuple[int, str, int], int] = {}
        for marker in response.markers if response is not None else ():
            for topic in marker.topics:
                for row in topic.partitions:
                    codes[marker.producer_id, topic.name, row.partition_index] = row.error_code
        for sent in markers:
            code = codes.get((sent.marker.producer_id, sent.topic, sent.partition), ErrorCode.NETWORK_EXCEPTION)
            self._written(sent, ErrorCode(code))


def request_of(markers: list[Sent]) -> WriteTxnMarkersRequest:
    """One entry per marker, its partitions by topic."""
    entries: dict[Marker, dict[str, list[int]]] = {}
    for sent in markers:
        entries.setdefault(sent.marker, {}).setdefault(sent.topic, []).append(sent.partition)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker, topics in entries.items()
        ]
    )
