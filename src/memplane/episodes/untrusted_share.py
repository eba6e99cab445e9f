"""How much of a recall may be untrusted, and what is told of a turn beyond that (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from memplane.episodes.api_types import MemoryBlock
from memplane.episodes.episode import Episode
from memplane.episodes.provenance import (
    OWN_WORDS,
    Origin,
    Trust,
    TrustPolicy,
    origin_of_source,
    own_words,
)

MAX_UNTRUSTED_PERCENT: Final = 20
MAX_BLOCKS_PER_SOURCE: Final = 2


class BlockOrigin(msgspec.Struct, frozen=True):
    """Where the words of a block come from, as it is told."""

    origin: Origin
    trust: Trust = Trust.TRUSTED
    sources: tuple[str, ...] = ()


def judge_sources(sources: Sequence[str], policy: TrustPolicy, own: Origin) -> BlockOrigin:
    """Return the origin of words that repeat sources, or else are somebody's own."""
    untrusted = [source for source in sources if not policy.is_trusted(source)]
    shown = tuple(untrusted or sources)
    origin = origin_of_source(shown[0]) if shown else own
    return BlockOrigin(origin, Trust.UNTRUSTED if untrusted else Trust.TRUSTED, tuple(sources))


def count_allowed(blocks: int) -> int:
    """Return how many of so many blocks may be untrusted."""
    return blocks * MAX_UNTRUSTED_PERCENT // 100


class UntrustedShare(msgspec.Struct):
    """Admits untrusted material until so many blocks have it, and two of one source."""

    left: int
    by_source: Counter[str] = msgspec.field(default_factory=Counter[str])

    def admit(self, origin: BlockOrigin) -> bool:
        """Say whether a block may be told, and count it."""
        if origin.trust is Trust.TRUSTED:
            return True
        counts = (self.by_source[source] for source in origin.sources)
        if self.left < 1 or max(counts, default=0) >= MAX_BLOCKS_PER_SOURCE:
            return False
        self.left -= 1
        self.by_source.update(origin.sources)
        return True


def is_within_share(blocks: Iterable[MemoryBlock]) -> bool:
    """Say whether no more than a fifth of some blocks is untrusted, and two of one source."""
    told = list(blocks)
    untrusted = [block for block in told if block.trust == Trust.UNTRUSTED]
    by_source = Counter(source for block in untrusted for source in block.sources)
    most = max(by_source.values(), default=0)
    return len(untrusted) <= count_allowed(len(told)) and most <= MAX_BLOCKS_PER_SOURCE


def limit_untrusted(blocks: Sequence[MemoryBlock]) -> list[MemoryBlock]:
    """Leave out the last untrusted blocks that are too many."""
    told = list(blocks)
    while not is_within_share(told):
        place = max(at for at, block in enumerate(told) if block.trust == Trust.UNTRUSTED)
        del told[place]
    return told


def keep_own_words(episode: Episode, policy: TrustPolicy) -> Episode:
    """Return a turn with what the user and the agent said themselves."""
    provenance = episode.provenance
    if provenance.imported and not policy.is_trusted(provenance.imported):
        return replace(episode, question="", answer="", provenance=OWN_WORDS)
    spans = tuple(one for one in provenance.repeated if not policy.is_trusted(one.source))
    answer = own_words(episode.answer, msgspec.structs.replace(provenance, repeated=spans))
    return replace(episode, answer=answer, provenance=OWN_WORDS)
