"""One network namespace per broker and a router between them, so that any direction between any two can be cut in silence.

    clients (the namespace that this process is in) ── router ── broker 1
                                                          ├───── broker 2 ...

Every node has a /24 of its own, PREFIX.N.0: the router's side is .1, the node's side is .2; the clients' is N=100. A direction is cut by a rule
of the router that drops what comes from one address and goes to another: neither side hears of it, connections stay open, the other direction
passes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import Self

CLIENTS = 100


class NotPermitted(Exception):
    """This machine does not let us make network namespaces; the message says why."""


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise NotPermitted(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def why_not() -> str | None:
    """The reason why there can be no namespaces here; None if there can."""
    if shutil.which("ip") is None:
        return "the command ip (iproute2) is not installed"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"kafkapy-{os.getpid()}-probe"
    try:
        _run("ip", "netns", "add", name)
        _run("ip", "netns", "del", name)
    except NotPermitted as error:
        return str(error)
    return None


class Network:
    """Namespaces for nodes 1 to `nodes`, for the length of a with block."""

    def __init__(self, nodes: int, *, subnet: int | None = None) -> None:
        self._nodes = list(range(1, nodes + 1))
        # Two networks at the same time, in two processes, must not share addresses.
        self._subnet = f"10.{100 + os.getpid() % 100 if subnet is None else subnet}"
        self._name = f"kp{os.getpid()}"
        self._cut: set[tuple[int, int]] = set()

    @property
    def _router(self) -> str:
        return f"{self._name}r"

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        # The interfaces and routes go with the namespaces.
        for name in (self._router, *(self._namespace(node) for node in self._nodes)):
            subprocess.run(("ip", "netns", "del", name), capture_output=True)

    def address(self, node: int) -> str:
        """The address of a node."""
        return f"{self._subnet}.{node}.2"

    def prefix(self, node: int) -> Sequence[str]:
        """What to put before a command that shall run on the node."""
        return ("ip", "netns", "exec", self._namespace(node))

    def cut(self, senders: Iterable[int], receivers: Iterable[int]) -> None:
        """Drop whatever one of the senders sends to one of the receivers."""
        receivers = list(receivers)
        for sender in senders:
            for receiver in receivers:
                if sender != receiver and (sender, receiver) not in self._cut:
                    self._rule("add", sender, receiver)
                    self._cut.add((sender, receiver))

    def cut_both_ways(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Drop everything between the two sides."""
        some, others = list(some), list(others)
        self.cut(some, others)
        self.cut(others, some)

    def heal(self) -> None:
        """Let everything pass again."""
        for sender, receiver in sorted(self._cut):
            self._rule("del", sender, receiver)
        self._cut.clear()

    def _rule(self, verb: str, sender: int, receiver: int) -> None:
        source, destination = self.address(sender), self.address(receiver)
        self._in(self._router, "ip", "rule", verb, "prio", "10", "from", source, "to", destination, "blackhole")

    def _namespace(self, node: int) -> str:
        return f"{self._name}n{node}"

    def _in(self, namespace: str, *words: str) -> None:
        _run("ip", "netns", "exec", namespace, *words)

    def _build(self) -> None:
        for name in (self._router, *(self._namespace(node) for node in self._nodes)):
            _run("ip", "netns", "add", name)
            self._in(name, "ip", "link", "set", "lo", "up")
        self._in(self._router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for node in self._nodes:
            self._link(node, self._namespace(node))
            self._in(self._namespace(node), "ip", "route", "add", "default", "via", f"{self._subnet}.{node}.1")
        self._link(CLIENTS, None)
        _run("ip", "route", "add", f"{self._subnet}.0.0/16", "via", f"{self._subnet}.{CLIENTS}.1")

    def _link(self, node: int, namespace: str | None) -> None:
        """A cable between the router and a node; no namespace is this process's own."""
        inner, outer = f"{self._name}e{node}", f"{self._name}r{node}"
        _run("ip", "link", "add", inner, "type", "veth", "peer", "name", outer)
        _run("ip", "link", "set", outer, "netns", self._router)
        self._in(self._router, "ip", "addr", "add", f"{self._subnet}.{node}.1/24", "dev", outer)
        self._in(self._router, "ip", "link", "set", outer, "up")
        address = ("ip", "addr", "add", f"{self.address(node)}/24", "dev", inner)
        up = ("ip", "link", "set", inner, "up")
        if namespace is None:
            _run(*address)
            _run(*up)
        else:
            _run("ip", "link", "set", inner, "netns", namespace)
            self._in(namespace, *address)
            self._in(namespace, *up)
