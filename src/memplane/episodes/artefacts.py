"""What a stretch of turns yields without any model: its line, its gist, what was said (pure).

Every text was said as it stands there, except for the line of the timeline, which says when, and
about what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple, TypeAlias

import msgspec

from memplane.episodes.episode import Episode
from memplane.episodes.noise_filter import is_heartbeat
from memplane.episodes.provenance import SentenceSources
from memplane.episodes.sentiment import Affect, detect_affect
from memplane.episodes.stretches import extract_topics, format_timeline_line
from memplane.exchange.marker_parser import strip_markers
from memplane.search.sentence_splitter import (
    Sentence,
    is_time,
    split_sentences,
    utf8_size,
    word_set,
)

__all__ = ["Affect", "Artefact", "ArtefactKind", "extract_artefacts"]

_MAX_TIMELINE_BYTES: Final = 160
_MAX_SUMMARY_BYTES: Final = 600
_MAX_QUOTE_BYTES: Final = 400
_MAX_UTF8_BYTES_PER_CHAR: Final = 4
_MAX_SUMMARY_CANDIDATES: Final = 64
_MIN_CLAIM_WORDS: Final = 3
_MAX_CLAIM_WORDS: Final = 60
_MAX_SALIENCE: Final = 100
_DEFAULT_SALIENCE: Final = 20
_MAX_SUBJECT_WORDS: Final = 8
_NEGATION_WINDOW_WORDS: Final = 3


class ArtefactKind(StrEnum):
    """What an artefact is."""

    TIMELINE = "timeline"
    SUMMARY = "episode_summary"
    FACT = "fact"
    DECISION = "decision"
    COMMITMENT = "commitment"
    AFFECT = "affect_marker"


class Artefact(msgspec.Struct, frozen=True):
    """Something derived from turns.

    Args:
        at: When it was, in microseconds since 1970.
        sources: The ids of the entries that it was derived from, in (at, id) order.
        salience: How much it matters, in hundredths.
        affect: The feeling that it shows.
        origins: The sources that its words repeat; none are the user's or the agent's own. It is
            as trustworthy as the worst of them.
    """

    kind: ArtefactKind
    text: str
    at: int
    sources: tuple[str, ...]
    salience: int
    affect: Affect | None = None
    origins: tuple[str, ...] = ()


class _WeightedSentence(NamedTuple):
    """A sentence, who said it in which turn, and its weight when nothing is claimed in it.

    What it repeats has a `source`; without one the words are the speaker's own.
    """

    turn: Episode
    sentence: Sentence
    by_user: bool
    weight: int
    source: str = ""


_Claim: TypeAlias = tuple[ArtefactKind, int, Affect | None]
_Claimed: TypeAlias = tuple[_WeightedSentence, list[_Claim]]

_MAX_ARTEFACTS_BY_KIND: Final[Mapping[ArtefactKind, int]] = {
    ArtefactKind.FACT: 12,
    ArtefactKind.DECISION: 6,
    ArtefactKind.COMMITMENT: 6,
    ArtefactKind.AFFECT: 4,
}


def extract_artefacts(stretch: Sequence[Episode]) -> tuple[Artefact, ...]:
    """Return what the turns of a stretch yield, which come in (at, id) order.

    First the timeline's line, and the summary when anything was said; then, of each kind, the most
    salient. Heartbeats are counted, and not quoted.
    """
    if not stretch:
        return ()
    telling = [turn for turn in stretch if not is_heartbeat(turn)]
    claimed = [(one, _claims(one)) for turn in telling for one in _said(turn)]
    found = list(_best(claimed))
    at, ids = stretch[0].at, tuple(turn.id for turn in stretch)
    salience = max((one.salience for one in found), default=_DEFAULT_SALIENCE)
    own = [one for one, _ in claimed if not one.source]
    line = format_timeline_line(stretch, _topics(telling, own), _MAX_TIMELINE_BYTES)
    whole = [Artefact(ArtefactKind.TIMELINE, line, at, ids, salience)]
    gist, origins = _gist(claimed)
    if not gist:
        gist, origins = _beginning(telling)
    if gist:
        summary = Artefact(ArtefactKind.SUMMARY, gist, at, ids, salience, origins=origins)
        whole.append(summary)
    return (*whole, *found)


def _said(turn: Episode) -> Iterator[_WeightedSentence]:
    """Yield what was said in a turn, the user first; what is marked is an observation's."""
    for text, by_user in ((turn.question, True), (strip_markers(turn.answer), False)):
        weight = 40 if by_user else 30
        sources = SentenceSources(turn.provenance, "" if by_user else turn.answer)
        for sentence in split_sentences(text):
            idle = _SMALL_TALK.issuperset(sentence.words)
            source = sources.source_of(sentence.text)
            yield _WeightedSentence(turn, sentence, by_user, 0 if idle else weight, source)
            weight = 34 if by_user else 16


