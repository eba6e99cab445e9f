"""How many made-up secrets are found, in every context and over every cut."""

from __future__ import annotations

import base64
import json
import random
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from memplane.redaction.redactor import Redactor
from memplane.secret import Secret
from tests.redaction.generators import ALNUM, ASSIGNED, STRUCTURED, Made, assigned, seeded, some
from tests.redaction.streams import DIALECTS, said

REDACTOR = Redactor(key=b"test")
EACH = 12
AT_LENGTH = pytest.mark.parametrize(
    "each", [EACH, pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)


def _text(text: str) -> str:
    return REDACTOR.text(text).value


def _json(text: str) -> str:
    out = REDACTOR.json(json.dumps({"messages": [{"role": "user", "content": text}]}).encode())
    found: str = json.loads(out.value)["messages"][0]["content"]
    return found


CONTEXTS: dict[str, Callable[[str], str]] = {
    "prose": lambda text: _text(f"I found {text} in the old notes, can you rotate it?"),
    "json": _json,
    "shell": lambda text: _text(f'#!/bin/sh\nexport VALUE="{text}"\nrun --with "$VALUE"\n'),
    "http": lambda text: _text(f"POST /v1?x={text} HTTP/1.1\r\nHost: h\r\n\r\n"),
}


def _missed(made: Made, out: str) -> bool:
    """Say whether the secret, or a good part of it, is still there."""
    size = max(8, len(made.secret) // 2)
    starts = range(max(1, len(made.secret) - size + 1))
    return any(made.secret[start : start + size] in out for start in starts)


def _structured(each: int = EACH) -> Iterator[tuple[str, Made]]:
    rng = seeded(13)
    for kind, make in STRUCTURED.items():
        for _ in range(each):
            yield kind, make(rng)


def _share(missed: Counter[str], tried: int) -> tuple[float, str]:
    found = 1 - missed.total() / tried
    return found, f"{found:.2%} of {tried} found; missed: {dict(missed)}"


@AT_LENGTH
@pytest.mark.parametrize("context", CONTEXTS)
def test_secrets_that_show_by_their_form_are_found_in_every_context(
    context: str, each: int
) -> None:
    made = list(_structured(each))
    missed = Counter(kind for kind, one in made if _missed(one, CONTEXTS[context](one.text)))
    found, report = _share(missed, len(made))
    assert found >= 0.995, report


def test_there_are_at_least_25_kinds_of_made_up_secrets() -> None:
    assert len(STRUCTURED) >= 25


@AT_LENGTH
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_secret_over_two_to_five_deltas_is_found(dialect: str, each: int) -> None:
    rng = seeded(14)
    made = list(_structured(each))
    missed: Counter[str] = Counter()
    for kind, one in made:
        body = DIALECTS[dialect](_cut(rng, f"well, {one.text} it is"))
        missed[kind] += _missed(one, said(REDACTOR.stream(body).value))
    found, report = _share(+missed, len(made))
    assert found >= 0.995, report


def test_redacting_each_delta_by_itself_is_noticed() -> None:
    """The check above can fail: this is what it is there for."""
    rng = seeded(15)
    made = list(_structured())
    seen = ["".join(_text(delta) for delta in _cut(rng, one.text)) for _, one in made]
    missed = Counter(
        kind for (kind, one), out in zip(made, seen, strict=True) if _missed(one, out)
    )
    assert _share(missed, len(made))[0] < 0.8


def test_secrets_that_only_their_name_gives_away_are_found() -> None:
    rng = seeded(16)
    made = [(form, assigned(rng, form)) for form in ASSIGNED for _ in range(40)]
    missed = Counter(form for form, one in made if one.secret in _text(one.text))
    found, report = _share(missed, len(made))
    assert found >= 0.95, report


def test_tool_arguments_over_several_deltas_are_redacted_by_their_names() -> None:
    rng = seeded(17)
    missed = 0
    for _ in range(40):
        arguments = json.dumps({"user": "app", "password": "correct horse", "note": "hi"})
        body = DIALECTS["chat arguments"](_cut(rng, arguments))
        out = said(REDACTOR.stream(body).value)
        missed += json.loads(out)["password"] == "correct horse"
        assert json.loads(out)["note"] == "hi"
    assert missed == 0


def _small(quoted: str) -> str:
    first, *rest = quoted.split("%")
    return "%".join((first, *(one[:2].lower() + one[2:] for one in rest)))


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 behind a user": lambda secret: base64.b64encode(f"user:{secret}".encode()).decode(),
    "base64 inside": lambda secret: base64.b64encode(f"ab{secret}cdefg".encode()).decode(),
    "urlsafe base64": lambda secret: base64.urlsafe_b64encode(f"a{secret}?".encode()).decode(),
    "url": lambda secret: urllib.parse.quote(secret, safe=""),
    "url, small letters": lambda secret: _small(urllib.parse.quote(secret, safe="")),
    "json": json.dumps,
    "json in json": lambda secret: json.dumps(json.dumps({"v": secret})),
    "json, other slashes": lambda secret: json.dumps(secret).replace("/", "\\/"),
    "hex": lambda secret: secret.encode().hex(),
    "upper-case hex": lambda secret: secret.encode().hex().upper(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("surface", ["text", "json", "stream"])
def test_known_secrets_are_found_in_every_form_and_on_every_surface(
    form: str, surface: str
) -> None:
    rng = seeded(18)
    for _ in range(20):
        secret = some(rng, ALNUM + '"/\\ é&', rng.randint(9, 40)) + "x"
        redactor = Redactor(key=b"test", known=[Secret(secret)])
        written = FORMS[form](secret)
        text = f"see [{written}] there"
        match surface:
            case "text":
                out = redactor.text(text).value
            case "json":
                out = json.loads(redactor.json(json.dumps({"a": text}).encode()).value)["a"]
            case _:
                out = said(redactor.stream(DIALECTS["chat"](_cut(rng, text))).value)
        assert "[redacted:known:" in out, (form, secret, out)
        assert written.strip('"')[3:-3] not in out


def _cut(rng: random.Random, text: str) -> list[str]:
    cuts = sorted(rng.sample(range(1, len(text)), min(rng.randint(1, 4), len(text) - 1)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def test_no_secret_is_overlooked_among_other_texts() -> None:
    """At the edge of its text each, with nothing else in it, and at each place among them."""
    rng = seeded(17)
    made = [one for _, one in _structured(3)]
    made += [assigned(rng, form) for form in ASSIGNED for _ in range(3)]
    for one in made:
        alone = REDACTOR.text(one.text)
        for place in range(3):
            texts = ["We met at noon", "and talked of boats,"]
            texts.insert(place, one.text)
            assert REDACTOR.texts(texts)[place] == alone, one.text
