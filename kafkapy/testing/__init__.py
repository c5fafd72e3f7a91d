"""Real brokers for tests: `with Broker(topics={"orders": 3}) as broker: connect(broker.bootstrap)`, and `Cluster(3)` for several."""

from kafkapy.testing.broker import Broker
from kafkapy.testing.cluster import Cluster

__all__ = ["Broker", "Cluster"]
