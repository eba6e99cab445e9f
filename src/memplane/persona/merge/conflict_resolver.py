"""The three versions that meet, and who wins where both sides changed the same thing (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from memplane.persona.document import Document
from memplane.persona.version_order import tie_break_digest


class MergeInput(msgspec.Struct, frozen=True):
    """The versions that meet, with plain line endings. Two that never met have no base."""

    base: Document | None
    newer: Document
    older: Document


@dataclass(slots=True)
class ConflictResolver:
    """Notes every choice of the newer side over the older one.

    Sides of the same instant are `tied`. Which of them was taken for the newer is settled
    afterwards, by what they disagreed on and nothing else: a merged document disagrees with its
    own sides on the same texts, so it is not changed when it meets them again.
    """

    tied: bool = False
    older_lost: bool = False
    newer_lost: bool = False
    _won: list[str] = field(default_factory=list[str])
    _beaten: list[str] = field(default_factory=list[str])

    def decide(self, newer: str, older: str, *, losing: bool = True) -> str:
        """Return the newer text. `losing` says that the older one is nowhere in the result."""
        self._won.append(newer)
        self._beaten.append(older)
        self.older_lost |= losing
        return newer

    def three_way(self, base: str | None, newer: str, older: str, *, losing: bool = True) -> str:
        """Return what the side says that changed something; the newer one's when both did."""
        if newer in {older, base}:
            return older
        if older == base:
            return newer
        return self.decide(newer, older, losing=losing)

    def lose(self, *, newer: bool) -> None:
        """Note that a rule of the family left out what the newer side says, or the older."""
        self.newer_lost |= newer
        self.older_lost |= not newer

    def must_swap_sides(self) -> bool:
        """Say whether the other side has to be taken for the newer one."""
        return self.tied and tie_break_digest(*self._beaten) > tie_break_digest(*self._won)
