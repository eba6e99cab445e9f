"""What redaction finds and costs in CPU: prose, chat bodies, streams, texts made to be slow."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable, Iterator
from functools import partial

from bench.row import Row
from memplane.redaction.redactor import Redactor
from memplane.secret import Secret
from tests.redaction.rates import HARMLESS, LEAST, LISTS, MOST_FALSE, false_share, found_share

KB = 1024
PROSE_GOAL = 10.0
BODY_GOAL = 15.0
HOSTILE_GOAL = 50.0
LONG_GOAL = 100.0
ROUNDS = 5

PAGE = """
the memory of an agent lives in a ledger and every token of its budget is counted before the
proxy answers while the key question stays open whether a session should pass its context on to
the next one or ask the author again because a secret shared with everybody is none and reading
a long page about gardens rivers harbours and bridges takes longer than anybody would expect
"""


def run() -> Iterator[Row]:
    yield from _rates()
    random.seed(27)
    known = [Secret(random.randbytes(24).hex()) for _ in range(20)]
    redactor = Redactor(key=b"bench", known=known)
    yield from _everyday(redactor)
    for size, goal, name in (
        (100 * KB, HOSTILE_GOAL, "100 KB"),
        (KB * KB, LONG_GOAL, "1 MiB"),
    ):
        for what, text in _hostile(size).items():
            taken = _cpu(partial(redactor.text, text), 1) * 1e3
            shown = f"<= {goal:.0f} ms"
            yield Row(f"redacting {name} of {what}", f"{taken:.1f} ms", shown, taken <= goal)
    yield from _without_goal(redactor, known)


def _rates() -> Iterator[Row]:
    for name, samples in LISTS.items():
        least, share = LEAST[name.partition(",")[0]], found_share(name)
        what = f"secrets found of {name} ({len(samples)})"
        yield Row(what, f"{share:.2%}", f">= {least:.1%}", share >= least)
    for name, lines in HARMLESS.items():
        share = false_share(name)
        what = f"harmless lines changed of {name} ({len(lines)})"
        yield Row(what, f"{share:.2%}", f"<= {MOST_FALSE:.0%}", share <= MOST_FALSE)


def _without_goal(redactor: Redactor, known: list[Secret]) -> Iterator[Row]:
    crowded = "password=hunter22 " * (KB * KB // 18)
    deep = b"[" * (KB * KB)
    for what, act in (
        ("redacting 1 MiB of nothing but 58,000 passwords", partial(redactor.text, crowded)),
        ("redacting JSON that is 1 Mi lists deep", partial(redactor.json, deep)),
        ("making a redactor of 20 known secrets", lambda: Redactor(key=b"bench", known=known)),
    ):
        yield Row(what, f"{_cpu(act, 1) * 1e3:.1f} ms", "none", None)


def _everyday(redactor: Redactor) -> Iterator[Row]:
    prose = " ".join(random.choices(PAGE.split(), k=11_000))[: 64 * KB]
    bodies = (
        ("prose", lambda: redactor.text(prose), len(prose), PROSE_GOAL),
        *_documents(redactor),
    )
    for what, act, size, goal in bodies:
        taken = _cpu(act, 20) * 1e6 / (size / KB)
        reached = None if goal is None else taken <= goal
        shown = "none" if goal is None else f"<= {goal:.0f} µs/KB"
        yield Row(f"redacting {what}", f"{taken:.1f} µs/KB", shown, reached)


def _documents(
    redactor: Redactor,
) -> Iterator[tuple[str, Callable[[], object], int, float | None]]:
    body = json.dumps(_chat()).encode()
    with_secret = json.dumps({**_chat(), "user": "sk-" + random.randbytes(20).hex()}).encode()
    events = b"".join(
        b"data: " + json.dumps(_delta(word + " ")).encode() + b"\n\n"
        for word in random.choices(PAGE.split(), k=500)
    )
    yield "a chat body of 2 KB", lambda: redactor.json(body), len(body), BODY_GOAL
    yield "the same with a key in it", lambda: redactor.json(with_secret), len(with_secret), None
    yield "a stream of 500 deltas", lambda: redactor.stream(events), len(events), None


def _chat() -> dict[str, object]:
    said = [
        " ".join(random.choices(PAGE.split(), k=60)).replace(" a ", '\n"a" ') for _ in range(5)
    ]
    messages = [{"role": "user", "content": text} for text in said]
    return {"model": "some-model", "max_tokens": 4096, "temperature": 0.7, "messages": messages}


def _delta(text: str) -> dict[str, object]:
    return {
        "id": "chatcmpl-7QyqpwdfhqwajicIEznoc6Q47XAyW",
        "object": "chat.completion.chunk",
        "created": 1767323045,
        "model": "some-model",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
    }


def _hostile(size: int) -> dict[str, str]:
    noise = base64.b64encode(random.randbytes(size)).decode()
    repeated = {
        "'a'": "a",
        "'A1'": "A1",
        "'eyJ'": "eyJ",
        "'sk-'": "sk-",
        "'password='": "password=",
        "'Bearer '": "Bearer ",
        "'-----BEGIN '": "-----BEGIN ",
        "'://a:'": "://a:",
        "'AKIA'": "AKIA",
        "quotes and backslashes": '"\\',
        "letters beyond ASCII": "ßé漢🙂",
    }
    texts = {what: (unit * size)[:size] for what, unit in repeated.items()}
    return {"base64 noise": noise[:size], **texts}


def _cpu(act: Callable[[], object], times: int) -> float:
    """Return the seconds of CPU that one call takes, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(times):
            act()
        best = min(best, (time.process_time() - begun) / times)
    return best