def _topics(turns: Sequence[Episode], said: Sequence[_WeightedSentence]) -> Iterable[str]:
    """Return what turns are about: what the user speaks of, else the model, else its tools."""
    spoken = [one.sentence for one in said]
    for by_user in (True, False):
        asked = [one.sentence for one in said if one.weight and one.by_user is by_user]
        if found := extract_topics(asked, spoken):
            return found
    return dict.fromkeys(call for turn in turns for call in turn.calls)


# The best of what was claimed.


def _best(claimed: Iterable[_Claimed]) -> Iterator[Artefact]:
    """Yield the most salient claims of each kind; what was said again is the same claim."""
    by_kind: dict[ArtefactKind, dict[tuple[bool, tuple[str, ...]], Artefact]] = {
        kind: {} for kind in _MAX_ARTEFACTS_BY_KIND
    }
    for said, claims in claimed:
        for kind, salience, affect in claims:
            # Who repeats a user's words takes nothing from them, and gains nothing by them.
            place = bool(said.source), said.sentence.words
            known = by_kind[kind].get(place)
            by_kind[kind][place] = _join_claim(known, said, kind, salience=salience, affect=affect)
    for kind, most in _MAX_ARTEFACTS_BY_KIND.items():
        yield from sorted(by_kind[kind].values(), key=lambda one: -one.salience)[:most]


def _join_claim(
    known: Artefact | None,
    said: _WeightedSentence,
    kind: ArtefactKind,
    *,
    salience: int,
    affect: Affect | None,
) -> Artefact:
    """Return a claim that was made, or made again."""
    origins = (said.source,) if said.source else ()
    if known is None:
        return Artefact(
            kind, said.sentence.text, said.turn.at, (said.turn.id,), salience, affect, origins
        )
    return msgspec.structs.replace(
        known,
        sources=tuple(dict.fromkeys((*known.sources, said.turn.id))),
        salience=max(known.salience, salience),
        origins=tuple(dict.fromkeys((*known.origins, *origins))),
    )


def _gist(claimed: Sequence[_Claimed]) -> tuple[str, tuple[str, ...]]:
    """Return the sentences that matter most, in the order in which they were said.

    With them come the sources that any of them repeats: a summary is no better than the worst.
    """
    weights = {
        place: max((salience for _, salience, _ in claims), default=said.weight)
        for place, (said, claims) in enumerate(claimed)
    }
    chosen: dict[tuple[str, ...], int] = {}
    room = _MAX_SUMMARY_BYTES + 1
    for place in sorted(weights, key=lambda place: -weights[place])[:_MAX_SUMMARY_CANDIDATES]:
        sentence = claimed[place][0].sentence
        size = utf8_size(sentence.text) + 1
        if (
            size <= min(room, _MAX_QUOTE_BYTES + 1)
            and sentence.words not in chosen
            and weights[place]
        ):
            chosen[sentence.words] = place
            room -= size
    quoted = [claimed[place][0] for place in sorted(chosen.values())]
    origins = tuple(dict.fromkeys(filter(None, (one.source for one in quoted))))
    return " ".join(one.sentence.text for one in quoted), origins


def _beginning(turns: Sequence[Episode]) -> tuple[str, tuple[str, ...]]:
    """Return how the first text begins, when none of its sentences can be quoted whole."""
    for turn in turns:
        imported = (turn.provenance.imported,) if turn.provenance.imported else ()
        for text, origins in (
            (turn.question, imported),
            (strip_markers(turn.answer), turn.provenance.sources),
        ):
            words = " ".join(text[: _MAX_SUMMARY_BYTES * _MAX_UTF8_BYTES_PER_CHAR].split())
            cut = words.encode("utf-8", "surrogatepass")[: _MAX_SUMMARY_BYTES - len("…".encode())]
            if words:
                whole = cut.decode("utf-8", "ignore")
                return words if whole == words else f"{whole}…", origins
    return "", ()


