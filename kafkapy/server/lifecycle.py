"""A node's life in a cluster of several: register, catch up, heartbeat until unfenced, serve, and hand over before it stops.

    start       the listeners are bound, the metadata on disk is read, nothing is opened yet
    registered  the controller has answered: the offset of the registration is the broker epoch
    caught up   the image contains the registration; from here on the replica manager follows it, and the logs are checked
    unfenced    a heartbeat says that the logs are open; clients are served
    stop        a heartbeat asks for a controlled shutdown; clients are served until the leaderships are gone

Until it has caught up the broker does nothing of what its old image says: it may name this broker as the leader of what others lead by now.

Heartbeats go to the active controller, wherever it is, each `broker.heartbeat.interval.ms`; at once where the last one got no answer. One that says
that the epoch is stale means that the cluster doesn't know this life of the broker (any more), and it registers again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import trio

from kafkapy.errors import ErrorCode, StartError
from kafkapy.handlers.wait import METADATA_CHANGED, Wait
from kafkapy.raft.cluster import SUPPORTED_FEATURES
from kafkapy.raft.delta import delta_between
from kafkapy.raft.image import MetadataImage
from kafkapy.server.controller_duties import ControllerDuties
from kafkapy.server.directory_reporter import DirectoryReporter
from kafkapy.server.waiting import NOBODY
from kafkapy.wire.messages import broker_registration, controller_registration
from kafkapy.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kafkapy.wire.messages.broker_registration import BrokerRegistrationRequest
from kafkapy.wire.messages.controller_registration import ControllerRegistrationRequest

if TYPE_CHECKING:
    from kafkapy.raft.cluster import NodeIdentity
    from kafkapy.raft.delta import MetadataDelta
    from kafkapy.server.broker import Broker
    from kafkapy.server.connection import Connection
    from kafkapy.wire.schema import Request

log = logging.getLogger("kafkapy.lifecycle")

REGISTRATION_VERSION = 4
HEARTBEAT_VERSION = 2
CONTROLLER_REGISTRATION_VERSION = 0

# One attempt to be heard; after it the controller is looked for again.
ATTEMPT_MS = 2_000
# The pause after an answer that wasn't what we had hoped for.
RETRY_S = 0.1
# The same refusal is said once in this time.
SAY_AGAIN_S = 5.0
# While the broker waits to be unfenced or to be let go, every step is asked for at once.
EAGER_S = 0.03
# A controlled shutdown may take as long as it goes on; with no controller to ask it ends after this.
SHUTDOWN_S = 60.0
SHUTDOWN_ATTEMPT_MS = 500
SHUTDOWN_UNHEARD_S = 1.5


class Lifecycle:
    """This node as a member of its cluster: see metadata_follower.Membership."""

    def __init__(self, broker: Broker, nursery: trio.Nursery, alone: bool) -> None:
        self._broker = broker
        self._alone = alone
        self._following = alone
        self._logs_are_open = False
        self._wants_to_stop = False
        self._heard_at = 0.0
        self._is_unfenced = False
        self._stopped = trio.Event()
        self._caught_up = trio.Event()
        self._unfenced = trio.Event()
        self._let_go = trio.Event()
        self._soon = trio.Event()  # the next heartbeat doesn't wait for its time
        self._said: dict[ErrorCode, float] = {}
        self._duties = ControllerDuties(broker, nursery) if broker.config.is_controller else None
        if alone:
            self._caught_up.set()
        if broker.config.is_broker:
            broker.replica_manager.directory_reporter = DirectoryReporter(broker)
            nursery.start_soon(self._live)
        if broker.config.is_controller:
            nursery.start_soon(self._register_controller)

    # ---- what the metadata says

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See Membership."""
        if not self._broker.config.is_broker:
            return
        if self._following:
            self._broker.replica_manager.publish(delta, image)
        else:
            self._follow_if_caught_up(image)

    def _follow_if_caught_up(self, image: MetadataImage) -> None:
        """From the first image that has the registration on the replica manager follows, beginning with everything."""
        if 0 <= self._broker.metadata.broker_epoch <= image.offset:
            self._following = True
            nothing = MetadataImage(image.cluster_id)
            self._broker.replica_manager.publish(delta_between(nothing, image), image)
            self._caught_up.set()

    def ready(self) -> None:
        """See Membership: the only voter has registered itself."""
        self._is_unfenced = True
        self._unfenced.set()

    def elected(self) -> None:
        """See Membership."""
        if self._duties is not None:
            self._duties.begin()
        self._soon.set()

    def resigned(self) -> None:
        """See Membership."""
        if self._duties is not None:
            self._duties.end()

    def hurry(self) -> None:
        """See Membership."""
        self._soon.set()

    def heard(self, broker_id: int, connection: Any) -> None:
        """A heartbeat of a broker has come over this connection."""
        if self._duties is not None:
            self._duties.heard(broker_id, connection)

    def connection_closed(self, connection: Connection) -> None:
        """See Membership."""
        if self._duties is not None:
            self._duties.connection_closed(connection)

    # ---- what the shell waits for

    async def catch_up(self) -> None:
        """See Membership."""
        await self._caught_up.wait()

    async def unfence(self) -> None:
        """See Membership."""
        self._logs_are_open = True
        self._soon.set()
        await self._unfenced.wait()

    async def shut_down(self) -> None:
        """See Membership."""
        broker = self._broker
        if not (broker.config.is_broker and broker.config.controlled_shutdown_enable and self._is_unfenced):
            return
        if not any(one.id != broker.config.node_id for one in broker.image.active_brokers()):
            return  # Nobody is left who could take over.
        self._wants_to_stop = True
        self._heard_at = trio.current_time()
        self._soon.set()
        with trio.move_on_after(SHUTDOWN_S):
            await self._let_go.wait()

    def give_up(self) -> None:
        """See Membership."""
        self._stopped.set()
        self._caught_up.set()
        self._unfenced.set()

    # ---- the broker's own part

    async def _live(self) -> None:
        if self._alone:
            await self._unfenced.wait()
        else:
            await self._register()
        while not self._let_go.is_set():
            self._soon = trio.Event()
            begun = trio.current_time()
            pause_s = await self._heartbeat()
            with trio.move_on_at(begun + pause_s):
                await self._soon.wait()
            await trio.lowlevel.checkpoint()

    async def _register(self) -> None:
        """Until the controller has taken us in; never, where it says that this node has no place in the cluster."""
        from kafkapy.server.metadata_follower import identity

        broker = self._broker
        limit_s = broker.config.initial_broker_registration_timeout_ms / 1000
        began = trio.current_time()
        is_first = broker.metadata.broker_epoch < 0
        while True:
            own = identity(broker)
            answer = await self._ask(_registration(own, broker.cluster_id), REGISTRATION_VERSION, ATTEMPT_MS)
            if answer is not None and not answer.error_code:
                break
            code = ErrorCode.REQUEST_TIMED_OUT if answer is None else ErrorCode(answer.error_code)
            failure = self._explain(code)
            self._say(code, failure)
            if code is ErrorCode.INCONSISTENT_CLUSTER_ID:
                broker.fail(StartError(failure))
                await trio.sleep_forever()
            if is_first and trio.current_time() - began > limit_s and not self._stopped.is_set():
                broker.fail(StartError(f"not registered within initial.broker.registration.timeout.ms: {failure}"))
                await trio.sleep_forever()
            if self._wants_to_stop:
                self._let_go.set()
                return
            await trio.sleep(RETRY_S)
        broker.metadata.broker_epoch = answer.broker_epoch
        log.info("registered with broker epoch %d", answer.broker_epoch)
        if not self._following:
            self._follow_if_caught_up(broker.image)

    def _explain(self, code: ErrorCode) -> str:
        broker = self._broker
        if code is ErrorCode.REQUEST_TIMED_OUT:
            return f"no active controller has answered yet; a majority of {self._controllers()} has to run"
        if code is ErrorCode.INCONSISTENT_CLUSTER_ID:
            return (
                f"the controllers belong to another cluster than {broker.cluster_id}, which this node's data folders "
                "name in meta.properties: correct controller.quorum.voters, or give the node other folders"
            )
        if code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return f"another process with node.id {broker.config.node_id} is alive: give each node an id of its own"
        return f"the controller refuses the registration: {code.name}: {code.explanation}"

    def _controllers(self) -> str:
        config = self._broker.config
        if config.controller_quorum_voters:
            return ", ".join(f"{one}@{host}:{port}" for one, (host, port) in config.controller_quorum_voters.items())
        return ", ".join(f"{host}:{port}" for host, port in config.controller_quorum_bootstrap_servers)

    def _say(self, code: ErrorCode, failure: str) -> None:
        """Log a failure, the same one only now and then."""
        now = trio.current_time()
        if code not in self._said or now - self._said[code] >= SAY_AGAIN_S:
            self._said[code] = now
            log.warning("%s", failure)

    async def _heartbeat(self) -> float:
        """Send one. Returns after which time the next one is due."""
        broker = self._broker
        config = broker.config
        offline = [folder.directory_id for folder in broker.logs.folders if folder.failure is not None]
        request = BrokerHeartbeatRequest(
            broker_id=config.node_id,
            broker_epoch=broker.metadata.broker_epoch,
            current_metadata_offset=broker.image.offset,
            want_fence=not self._logs_are_open,
            want_shut_down=self._wants_to_stop,
            offline_log_dirs=offline,
        )
        answer = await self._ask(request, HEARTBEAT_VERSION, SHUTDOWN_ATTEMPT_MS if self._wants_to_stop else ATTEMPT_MS)
        interval_s = config.broker_heartbeat_interval_ms / 1000
        if answer is None or answer.error_code == ErrorCode.REQUEST_TIMED_OUT:
            if self._wants_to_stop and trio.current_time() - self._heard_at > SHUTDOWN_UNHEARD_S:
                log.warning("no controller answers; stopping without handing over")
                self._let_go.set()
            return RETRY_S
        self._heard_at = trio.current_time()
        if answer.error_code:
            return await self._refused(ErrorCode(answer.error_code))
        self._said.clear()
        if self._wants_to_stop:
            if answer.should_shut_down:
                self._let_go.set()
            return EAGER_S
        if self._is_unfenced == answer.is_fenced:
            self._is_unfenced = not answer.is_fenced
            log.log(
                logging.INFO if self._is_unfenced else logging.WARNING,
                "the controller counts on this broker"
                if self._is_unfenced
                else "the controller has fenced this broker",
            )
        if self._is_unfenced:
            self._unfenced.set()
            return interval_s
        if self._logs_are_open:
            await self._next_image(EAGER_S)
            return 0.0
        return interval_s

    async def _refused(self, code: ErrorCode) -> float:
        broker = self._broker
        if code not in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self._say(code, f"the controller refuses the heartbeat: {code.name}: {code.explanation}")
            return RETRY_S
        self._is_unfenced = False
        if self._wants_to_stop:
            self._let_go.set()
            return RETRY_S
        registered = broker.image.brokers.get(broker.config.node_id)
        if registered is None:
            self._say(code, "this broker has been unregistered; it serves nobody until it is started again")
            return broker.config.broker_heartbeat_interval_ms / 1000
        self._say(
            code, f"the cluster doesn't know this life of broker {broker.config.node_id} any more: registering again"
        )
        await self._register()
        return 0.0

    async def _next_image(self, timeout_s: float) -> None:
        """Until the metadata moves on, or for so long."""
        moved = trio.Event()

        def again(expired: bool) -> bool:
            moved.set()
            return True

        deadline_ms = self._broker.clock_ms() + int(timeout_s * 1000)
        self._broker.waiting.park(Wait((METADATA_CHANGED,), deadline_ms, again), NOBODY)
        await moved.wait()

    async def _ask(self, request: Request, version: int, timeout_ms: int) -> Any:
        """The controller's answer, or None."""
        answered = trio.Event()
        answers: list[Any] = []

        def done(answer: Any) -> None:
            answers.append(answer)
            answered.set()

        self._broker.controller_channel.ask(request, version, done, timeout_ms)
        await answered.wait()
        return answers[0]

    # ---- the controller's own part

    async def _register_controller(self) -> None:
        """Tell the active controller where this one listens; the active one registers itself when it is elected."""
        from kafkapy.server.metadata_follower import identity

        broker = self._broker
        own = identity(broker)
        while True:
            known = broker.image.controllers.get(own.node_id)
            if known is not None and known.incarnation_id == own.incarnation_id:
                return
            answer = await self._ask(_controller_registration(own), CONTROLLER_REGISTRATION_VERSION, ATTEMPT_MS)
            if answer is not None and not answer.error_code:
                return
            if answer is not None:
                code = ErrorCode(answer.error_code)
                self._say(code, f"the active controller refuses this one: {code.name}: {code.explanation}")
            await trio.sleep(RETRY_S)


def _registration(own: NodeIdentity, cluster_id: str) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=own.node_id,
        cluster_id=cluster_id,
        incarnation_id=own.incarnation_id,
        listeners=[
            broker_registration.Listener(
                name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
            )
            for one in own.listeners
        ],
        features=[
            broker_registration.Feature(
                name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level
            )
            for name, levels in SUPPORTED_FEATURES.items()
        ],
        rack=own.rack,
        log_dirs=list(own.log_dirs),
        previous_broker_epoch=own.stopped_broker_epoch,
    )


def _controller_registration(own: NodeIdentity) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=own.node_id,
        incarnation_id=own.incarnation_id,
        listeners=[
            controller_registration.Listener(
                name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
            )
            for one in own.controller_listeners
        ],
        features=[
            controller_registration.Feature(
                name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level
            )
            for name, levels in SUPPORTED_FEATURES.items()
        ],
    )
