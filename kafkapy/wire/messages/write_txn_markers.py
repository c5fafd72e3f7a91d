"""WriteTxnMarkers (key 27): append the commit or abort markers of ended transactions.

The transaction coordinator sends it to the leaders of the partitions; Admin.abortTransaction does so by hand.

Versions
- 1: flexible (KIP-482).
- 2: the transaction version that the marker belongs to (KIP-1228).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class WritableTxnMarker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    # True commits.
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    # A marker from a coordinator that has been replaced is refused by it.
    coordinator_epoch: int = int32()
    # With transaction version 2 the epoch of the marker must be above that of the records.
    transaction_version: int = int8("2+", ignorable=True)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersRequest(Request, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WriteTxnMarkersResponse(Response, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
