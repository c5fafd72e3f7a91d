"""What can be done with a log's data on Apache Spark: archive, replay, audit, transform, split, stats, and reading segments directly."""
