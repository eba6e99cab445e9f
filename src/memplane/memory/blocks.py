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

from memplane.memory import contract
from memplane.memory.artefacts import Artefact
from memplane.memory.contract import MOST_BLOCKS, MOST_BYTES, Block, Recalled, Why
from memplane.memory.episode import Episode
from memplane.memory.markers import without_markers
from memplane.memory.rows import Noise
from memplane.memory.sanitising import sanitised
from memplane.retrieval.ranking import Added

SOURCE: Final = "memplane"
_STALE: Final = timedelta(days=30) // timedelta(microseconds=1)
_WEIGHTY: Final = 60
_DETAIL: Final = 1000
_LINE: Final = 160
_LEAST: Final = 24
_ANSWER_BYTES: Final = 16_000
_NAMED_SOURCES: Final = 12
_ELLIPSIS: Final = "…"
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - in UTC, which is written by hand


class Shares(msgspec.Struct, frozen=True):
    """How many bytes each part of an answer may have."""

    timeline: int = 1024
    recent: int = 2048
    salient: int = 2048
    matches: int = 3072

    def scaled(self, total: int) -> Shares:
        """Divide another total in the same proportion."""
        whole = self.timeline + self.recent + self.salient + self.matches
        parts = (self.timeline, self.recent, self.salient, self.matches)
        return Shares(*(part * total // max(whole, 1) for part in parts))


class Match(msgspec.Struct, frozen=True):
    """A turn that answers the question: how well (0 to 1), and what each word added."""

    episode: Episode
    score: float
    terms: Mapping[str, float]
    coverage: float
    salience: int = 0
    signals: Mapping[str, Added] = msgspec.field(default_factory=dict[str, Added])


class Weighty(msgspec.Struct, frozen=True):
    """Something that was said with weight, and how much of the question it has."""

    artefact: Artefact
    coverage: float


class Findings(msgspec.Struct, frozen=True):
    """Everything that an answer may be made of; the newest turn of the agent tells what is old."""

    matches: Sequence[Match] = ()
    weighty: Sequence[Weighty] = ()
    timeline: Sequence[Artefact] = ()
    recent: Sequence[Episode] = ()
    noise: Noise | None = None
    newest: int = 0


class _Answer(msgspec.Struct):
    left: int
    explain: bool
    blocks: list[Block] = msgspec.field(default_factory=list[Block])
    told: set[str] = msgspec.field(default_factory=set[str])

    def room(self, share: int) -> int:
        """Say how many bytes the next block of a part may have."""
        return min(share, self.left) if len(self.blocks) < MOST_BLOCKS else 0

    def add(self, block: Block) -> int:
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


def mixed(found: Findings, shares: Shares, *, max_bytes: int, explain: bool) -> Recalled:
    """Make an answer of several resolutions; nothing when nothing matches."""
    if not found.matches and not found.weighty:
        return Recalled()
    shares = shares.scaled(max_bytes)
    answer = _Answer(max_bytes, explain)
    matches = iter(found.matches)
    _add_matches(answer, matches, found.newest, shares.matches, most=3)
    _add_weighty(answer, found.weighty, shares.salient)
    if not answer.blocks:
        return Recalled()
    _add_timeline(answer, found.timeline, shares.timeline)
    _add_noise(answer, found.noise)
    _add_recent(answer, found.recent, shares.recent)
    _add_matches(answer, matches, found.newest, answer.left, most=MOST_BLOCKS)
    return within_wire(answer.blocks) if max_bytes <= MOST_BYTES else _recalled(answer.blocks)


def matches_only(found: Findings, *, limit: int, max_bytes: int, explain: bool) -> Recalled:
    """Make an answer of what matches alone, one block for each turn."""
    blocks: list[Block] = []
    left = max_bytes
    for match in found.matches[:limit]:
        block = _match_block(match, min(_DETAIL, left), explain=explain)
        size = len(block.text.encode())
        if size > left or not block.text:
            continue
        blocks.append(block)
        left -= size
    is_more = limit > MOST_BLOCKS or max_bytes > MOST_BYTES
    return _recalled(blocks) if is_more else within_wire(blocks)


def _add_matches(
    answer: _Answer, matches: Iterator[Match], newest: int, share: int, *, most: int
) -> None:
    for match in matches:
        room = answer.room(share)
        if room < _LEAST:
            return
        if match.episode.id in answer.told:
            continue
        stale = newest - match.episode.at > _STALE and match.salience < _WEIGHTY
        detail = _LINE if stale else _DETAIL
        block = _match_block(match, min(detail, room), explain=answer.explain)
        share -= answer.add(block)
        most -= 1
        if not most:
            return


def _match_block(match: Match, room: int, *, explain: bool) -> Block:
    episode = match.episode
    return Block(
        text=excerpt(episode, sorted(match.terms, key=lambda one: -match.terms[one]), room),
        score=round(match.score, 4),
        kind="episode_summary",
        source=SOURCE,
        ts=written(episode.at),
        id=episode.id,
        entry_ids=(episode.id,),
        why=_why(match) if explain else None,
    )


def _why(match: Match) -> Why:
    return Why(
        part="match",
        terms=dict(match.terms),
        coverage=round(match.coverage, 4),
        signals={
            name: contract.Signal(added=one.added, place=one.place)
            for name, one in match.signals.items()
        },
    )


def _add_weighty(answer: _Answer, weighty: Iterable[Weighty], share: int) -> None:
    left = 2
    for one in weighty:
        artefact = one.artefact
        if not left or (room := answer.room(share)) < _LEAST:
            return
        if answer.told.issuperset(artefact.sources):
            continue
        taken = answer.add(_weighty_block(one, cut(artefact.text, room), explain=answer.explain))
        share -= taken
        left -= taken > 0


def _weighty_block(weighty: Weighty, text: str, *, explain: bool) -> Block:
    artefact = weighty.artefact
    why = Why(part="salient", coverage=round(weighty.coverage, 4))
    return Block(
        text=sanitised(text),
        score=artefact.salience / 100,
        kind=artefact.kind,
        source=SOURCE,
        ts=written(artefact.at),
        id=_name(artefact.kind, artefact.sources, artefact.text),
        entry_ids=artefact.sources[:_NAMED_SOURCES],
        why=why if explain else None,
        made_of=artefact.sources,
    )


def _add_timeline(answer: _Answer, timeline: Iterable[Artefact], share: int) -> None:
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
        Block(
            text=sanitised("\n".join(one.text for one in lines)),
            kind="timeline",
            source=SOURCE,
            ts=written(lines[-1].at),
            id=_name("timeline", sources),
            entry_ids=sources[:_NAMED_SOURCES],
            why=Why(part="timeline") if answer.explain else None,
            made_of=tuple(source for one in lines for source in one.sources),
        )
    )


def _add_noise(answer: _Answer, noise: Noise | None) -> None:
    if noise is None or not answer.room(_LINE):
        return
    turns = "1 routine turn" if noise.turns == 1 else f"{noise.turns} routine turns"
    answer.add(
        Block(
            text=f"{turns} without anything new, {_minute(noise.first)} to {_minute(noise.last)}",
            kind="noise_counter",
            source=SOURCE,
            ts=written(noise.last),
            id="noise_counter",
            why=Why(part="noise") if answer.explain else None,
        )
    )


def _add_recent(answer: _Answer, recent: Iterable[Episode], share: int) -> None:
    left = 2
    for episode in recent:
        if not left or (room := answer.room(share)) < _LEAST:
            return
        if episode.id in answer.told:
            continue
        taken = answer.add(
            Block(
                text=excerpt(episode, (), min(_DETAIL, room)),
                kind="recent_turn",
                source=SOURCE,
                ts=written(episode.at),
                id=episode.id,
                entry_ids=(episode.id,),
                why=Why(part="recent") if answer.explain else None,
            )
        )
        share -= taken
        left -= taken > 0


def within_wire(blocks: list[Block]) -> Recalled:
    """Keep the whole answer below what a proxy reads: sources go first, then the last blocks."""
    recalled = _recalled(blocks)
    if _wire_size(recalled) <= _ANSWER_BYTES:
        return recalled
    blocks = [
        msgspec.structs.replace(
            one, entry_ids=one.entry_ids[:1], made_of=one.made_of or one.entry_ids
        )
        for one in blocks
    ]
    while _wire_size(_recalled(blocks)) > _ANSWER_BYTES:
        blocks.pop()
    return _recalled(blocks)


def _wire_size(recalled: Recalled) -> int:
    return len(msgspec.json.encode(_recalled(recalled.told)))


def _recalled(blocks: Iterable[Block]) -> Recalled:
    return Recalled(memories=tuple(blocks))


def excerpt(episode: Episode, terms: Sequence[str], room: int) -> str:
    """Tell a turn in so many bytes: the question, and of the answer what the words are about.

    What the answer marked is left out: it is an observation, or was not fit to be one.
    """
    question = sanitised(episode.question).strip()
    answer = sanitised(without_markers(episode.answer)).strip()
    if not answer:
        return _around(question, terms, room)
    if not question:
        return _around(answer, terms, room)
    # "Asked: ", a newline and "Answer: "
    labels = 16
    asked = _around(question, terms, max(min(room * 2 // 5, room - labels), 0))
    left = room - labels - len(asked.encode())
    if left < _LEAST:
        return cut(f"Asked: {asked}", room)
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
        return _ELLIPSIS + cut(text[start:], room - len(_ELLIPSIS.encode()))
    return cut(text, room)


def cut(text: str, room: int) -> str:
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


def written(at: int) -> str:
    """Write a time as RFC 3339; empty when none was said."""
    if not at:
        return ""
    # `strftime` takes ten times as long, and writes years before 1000 with fewer digits.
    return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="seconds") + "Z"


def _minute(at: int) -> str:
    return written(at)[:16].replace("T", " ") if at else "an unknown time"


def _name(kind: str, sources: Collection[str], text: str = "") -> str:
    """Name a block that was derived: equal ones are named alike."""
    said = "\n".join((kind, *sources, text)).encode("utf-8", "surrogatepass")
    return f"{kind}:{hashlib.sha256(said).hexdigest()[:16]}"
