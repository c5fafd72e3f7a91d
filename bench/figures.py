"""Every figure that the benchmarks produce, what is good about it, and the goal that the project has set itself."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """One line of the table. A goal is either a ratio to Apache Kafka or a value of kafkapy's own; None: there is none."""

    name: str
    title: str
    unit: str
    higher_is_better: bool = False
    ratio_goal: float | None = None
    own_goal: float | None = None

    def goal_text(self) -> str:
        """The goal as the table shows it."""
        sign = "≥" if self.higher_is_better else "≤"
        if self.ratio_goal is not None:
            return f"{sign} {self.ratio_goal:g}x"
        return f"{sign} {self.own_goal:g} {self.unit}".strip() if self.own_goal is not None else ""

    def is_met(self, own: float, ratio: float | None) -> bool | None:
        """Whether the goal is met; None if there is none, or nothing to compare with."""
        value, goal = (ratio, self.ratio_goal) if self.ratio_goal is not None else (own, self.own_goal)
        if value is None or goal is None:
            return None
        return value >= goal if self.higher_is_better else value <= goal


FIGURES = (
    Figure("start_s", "start to the first acknowledged record", "s", ratio_goal=0.12),
    Figure("idle_rss_mb", "memory, idle", "MB", ratio_goal=0.2),
    Figure("loaded_rss_mb", "memory, after 1 kB records and 1,000 partitions", "MB", ratio_goal=0.1),
    Figure("bulk_produce_mb_s", "produce 1 kB records", "MB/s", True, ratio_goal=3.0),
    Figure("bulk_produce_cpu_s", "produce 1 kB records: broker's CPU", "s", ratio_goal=0.25),
    Figure("bulk_consume_mb_s", "consume 1 kB records", "MB/s", True, ratio_goal=1.0),
    Figure("bulk_consume_cpu_s", "consume 1 kB records: broker's CPU", "s"),
    Figure("small_produce_s", "produce 100 B records", "/s", True, ratio_goal=1.2),
    Figure("small_consume_s", "consume 100 B records", "/s", True, ratio_goal=1.0),
    Figure("sync_s", "one record at a time", "/s", True, ratio_goal=2.0),
    Figure("sync_p50_ms", "one record at a time, p50", "ms"),
    Figure("sync_p99_ms", "one record at a time, p99", "ms", ratio_goal=0.5),
    Figure("fan_in_s", "50 connections, one record at a time each", "/s", True, ratio_goal=1.8),
    Figure("e2e_p50_ms", "end to end at 1,000 records/s, p50", "ms", ratio_goal=0.75),
    Figure("e2e_p99_ms", "end to end at 1,000 records/s, p99", "ms", ratio_goal=0.4),
    Figure("partitions_s", "create 1,000 partitions and write to each", "s", ratio_goal=0.1),
    Figure("transactions_s", "transactions of 10 records in 2 partitions", "/s", True, ratio_goal=30.0),
    Figure("idempotent_ratio", "idempotent produce / plain produce", "", True, own_goal=0.95),
    Figure("idempotent_client_ratio", "the same with librdkafka's own part", "", True),
    Figure("group_settle_s", "classic group of 500 settles after the last join", "s", own_goal=3.0),
    Figure("heartbeat_cpu_percent", "2,000 groups heartbeat every 3 s: CPU of one core", "%", own_goal=15.0),
    Figure("commit_p50_ms", "offset commit beside bulk produce, p50", "ms"),
    Figure("commit_p99_ms", "offset commit beside bulk produce, p99", "ms", own_goal=3.0),
    Figure("echo_p99_ms", "beside the same load, a process that only echoes, p99", "ms"),
    Figure("million_ready_s", "a million committed offsets: start to serving groups", "s", own_goal=10.0),
    Figure("connections_rss_mb", "10,000 idle connections: memory they add", "MB", own_goal=250.0),
    Figure("connections_rtt_before_ms", "produce round trip p50 without them", "ms"),
    Figure("connections_rtt_beside_ms", "produce round trip p50 beside them", "ms"),
    Figure("many_start_s", "10,000 partitions: start after a clean stop", "s", own_goal=5.0),
    Figure("many_rss_mb", "10,000 partitions: memory, idle", "MB", own_goal=200.0),
    Figure("many_files", "10,000 partitions: open files", ""),
)
