"""Recorders with a mistake in them, which the proofs must notice."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from memplane.kit.durable_files import sync_data
from memplane.ledger import agent_writer
from memplane.ledger.agent_writer import AgentWriter


def ignore_short_writes() -> None:
    """Write once, and do not look how much was written."""

    def write_once(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data)

    vars(agent_writer)["write_all"] = write_once


def sync_again() -> None:
    """After a failed sync, try the same file once more."""

    def sync(self: AgentWriter) -> None:
        try:
            sync_data(self._file)
        except OSError:
            sync_data(self._file)

    AgentWriter.sync = sync  # type: ignore[method-assign]


MUTANTS: Final[Mapping[str, Callable[[], None]]] = MappingProxyType(
    {"ignore-short-writes": ignore_short_writes, "sync-again": sync_again}
)
