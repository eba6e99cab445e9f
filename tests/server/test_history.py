"""`GET /history` and `GET /history/<agent>`, asked over the port of a real process."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from memplane.ledger.entry import Entry, Turn, make_entry
from memplane.ledger.tombstones import Tombstone, append_tombstones, get_mirror_root
from memplane.ledger.turn_note import (
    InjectedBlock,
    MessageInjection,
    TurnNote,
    add_removed_count,
    encode_note,
)
from memplane.ledger.writer import LedgerOptions
from tests.support.in_process import memplane_here
from tests.support.running import Running, running_memplane
from tests.support.turns import NOON, record, turn

SECRET = "f" * 48
REPLAY = "mem-svc-history:" + "a" * 48
SERVICE = "mem-svc:" + "b" * 48
KEY = "sk-live-" + "123456789"
"""A secret in a history that another recorder wrote."""


@dataclass(frozen=True, slots=True)
class Pod:
    running: Running
    agent_token: str

    def ask(
        self, path: str, token: str | None = None, *, method: str = "GET", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=30)
        given = {"Authorization": f"Bearer {token}"} if token is not None else {}
        connection.request(method, path, headers={**given, **headers})
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return reply.status, {k.lower(): v for k, v in reply.getheaders()}, body

    def refusal(self, path: str, token: str | None = None, **more: str) -> tuple[int, str]:
        status, headers, body = self.ask(path, token, **more)
        assert headers["content-type"].startswith("text/plain")
        return status, body.decode()

    def ids(self, path: str, token: str | None = None) -> list[str]:
        status, headers, body = self.ask(path, token or self.running.token)
        assert (status, headers["content-type"]) == (200, "application/x-ndjson"), body
        return [json.loads(line)["id"] for line in body.split(b"\n") if line]


def write_contexts(root: Path) -> None:
    """What a pod's compile step leaves: tokens for an agent and for services."""
    for agent in ("analyst", "pod-only", "noted"):
        write_context(root, agent)
    (root / "broken").mkdir()
    (root / "broken" / "metadata.json").write_text("{")


def write_context(root: Path, agent: str) -> None:
    (root / agent / "service-auth").mkdir(parents=True)
    (root / agent / "metadata.json").write_text(json.dumps({"token": f"{agent}:{SECRET}"}))
    for service, token in (("cllama-history", REPLAY), ("mem-svc", SERVICE)):
        body = {"service": service, "auth_type": "bearer", "token": token, "principal": "m"}
        (root / agent / "service-auth" / f"{service}.json").write_text(json.dumps(body))


