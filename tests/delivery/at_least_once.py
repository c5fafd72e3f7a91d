import sys

from confluent_kafka import Consumer

bootstrap, topic = sys.argv[1:]
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": "at-least-once",
        "group.instance.id": "worker-1",  # a restarted worker takes its place at once
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer.subscribe([topic])
while True:
    message = consumer.poll(1.0)
    if message is None or message.error():
        continue
    print(message.value().decode(), flush=True)  # first the work,
    consumer.commit(message, asynchronous=False)  # then the offset
