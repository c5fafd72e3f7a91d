import sys

from confluent_kafka import Consumer, Producer, TopicPartition

bootstrap, source, sink = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "worker-1"})
producer.init_transactions()  # aborts what a predecessor has left open, and fences it if it still lives
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": "exactly-once",
        "group.instance.id": "worker-1",  # a restarted worker takes its place at once
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
)
consumer.subscribe([source])
while True:
    message = consumer.poll(1.0)
    if message is None or message.error():
        continue
    producer.begin_transaction()
    producer.produce(sink, message.value().upper())
    done = TopicPartition(message.topic(), message.partition(), message.offset() + 1)
    producer.send_offsets_to_transaction([done], consumer.consumer_group_metadata())
    producer.commit_transaction()  # the result and the offset, both or neither
