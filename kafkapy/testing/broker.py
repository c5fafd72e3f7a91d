"""`Broker`: a real broker on a free port, for the length of a with block.

In a thread of this process it is up in well under 100 ms, and its parts can be looked at (`broker.parts`). With `process=True` it is the command
`kafkapy start` in a process of its own: for load, for `kill()`, for clients that fork. Data lives in a temporary folder unless `data_dir` is given,
and outlives `stop()`/`kill()` + `start()` within the block either way.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from kafkapy.client.client import Client
from kafkapy.errors import ErrorCode, KafkaError, StartError
from kafkapy.testing.process import START_TIMEOUT_S, STOP_TIMEOUT_S, ProcessRunner

HOST = "127.0.0.1"


class Broker:
    """A broker that runs while the block does."""

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        process: bool = False,
        data_dir: str | Path | None = None,
        port: int = 0,
    ) -> None:
        self.topics = dict(topics or {})
        self.config = dict(config or {})
        self.process = process
        self.port = port
        self._own_folder = data_dir is None
        self.data_dir = Path(data_dir) if data_dir is not None else Path(tempfile.mkdtemp(prefix="kafkapy-test-"))
        self._runner: _ThreadRunner | ProcessRunner | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
            for name, partitions in self.topics.items():
                self.create_topic(name, partitions)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        if self._own_folder:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    # ---- life

    def start(self) -> None:
        """Start, or start again after `stop` or `kill` on the same data and port."""
        assert self._runner is None, "the broker runs already"
        settings = {"listeners": f"PLAINTEXT://{HOST}:{self.port}", "log.dirs": str(self.data_dir), **self.config}
        runner = (
            ProcessRunner([f"--set={key}={value}" for key, value in settings.items()])
            if self.process
            else _ThreadRunner(settings)
        )
        self._runner = runner
        try:
            self.port = runner.start()
        except BaseException:
            self._runner = None
            raise

    def stop(self) -> None:
        """Stop cleanly; nothing happens if it does not run."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.stop()

    def kill(self) -> None:
        """SIGKILL, in the middle of whatever it does; only with process=True."""
        assert isinstance(self._runner, ProcessRunner), "only a broker in its own process can be killed"
        runner, self._runner = self._runner, None
        runner.kill()

    def restart(self) -> None:
        """Stop cleanly and start on the same data."""
        self.stop()
        self.start()

    # ---- use

    @property
    def bootstrap(self) -> str:
        """What clients call bootstrap.servers."""
        return f"{HOST}:{self.port}"

    @property
    def parts(self) -> Any:
        """The running kafkapy.server.broker.Broker; only in a thread."""
        assert isinstance(self._runner, _ThreadRunner), "only a broker in a thread shows its parts"
        return self._runner.broker

    @property
    def pid(self) -> int:
        """The broker's process; only with process=True."""
        assert isinstance(self._runner, ProcessRunner), "a broker in a thread has no process of its own"
        return self._runner.pid

    @property
    def log_lines(self) -> list[str]:
        """What the broker has logged; only with process=True."""
        assert isinstance(self._runner, ProcessRunner), "a broker in a thread logs to this process"
        return self._runner.lines

    def client(self, **options: Any) -> Client:
        """A new synchronous client of our own; close it, or use it in a with statement."""
        return Client(self.bootstrap, **options)

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic; when this returns every client sees it."""
        from kafkapy.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()],
        )
        with self.client() as client:
            answer = client.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        result = answer.topics[0]
        if result.error_code:
            raise KafkaError(ErrorCode(result.error_code), result.error_message)


class _ThreadRunner:
    """The broker's trio loop in a thread of this process."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="kafkapy-broker", daemon=True)
        self.broker: Any = None

    def start(self) -> int:
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise StartError(f"the broker did not come up within {START_TIMEOUT_S:.0f} s")
        if self._failure is not None:
            raise self._failure
        return int(self.broker.port)

    def stop(self) -> None:
        self.broker.request_stop_from_thread()
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise RuntimeError("the broker did not stop")
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        import trio

        from kafkapy.config.broker_config import BrokerConfig
        from kafkapy.server.broker import Broker as ServerBroker
        from kafkapy.server.broker import only_reason

        try:
            self.broker = ServerBroker(BrokerConfig(self._settings))
            trio.run(self.broker.serve, self._ready.set)
        except BaseExceptionGroup as group:
            self._failure = only_reason(group)
        except BaseException as failure:  # noqa: BLE001 -- raised again in the thread that uses the broker
            # Trio groups whatever ends a task; one reason alone is what callers want to catch.
            while isinstance(failure, BaseExceptionGroup) and len(failure.exceptions) == 1:
                failure = failure.exceptions[0]
            self._failure = failure
        finally:
            self._ready.set()
