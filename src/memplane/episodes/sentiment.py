"""Strong feelings in what people say, by the words they use (pure).

A feeling has a valence (how good it is), an arousal (how stirred up somebody is) and a kind.
Mild ones are no feelings here: what a polite answer says, and what somebody denies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import msgspec

from memplane.search.sentence_splitter import Sentence, word_set

_Weight: TypeAlias = tuple[int, int, str]

_MAX_AFFECT: Final = 100
_MIN_STRENGTH: Final = 60
_HUNDRED: Final = 100
_AROUSAL_SHARE: Final = 40
_MIN_SHOUTED_CHARS: Final = 4
_CONTEXT_WORDS: Final = 3

# Of each kind, the valence and the arousal of its words, from the strongest to the mildest.
_WORDS: Final[Mapping[str, Sequence[tuple[int, int, str]]]] = {
    "joy": (
        (90, 85, "ecstatic overjoyed elated euphoric"),
        (85, 75, "thrilled delighted excited stoked 🎉 🥳"),
        (75, 60, "wonderful amazing fantastic awesome proud joyful blessed yay 😂 😄 😁"),
        (65, 45, "happy glad joy relieved grateful 😊 🙂"),
    ),
    "affection": (
        (90, 75, "adore adored adores cherish 😍 🥰"),
        (85, 65, "love loved loves ❤ 💕"),
        (65, 50, "fond beloved"),
    ),
    "anger": (
        (-90, 95, "furious livid enraged outraged fuming seething 🤬 😡"),
        (-80, 80, "angry infuriating infuriated infuriates outrageous pissed 😠"),
        (-65, 60, "resent resentful"),
    ),
    "frustration": (
        (-75, 75, "exasperated exasperating unbearable intolerable unacceptable"),
        (-70, 65, "frustrated frustrating frustrates maddening 😤"),
        (-60, 55, "annoyed annoying annoys irritated irritating ugh argh stressed overwhelmed"),
        (-55, 45, "disappointed disappointing upset"),
    ),
    "fear": (
        (-90, 95, "terrified terrifying petrified panicking panicked 😱"),
        (-75, 80, "scared dread dreading horrified frightened phobia 😨"),
        (-65, 65, "afraid anxious worried nervous"),
    ),
    "sadness": (
        (-95, 75, "heartbroken devastated grieving bereaved suicidal 💔 😭"),
        (-80, 60, "depressed miserable hopeless cried crying mourning 😢"),
        (-65, 45, "sad lonely grief unhappy 😞"),
    ),
    "dislike": (
        (-90, 80, "despise loathe detest abhor despises loathes detests"),
        (-85, 75, "hate hated hates disgusting disgusted revolting 🤮"),
        (-75, 60, "awful horrible terrible dreadful"),
        (-55, 40, "dislike dislikes"),
    ),
}
_PHRASES: Final[Mapping[str, Sequence[tuple[int, int, str]]]] = {
    "joy": (
        (85, 75, "over the moon"),
        (85, 75, "couldn't be happier"),
        (85, 75, "never been happier"),
        (80, 65, "best day of"),
    ),
    "affection": ((75, 55, "means the world"), (-65, 55, "i miss my"), (-65, 55, "miss her")),
    "anger": ((-75, 75, "mad at"), (-75, 75, "makes my blood boil")),
    "frustration": (
        (-75, 70, "fed up"),
        (-70, 65, "sick of"),
        (-70, 65, "sick and tired"),
        (-70, 65, "driving me crazy"),
        (-70, 65, "drives me crazy"),
        (-65, 55, "waste of my time"),
        (-60, 55, "tired of"),
    ),
    "fear": ((-80, 85, "scared to death"), (-80, 80, "freaking out"), (-70, 75, "freaks me out")),
    "sadness": (
        (-90, 65, "passed away"),
        (-85, 60, "broke my heart"),
        (-85, 60, "breaks my heart"),
    ),
    "dislike": (
        (-85, 70, "can't stand"),
        (-85, 70, "cannot stand"),
        (-85, 70, "makes me sick"),
        (-80, 65, "can't bear"),
    ),
}

_SELF: Final = word_set(
    "i i'm i've i'd i'll me my mine myself we we're we've us our ours ourselves ich mich mein"
)
_NEGATIONS: Final = word_set(
    """
    not no never don't doesn't didn't isn't aren't wasn't weren't won't wouldn't can't cannot
    couldn't shouldn't hardly neither nor without dont doesnt didnt isnt
    """
)
_INTENSIFIERS: Final = word_set(
    """
    very so really absolutely extremely totally completely utterly truly deeply incredibly
    insanely such fucking bloody damn super genuinely
    """
)
_SOFTENERS: Final = word_set("slightly somewhat little bit kinda mildly fairly maybe")
_WISHES: Final = word_set("would i'd we'd you'd they'd he'd she'd")
_WISHED: Final = word_set("love hate loved adore")
_OFFERS: Final = word_set("happy glad delighted thrilled excited proud afraid")
_DECLINES: Final = word_set("i i'm i've we that this it there the not you your")
_KIN: Final = word_set(
    """
    mother mum mom father dad parents grandmother grandma grandfather grandpa wife husband partner
    brother sister son daughter baby child uncle aunt cousin friend dog cat puppy kitten pet horse
    """
)
_LOST: Final = word_set("died dead lost")
_GRIEF: Final[_Weight] = (-90, 65, "sadness")


class Affect(msgspec.Struct, frozen=True):
    """A feeling.

    Args:
        valence: From -100, as bad as can be, to 100.
        arousal: From 0, calm, to 100.
        kind: Its name, such as `joy` or `fear`.
    """

    valence: int
    arousal: int
    kind: str

    @property
    def strength(self) -> int:
        """How strong it is, from 0 to 100."""
        share = abs(self.valence) * (_HUNDRED - _AROUSAL_SHARE) + self.arousal * _AROUSAL_SHARE
        return share // _HUNDRED


def _spread(table: Mapping[str, Sequence[tuple[int, int, str]]]) -> Iterator[tuple[str, _Weight]]:
    for kind, rows in table.items():
        for valence, arousal, words in rows:
            for word in words.split() if table is _WORDS else (words,):
                yield word, (valence, arousal, kind)


_OF_WORD: Final[Mapping[str, _Weight]] = dict(_spread(_WORDS))
_OF_PHRASE: Final[Mapping[str, _Weight]] = dict(_spread(_PHRASES))
_SIGNS: Final = tuple(word for word in _OF_WORD if not word.isascii())
_ANCHORS: Final[Mapping[str, str]] = {
    phrase: max(reversed(phrase.split()), key=len) for phrase in _OF_PHRASE
}
_AFFECT_WORDS: Final = frozenset((*_OF_WORD, *_LOST, *_ANCHORS.values()))


def detect_affect(sentence: Sentence, *, by_user: bool) -> Affect | None:
    """Return the strong feeling that a sentence shows; None when it shows none.

    What the user feels counts for more than what the model claims to.
    """
    words = sentence.words
    plain = sentence.text.isascii()
    if plain and _AFFECT_WORDS.isdisjoint(words):
        return None
    found = [*_weigh_words(words), *_weigh_phrases(words)]
    if not plain:
        found += (_OF_WORD[sign] for sign in _SIGNS if sign in sentence.text)
    if not found:
        return None
    felt = max(found, key=lambda one: (abs(one[0]) + one[1], one))
    affect = _affect(felt, sentence, by_user=by_user)
    return affect if affect.strength >= _MIN_STRENGTH else None


def _weigh_words(words: Sequence[str]) -> Iterator[_Weight]:
    """Yield what single words say, with those before them taken into account."""
    for place, word in enumerate(words):
        weight = _OF_WORD.get(word)
        if weight is not None and not _is_polite(words, place):
            yield _in_context(weight, words[max(0, place - _CONTEXT_WORDS) : place])
    if not _LOST.isdisjoint(words) and not _KIN.isdisjoint(words) and "my" in words:
        yield _GRIEF


def _weigh_phrases(words: Sequence[str]) -> Iterator[_Weight]:
    """Yield what several words say together."""
    for phrase, weight in _OF_PHRASE.items():
        if _ANCHORS[phrase] in words and f" {phrase} " in f" {' '.join(words)} ":
            yield weight


def _is_polite(words: Sequence[str], place: int) -> bool:
    """Say whether a word is only a way to put a wish, an offer or a refusal."""
    word = words[place]
    if word in _WISHED and place and words[place - 1] in _WISHES:
        return True
    following = words[place + 1] if place + 1 < len(words) else ""
    if word == "afraid":
        return following in _DECLINES
    return word in _OFFERS and following == "to" and "hear" not in words[place + 1 : place + 3]


def _in_context(weight: _Weight, before: Sequence[str]) -> _Weight:
    """Weigh a word by those before it: what is denied is hardly felt, or mildly the opposite."""
    valence, arousal, kind = weight
    if any(word in _NEGATIONS for word in before) and ("never", "been") not in pairwise(before):
        opposed = "frustration" if valence > 0 else "joy"
        return -valence * 2 // 5, arousal // 2, opposed
    if not _INTENSIFIERS.isdisjoint(before):
        return valence * 6 // 5, arousal * 6 // 5, kind
    if not _SOFTENERS.isdisjoint(before):
        return valence * 3 // 5, arousal * 3 // 5, kind
    return weight


def _affect(weight: _Weight, sentence: Sentence, *, by_user: bool) -> Affect:
    """Weigh a feeling by whose it is, and by how it was said."""
    valence, arousal, kind = weight
    shouted = (
        sum(len(one) >= _MIN_SHOUTED_CHARS and one.isupper() for one in sentence.text.split()) > 1
    )
    if shouted or "!" in sentence.text:
        arousal += 10
    if not _SELF.isdisjoint(sentence.words):
        percent = 100
    else:
        stressed = arousal > weight[1] or not _INTENSIFIERS.isdisjoint(sentence.words)
        percent = 85 if stressed else 70
    if not by_user:
        percent = percent * 3 // 5
    valence, arousal = valence * percent // _HUNDRED, arousal * percent // _HUNDRED
    return Affect(
        max(-_MAX_AFFECT, min(_MAX_AFFECT, valence)), max(0, min(_MAX_AFFECT, arousal)), kind
    )
