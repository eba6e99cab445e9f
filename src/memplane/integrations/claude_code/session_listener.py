"""Listens to a session: its output becomes lines, and these what is to be learned."""

from __future__ import annotations

import asyncio

import msgspec

from memplane.integrations.claude_code.output_extractor import OutputExtractor, OutputLine
from memplane.integrations.claude_code.transcript import LineSource
from memplane.kit.clock import Clock, format_milli_timestamp
from memplane.observations.requests import Heard, SessionEnded


class SessionListener(msgspec.Struct):
    """Takes output as it comes; what is to be learned from it is in `queue`, and None at its end.

    Args:
        lines: Makes lines of it.
        hearing: Makes something to be learned of these.
        clock: Says when it came.
    """

    lines: LineSource
    hearing: OutputExtractor
    clock: Clock
    queue: asyncio.Queue[Heard | None] = msgspec.field(default_factory=asyncio.Queue[Heard | None])

    def hear(self, data: bytes) -> None:
        """Take the next bytes."""
        for line in self.lines.feed(data, format_milli_timestamp(self.clock())):
            self._take(line)

    def end(self, *, cut: bool = False) -> None:
        """Say that no more comes; `cut` that the agent was stopped while it wrote."""
        for line in self.lines.end(format_milli_timestamp(self.clock())):
            self._take(line)
        for heard in self.hearing.end(cut=cut):
            self.queue.put_nowait(heard)
        self.queue.put_nowait(None)

    def _take(self, line: OutputLine) -> None:
        for heard in self.hearing.line(line):
            self.queue.put_nowait(heard)

    def outcome(self, exit_code: int | None) -> SessionEnded:
        """Say how the session went: what it says of itself holds, or else its exit code."""
        said = self.hearing.outcome
        if said is None:
            return SessionEnded(is_error=bool(exit_code), exit_code=exit_code)
        return SessionEnded(
            is_error=said.is_error,
            exit_code=exit_code,
            cost_usd=said.cost_usd,
            num_turns=said.turns,
        )
