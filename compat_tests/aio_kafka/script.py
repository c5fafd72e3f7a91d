"""`script.py CHECK BOOTSTRAP TOPIC`: one check with aiokafka against a topic of two partitions. Runs in the client's own environment."""

from __future__ import annotations

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

WAIT_S = 20


async def take(consumer: AIOKafkaConsumer, count: int) -> list:
    """So many records."""
    return [await asyncio.wait_for(consumer.getone(), WAIT_S) for _ in range(count)]


async def read(bootstrap: str, topic: str, count: int, **config: object) -> list:
    """The first records of partition 0."""
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, **config
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return await take(consumer, count)


async def round_trip(bootstrap: str, topic: str, codec: str | None, **config: object) -> None:
    """A hundred records through one codec."""
    sent = [b"record %d " % number * 10 for number in range(100)]
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, linger_ms=20, **config
    ) as producer:
        futures = [await producer.send(topic, value, partition=0) for value in sent]
        assert [(await future).offset for future in futures] == list(range(100))
    assert [record.value for record in await read(bootstrap, topic, 100)] == sent


async def check_produce_and_consume(bootstrap: str, topic: str) -> None:
    await round_trip(bootstrap, topic, None)


async def check_gzip(bootstrap: str, topic: str) -> None:
    await round_trip(bootstrap, topic, "gzip")


async def check_snappy(bootstrap: str, topic: str) -> None:
    await round_trip(bootstrap, topic, "snappy")


async def check_lz4(bootstrap: str, topic: str) -> None:
    await round_trip(bootstrap, topic, "lz4")


async def check_zstd(bootstrap: str, topic: str) -> None:
    await round_trip(bootstrap, topic, "zstd")


async def check_idempotent_producer(bootstrap: str, topic: str) -> None:
    await round_trip(bootstrap, topic, None, enable_idempotence=True)


async def check_headers_keys_and_timestamps(bootstrap: str, topic: str) -> None:
    headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"v", b"k", partition=0, headers=headers, timestamp_ms=1_700_000_000_000)
    (record,) = await read(bootstrap, topic, 1)
    assert (record.key, record.value, record.timestamp, list(record.headers)) == (
        b"k",
        b"v",
        1_700_000_000_000,
        headers,
    )


async def check_acks(bootstrap: str, topic: str) -> None:
    for acks in (0, 1, "all"):
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks=acks) as producer:
            await producer.send_and_wait(topic, str(acks).encode(), partition=0)
    assert [record.value for record in await read(bootstrap, topic, 3)] == [b"0", b"1", b"all"]


async def check_transactions(bootstrap: str, topic: str) -> None:
    group = f"group-{topic}"
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"tx-{topic}") as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"committed", partition=0)
            await producer.send_offsets_to_transaction({TopicPartition(topic, 1): 5}, group)
    found = await read(bootstrap, topic, 1, isolation_level="read_committed", group_id=group)
    assert [record.value for record in found] == [b"committed"]
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        async with asyncio.timeout(WAIT_S):  # EndTxn is answered before all markers are written
            while await consumer.committed(TopicPartition(topic, 1)) != 5:
                await asyncio.sleep(0.05)


async def check_group_commits_and_resumes(bootstrap: str, topic: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for values in ([b"0", b"1", b"2"], [b"next"]):
            for value in values:
                await producer.send_and_wait(topic, value, partition=0)
            config = {"group_id": f"group-{topic}", "auto_offset_reset": "earliest", "enable_auto_commit": False}
            async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **config) as consumer:
                assert [record.value for record in await take(consumer, len(values))] == values
                await consumer.commit()


async def check_group_of_two(bootstrap: str, topic: str) -> None:
    config = {"group_id": f"group-{topic}", "heartbeat_interval_ms": 300, "bootstrap_servers": bootstrap}
    first, second = AIOKafkaConsumer(topic, **config), AIOKafkaConsumer(topic, **config)
    await first.start()
    await second.start()
    await until(lambda: [len(one.assignment()) for one in (first, second)] == [1, 1])
    await first.stop()
    await until(lambda: len(second.assignment()) == 2)
    await second.stop()


async def until(condition: object) -> None:
    """Wait for it, with a deadline."""
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.05)


async def check_seek_and_offsets_for_times(bootstrap: str, topic: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(5):
            await producer.send_and_wait(
                topic, b"%d" % number, partition=0, timestamp_ms=1_700_000_000_000 + number * 1000
            )
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        assert (await consumer.offsets_for_times({partition: 1_700_000_001_500}))[partition].offset == 2
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 5}
        consumer.seek(partition, 3)
        assert [record.value for record in await take(consumer, 2)] == [b"3", b"4"]


async def check_admin(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    name = topic + "-made"
    await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
    await admin.create_partitions({name: NewPartitions(3)})
    (described,) = await admin.describe_topics([name])
    assert len(described["partitions"]) == 3
    assert len((await admin.describe_cluster())["brokers"]) == 1
    await admin.delete_topics([name])
    async with asyncio.timeout(WAIT_S):
        while name in await admin.list_topics():
            await asyncio.sleep(0.05)
    await admin.close()


if __name__ == "__main__":
    asyncio.run(globals()["check_" + sys.argv[1]](*sys.argv[2:]))
