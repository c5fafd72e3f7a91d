"""The store: one folder per partition in Apache Kafka's own on-disk formats, and what a broker knows about it."""
