"""A broker as the controller sees it: it registers, sends heartbeats, and asks to be let go when it stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkapy.errors import ErrorCode
from kafkapy.raft.cluster import SUPPORTED_FEATURES
from kafkapy.raft.image import MetadataImage
from kafkapy.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kafkapy.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener

if TYPE_CHECKING:
    from sim.broker import Broker

RETRY_US = 50_000
HEARTBEAT_US = (150_000, 350_000)
STOP_PATIENCE_US = 3_000_000


class BrokerLife:
    """One life."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.broker_epoch = -1
        self.stopping = False
        # Until the image has this life's registration its roles are those of a former life: a leader that was robbed of its last
        # records by a power loss must not lead in its old epoch for a moment.
        self.is_caught_up = False
        self._began_to_stop_us = -1
        folder = broker.logs.folders[0]
        self.incarnation_id = broker.cluster.new_uuid()
        self.stopped_epoch = folder.stopped_broker_epoch if folder.clean else -1
        self._request = BrokerRegistrationRequest(
            broker_id=broker.node_id,
            cluster_id=broker.node.settings.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[Listener(name="PLAINTEXT", host=f"host-{broker.node_id}", port=9092)],
            features=[
                Feature(name=name, min_supported_version=span.min_level, max_supported_version=span.max_level)
                for name, span in sorted(SUPPORTED_FEATURES.items())
            ],
            log_dirs=[folder.directory_id],
            previous_broker_epoch=self.stopped_epoch,
        )

    def begin(self) -> None:
        """Register as soon as somebody decides."""
        self._register()

    def _later(self, callback: Any, delay_us: int) -> None:
        self.broker.simulation.at(delay_us, callback, self.broker.process)

    def _register(self) -> None:
        self.broker.ask_controller(self._request, 4, self._registered)

    def _registered(self, response: Any) -> None:
        if response is None or response.error_code:
            if response is not None:
                self.broker.note(f"registration refused: {ErrorCode(response.error_code).name}")
            self._later(self._register, RETRY_US)
            return
        self.broker_epoch = response.broker_epoch
        self.broker.note(f"registered with broker epoch {self.broker_epoch}")
        self.image_moved(self.broker.image)
        self._heartbeat()

    def image_moved(self, image: MetadataImage) -> None:
        """The metadata has been read up to there."""
        if not self.is_caught_up and 0 <= self.broker_epoch <= image.offset:
            self.is_caught_up = True
            self.broker.caught_up(image)

    def _heartbeat(self) -> None:
        broker = self.broker
        if self.stopping and self._began_to_stop_us < 0:
            self._began_to_stop_us = broker.simulation.now_us
        if self.stopping and broker.simulation.now_us - self._began_to_stop_us > STOP_PATIENCE_US:
            broker.stop_cleanly()
            return
        request = BrokerHeartbeatRequest(
            broker_id=broker.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=broker.image.offset,
            want_shut_down=self.stopping,
        )
        broker.ask_controller(request, 1, self._answered)

    def _answered(self, response: Any) -> None:
        if response is not None and response.should_shut_down and self.stopping:
            self.broker.stop_cleanly()
            return
        if response is not None and response.error_code == ErrorCode.STALE_BROKER_EPOCH:
            self._later(self._register, RETRY_US)
            return
        quick = response is None or response.is_fenced or self.stopping
        self._later(self._heartbeat, RETRY_US if quick else self.broker.dice.randrange(*HEARTBEAT_US))
