"""What a stretch of turns yields without any model: its line, its gist, what was said (pure).

Every text was said as it stands there, except for the line of the timeline, which says when, and
about what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple, TypeAlias

import msgspec

from memplane.memory.episode import Episode
from memplane.memory.feelings import Affect, feeling_of
from memplane.memory.markers import without_markers
from memplane.memory.noise import is_heartbeat
from memplane.memory.sentences import Sentence, is_time, listed, sentences_of, size_of
from memplane.memory.stretches import line_of, topics_of

__all__ = ["Affect", "Artefact", "Kind", "artefacts_of"]

_LINE: Final = 160
_GIST: Final = 600
_SAYING: Final = 400
_WIDEST: Final = 4
_CONSIDERED: Final = 64
_FEWEST_WORDS: Final = 3
_MOST_WORDS: Final = 60
_MOST_SALIENT: Final = 100
_ORDINARY: Final = 20
_SUBJECT: Final = 8
_REACH: Final = 3


class Kind(StrEnum):
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
    """

    kind: Kind
    text: str
    at: int
    sources: tuple[str, ...]
    salience: int
    affect: Affect | None = None


class _Said(NamedTuple):
    """A sentence, who said it in which turn, and its weight when nothing is claimed in it."""

    turn: Episode
    sentence: Sentence
    by_user: bool
    weight: int


_Claim: TypeAlias = tuple[Kind, int, Affect | None]
_Claimed: TypeAlias = tuple[_Said, list[_Claim]]

_MOST: Final[Mapping[Kind, int]] = {
    Kind.FACT: 12,
    Kind.DECISION: 6,
    Kind.COMMITMENT: 6,
    Kind.AFFECT: 4,
}


def artefacts_of(stretch: Sequence[Episode]) -> tuple[Artefact, ...]:
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
    salience = max((one.salience for one in found), default=_ORDINARY)
    line = line_of(stretch, _topics(telling, [one for one, _ in claimed]), _LINE)
    whole = [Artefact(Kind.TIMELINE, line, at, ids, salience)]
    if gist := _gist(claimed) or _beginning(telling):
        whole.append(Artefact(Kind.SUMMARY, gist, at, ids, salience))
    return (*whole, *found)


def _said(turn: Episode) -> Iterator[_Said]:
    """Yield what was said in a turn, the user first; what is marked is an observation's."""
    for text, by_user in ((turn.question, True), (without_markers(turn.answer), False)):
        weight = 40 if by_user else 30
        for sentence in sentences_of(text):
            idle = _SMALL_TALK.issuperset(sentence.words)
            yield _Said(turn, sentence, by_user, 0 if idle else weight)
            weight = 34 if by_user else 16


def _topics(turns: Sequence[Episode], said: Sequence[_Said]) -> Iterable[str]:
    """Return what turns are about: what the user speaks of, else the model, else its tools."""
    spoken = [one.sentence for one in said]
    for by_user in (True, False):
        asked = [one.sentence for one in said if one.weight and one.by_user is by_user]
        if found := topics_of(asked, spoken):
            return found
    return dict.fromkeys(call for turn in turns for call in turn.calls)


# The best of what was claimed.


def _best(claimed: Iterable[_Claimed]) -> Iterator[Artefact]:
    """Yield the most salient claims of each kind; what was said again is the same claim."""
    by_kind: dict[Kind, dict[tuple[str, ...], Artefact]] = {kind: {} for kind in _MOST}
    for said, claims in claimed:
        for kind, salience, affect in claims:
            words, source = said.sentence.words, said.turn.id
            known = by_kind[kind].get(words)
            if known is None:
                made = Artefact(
                    kind, said.sentence.text, said.turn.at, (source,), salience, affect
                )
            else:
                made = Artefact(
                    kind,
                    known.text,
                    known.at,
                    known.sources if known.sources[-1] == source else (*known.sources, source),
                    max(known.salience, salience),
                    known.affect,
                )
            by_kind[kind][words] = made
    for kind, most in _MOST.items():
        yield from sorted(by_kind[kind].values(), key=lambda one: -one.salience)[:most]


