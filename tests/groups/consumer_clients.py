"""A client of the consumer protocol for the simulation: it reconciles as real ones do, first giving up, then taking."""

from __future__ import annotations

from random import Random
from typing import Any

from kafkapy.coordination import Reply
from kafkapy.errors import ErrorCode
from kafkapy.groups.commits import Commit
from tests.groups.fakes import owned_by, topic_id

# What it does next, when it is free to choose; repeated entries are likelier.
CHOICES = ("beat", "beat", "beat", "beat", "commit", "subscribe", "leave", "pause", "die")

REGEXES = ("", "", "u", "[tu]")


class ConsumerClient:
    """One consumer; `owned` is what it would read from right now."""

    def __init__(self, name: str, group: str, random: Random) -> None:
        self.name = name
        self.group = group
        self.random = random
        self.instance = name if random.random() < 0.3 else None
        self.topics: list[str] = random.choice((["t"], ["t", "u"]))
        self.regex = random.choice(REGEXES)
        self.rebalance_ms = random.choice((5_000, 30_000))
        self.asleep_until_ms = 0
        self.starts = 0
        self.reset()

    def reset(self) -> None:
        """A new process, with a new member id."""
        self.starts += 1
        self.member_id = f"{self.name}.{self.starts}"
        self.rejoin()

    def rejoin(self) -> None:
        """Drop everything and begin at epoch 0."""
        self.epoch = 0
        self.owned: frozenset[tuple[str, int]] = frozenset()
        self.wanted: frozenset[tuple[str, int]] = frozenset()
        self.waiting: Reply | None = None
        # Whether the next heartbeat says what is owned, and everything else too.
        self.reports = True
        self.is_full = True

    def step(self, simulation: Any) -> None:
        """Go on."""
        if self.waiting is not None:
            self.after_beat(simulation)
        elif not self.owned <= self.wanted:
            # What an assignment names is the member's alone, so once it has given the rest up it may take everything.
            self.owned = self.wanted
            self.reports = True
            simulation.note(f"{self.name} gave up, has {sorted(self.owned)}")
        elif simulation.is_calm or self.epoch == 0:
            self.beat(simulation)
        else:
            getattr(self, self.random.choice(CHOICES))(simulation)

    def beat(self, simulation: Any) -> None:
        """ConsumerGroupHeartbeat, with what must be told."""
        is_full = self.is_full or self.epoch == 0
        owned: dict[str, list[int]] | None = None
        if self.reports or is_full:
            owned = {}
            for topic, partition in sorted(self.owned):
                owned.setdefault(topic, []).append(partition)
        simulation.note(f"{self.name} beats at {self.epoch}, owns {owned}")
        self.waiting = simulation.track(
            simulation.world.beat(
                self.member_id,
                self.epoch,
                group=self.group,
                topics=self.topics if is_full else None,
                subscribed_topic_regex=self.regex if is_full else None,
                owned=owned,
                rebalance_ms=self.rebalance_ms if is_full else -1,
                instance_id=self.instance,
            )
        )
        self.reports = self.is_full = False

    def after_beat(self, simulation: Any) -> None:
        """Look for the answer; sometimes it was lost, and the client says everything again."""
        assert self.waiting is not None
        response = self.waiting.response
        if response is None:
            return
        self.waiting = None
        if simulation.is_unlucky():
            simulation.note(f"{self.name} lost its answer")
            self.is_full = True
            return
        code = ErrorCode(response.error_code)
        simulation.note(f"{self.name} is told {code.name} epoch {response.member_epoch}, {owned_by(response)}")
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self.is_full = True
        elif code:
            self.rejoin()
        else:
            self.epoch = response.member_epoch
            assigned = owned_by(response)
            if assigned is not None:
                self.wanted = frozenset((topic, one) for topic, ones in assigned.items() for one in ones)
                self.reports = True
                if self.owned <= self.wanted:
                    self.owned = self.wanted

    def commit(self, simulation: Any) -> None:
        """An offset of a partition of t that the client owns; higher than any before."""
        mine = sorted(partition for topic, partition in self.owned if topic == "t")
        if not mine:
            return
        simulation.next_offset += 1
        offset, partition = simulation.next_offset, self.random.choice(mine)
        world = simulation.world
        commits = [Commit("t", topic_id("t"), partition, offset, -1, "")]
        member = (self.member_id, self.instance, self.epoch)
        reply = simulation.track(world.groups.commit_offsets(world.caller(9), self.group, member, commits, -1, list))
        simulation.note(f"{self.name} commits {offset} for {partition}: {reply.response}")
        if reply.response == [ErrorCode.NONE]:
            simulation.checker.acknowledged[self.group, partition] = offset

    def subscribe(self, simulation: Any) -> None:
        """Read something else."""
        self.topics = self.random.choice((["t"], ["t", "u"], ["u"]))
        self.regex = self.random.choice(REGEXES)
        self.is_full = True
        self.beat(simulation)

    def leave(self, simulation: Any) -> None:
        """For good, or as a static member for a while; then a new process begins."""
        epoch = -2 if self.instance is not None and self.random.random() < 0.7 else -1
        simulation.note(f"{self.name} leaves with {epoch}")
        self.owned = frozenset()
        simulation.track(simulation.world.beat(self.member_id, epoch, group=self.group, instance_id=self.instance))
        self.reset()

    def pause(self, simulation: Any) -> None:
        """Silence that the session may or may not outlast."""
        self.asleep_until_ms = simulation.world.now_ms + self.random.choice((3_000, 20_000, 60_000))

    def die(self, simulation: Any) -> None:
        """A new process takes over."""
        simulation.note(f"{self.name} dies")
        self.reset()
