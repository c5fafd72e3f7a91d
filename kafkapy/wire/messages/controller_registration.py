"""ControllerRegistration (key 70): a controller tells the active one where it listens and what it can run (KIP-919)."""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string, uint16, uuid


class Listener(Struct):
    """Where one listener of the controller can be reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()  # 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.


class Feature(Struct):
    """The range of levels that the controller can run for one feature."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class ControllerRegistrationRequest(Request, key=70, versions="0", flexible="0+"):
    """This is me."""

    controller_id: int = int32()
    incarnation_id: bytes = uuid()  # Drawn anew at every start.
    zk_migration_ready: bool = boolean()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)


class ControllerRegistrationResponse(Response, key=70, versions="0", flexible="0+"):
    """How it went."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
