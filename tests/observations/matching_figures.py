"""How well the matcher judges labelled pairs of statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from memplane.observations.matching import Verdict, compare

LabelledPair: TypeAlias = "tuple[str, str, str, str, str]"
"""A category, a service, the older text, the newer text, and the label."""

VERDICTS = {
    "same": Verdict.SAME,
    "contradicting": Verdict.CONTRADICTION,
    "distinct": Verdict.DISTINCT,
    "undecided": Verdict.UNDECIDED,
}
KEEPS_BOTH = frozenset({Verdict.UNDECIDED, Verdict.DISTINCT})


@dataclass(frozen=True)
class MatchingFigures:
    """How often each label got each verdict."""

    counts: Counter[tuple[str, Verdict]]

    @property
    def pairs(self) -> int:
        """How many pairs were judged."""
        return self.counts.total()

    def precision_percent(self, label: str) -> float:
        """Return how many of the pairs with the verdict have the label, in percent."""
        verdict = VERDICTS[label]
        judged = sum(number for (_, found), number in self.counts.items() if found is verdict)
        return 100 * self.counts[label, verdict] / max(1, judged)

    def recall_percent(self, label: str) -> float:
        """Return how many of the pairs with the label have the verdict, in percent."""
        return 100 * self.counts[label, VERDICTS[label]] / max(1, self._labelled(label))

    def kept_percent(self, label: str) -> float:
        """Return of how many pairs with the label both are kept and none is doubted."""
        kept = sum(self.counts[label, verdict] for verdict in KEEPS_BOTH)
        return 100 * kept / max(1, self._labelled(label))

    def _labelled(self, label: str) -> int:
        return sum(number for (given, _), number in self.counts.items() if given == label)


def judge_pairs(pairs: Iterable[LabelledPair]) -> MatchingFigures:
    """Compare the texts of each pair and count what came out."""
    return MatchingFigures(
        Counter(
            (label, compare(old, new, service=service).verdict)
            for _, service, old, new, label in pairs
        )
    )
