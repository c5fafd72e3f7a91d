"""BrokerRegistration (key 62): a broker that starts asks the controller for its place in the cluster.

Versions
- 0: KIP-631.
- 1: the flag of a broker that still migrates from ZooKeeper (KIP-866).
- 2: the log directories (KIP-858).
- 3: the broker's epoch before a clean stop (KIP-966).
- 4: the same fields; the range of a feature may begin at 0 (KIP-1022).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string, uint16, uuid


class Listener(Struct):
    """Where one listener of the broker can be reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()  # 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.


class Feature(Struct):
    """The range of levels that the broker can run for one feature."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class BrokerRegistrationRequest(Request, key=62, versions="0-4", flexible="0+"):
    """Let me in."""

    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: bytes = uuid()  # Drawn anew at every start, so that two brokers with one id are noticed.
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)
    rack: str | None = string(nullable="0+")
    is_migrating_zk_broker: bool = boolean("1+")
    log_dirs: list[bytes] = array(uuid, "2+", ignorable=True)
    previous_broker_epoch: int = int64("3+", default=-1, ignorable=True)  # -1 after a crash: its data may be gone.


class BrokerRegistrationResponse(Response, key=62, versions="0-4", flexible="0+"):
    """The broker is in, still fenced until its heartbeats say that it has caught up."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)
