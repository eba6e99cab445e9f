"""The lists by which redaction is measured, and its rates on them.

Both halves of each list are measured: the one that the rules were tuned on, and the blind one,
which was written before and never tuned on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memplane.redaction.redactor import Redactor
from tests.redaction import blind_benign, blind_text, blind_tokens, development, negatives
from tests.redaction.generators import ASSIGNED, STRUCTURED, Made, assigned, seeded
from tests.redaction.samples import Sample, leaks, make_tokens, make_valued

REDACTOR = Redactor(key=b"test")
EACH = 20
ALONE = ("{t}",)


def _p13_tuned() -> list[Sample]:
    rng = seeded(31)
    made = [(kind, make(rng)) for kind, make in STRUCTURED.items() for _ in range(EACH)]
    return [
        *(
            Sample(kind, rng.choice(_fitting(item)).replace("{t}", item.text), (item.secret,))
            for kind, item in made
        ),
        *make_tokens(development.P13, development.CONTEXTS, seed=development.SEED, count=EACH),
        *make_tokens(development.P13_IN_PLACE, ALONE, seed=development.SEED, count=2 * EACH),
    ]


def _fitting(made: Made) -> Sequence[str]:
    """Return the contexts for what says itself what it is; the others bring theirs along."""
    return development.CONTEXTS if made.text == made.secret else ALONE


def _assigned_tuned() -> list[Sample]:
    rng = seeded(32)
    made = [(form, assigned(rng, form)) for form in ASSIGNED for _ in range(EACH)]
    return [
        *(Sample(form, item.text, (item.secret,)) for form, item in made),
        *_valued(development.ASSIGNMENTS, development.ASSIGNED_VALUES, development.SEED),
    ]


def _valued(
    templates: Mapping[str, Sequence[str]], values: Sequence[str], seed: str
) -> Iterator[Sample]:
    for number in range(5):
        yield from make_valued(templates, values, seed=f"{seed}/{number}")


LISTS: dict[str, list[Sample]] = {
    "P13, tuned": _p13_tuned(),
    "P13, blind": [
        *make_tokens(blind_tokens.P13, blind_tokens.CONTEXTS, seed=blind_tokens.SEED, count=EACH),
        *make_tokens(blind_tokens.P13_IN_PLACE, ALONE, seed=blind_tokens.SEED, count=EACH),
    ],
    "documented, tuned": [
        *make_tokens(
            development.DOCUMENTED, development.CONTEXTS, seed=development.SEED, count=EACH
        ),
        *make_tokens(
            development.DOCUMENTED_IN_PLACE, ALONE, seed=development.SEED, count=2 * EACH
        ),
    ],
    "documented, blind": [
        *make_tokens(
            blind_tokens.DOCUMENTED, blind_tokens.CONTEXTS, seed=blind_tokens.SEED, count=EACH
        ),
        *make_tokens(blind_tokens.DOCUMENTED_IN_PLACE, ALONE, seed=blind_tokens.SEED, count=EACH),
    ],
    "assignments, tuned": _assigned_tuned(),
    "assignments, blind": list(
        _valued(blind_text.ASSIGNMENTS, blind_text.ASSIGNED_VALUES, blind_tokens.SEED)
    ),
    "prose, tuned": list(_valued(development.PROSE, development.PROSE_VALUES, development.SEED)),
    "prose, blind": list(_valued(blind_text.PROSE, blind_text.PROSE_VALUES, blind_tokens.SEED)),
}
LEAST = {"P13": 0.995, "documented": 0.99, "assignments": 0.95, "prose": 0.8}
MOST_FALSE = 0.01
HARMLESS = {
    "benign, tuned": [*development.BENIGN, *negatives.LINES],
    "benign, blind": blind_benign.make_benign(),
}


def misses(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples of which something secret is left."""
    return [sample for sample in samples if leaks(sample, REDACTOR.text(sample.text).value)]


def false_alarms(lines: Sequence[str]) -> list[str]:
    """Return the harmless lines that are changed."""
    return [line for line in lines if REDACTOR.text(line).counts]


def found_share(name: str) -> float:
    """Return the share of a list's secrets of which nothing is left."""
    return 1 - len(misses(LISTS[name])) / len(LISTS[name])


def false_share(name: str) -> float:
    """Return the share of a list's harmless lines that are changed."""
    return len(false_alarms(HARMLESS[name])) / len(HARMLESS[name])