def _gist(claimed: Sequence[_Claimed]) -> str:
    """Return the sentences that matter most, in the order in which they were said."""
    weights = {
        place: max((salience for _, salience, _ in claims), default=said.weight)
        for place, (said, claims) in enumerate(claimed)
    }
    chosen: dict[tuple[str, ...], int] = {}
    room = _GIST + 1
    for place in sorted(weights, key=lambda place: -weights[place])[:_CONSIDERED]:
        sentence = claimed[place][0].sentence
        size = size_of(sentence.text) + 1
        if size <= min(room, _SAYING + 1) and sentence.words not in chosen and weights[place]:
            chosen[sentence.words] = place
            room -= size
    return " ".join(claimed[place][0].sentence.text for place in sorted(chosen.values()))


def _beginning(turns: Sequence[Episode]) -> str:
    """Return how the first text begins, when none of its sentences can be quoted whole."""
    for turn in turns:
        for text in (turn.question, without_markers(turn.answer)):
            words = " ".join(text[: _GIST * _WIDEST].split())
            cut = words.encode("utf-8", "surrogatepass")[: _GIST - len("…".encode())]
            if words:
                whole = cut.decode("utf-8", "ignore")
                return words if whole == words else f"{whole}…"
    return ""


# What a sentence claims.


class _Cue(Enum):
    TOLD = auto()
    DECIDED = auto()
    REMINDED = auto()
    PROMISED = auto()
    PREFERRED = auto()
    RULED = auto()


# The most telling first: what each amounts to, and how much by the user, by the model, and dated.
_MEANS: Final[Mapping[_Cue, tuple[Kind, int, int, int]]] = {
    _Cue.TOLD: (Kind.FACT, 80, 35, 0),
    _Cue.DECIDED: (Kind.DECISION, 75, 60, 5),
    _Cue.REMINDED: (Kind.COMMITMENT, 65, 45, 20),
    _Cue.PROMISED: (Kind.COMMITMENT, 55, 40, 25),
    _Cue.PREFERRED: (Kind.FACT, 75, 45, 0),
    _Cue.RULED: (Kind.FACT, 70, 30, 0),
}
_CUES: Final[Mapping[_Cue, Sequence[str]]] = {
    _Cue.TOLD: (
        *("remember", "keep in mind", "bear in mind", "note that", "for the record", "take note"),
        *("don't forget that", "for future reference", "make a note"),
    ),
    _Cue.DECIDED: (
        *("decision", "decision is", "decision was", "have decided", "has decided", "decided to"),
        *("decided on", "decided that", "decided against", "we decided", "i decided"),
        *("we've decided", "i've decided", "let's go with", "lets go with", "let's use"),
        *("let's stick with", "let's not", "we'll use", "we'll go with", "we'll stick with"),
        *("we will use", "we will go with", "i'll go with", "i will go with", "we're going with"),
        *("i'm going with", "agreed to", "agreed that", "agreed on", "we agreed", "we chose"),
        *("i chose", "chose to", "settled on", "opted for", "opted to", "we're switching to"),
        *("we switched to", "we're moving to", "we picked", "i picked"),
    ),
    _Cue.REMINDED: (
        *("remind me", "remind us", "don't forget to", "remember to", "todo", "to-do"),
        *("action item", "due on", "due by", "due at", "due in", "due next", "due date", "due"),
        *("deadline is", "i need to", "i have to", "we need to", "we have to"),
    ),
    _Cue.PROMISED: (
        *("i'll", "i will", "we'll", "we will", "i'm going to", "i am going to", "i shall"),
        *("we're going to", "i promise", "i promised", "we promised", "will send", "will deliver"),
        *("will finish", "will call", "will email", "will share", "will prepare", "will submit"),
        *("will pay", "will bring", "will review"),
    ),
    _Cue.PREFERRED: (
        *("i prefer", "i like", "i love", "i hate", "i dislike", "i enjoy", "i adore", "i loathe"),
        *("i despise", "i detest", "i can't stand", "i cannot stand", "i don't like"),
        *("i do not like", "i don't want", "i'd rather", "my favourite", "my favorite"),
        *("i'm a fan of", "i'm not a fan of", "we prefer", "prefers", "you prefer", "you like"),
        *("you love", "you hate", "your favourite", "your favorite"),
    ),
    _Cue.RULED: ("always", "never"),
}
_BY_WORD: Final[Mapping[str, Sequence[tuple[tuple[str, ...], _Cue]]]] = {
    word: [
        (tuple(phrase.split()), cue)
        for cue, phrases in _CUES.items()
        for phrase in phrases
        if phrase.split()[0] == word
    ]
    for word in {phrase.split()[0] for phrases in _CUES.values() for phrase in phrases}
}
_CUE_WORDS: Final = frozenset(_BY_WORD)

