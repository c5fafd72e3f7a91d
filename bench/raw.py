"""Load without librdkafka, for what needs hundreds of connections in one process: kafkapy's own synchronous client."""

from __future__ import annotations

import selectors
import struct
import time
from collections import deque

from bench.peers import Peer, PeerError
from kafkapy.client.connection import BrokerConnection, Pending, Unreachable
from kafkapy.errors import KafkaError, ProtocolError
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest
from kafkapy.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafkapy.wire.record_batch import set_crc
from kafkapy.wire.records import BatchBuilder

START_TIMEOUT_S = 180.0
TOPIC_ALREADY_EXISTS = 36

# The newest version that names topics instead of giving their ids.
PRODUCE_VERSION = 11


# A leader that Metadata has named already may still have to hear of it.
NOT_LED_YET = (3, 5, 6)

RECORDS_PER_BATCH = 200
REQUESTS_IN_FLIGHT = 5

# The base sequence of a batch: see wire/record_batch.py.
_SEQUENCE = struct.Struct(">i")
_SEQUENCE_AT = 53


class BenchError(Exception):
    """A broker has answered something that the benchmark cannot go on with."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


def connect(peer: Peer, timeout_s: float = 60.0) -> BrokerConnection:
    """A connection that knows the broker's versions."""
    return BrokerConnection("127.0.0.1", peer.port, client_id="bench", timeout_s=timeout_s)


def create_topic(connection: BrokerConnection, name: str, partitions: int) -> None:
    """Create a topic and wait until it has leaders; it may exist already."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=60_000)).topics[0]
    if answer.error_code not in (0, TOPIC_ALREADY_EXISTS):
        raise BenchError(f"CreateTopics answered {answer.error_code} for {name}")
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    deadline = time.monotonic() + 60
    while True:
        found = connection.request(request).topics[0]
        if not found.error_code and sum(row.leader_id >= 0 for row in found.partitions) == partitions:
            return
        if time.monotonic() > deadline:
            raise BenchError(f"{name} did not get leaders for all its partitions")
        time.sleep(0.005)


def one_record(size: int = 100) -> bytearray:
    """A batch of a single record."""
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, bytes(size))
    return builder.build()


def produce_request(topic: str, partitions: range, batch: bytearray) -> ProduceRequest:
    """The same batch for each of these partitions."""
    data = [PartitionProduceData(index=index, records=batch) for index in partitions]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def send_batches(peer: Peer, topic: str, count: int, *, idempotent: bool) -> float:
    """So many requests with a batch of 200 records of 5 kB each, five in flight; the seconds until all are acknowledged."""
    producer_id = -1
    connection = connect(peer)
    if idempotent:
        producer_id = _producer_id(connection)
    first = 0 if idempotent else -1
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=first, base_sequence=first)
    for _ in range(RECORDS_PER_BATCH):
        builder.append(time.time_ns() // 1_000_000, None, bytes(5_000))
    batch = builder.build()
    request = produce_request(topic, range(1), batch)
    flying: deque[Pending] = deque()
    produce_first(connection, produce_request(topic, range(1), one_record()))
    begun = time.monotonic()
    for number in range(count):
        # Written and checksummed anew either way, so that both kinds cost this side the same.
        _SEQUENCE.pack_into(batch, _SEQUENCE_AT, number * RECORDS_PER_BATCH if idempotent else -1)
        set_crc(batch, 0, len(batch))
        flying.append(connection.send(request, version=PRODUCE_VERSION))
        if len(flying) == REQUESTS_IN_FLIGHT:
            check_produced(connection.receive(flying.popleft()))
    while flying:
        check_produced(connection.receive(flying.popleft()))
    seconds = time.monotonic() - begun
    connection.close()
    return seconds


def _producer_id(connection: BrokerConnection) -> int:
    """For an idempotent producer; a broker may still be fetching its first ids."""
    deadline = time.monotonic() + 10
    while True:
        answer = connection.request(InitProducerIdRequest(transactional_id=None))
        if not answer.error_code:
            return int(answer.producer_id)
        if time.monotonic() > deadline:
            raise BenchError(f"InitProducerId answered {answer.error_code}")
        time.sleep(0.05)


def produce(connection: BrokerConnection, request: ProduceRequest) -> None:
    """Send it and insist on success."""
    check_produced(connection.request(request, version=PRODUCE_VERSION))


def produce_first(connection: BrokerConnection, request: ProduceRequest) -> None:
    """Send it to new partitions, again while their leader does not know yet that it leads them."""
    deadline = time.monotonic() + 60
    while True:
        try:
            check_produced(connection.request(request, version=PRODUCE_VERSION))
            return
        except BenchError as error:
            if error.code not in NOT_LED_YET or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def check_produced(answer: ProduceResponse) -> None:
    """Insist on success everywhere."""
    for topic in answer.responses:
        for row in topic.partition_responses:
            if row.error_code:
                raise BenchError(f"Produce answered {row.error_code} for {topic.name}-{row.index}", row.error_code)


def start_and_wait(peer: Peer) -> float:
    """Start the broker; the seconds until it has acknowledged a record."""
    begun = time.monotonic()
    peer.start()
    request = produce_request("first", range(1), one_record())
    while True:
        try:
            connection = connect(peer)
            try:
                create_topic(connection, "first", 1)
                produce(connection, request)
            finally:
                connection.close()
        except (Unreachable, KafkaError, ProtocolError, BenchError) as error:
            peer.check_alive()
            if time.monotonic() - begun > START_TIMEOUT_S:
                raise PeerError(f"{peer.title} did not come up: {error}") from error
            time.sleep(0.005)
        else:
            return time.monotonic() - begun


def round_trips(peer: Peer, topic: str, seconds: float) -> list[float]:
    """One record at a time over one connection; the seconds that each took."""
    taken = []
    connection = connect(peer)
    create_topic(connection, topic, 1)
    request = produce_request(topic, range(1), one_record())
    produce_first(connection, request)
    end = time.monotonic() + seconds
    while (begun := time.monotonic()) < end:
        produce(connection, request)
        taken.append(time.monotonic() - begun)
    connection.close()
    return taken


def fan_in(peer: Peer, seconds: float, count: int = 50) -> float:
    """So many connections, each with one record in flight; requests per second."""
    connections = [connect(peer) for _ in range(count)]
    create_topic(connections[0], "fan-in", 6)
    requests = [produce_request("fan-in", range(index, index + 1), one_record()) for index in range(6)]
    for request in requests:
        produce_first(connections[0], request)
    done = 0
    with selectors.DefaultSelector() as selector:
        pending = {}
        begun = time.monotonic()
        for index, connection in enumerate(connections):
            selector.register(connection, selectors.EVENT_READ, index)
            pending[index] = connection.send(requests[index % 6], version=PRODUCE_VERSION)
        while (now := time.monotonic()) < begun + seconds:
            for key, _ in selector.select(1.0):
                index = key.data
                check_produced(connections[index].receive(pending[index]))
                pending[index] = connections[index].send(requests[index % 6], version=PRODUCE_VERSION)
                done += 1
    for connection in connections:
        connection.close()
    return done / (now - begun)


def percentile(values: list[float], part: float) -> float:
    """The value below which that part of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