def foreign_line() -> bytes:
    """A line of another recorder, with a secret in it."""
    said = f"my key is {KEY}"
    return make_entry(turn(said, ts=NOON - timedelta(days=1))).line + b"\n"


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    folder = tmp_path_factory.mktemp("pod")
    write_contexts(folder / "context")
    (folder / "ledger" / "analyst").mkdir(parents=True)
    (folder / "ledger" / "analyst" / "history.jsonl.1").write_bytes(foreign_line())
    turns = [turn(f"turn {n}", ts=NOON + timedelta(seconds=n // 3)) for n in range(120)]
    asyncio.run(record(folder / "ledger", turns, LedgerOptions(max_bytes=9000)))
    noted = [
        turn("a title, please", agent="noted", note=encode_note(TurnNote(left_out="title"))),
        turn("[redacted:openai:0011aabb]", agent="noted", note=add_removed_count(b"", 2)),
        turn("[redacted:github:2233ccdd]", agent="noted", note=add_removed_count(b"", 1)),
    ]
    asyncio.run(record(folder / "ledger", noted))
    env = {
        "MEMPLANE_CONTEXT_ROOT": str(folder / "context"),
        "CLAW_SESSION_HISTORY_DIR": str(folder / "ledger"),
    }
    with running_memplane(folder / "home", env=env) as running:
        made = memplane_here(
            folder / "home", "token", "create", "--agent", "keeper", "--scope", "read"
        )
        yield Pod(running, made.stdout.strip())


def test_the_agents_own_token_reads_its_history(pod: Pod) -> None:
    own = f"analyst:{SECRET}"
    assert len(pod.ids("/history?limit=1000", own)) == 121
    assert len(pod.ids("/history/analyst?limit=1000", own)) == 121
    status, _, body = pod.ask("/history?limit=1000", **{"x-api-key": own})
    assert (status, body.count(b"\n")) == (200, 121)
    status, _, body = pod.ask("/history?limit=1", authorization="", **{"x-api-key": own})
    assert status == 200


def test_a_token_of_our_own_reads_too_and_only_its_agents(pod: Pod) -> None:
    assert pod.ids("/history", pod.agent_token) == []
    assert pod.ids("/history/keeper", pod.agent_token) == []
    assert pod.refusal("/history/analyst", pod.agent_token) == (403, "forbidden")


def test_an_admin_and_a_replay_read_by_name(pod: Pod) -> None:
    everything = pod.ids("/history/analyst?limit=1000")
    assert len(set(everything)) == 121
    assert pod.ids("/history/analyst?limit=1000", REPLAY) == everything


def test_a_replay_is_redacted_and_the_others_see_what_was_recorded(pod: Pod) -> None:
    path = "/history/analyst?limit=1"
    as_recorded = foreign_line()
    assert pod.ask(path, pod.running.token)[2] == as_recorded
    assert pod.ask(path, f"analyst:{SECRET}")[2] == as_recorded
    replayed = pod.ask(path, REPLAY)[2]
    assert KEY.encode() not in replayed
    assert b"[redacted:" in replayed
    assert json.loads(replayed)["id"] == json.loads(as_recorded)["id"]


def test_a_replay_has_no_memory_in_it_once_something_was_forgotten(pod: Pod) -> None:
    root, path = pod.running.home.parent / "ledger", "/history/pod-only"
    memory = "--- BEGIN MEMORY (from mem) ---\nThe osprey nests.\n--- END MEMORY ---"
    (entry,) = asyncio.run(record(root, [turn(f"Where?\n{memory}", agent="pod-only")]))
    assert b"osprey" in pod.ask(path, REPLAY)[2]
    stone = Tombstone("2026-03-01T12:00:00Z", "pod-only", "mem", "cited")
    append_tombstones(get_mirror_root(root), "pod-only", [stone])
    replayed = pod.ask(path, REPLAY)[2]
    assert b"osprey" not in replayed
    assert json.loads(replayed)["id"] == entry.id
    for token in (pod.running.token, f"pod-only:{SECRET}"):
        assert pod.ask(path, token)[2] == entry.line + b"\n", "no note says that it was told"


def forget_in(pod: Pod, agent: str, *ids: str) -> None:
    root = pod.running.home.parent / "ledger"
    stones = [Tombstone("2026-03-01T12:00:00Z", agent, "mem", one) for one in ids]
    append_tombstones(get_mirror_root(root), agent, stones)


def forgetful(pod: Pod, agent: str, *forgotten: int) -> list[Entry]:
    """Record thirty turns of an agent, a second apart, and forget some of them."""
    write_context(pod.running.home.parent / "context", agent)
    turns = [turn(f"turn {n}", agent=agent, ts=NOON + timedelta(seconds=n)) for n in range(30)]
    entries = asyncio.run(record(pod.running.home.parent / "ledger", turns))
    forget_in(pod, agent, *(entries[at].id for at in forgotten))
    return entries


@pytest.mark.parametrize("token", ["self", REPLAY, "admin"])
def test_who_pages_by_time_gets_full_pages_and_nothing_that_was_forgotten(
    token: str, pod: Pod
) -> None:
    """A memory service without cursors takes a page that is not full for the end."""
    agent = f"by-time-{['self', REPLAY, 'admin'].index(token)}"
    gone = [*range(10), 12, 19, 29]
    entries = forgetful(pod, agent, *gone)
    asked = {"self": f"{agent}:{SECRET}", "admin": pod.running.token}.get(token, token)
    path, met = f"/history/{agent}?limit=10", list[str]()
    while True:
        status, _, body = pod.ask(path, asked)
        assert status == 200
        page = [json.loads(line) for line in body.splitlines()]
        met += [one["id"] for one in page]
        if len(page) < 10:
            break
        path = f"/history/{agent}?limit=10&after={page[-1]['ts']}"
    assert met == [one.id for at, one in enumerate(entries) if at not in gone]


def test_a_walk_by_cursor_passes_what_was_forgotten_also_where_it_stands(pod: Pod) -> None:
    entries = forgetful(pod, "by-cursor")
    path = "/history/by-cursor?limit=7"
    _, headers, body = pod.ask(path, pod.running.token)
    assert body.count(b"\n") == 7
    gone = [0, 6, 7, 8, 20, *range(25, 30)]  # the last one that was read is among them
    forget_in(pod, "by-cursor", *(entries[at].id for at in gone))
    met = list[str]()
    while headers["x-memplane-has-more"] == "true":
        cursor = headers["x-memplane-next-cursor"]
        _, headers, body = pod.ask(f"{path}&cursor={cursor}", pod.running.token)
        met += [json.loads(line)["id"] for line in body.splitlines()]
    assert met == [one.id for at, one in enumerate(entries) if at > 6 and at not in gone]
    (later,) = asyncio.run(
        record(pod.running.home.parent / "ledger", [turn("later", agent="by-cursor")])
    )
    cursor = headers["x-memplane-next-cursor"]
    assert pod.ids(f"{path}&cursor={cursor}") == [later.id]


def test_an_admin_who_asks_for_it_sees_what_was_forgotten_marked_with_its_own_bytes(
    pod: Pod,
) -> None:
    entries = forgetful(pod, "asked-for", 3)
    path = "/history/asked-for?forgotten=include"
    lines = pod.ask(path, pod.running.token)[2].splitlines()
    assert lines[3] == b'{"forgotten":true,"entry":' + entries[3].line + b"}"
    assert [*lines[:3], *lines[4:]] == [one.line for one in (*entries[:3], *entries[4:])]
    refused = (403, "only an admin may see what was forgotten: leave out forgotten=include")
    for token in (f"asked-for:{SECRET}", REPLAY):
        assert pod.refusal(path, token) == refused
    assert pod.refusal("/history?forgotten=include", f"asked-for:{SECRET}") == refused
    wrong = pod.refusal("/history/asked-for?forgotten=yes", pod.running.token)
    assert wrong == (400, "forgotten must be include")
    assert pod.refusal(path, "wrong") == (403, "forbidden"), "the token is looked at first"


def test_a_prompt_that_was_told_of_a_forgotten_turn_is_shown_without_that_memory(pod: Pod) -> None:
    root, path = pod.running.home.parent / "ledger", "/history/told"
    write_context(root.parent / "context", "told")
    (cited,) = asyncio.run(record(root, [turn("Where?", agent="told")]))

    def told_of(entry_id: str) -> Turn:
        memory = f"--- BEGIN MEMORY (from m) ---\nAs in {entry_id}.\n--- END MEMORY ---"
        block = InjectedBlock(id="b", entry_ids=(entry_id,))
        note = TurnNote(
            injected=(MessageInjection(message=0, service="m", bytes=9, blocks=(block,)),)
        )
        return turn(f"And then?\n{memory}", agent="told", note=encode_note(note))

    citing, other = asyncio.run(record(root, [told_of(cited.id), told_of("hist1_other")]))
    for token in (pod.running.token, f"told:{SECRET}"):
        assert pod.ask(path, token)[2].splitlines() == [cited.line, citing.line, other.line]
    forget_in(pod, "told", cited.id)
    for token in (pod.running.token, f"told:{SECRET}"):
        shown, last = pod.ask(path, token)[2].splitlines()
        assert json.loads(shown)["id"] == citing.id
        assert b"As in" not in shown
        assert last == other.line, "that prompt was told of something else"
    asked = pod.ask(f"{path}?forgotten=include", pod.running.token)[2].splitlines()
    assert asked[1:] == [citing.line, other.line]
    (later,) = asyncio.run(record(root, [told_of(cited.id)]))
    assert b"As in" in later.line
    assert b"As in" not in pod.ask(path, pod.running.token)[2].splitlines()[-1]
    forget_in(pod, "told", "hist1_other")
    assert b"As in" not in pod.ask(path, pod.running.token)[2]


@pytest.mark.parametrize(
    ("token", "refused"),
    [
        (None, (401, "invalid bearer token")),
        ("no colon", (401, "invalid bearer token")),
        ("analyst:", (401, "invalid bearer token")),
        (":x", (401, "invalid bearer token")),
        (REPLAY, (401, "invalid bearer token")),
        ("nobody:x", (403, "agent context not found")),
        ("..:x", (403, "agent context not found")),
        ("broken:x", (403, "agent context not found")),
        ("analyst:wrong", (403, "invalid agent secret")),
        (f"pod-only:{SECRET}x", (403, "invalid agent secret")),
    ],
)
def test_refusals_of_the_own_history(
    token: str | None, refused: tuple[int, str], pod: Pod
) -> None:
    assert pod.refusal("/history", token) == refused


def test_an_admin_has_no_own_history(pod: Pod) -> None:
    status, text = pod.refusal("/history", pod.running.token)
    assert (status, "name one, as in /history/AGENT" in text) == (400, True)


@pytest.mark.parametrize(
    ("path", "token", "refused"),
    [
        ("/history/analyst", None, (401, "missing bearer token")),
        ("/history/analyst", "wrong", (403, "forbidden")),
        ("/history/analyst", "analyst:wrong", (403, "forbidden")),
        ("/history/analyst", f"pod-only:{SECRET}", (403, "forbidden")),
        ("/history/analyst", SERVICE, (403, "forbidden")),
        ("/history/nobody", None, (401, "missing bearer token")),
        ("/history/nobody", "wrong", (403, "forbidden")),
        ("/history/nobody", "nobody:wrong", (403, "forbidden")),
        ("/history/%2e%2e", None, (401, "missing bearer token")),
        ("/history/..%00", None, (401, "missing bearer token")),
        ("/history/.memplane", None, (401, "missing bearer token")),
    ],
)
def test_refusals_of_an_agents_history(
    path: str, token: str | None, refused: tuple[int, str], pod: Pod
) -> None:
    assert pod.refusal(path, token) == refused


def test_only_an_admin_learns_whether_an_agent_exists(pod: Pod) -> None:
    """Everybody else gets the same answer for a name that exists and for one that does not."""
    for name in ("nobody", "%2e%2e", "..%00", ".memplane"):
        path = f"/history/{name}"
        assert pod.refusal(path, pod.running.token) == (404, "agent context not found")
        for token in (None, "wrong", SERVICE, pod.agent_token, f"pod-only:{SECRET}"):
            assert pod.refusal(path, token) == pod.refusal("/history/analyst", token), token


@pytest.mark.parametrize("path", ["/history", "/history/analyst"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_histories_are_only_read(path: str, method: str, pod: Pod) -> None:
    assert pod.refusal(path, pod.running.token, method=method) == (405, "Method Not Allowed")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"after": "yesterday"}, "after must be RFC3339"),
        ({"after": "2026-03-01"}, "after must be RFC3339"),
        ({"after": "2026-03-01 12:00:00Z"}, "after must be RFC3339"),
        ({"after": "2026-03-01T12:00:00"}, "after must be RFC3339"),
        ({"after": "2026-13-01T12:00:00Z"}, "after must be RFC3339"),
        ({"limit": "0"}, "limit must be > 0"),
        ({"limit": "-3"}, "limit must be > 0"),
        ({"limit": "abc"}, "limit must be an integer"),
        ({"limit": "2x"}, "limit must be an integer"),
        ({"limit": "1.5"}, "limit must be an integer"),
        ({"cursor": "nonsense"}, "cursor is invalid"),
        ({"cursor": "WzEsMCwiaGlzdDFfeCJd"}, "cursor is invalid"),
        ({"cursor": "x", "after": "2026-03-01T12:00:00Z"},
         "cursor and after are mutually exclusive"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(query: dict[str, str], text: str, pod: Pod) -> None:
    assert pod.refusal(f"/history/analyst?{urlencode(query)}", pod.running.token) == (400, text)


@pytest.mark.parametrize(
    "body", [[1, -5, "x"], [1, 2**70, "x"], [-1, 0, "x"], [True, 0, "x"], [1, 0, "x", "noon"], 7]
)
def test_a_forged_cursor_is_refused(body: object, pod: Pod) -> None:
    text = base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")
    refused = pod.refusal(f"/history/analyst?cursor={text}", pod.running.token)
    assert refused == (400, "cursor is invalid")


def test_zeros_before_a_limit_mean_nothing(pod: Pod) -> None:
    assert len(pod.ids("/history/analyst?limit=00000000005")) == 5
    assert len(pod.ids(f"/history/analyst?limit={'9' * 400}")) == 121


def test_a_walk_from_a_moment_on_keeps_to_it(pod: Pod) -> None:
    folder = pod.running.home.parent / "ledger" / "unsorted"
    folder.mkdir()
    times = [NOON + timedelta(seconds=(n * 7) % 20) for n in range(20)]
    turns = [make_entry(turn(f"turn {n}", ts=ts)) for n, ts in enumerate(times)]
    (folder / "history.jsonl").write_bytes(b"".join(one.line + b"\n" for one in turns))
    after = NOON + timedelta(seconds=9)
    path, met = "/history/unsorted?limit=3&after=2026-03-01T12:00:09Z", list[str]()
    while True:
        _, headers, body = pod.ask(path, pod.running.token)
        met += [json.loads(line)["id"] for line in body.splitlines()]
        if headers["x-memplane-has-more"] == "false":
            break
        path = f"/history/unsorted?limit=3&cursor={headers['x-memplane-next-cursor']}"
    assert met == [one.id for one, ts in zip(turns, times, strict=True) if ts > after]


def test_a_replay_leaves_out_what_is_no_turn_and_tells_what_was_taken_out_before(pod: Pod) -> None:
    own = pod.ids("/history/noted")
    assert len(own) == 3
    _, headers, body = pod.ask("/history/noted", REPLAY)
    assert [json.loads(line)["id"] for line in body.splitlines()] == own[1:]
    assert headers["x-memplane-policy-removed"] == "3"
    assert "x-memplane-policy-removed" not in pod.ask("/history/noted", pod.running.token)[1]


def test_a_replay_gets_past_bytes_that_are_no_text(pod: Pod) -> None:
    context = pod.running.home.parent / "context" / "bytes"
    shutil.copytree(context.parent / "analyst", context)
    folder = pod.running.home.parent / "ledger" / "bytes"
    folder.mkdir()
    line = b'{"version":1,"ts":"2026-01-02T03:04:05Z","error":"%s",' % KEY.encode()
    line += b'"response":{"format":"sse","text":"data: \xff %s"}}' % KEY.encode()
    (folder / "history.jsonl").write_bytes(line + b"\n" + foreign_line())
    status, _, body = pod.ask("/history/bytes", REPLAY)
    assert (status, body.count(b"\n")) == (200, 2)
    assert KEY.encode() not in body


def test_after_is_strict_and_takes_fractions_and_offsets(pod: Pod) -> None:
    def later_than(text: str) -> int:
        return len(pod.ids("/history/analyst?" + urlencode({"after": text, "limit": 1000})))

    assert later_than("2026-03-01T12:00:00Z") == 117
    assert later_than("2026-03-01T11:59:59.999Z") == 120
    assert later_than("2026-03-01T13:00:00+01:00") == 117
    assert later_than("2026-03-01T12:00:00.5Z") == 117
    assert later_than("2026-02-01T00:00:00Z") == 121
    assert later_than("2030-01-01T00:00:00Z") == 0


def test_pages_have_their_sizes(pod: Pod) -> None:
    assert len(pod.ids("/history/analyst")) == 100
    assert len(pod.ids("/history/analyst?limit=7")) == 7
    assert len(pod.ids("/history/analyst?limit=5000")) == 121


def test_a_walk_by_cursor_meets_each_entry_once_and_can_wait_for_more(pod: Pod) -> None:
    path, met = "/history/analyst?limit=37", list[str]()
    while True:
        status, headers, body = pod.ask(path, pod.running.token)
        assert status == 200
        met += [json.loads(line)["id"] for line in body.splitlines()]
        path = f"/history/analyst?limit=37&cursor={headers['x-memplane-next-cursor']}"
        if headers["x-memplane-has-more"] == "false":
            break
    assert met == pod.ids("/history/analyst?limit=1000")
    status, headers, body = pod.ask(path, pod.running.token)
    assert (status, body, headers["x-memplane-has-more"]) == (200, b"", "false")


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path, pod: Pod) -> None:
    folder = pod.running.home.parent / "ledger" / "damaged"
    folder.mkdir()
    shutil.copy(pod.running.home.parent / "ledger" / "analyst" / "history.jsonl", folder)
    with (folder / "history.jsonl").open("ab") as file:
        file.write(b"garbage\n" + foreign_line() + b'{"version":1,"cut')
    status, headers, body = pod.ask("/history/damaged", pod.running.token)
    assert (status, headers["x-memplane-skipped-lines"]) == (200, "1")
    assert body.endswith(foreign_line())
    assert "x-memplane-skipped-lines" not in pod.ask("/history/analyst", pod.running.token)[1]


def test_a_line_of_many_megabytes_is_streamed(pod: Pod) -> None:
    folder = pod.running.home.parent / "ledger" / "long"
    folder.mkdir()
    line = make_entry(turn("x" * (9 << 20), agent="long")).line
    (folder / "history.jsonl").write_bytes(line + b"\n")
    status, headers, body = pod.ask("/history/long", pod.running.token)
    assert (status, body == line + b"\n") == (200, True)
    assert headers["x-memplane-has-more"] == "false"


def test_a_legacy_line_is_given_its_id(pod: Pod) -> None:
    folder = pod.running.home.parent / "ledger" / "legacy"
    folder.mkdir()
    (folder / "history.jsonl").write_bytes(b'{"version":1,"ts":"2026-01-02T03:04:05Z"}\n')
    body = pod.ask("/history/legacy", pod.running.token)[2]
    assert body.startswith(b'{"version":1,"id":"hist1_')
    assert body.endswith(b'","ts":"2026-01-02T03:04:05Z"}\n')
