"""DescribeCluster (key 60): who the brokers are and where they listen; without topics, unlike Metadata.

Versions
- 0: KIP-700.
- 1: endpoint_type, so that controllers can be asked about controllers (KIP-919).
- 2: fenced brokers can be included (KIP-1073).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class DescribeClusterRequest(Request, key=60, versions="0-2", flexible="0+"):
    """Who is there?"""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)  # 1 brokers, 2 controllers.
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterBroker(Struct):
    """A node, on the listener that was asked."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(Response, key=60, versions="0-2", flexible="0+"):
    """The cluster and its nodes."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    # One bit per ACL operation; the default says that nobody asked.
    cluster_authorized_operations: int = int32(default=-2147483648)