_SMALL_TALK: Final = listed(
    """
    hi hello hey thanks thank you so very much ok okay sure great good nice cool got it noted yes
    no yep nope please sorry welcome you're morning evening bye perfect awesome right all done
    understood of course a lot problem happy to help i'm glad is there anything else let me know
    if need
    """
)
_FILLERS: Final = listed(
    """
    really absolutely just also definitely truly totally still honestly actually personally
    strongly usually generally please simply certainly
    """
)
_LEADS: Final = listed(
    """
    and but so well ok okay oh yes no btw fyi hey hi hello currently now today then because since
    right anyway yeah alright sure thanks
    """
)
_ASKERS: Final = listed(
    """
    what what's who who's where where's when why how which whose is are was were do does did can
    could would should shall have has had am isn't aren't doesn't didn't won't
    """
)
_UNDONE: Final = listed("not haven't hasn't hadn't never didn't don't cannot can't won't")
_SUPPOSED: Final = listed("if whether unless until once suppose assuming before")
_RECALLS: Final = listed("i you we they don't can't cannot didn't do can not")
_NO_TELLING: Final = listed("to when how me what")
_PRONOUNS: Final = listed("it that this them you your how what these those him her when")
_ASSISTING: Final = listed(
    """
    be help explain walk show start begin assume try take check look let need use go do give get
    have keep make provide now first create write add see update run continue proceed
    """
)
_RULING: Final = listed("i we you must should will")
_DATED: Final = listed(
    """
    today tonight tomorrow eod eow cob monday tuesday wednesday thursday friday saturday sunday
    weekend week month january february april june july august september october november december
    noon midnight
    """
)
_WEIGHTY: Final = listed("important crucial critical essential must always never remember vital")
_COPULAS: Final = listed("is are was were has uses means costs owns speaks weighs use have")
_PLACED: Final = listed(
    """
    runs run lives live works work starts start listens listen depends depend consists belongs
    belong points point happens happen stands cost expires expire
    """
)
_PREPOSITIONS: Final = listed("on in at for to of with from by as behind under every near between")
_NO_SUBJECTS: Final = listed(
    """
    it this that there here these those what which who where when why how if whether let let's lets
    you please write make create fix add show give tell explain check find use run help do does did
    is are was were will would could should can may might must try see look think consider ensure
    note take get set put go ask read open list describe summarize summarise translate while as
    unless until although though not maybe perhaps then to for in on at with by from after before
    every each any some one something everything nothing i'll i'd
    """
)
_JOINTS: Final = listed(
    """
    that which who what there it this where how if whether when because and or but to not you as
    than these those why let do should would could will can may might must don't doesn't
    """
)
_EMPTY: Final = listed(
    """
    good great fine ok okay true right correct done ready possible welcome sure nice bad cool not
    very so a the that this it too wrong amazing awesome helpful clear all here there now
    """
)
_BEING: Final = listed("a an the from allergic vegetarian vegan married single called named born")
_OWN: Final = listed("my our i i'm")
_US: Final = listed("i we")
_PASSING: Final = listed("been to no going done had not never")


