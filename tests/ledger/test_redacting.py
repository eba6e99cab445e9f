"""Secrets never reach the ledger, and leave what others recorded when it is handed on."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from memplane.ledger.entry import JsonReply, StreamReply, Turn, make_entry
from memplane.ledger.folder import AgentFolder
from memplane.ledger.reader import read_entries
from memplane.ledger.turn_redaction import make_turn_redactor, redact_entry_line
from memplane.redaction.redactor import Redactor
from memplane.secret import Secret
from memplane.service.client import local_client
from memplane.service.composition.home import open_services
from memplane.settings import load_settings
from tests.support.turns import turn

KNOWN = "correct-horse-battery"
KEY = "sk-live-" + "123456789"
GITHUB = "ghp_" + "a1B2" * 9


def redactor() -> Redactor:
    return Redactor(key=b"a key", known=[Secret(KNOWN)])


def body(text: str) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": text}]}).encode()


def streamed(*deltas: str) -> bytes:
    events = ({"choices": [{"index": 0, "delta": {"content": delta}}]} for delta in deltas)
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


def secret_turns() -> list[Turn]:
    """A turn for each surface, with a secret in it."""
    split = streamed("the key is ", *(KEY[at : at + 4] for at in range(0, len(KEY), 4)), " ok")
    trace = json.dumps([{"round": 1, "tool_calls": [{"name": "x", "arguments": {"a": GITHUB},
                                                     "result": KNOWN}]}])  # fmt: skip
    return [
        turn("a", request_original=body(f"use {KEY}")),
        turn("b", request_effective=body(f"use {GITHUB}")),
        turn("c", reply=JsonReply(json.dumps({"password": "hunter2-is-weak"}).encode())),
        turn("d", stream=True, reply=StreamReply(split)),
        turn("e", tool_trace=trace.replace(" ", "").encode()),
        turn("f", request_original=body(f"it is {KNOWN}, isn't it?")),
        turn("g", requested_model=KEY),
        turn("h", effective_model=f"x/{KNOWN}", effective_provider=GITHUB, path=f"/v1?key={KEY}"),
    ]


SECRETS = [KNOWN, KEY, GITHUB, "hunter2-is-weak"]


def joined(line: bytes) -> str:
    """A line with the deltas of its stream put together, where a split secret would show."""
    entry = json.loads(line)
    text = entry["response"].get("text", "")
    events = [json.loads(one[6:]) for one in text.split("\n\n") if one.startswith("data: ")]
    said = "".join(event["choices"][0]["delta"]["content"] for event in events)
    return line.decode() + said


@pytest.mark.parametrize("number", range(8))
def test_every_surface_of_a_turn_is_redacted_and_counted(number: int) -> None:
    counts: Counter[str] = Counter()
    scrub = make_turn_redactor(redactor, counts)
    line = make_entry(scrub(secret_turns()[number])).line
    assert "[redacted:" in joined(line)
    assert not [secret for secret in SECRETS if secret in joined(line)]
    assert sum(counts.values()) >= 1


@pytest.mark.parametrize("number", range(8))
def test_the_check_would_notice_a_surface_left_out(number: int) -> None:
    line = make_entry(secret_turns()[number]).line
    assert [secret for secret in SECRETS if secret in joined(line)]


@pytest.mark.parametrize("number", range(8))
def test_a_line_that_another_recorded_is_redacted_and_keeps_its_id(number: int) -> None:
    entry = make_entry(secret_turns()[number])
    redacted = redact_entry_line(redactor(), entry.line).value
    assert not [secret for secret in SECRETS if secret in joined(redacted)]
    assert json.loads(redacted)["id"] == entry.id
    assert list(json.loads(redacted)) == list(json.loads(entry.line))


def test_a_line_without_secrets_stays_as_it_is() -> None:
    line = make_entry(turn("<tea> & biscuits", reply=StreamReply(streamed("no", " secret")))).line
    assert redact_entry_line(redactor(), line).value == line


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[1]", b'{"response":1}', b'{"response":{"text":2}}']
)
def test_what_is_no_entry_ends_nothing(line: bytes) -> None:
    assert redact_entry_line(redactor(), line).value == line


def everything_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


async def test_no_byte_on_disk_holds_a_secret(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", KNOWN)
    async with open_services(load_settings({"home": str(home)}, {})) as plane:
        for one in secret_turns():
            await plane.recording.ledger.append(one)
        status = await local_client(plane).status()
    written = everything_below(home)
    assert written.count(b"[redacted:") >= 6
    assert not [secret for secret in SECRETS if secret.encode() in written]
    assert not status.ledger.verbatim
    assert sum(status.ledger.redacted.values()) >= 6


async def test_verbatim_is_a_choice_and_is_said(home: Path) -> None:
    settings = load_settings({"home": str(home), "ledger.verbatim": "true"}, {})
    async with open_services(settings) as plane:
        await plane.recording.ledger.append(secret_turns()[0])
        assert (await local_client(plane).status()).ledger.verbatim
    [(_, line)] = read_entries(AgentFolder(home / "ledger", "analyst"))
    assert KEY.encode() in line