# What a sentence claims.


class _ClaimCue(Enum):
    TOLD = auto()
    DECIDED = auto()
    REMINDED = auto()
    PROMISED = auto()
    PREFERRED = auto()
    RULED = auto()


# The most telling first: what each amounts to, and how much by the user, by the model, and dated.
_MEANS: Final[Mapping[_ClaimCue, tuple[ArtefactKind, int, int, int]]] = {
    _ClaimCue.TOLD: (ArtefactKind.FACT, 80, 35, 0),
    _ClaimCue.DECIDED: (ArtefactKind.DECISION, 75, 60, 5),
    _ClaimCue.REMINDED: (ArtefactKind.COMMITMENT, 65, 45, 20),
    _ClaimCue.PROMISED: (ArtefactKind.COMMITMENT, 55, 40, 25),
    _ClaimCue.PREFERRED: (ArtefactKind.FACT, 75, 45, 0),
    _ClaimCue.RULED: (ArtefactKind.FACT, 70, 30, 0),
}
_CUES: Final[Mapping[_ClaimCue, Sequence[str]]] = {
    _ClaimCue.TOLD: (
        *("remember", "keep in mind", "bear in mind", "note that", "for the record", "take note"),
        *("don't forget that", "for future reference", "make a note"),
    ),
    _ClaimCue.DECIDED: (
        *("decision", "decision is", "decision was", "have decided", "has decided", "decided to"),
        *("decided on", "decided that", "decided against", "we decided", "i decided"),
        *("we've decided", "i've decided", "let's go with", "lets go with", "let's use"),
        *("let's stick with", "let's not", "we'll use", "we'll go with", "we'll stick with"),
        *("we will use", "we will go with", "i'll go with", "i will go with", "we're going with"),
        *("i'm going with", "agreed to", "agreed that", "agreed on", "we agreed", "we chose"),
        *("i chose", "chose to", "settled on", "opted for", "opted to", "we're switching to"),
        *("we switched to", "we're moving to", "we picked", "i picked"),
    ),
    _ClaimCue.REMINDED: (
        *("remind me", "remind us", "don't forget to", "remember to", "todo", "to-do"),
        *("action item", "due on", "due by", "due at", "due in", "due next", "due date", "due"),
        *("deadline is", "i need to", "i have to", "we need to", "we have to"),
    ),
    _ClaimCue.PROMISED: (
        *("i'll", "i will", "we'll", "we will", "i'm going to", "i am going to", "i shall"),
        *("we're going to", "i promise", "i promised", "we promised", "will send", "will deliver"),
        *("will finish", "will call", "will email", "will share", "will prepare", "will submit"),
        *("will pay", "will bring", "will review"),
    ),
    _ClaimCue.PREFERRED: (
        *("i prefer", "i like", "i love", "i hate", "i dislike", "i enjoy", "i adore", "i loathe"),
        *("i despise", "i detest", "i can't stand", "i cannot stand", "i don't like"),
        *("i do not like", "i don't want", "i'd rather", "my favourite", "my favorite"),
        *("i'm a fan of", "i'm not a fan of", "we prefer", "prefers", "you prefer", "you like"),
        *("you love", "you hate", "your favourite", "your favorite"),
    ),
    _ClaimCue.RULED: ("always", "never"),
}
_BY_WORD: Final[Mapping[str, Sequence[tuple[tuple[str, ...], _ClaimCue]]]] = {
    word: [
        (tuple(phrase.split()), cue)
        for cue, phrases in _CUES.items()
        for phrase in phrases
        if phrase.split()[0] == word
    ]
    for word in {phrase.split()[0] for phrases in _CUES.values() for phrase in phrases}
}
_CUE_WORDS: Final = frozenset(_BY_WORD)

