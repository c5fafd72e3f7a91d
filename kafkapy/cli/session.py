"""What the global options say, and the client that follows from it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kafkapy.cli.properties import ClientProperties
    from kafkapy.client.client import Client

BOOTSTRAP_DEFAULT = "localhost:9092"
BOOTSTRAP_VARIABLE = "KAFKAPY_BOOTSTRAP"

# Somebody has pressed the tab key and waits.
COMPLETION_TIMEOUT_S = 0.3


class Session:
    """One run of the command: global options first, then whatever is made of them."""

    def __init__(self) -> None:
        self.bootstrap = ""
        self.properties: list[str] = []
        self.client_config = ""
        self.debug = False
        self._settings: ClientProperties | None = None
        self._client: Client | None = None

    @property
    def settings(self) -> ClientProperties:
        """The client properties: -b before -X before --client-config before the environment."""
        if self._settings is None:
            from kafkapy.cli.properties import ClientProperties

            self._settings = ClientProperties.load(self.client_config, self.properties)
        return self._settings

    @property
    def address(self) -> str:
        """Where the brokers are."""
        return self.bootstrap or self.settings.bootstrap or os.environ.get(BOOTSTRAP_VARIABLE, "") or BOOTSTRAP_DEFAULT

    @property
    def client(self) -> Client:
        """A client of that cluster, made when it is first needed."""
        if self._client is None:
            from kafkapy.client.client import Client

            try:
                self._client = Client(
                    self.address, client_id=self.settings.client_id, timeout_s=self.settings.timeout_ms / 1000
                )
            except ValueError as error:
                raise click.UsageError(f"bootstrap address: {error}") from None
        return self._client

    def topics_for_completion(self, beginning: str) -> list[str]:
        """Names that a shell may offer; none where the cluster does not answer at once."""
        from kafkapy.client.client import Client
        from kafkapy.client.connection import Unreachable
        from kafkapy.errors import KafkaError, ProtocolError

        try:
            with Client(self.address, timeout_s=COMPLETION_TIMEOUT_S) as client:
                names = [topic.name or "" for topic in client.metadata().topics]
        except (Unreachable, KafkaError, ProtocolError, click.UsageError, ValueError):
            return []
        return sorted(name for name in names if name.startswith(beginning))

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