def _claims(said: _Said) -> list[_Claim]:
    """Return what a sentence claims: at most one thing, and a feeling."""
    sentence, by_user = said.sentence, said.by_user
    if len(sentence.words) > _MOST_WORDS or size_of(sentence.text) > _SAYING:
        return []
    found: list[_Claim] = []
    affect = feeling_of(sentence, by_user=by_user)
    if len(sentence.words) >= _FEWEST_WORDS and (claim := _claim(sentence, by_user=by_user)):
        kind, salience = claim
        raised = 10 * (affect is not None or not _WEIGHTY.isdisjoint(sentence.words))
        found.append((kind, min(_MOST_SALIENT, salience + raised), None))
    if affect:
        found.append((Kind.AFFECT, min(_MOST_SALIENT, 40 + affect.strength * 3 // 5), affect))
    return found


def _claim(sentence: Sentence, *, by_user: bool) -> tuple[Kind, int] | None:
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
        return (Kind.COMMITMENT, 65 + 20 * _is_dated(words)) if wanted else None
    if not _CUE_WORDS.isdisjoint(words) and (claim := _cued(words, by_user=by_user)):
        return claim
    return _stated(words, by_user=by_user)


def _cued(words: tuple[str, ...], *, by_user: bool) -> tuple[Kind, int] | None:
    """Judge a sentence by the most telling cue in it that holds."""
    found: set[_Cue] = set()
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


def _holds(cue: _Cue, words: tuple[str, ...], place: int, end: int) -> bool:
    """Say whether a cue is meant: not denied, not supposed, and about something."""
    before = words[place - 1] if place else ""
    following = words[end] if end < len(words) else ""
    match cue:
        case _Cue.TOLD:
            return place <= _REACH and following not in _NO_TELLING and before not in _RECALLS
        case _Cue.DECIDED:
            undone = not _UNDONE.isdisjoint(words[max(0, place - _REACH) : end])
            alone = words[place:end] == ("decision",) and place > 0
            return not undone and not alone and _SUPPOSED.isdisjoint(words[:place])
        case _Cue.REMINDED:
            if words[end - 1] == "due":
                return following != "to" and (before in _COPULAS or _is_dated(words))
            return words[place] not in _US or _is_dated(words)
        case _Cue.PROMISED:
            return before not in _JOINTS or words[place] != "will"
        case _Cue.PREFERRED:
            return bool(following) and following not in _PRONOUNS
        case _Cue.RULED:
            return following not in {"", "mind"} and (not place or before in _RULING)


def _holds_for_model(cue: _Cue, words: tuple[str, ...]) -> bool:
    """Say whether a cue means something in an answer, where much is only a way to speak."""
    if cue is _Cue.PROMISED:
        return _is_dated(words) or _ASSISTING.isdisjoint(words[1:4])
    return cue is not _Cue.PREFERRED or not {"you", "your", "prefers"}.isdisjoint(words)


def _is_dated(words: Sequence[str]) -> bool:
    return not _DATED.isdisjoint(words) or any(
        not word.isalpha() and is_time(word) for word in words
    )


def _stated(words: tuple[str, ...], *, by_user: bool) -> tuple[Kind, int] | None:
    """Judge whether a sentence says of something what it is, or where."""
    if words[0] in {"i'm", "i"} and by_user and _is_own_trait(words):
        return Kind.FACT, 65
    if words[0] in _NO_SUBJECTS:
        return None
    for place, word in enumerate(words[1 : _SUBJECT + 1], 1):
        following = words[place + 1 : place + 2]
        if word in _COPULAS or (word in _PLACED and not _PREPOSITIONS.isdisjoint(following)):
            break
    else:
        return None
    if words[place - 1] in _JOINTS or _EMPTY.issuperset(words[place + 1 :]):
        return None
    if words[0] in _US and (place > 1 or _is_passing(words[place + 1])):
        return None
    return Kind.FACT, _weight(words, by_user=by_user)


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