_SMALL_TALK: Final = word_set(
    """
    hi hello hey thanks thank you so very much ok okay sure great good nice cool got it noted yes
    no yep nope please sorry welcome you're morning evening bye perfect awesome right all done
    understood of course a lot problem happy to help i'm glad is there anything else let me know
    if need
    """
)
_FILLERS: Final = word_set(
    """
    really absolutely just also definitely truly totally still honestly actually personally
    strongly usually generally please simply certainly
    """
)
_LEADS: Final = word_set(
    """
    and but so well ok okay oh yes no btw fyi hey hi hello currently now today then because since
    right anyway yeah alright sure thanks
    """
)
_ASKERS: Final = word_set(
    """
    what what's who who's where where's when why how which whose is are was were do does did can
    could would should shall have has had am isn't aren't doesn't didn't won't
    """
)
_UNDONE: Final = word_set("not haven't hasn't hadn't never didn't don't cannot can't won't")
_SUPPOSED: Final = word_set("if whether unless until once suppose assuming before")
_RECALLS: Final = word_set("i you we they don't can't cannot didn't do can not")
_NO_TELLING: Final = word_set("to when how me what")
_PRONOUNS: Final = word_set("it that this them you your how what these those him her when")
_ASSISTING: Final = word_set(
    """
    be help explain walk show start begin assume try take check look let need use go do give get
    have keep make provide now first create write add see update run continue proceed
    """
)
_RULING: Final = word_set("i we you must should will")
_DATED: Final = word_set(
    """
    today tonight tomorrow eod eow cob monday tuesday wednesday thursday friday saturday sunday
    weekend week month january february april june july august september october november december
    noon midnight
    """
)
_WEIGHTY: Final = word_set("important crucial critical essential must always never remember vital")
_COPULAS: Final = word_set("is are was were has uses means costs owns speaks weighs use have")
_PLACED: Final = word_set(
    """
    runs run lives live works work starts start listens listen depends depend consists belongs
    belong points point happens happen stands cost expires expire
    """
)
_PREPOSITIONS: Final = word_set(
    "on in at for to of with from by as behind under every near between"
)
_NO_SUBJECTS: Final = word_set(
    """
    it this that there here these those what which who where when why how if whether let let's lets
    you please write make create fix add show give tell explain check find use run help do does did
    is are was were will would could should can may might must try see look think consider ensure
    note take get set put go ask read open list describe summarize summarise translate while as
    unless until although though not maybe perhaps then to for in on at with by from after before
    every each any some one something everything nothing i'll i'd
    """
)
_JOINTS: Final = word_set(
    """
    that which who what there it this where how if whether when because and or but to not you as
    than these those why let do should would could will can may might must don't doesn't
    """
)
_EMPTY: Final = word_set(
    """
    good great fine ok okay true right correct done ready possible welcome sure nice bad cool not
    very so a the that this it too wrong amazing awesome helpful clear all here there now
    """
)
_BEING: Final = word_set(
    "a an the from allergic vegetarian vegan married single called named born"
)
_OWN: Final = word_set("my our i i'm")
_US: Final = word_set("i we")
_PASSING: Final = word_set("been to no going done had not never")


