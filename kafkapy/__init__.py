"""kafkapy: a broker that speaks the Apache Kafka protocol."""

__version__ = "0.1.0"
