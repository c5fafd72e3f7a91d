"""A real broker for tests: `with Broker(topics={"orders": 3}) as broker: connect(broker.bootstrap)`."""

from kafkapy.testing.broker import Broker

__all__ = ["Broker"]