def _claims(said: _WeightedSentence) -> list[_Claim]:
    """Return what a sentence claims: at most one thing, and a feeling."""
    sentence, by_user = said.sentence, said.by_user
    if len(sentence.words) > _MAX_CLAIM_WORDS or utf8_size(sentence.text) > _MAX_QUOTE_BYTES:
        return []
    found: list[_Claim] = []
    affect = detect_affect(sentence, by_user=by_user)
    if len(sentence.words) >= _MIN_CLAIM_WORDS and (claim := _claim(sentence, by_user=by_user)):
        kind, salience = claim
        raised = 10 * (affect is not None or not _WEIGHTY.isdisjoint(sentence.words))
        found.append((kind, min(_MAX_SALIENCE, salience + raised), None))
    if affect:
        found.append(
            (ArtefactKind.AFFECT, min(_MAX_SALIENCE, 40 + affect.strength * 3 // 5), affect)
        )
    return found


def _claim(sentence: Sentence, *, by_user: bool) -> tuple[ArtefactKind, int] | None:
    """Return what a sentence says and how much that matters; None when nothing that lasts."""
    words = sentence.words
    if not _FILLERS.isdisjoint(words):
        words = tuple(word for word in words if word not in _FILLERS)
    while words and words[0] in _LEADS:
        words = words[1:]
    if not words:
        return None
    if sentence.asks or words[0] in _ASKERS:
        wanted = "remind me to" in " ".join(words)
        return (ArtefactKind.COMMITMENT, 65 + 20 * _is_dated(words)) if wanted else None
    if not _CUE_WORDS.isdisjoint(words) and (claim := _cued(words, by_user=by_user)):
        return claim
    return _stated(words, by_user=by_user)


def _cued(words: tuple[str, ...], *, by_user: bool) -> tuple[ArtefactKind, int] | None:
    """Judge a sentence by the most telling cue in it that holds."""
    found: set[_ClaimCue] = set()
    for place in [place for place, word in enumerate(words) if word in _CUE_WORDS]:
        for phrase, cue in _BY_WORD[words[place]]:
            end = place + len(phrase)
            if words[place:end] == phrase and _holds(cue, words, place, end):
                found.add(cue)
    if not found:
        return None
    for cue, (kind, by_a_user, by_a_model, dated) in _MEANS.items():
        if cue not in found or not (by_user or _holds_for_model(cue, words)):
            continue
        salience = by_a_user if by_user else by_a_model
        return kind, salience + dated * _is_dated(words)
    return None


def _holds(cue: _ClaimCue, words: tuple[str, ...], place: int, end: int) -> bool:
    """Say whether a cue is meant: not denied, not supposed, and about something."""
    before = words[place - 1] if place else ""
    following = words[end] if end < len(words) else ""
    match cue:
        case _ClaimCue.TOLD:
            return (
                place <= _NEGATION_WINDOW_WORDS
                and following not in _NO_TELLING
                and before not in _RECALLS
            )
        case _ClaimCue.DECIDED:
            undone = not _UNDONE.isdisjoint(words[max(0, place - _NEGATION_WINDOW_WORDS) : end])
            alone = words[place:end] == ("decision",) and place > 0
            return not undone and not alone and _SUPPOSED.isdisjoint(words[:place])
        case _ClaimCue.REMINDED:
            if words[end - 1] == "due":
                return following != "to" and (before in _COPULAS or _is_dated(words))
            return words[place] not in _US or _is_dated(words)
        case _ClaimCue.PROMISED:
            return before not in _JOINTS or words[place] != "will"
        case _ClaimCue.PREFERRED:
            return bool(following) and following not in _PRONOUNS
        case _ClaimCue.RULED:
            return following not in {"", "mind"} and (not place or before in _RULING)


def _holds_for_model(cue: _ClaimCue, words: tuple[str, ...]) -> bool:
    """Say whether a cue means something in an answer, where much is only a way to speak."""
    if cue is _ClaimCue.PROMISED:
        return _is_dated(words) or _ASSISTING.isdisjoint(words[1:4])
    return cue is not _ClaimCue.PREFERRED or not {"you", "your", "prefers"}.isdisjoint(words)


def _is_dated(words: Sequence[str]) -> bool:
    return not _DATED.isdisjoint(words) or any(
        not word.isalpha() and is_time(word) for word in words
    )


def _stated(words: tuple[str, ...], *, by_user: bool) -> tuple[ArtefactKind, int] | None:
    """Judge whether a sentence says of something what it is, or where."""
    if words[0] in {"i'm", "i"} and by_user and _is_own_trait(words):
        return ArtefactKind.FACT, 65
    if words[0] in _NO_SUBJECTS:
        return None
    for place, word in enumerate(words[1 : _MAX_SUBJECT_WORDS + 1], 1):
        following = words[place + 1 : place + 2]
        if word in _COPULAS or (word in _PLACED and not _PREPOSITIONS.isdisjoint(following)):
            break
    else:
        return None
    if words[place - 1] in _JOINTS or _EMPTY.issuperset(words[place + 1 :]):
        return None
    if words[0] in _US and (place > 1 or _is_passing(words[place + 1])):
        return None
    return ArtefactKind.FACT, _weight(words, by_user=by_user)


def _is_passing(word: str) -> bool:
    """Say whether what somebody has or is comes down to what they did or do: `have tried`."""
    return word in _PASSING or word.endswith(("ed", "ing"))


def _is_own_trait(words: tuple[str, ...]) -> bool:
    rest = words[1:] if words[0] == "i'm" else words[2:] if words[1] == "am" else ()
    return bool(rest) and (rest[0] in _BEING or rest[0].isdigit())


def _weight(words: Sequence[str], *, by_user: bool) -> int:
    """Weigh a plain statement: what people say of themselves most, general remarks least."""
    precise = 8 if any(map(str.isdigit, " ".join(words))) else 0
    if by_user:
        return (70 if words[0] in _OWN else 50) + precise
    return (45 if words[0] == "your" else 25) + precise
