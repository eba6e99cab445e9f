"""From what was found to the blocks of an answer, within their budget (pure).

What matches comes first; a timeline, the last turns, and what was said with weight stand beside
it. Nothing stands alone, and no turn is told twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from memplane.episodes import api_types
from memplane.episodes.api_types import (
    DEFAULT_RECALL_BYTES,
    MAX_BLOCKS,
    BlockExplanation,
    MemoryBlock,
    RecallResponse,
)
from memplane.episodes.artefacts import Artefact
from memplane.episodes.episode import Episode
from memplane.episodes.provenance import Origin, Trust, TrustPolicy
from memplane.episodes.store import NoiseSummary
from memplane.episodes.untrusted_share import (
    BlockOrigin,
    UntrustedShare,
    count_allowed,
    is_within_share,
    judge_sources,
    keep_own_words,
)
from memplane.exchange.marker_parser import strip_markers
from memplane.exchange.sanitizer import sanitize_text
from memplane.search.tokenizer import count_terms
from memplane.search.turn_ranker import SignalShare

BLOCK_SOURCE: Final = "memplane"
_STALE_AFTER_US: Final = timedelta(days=30) // timedelta(microseconds=1)
_MIN_SALIENCE_OF_DETAIL: Final = 60
_MAX_DETAIL_BYTES: Final = 1000
_MAX_STALE_MATCH_BYTES: Final = 160
_MIN_BLOCK_BYTES: Final = 24
_MAX_RESPONSE_BYTES: Final = 16_000
_MAX_NAMED_SOURCES: Final = 12
_ELLIPSIS: Final = "…"
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - in UTC, which is written by hand


class ResponseBudget(msgspec.Struct, frozen=True):
    """How many bytes each part of an answer may have."""

    timeline: int = 1024
    recent: int = 2048
    salient: int = 2048
    matches: int = 3072

    def scaled(self, total: int) -> ResponseBudget:
        """Divide another total in the same proportion."""
        whole = self.timeline + self.recent + self.salient + self.matches
        parts = (self.timeline, self.recent, self.salient, self.matches)
        return ResponseBudget(*(part * total // max(whole, 1) for part in parts))


class EpisodeMatch(msgspec.Struct, frozen=True):
    """A turn that answers the question: how well (0 to 1), and what each word added."""

    episode: Episode
    score: float
    terms: Mapping[str, float]
    coverage: float
    salience: int = 0
    signals: Mapping[str, SignalShare] = msgspec.field(default_factory=dict[str, SignalShare])


class SalientMatch(msgspec.Struct, frozen=True):
    """Something that was said with weight, and how much of the question it has."""

    artefact: Artefact
    coverage: float


class SearchResult(msgspec.Struct, frozen=True):
    """Everything that an answer may be made of; the newest turn of the agent tells what is old.

    `trust` says which sources may be told of like the user's own words.
    """

    matches: Sequence[EpisodeMatch] = ()
    weighty: Sequence[SalientMatch] = ()
    timeline: Sequence[Artefact] = ()
    recent: Sequence[Episode] = ()
    noise: NoiseSummary | None = None
    newest: int = 0
    trust: TrustPolicy = TrustPolicy()

    @property
    def has_untrusted(self) -> bool:
        """Whether anything in it repeats a source that is not trusted."""
        turns = (match.episode.provenance.sources for match in self.matches)
        claims = (one.artefact.origins for one in self.weighty)
        return any(self.trust.judge(sources) is Trust.UNTRUSTED for sources in (*turns, *claims))


class _ToldMatch(msgspec.Struct, frozen=True):
    """A match as it is told: all of it, or only the words that are the user's and the agent's."""

    match: EpisodeMatch
    origin: BlockOrigin
    withheld: tuple[str, ...] = ()


class _ResponseDraft(msgspec.Struct):
    left: int
    explain: bool
    blocks: list[MemoryBlock] = msgspec.field(default_factory=list[MemoryBlock])
    told: set[str] = msgspec.field(default_factory=set[str])

    def room(self, share: int) -> int:
        """Say how many bytes the next block of a part may have."""
        return min(share, self.left) if len(self.blocks) < MAX_BLOCKS else 0

    def add(self, block: MemoryBlock) -> int:
        """Add a block when it fits; returns how many bytes it took."""
        size = len(block.text.encode())
        if (
            not block.text
            or size > self.left
            or any(one.text == block.text for one in self.blocks)
        ):
            return 0
        self.blocks.append(block)
        self.told.update(block.entry_ids)
        self.left -= size
        return size


def build_mixed_response(
    found: SearchResult, shares: ResponseBudget, *, max_bytes: int, explain: bool
) -> RecallResponse:
    """Make an answer of several resolutions; nothing when nothing matches.

    Which part of it may be untrusted depends on how long it becomes; so it is made again with
    less where it is too much.
    """
    if not found.matches and not found.weighty:
        return RecallResponse()
    answer = RecallResponse()
    shares = shares.scaled(max_bytes)
    for untrusted in range(count_allowed(MAX_BLOCKS) if found.has_untrusted else 0, -1, -1):
        blocks = _draft_mixed(
            found, shares, max_bytes=max_bytes, explain=explain, untrusted=untrusted
        )
        answer = (
            limit_response_bytes(blocks)
            if max_bytes <= DEFAULT_RECALL_BYTES
            else _to_response(blocks)
        )
        if is_within_share(answer.memories):
            break
    return answer


def _draft_mixed(
    found: SearchResult, shares: ResponseBudget, *, max_bytes: int, explain: bool, untrusted: int
) -> list[MemoryBlock]:
    """Draft an answer in which so many blocks are untrusted, at most."""
    answer = _ResponseDraft(max_bytes, explain)
    share = UntrustedShare(untrusted)
    matches = iter(_choose_words(found, share))
    _add_matches(answer, matches, found.newest, shares.matches, most=3)
    _add_salient(answer, found, share, shares.salient)
    if not answer.blocks:
        return []
    _add_timeline(answer, found.timeline, shares.timeline)
    _add_noise(answer, found.noise)
    _add_recent(answer, found, shares.recent)
    _add_matches(answer, matches, found.newest, answer.left, most=MAX_BLOCKS)
    return answer.blocks


def _choose_words(found: SearchResult, share: UntrustedShare) -> list[_ToldMatch]:
    """Decide what is told of each match.

    Beyond the share only the own words of a turn are told, where they match, and behind all
    other matches: what somebody has planted moves nothing else away.
    """
    told: list[_ToldMatch] = []
    behind: list[_ToldMatch] = []
    for match in found.matches:
        sources = match.episode.provenance.sources
        own = Origin.AGENT if match.episode.answer.strip() else Origin.USER
        origin = judge_sources(sources, found.trust, own)
        if share.admit(origin):
            told.append(_ToldMatch(match, origin))
            continue
        episode = keep_own_words(match.episode, found.trust)
        said = count_terms(f"{episode.question}\n{episode.answer}")
        if not said.keys().isdisjoint(match.terms):
            own = Origin.AGENT if episode.answer.strip() else Origin.USER
            less = msgspec.structs.replace(match, episode=episode)
            behind.append(_ToldMatch(less, BlockOrigin(own), sources))
    return told + behind


def build_match_response(
    found: SearchResult, *, limit: int, max_bytes: int, explain: bool
) -> RecallResponse:
    """Make an answer of what matches alone, one block for each turn."""
    is_more = limit > MAX_BLOCKS or max_bytes > DEFAULT_RECALL_BYTES
    answer = RecallResponse()
    for untrusted in range(count_allowed(limit) if found.has_untrusted else 0, -1, -1):
        matches = _choose_words(found, UntrustedShare(untrusted))[:limit]
        blocks = _draft_matches(matches, max_bytes, explain=explain)
        answer = _to_response(blocks) if is_more else limit_response_bytes(blocks)
        if is_within_share(answer.memories):
            break
    return answer


def build_source_response(
    found: SearchResult, *, limit: int, max_bytes: int, explain: bool
) -> RecallResponse:
    """Make an answer of what a source said, for somebody who asks for just that."""
    matches = [
        _ToldMatch(one, judge_sources(one.episode.provenance.sources, found.trust, Origin.AGENT))
        for one in found.matches[:limit]
    ]
    return _to_response(_draft_matches(matches, max_bytes, explain=explain))


def _draft_matches(
    matches: Iterable[_ToldMatch], max_bytes: int, *, explain: bool
) -> list[MemoryBlock]:
    blocks: list[MemoryBlock] = []
    left = max_bytes
    for match in matches:
        block = _match_block(match, min(_MAX_DETAIL_BYTES, left), explain=explain)
        size = len(block.text.encode())
        if size > left or not block.text:
            continue
        blocks.append(block)
        left -= size
    return blocks


def _add_matches(
    answer: _ResponseDraft, matches: Iterator[_ToldMatch], newest: int, share: int, *, most: int
) -> None:
    for told in matches:
        match = told.match
        room = answer.room(share)
        if room < _MIN_BLOCK_BYTES:
            return
        if match.episode.id in answer.told:
            continue
        stale = (
            newest - match.episode.at > _STALE_AFTER_US
            and match.salience < _MIN_SALIENCE_OF_DETAIL
        )
        detail = _MAX_STALE_MATCH_BYTES if stale else _MAX_DETAIL_BYTES
        block = _match_block(told, min(detail, room), explain=answer.explain)
        share -= answer.add(block)
        most -= 1
        if not most:
            return


def _match_block(told: _ToldMatch, room: int, *, explain: bool) -> MemoryBlock:
    match, episode = told.match, told.match.episode
    return MemoryBlock(
        text=cut_excerpt(episode, sorted(match.terms, key=lambda one: -match.terms[one]), room),
        score=round(match.score, 4),
        kind="episode_summary",
        source=BLOCK_SOURCE,
        ts=format_time(episode.at),
        id=episode.id,
        entry_ids=(episode.id,),
        origin=told.origin.origin,
        trust=told.origin.trust,
        sources=told.origin.sources,
        why=_explain_match(told) if explain else None,
    )


def _explain_match(told: _ToldMatch) -> BlockExplanation:
    match = told.match
    return BlockExplanation(
        part="match",
        terms=dict(match.terms),
        coverage=round(match.coverage, 4),
        signals={
            name: api_types.SignalContribution(added=one.added, place=one.place)
            for name, one in match.signals.items()
        },
        withheld=told.withheld,
    )


def _add_salient(
    answer: _ResponseDraft, found: SearchResult, untrusted: UntrustedShare, share: int
) -> None:
    left = 2
    for one in found.weighty:
        artefact = one.artefact
        if not left or (room := answer.room(share)) < _MIN_BLOCK_BYTES:
            return
        if answer.told.issuperset(artefact.sources):
            continue
        # The agent's own, at worst: a claim does not say which of the two made it.
        origin = judge_sources(artefact.origins, found.trust, Origin.AGENT)
        if not untrusted.admit(origin):
            continue
        text = truncate_text(artefact.text, room)
        taken = answer.add(_salient_block(one, text, origin, explain=answer.explain))
        share -= taken
        left -= taken > 0


def _salient_block(
    weighty: SalientMatch, text: str, origin: BlockOrigin, *, explain: bool
) -> MemoryBlock:
    artefact = weighty.artefact
    why = BlockExplanation(part="salient", coverage=round(weighty.coverage, 4))
    return MemoryBlock(
        text=sanitize_text(text),
        score=artefact.salience / 100,
        kind=artefact.kind,
        source=BLOCK_SOURCE,
        ts=format_time(artefact.at),
        id=_name(artefact.kind, artefact.sources, artefact.text),
        entry_ids=artefact.sources[:_MAX_NAMED_SOURCES],
        origin=origin.origin,
        trust=origin.trust,
        sources=origin.sources,
        why=why if explain else None,
        made_of=artefact.sources,
    )


def _add_timeline(answer: _ResponseDraft, timeline: Iterable[Artefact], share: int) -> None:
    room = answer.room(share)
    lines: list[Artefact] = []
    for one in timeline:
        size = len(one.text.encode()) + 1
        if size <= room and not answer.told.issuperset(one.sources):
            lines.append(one)
            room -= size
    if not lines:
        return
    lines.sort(key=lambda one: (one.at, one.sources))
    sources = tuple(one.sources[0] for one in lines)
    answer.add(
        MemoryBlock(
            text=sanitize_text("\n".join(one.text for one in lines)),
            kind="timeline",
            source=BLOCK_SOURCE,
            ts=format_time(lines[-1].at),
            id=_name("timeline", sources),
            entry_ids=sources[:_MAX_NAMED_SOURCES],
            origin=Origin.AGENT,
            trust=Trust.TRUSTED,
            why=BlockExplanation(part="timeline") if answer.explain else None,
            made_of=tuple(source for one in lines for source in one.sources),
        )
    )


def _add_noise(answer: _ResponseDraft, noise: NoiseSummary | None) -> None:
    if noise is None or not answer.room(_MAX_STALE_MATCH_BYTES):
        return
    turns = "1 routine turn" if noise.turns == 1 else f"{noise.turns} routine turns"
    answer.add(
        MemoryBlock(
            text=f"{turns} without anything new, {_minute(noise.first)} to {_minute(noise.last)}",
            kind="noise_counter",
            source=BLOCK_SOURCE,
            ts=format_time(noise.last),
            id="noise_counter",
            origin=Origin.AGENT,
            trust=Trust.TRUSTED,
            why=BlockExplanation(part="noise") if answer.explain else None,
        )
    )


def _add_recent(answer: _ResponseDraft, found: SearchResult, share: int) -> None:
    left = 2
    for turn in found.recent:
        if not left or (room := answer.room(share)) < _MIN_BLOCK_BYTES:
            return
        if turn.id in answer.told:
            continue
        sources = turn.provenance.sources
        is_trusted = found.trust.judge(sources) is Trust.TRUSTED
        episode = turn if is_trusted else keep_own_words(turn, found.trust)
        own = Origin.AGENT if episode.answer.strip() else Origin.USER
        origin = judge_sources(sources if is_trusted else (), found.trust, own)
        taken = answer.add(
            MemoryBlock(
                text=cut_excerpt(episode, (), min(_MAX_DETAIL_BYTES, room)),
                kind="recent_turn",
                source=BLOCK_SOURCE,
                ts=format_time(episode.at),
                id=episode.id,
                entry_ids=(episode.id,),
                origin=origin.origin,
                trust=origin.trust,
                sources=origin.sources,
                why=BlockExplanation(part="recent") if answer.explain else None,
            )
        )
        share -= taken
        left -= taken > 0


def limit_response_bytes(blocks: list[MemoryBlock]) -> RecallResponse:
    """Keep the whole answer below what a proxy reads: sources go first, then the last blocks."""
    recalled = _to_response(blocks)
    if _wire_size(recalled) <= _MAX_RESPONSE_BYTES:
        return recalled
    blocks = [
        msgspec.structs.replace(
            one, entry_ids=one.entry_ids[:1], made_of=one.made_of or one.entry_ids
        )
        for one in blocks
    ]
    while _wire_size(_to_response(blocks)) > _MAX_RESPONSE_BYTES:
        blocks.pop()
    return _to_response(blocks)


def _wire_size(recalled: RecallResponse) -> int:
    return len(msgspec.json.encode(_to_response(recalled.told)))


def _to_response(blocks: Iterable[MemoryBlock]) -> RecallResponse:
    return RecallResponse(memories=tuple(blocks))


def cut_excerpt(episode: Episode, terms: Sequence[str], room: int) -> str:
    """Tell a turn in so many bytes: the question, and of the answer what the words are about.

    What the answer marked is left out: it is an observation, or was not fit to be one.
    """
    question = sanitize_text(episode.question).strip()
    answer = sanitize_text(strip_markers(episode.answer)).strip()
    if not answer:
        return _around(question, terms, room)
    if not question:
        return _around(answer, terms, room)
    # "Asked: ", a newline and "Answer: "
    labels = 16
    asked = _around(question, terms, max(min(room * 2 // 5, room - labels), 0))
    left = room - labels - len(asked.encode())
    if left < _MIN_BLOCK_BYTES:
        return truncate_text(f"Asked: {asked}", room)
    return f"Asked: {asked}\nAnswer: {_around(answer, terms, left)}"


def _around(text: str, terms: Sequence[str], room: int) -> str:
    """Cut a text to so many bytes around the first of the words that it has."""
    if len(text.encode()) <= room:
        return text
    lowered = text.casefold() if text.isascii() else text.lower()
    places = (lowered.find(term) for term in terms)
    at = next((place for place in places if place >= 0), 0)
    start = max(0, at - room // 3)
    if start > 0:
        blank = text.find(" ", start, at + 1)
        start = blank + 1 if blank >= 0 else start
        return _ELLIPSIS + truncate_text(text[start:], room - len(_ELLIPSIS.encode()))
    return truncate_text(text, room)


def truncate_text(text: str, room: int) -> str:
    """Cut a text to so many bytes, at a word when there is one."""
    raw = text.encode()
    if len(raw) <= room:
        return text
    mark = len(_ELLIPSIS.encode())
    if room <= mark:
        return ""
    kept = raw[: room - mark].decode("utf-8", "ignore")
    blank = kept.rfind(" ")
    return (kept[:blank] if blank > len(kept) // 2 else kept).rstrip() + _ELLIPSIS


def format_time(at: int) -> str:
    """Write a time as RFC 3339; empty when none was said."""
    if not at:
        return ""
    # `strftime` takes ten times as long, and writes years before 1000 with fewer digits.
    return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="seconds") + "Z"


def _minute(at: int) -> str:
    return format_time(at)[:16].replace("T", " ") if at else "an unknown time"


def _name(kind: str, sources: Collection[str], text: str = "") -> str:
    """Name a block that was derived: equal ones are named alike."""
    said = "\n".join((kind, *sources, text)).encode("utf-8", "surrogatepass")
    return f"{kind}:{hashlib.sha256(said).hexdigest()[:16]}"
