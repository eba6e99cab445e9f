#!/usr/bin/env python3
"""The smallest memory service that keeps the contract: recall, retain, forget.

One file per (agent, entry) under MEMORY_REF_DIR: a record, or in its place a tombstone for ever.
A file is written aside, synced and renamed, so that a crash leaves the old one or the new one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MOST_BODY = 32 << 20
MOST_ANSWER = 16_000  # the contract says less than 16384 bytes
MOST_TEXT = 8192
MOST_BLOCKS = 4
CLIP = 280
WORD = re.compile(r"[a-z0-9][a-z0-9_-]{2,}")
INJECTED = re.compile(
    r"--- BEGIN MEMORY.*?(?:--- END MEMORY(?: [0-9a-f]{8,64})? ---|\Z)", re.DOTALL
)
LINE_END = re.compile(r"\r\n|\n|\r")  # of streams of events; there is no other
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]{8,18}(?:Z|[-+]\d\d:\d\d)", re.ASCII)
COMMON = set(
    WORD.findall(
        "about and any are but can did does for from had has have her him his how its know like "
        "not our out please she tell that the their them then there they this was were what when "
        "where which who why will with would you your"
    )
)


class Memory:
    """Everything that is remembered; what is on disk is also here."""

    def __init__(self, folder: Path) -> None:
        """Read what an earlier process left."""
        self.folder = folder
        self.lock = threading.Lock()
        self.agents: dict[str, dict[str, dict[str, Any] | None]] = {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in folder.glob("*/*.json"):
            kept = json.loads(path.read_bytes())
            self.agents.setdefault(kept["agent"], {})[kept["id"]] = kept["record"]

    def retain(self, agent: str, entry: dict[str, Any]) -> None:
        """Keep an entry, unless it is known already or was forgotten."""
        with self.lock:
            known = self.agents.setdefault(agent, {})
            if entry["id"] not in known:
                record = record_of(entry)
                self._write(agent, entry["id"], record)
                known[entry["id"]] = record

    def forget(self, agent: str, entry_ids: list[str]) -> None:
        """Put tombstones in the place of entries, also of those that were never here."""
        with self.lock:
            known = self.agents.setdefault(agent, {})
            for one in entry_ids:
                if one not in known or known[one] is not None:
                    self._write(agent, one, None)
                    known[one] = None

    def recall(self, agent: str, question: str) -> bytes:
        """Answer with the entries that share words with the question, best first."""
        wanted = words(question)
        with self.lock:
            records = [one for one in self.agents.get(agent, {}).values() if one]
        found = [(len(wanted & words(one["text"])), one["ts"], one["text"]) for one in records]
        blocks: list[dict[str, Any]] = []
        for shared, ts, text in sorted((one for one in found if one[0]), reverse=True):
            block = {"text": text, "score": round(shared / len(wanted), 4), "kind": "summary"}
            block |= {"source": "reference-memory", **({"ts": ts} if ts else {})}
            more = [*blocks, block]
            size = sum(len(one["text"].encode()) for one in more)
            if size <= MOST_TEXT and len(answer(more)) < MOST_ANSWER:
                blocks = more
            if len(blocks) == MOST_BLOCKS:
                break
        return answer(blocks)

    def _write(self, agent: str, entry_id: str, record: dict[str, Any] | None) -> None:
        folder = self.folder / digest(agent)
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{digest(entry_id)}.json"
        aside = path.with_suffix(".new")
        with aside.open("w", encoding="ascii") as handle:
            json.dump({"agent": agent, "id": entry_id, "record": record}, handle)
            handle.flush()
            os.fsync(handle.fileno())
        aside.rename(path)
        for one in (folder, self.folder):
            descriptor = os.open(one, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)


def digest(name: str) -> str:
    """Make a safe file name of any text."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def answer(blocks: list[dict[str, Any]]) -> bytes:
    """Write a recall answer."""
    return json.dumps({"memories": blocks}, ensure_ascii=False).encode()


def words(text: str) -> set[str]:
    """Take the words that say something."""
    return set(WORD.findall(text.lower())) - COMMON


def record_of(entry: dict[str, Any]) -> dict[str, Any]:
    """Take from an entry what is worth keeping: the question and the answer, in short."""
    asked = clip(last_question(entry.get("request_original")))
    told = clip(reply(entry.get("response")))
    text = "" if entry.get("status") == "error" else " / ".join(filter(None, (asked, told)))
    ts = entry.get("ts")
    return {"text": text, "ts": ts if isinstance(ts, str) and MOMENT.fullmatch(ts) else ""}


def clip(text: str) -> str:
    """Drop injected memory and what cannot be printed, and shorten the rest."""
    text = INJECTED.sub(" ", text)
    shown = "".join(one if one.isprintable() else " " for one in text)
    return " ".join(shown.split())[:CLIP]


def last_question(body: Any) -> str:  # noqa: ANN401 - whatever somebody sent
    """Return the last message of a user, as any of the APIs has it."""
    body = body if isinstance(body, dict) else {}
    messages = body.get("messages", body.get("input"))
    if isinstance(messages, str):
        return messages
    for one in reversed(messages if isinstance(messages, list) else []):
        if isinstance(one, dict) and one.get("role") == "user":
            return plain(one.get("content"))
    return ""


def plain(content: Any) -> str:  # noqa: ANN401
    """Return the text of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [one.get("text") for one in parts if isinstance(one, dict)]
    return " ".join(one for one in texts if isinstance(one, str))


def reply(response: Any) -> str:  # noqa: ANN401
    """Return the text of an answer, whole or streamed, of any of the APIs."""
    if not isinstance(response, dict):
        return ""
    stream = response.get("text")
    if isinstance(stream, str):
        lines = (one for one in LINE_END.split(stream) if one.startswith("data:"))
        return "".join(said(parsed(one.removeprefix("data:"))) for one in lines)
    return said(response.get("json"))


def parsed(text: str | bytes) -> Any:  # noqa: ANN401
    """Read JSON, or nothing."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def said(body: Any) -> str:  # noqa: ANN401
    """Return the text in one answer or one event."""
    if not isinstance(body, dict):
        return ""
    choices = body.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message") or choices[0].get("delta")
        return plain(message.get("content")) if isinstance(message, dict) else ""
    if isinstance(output := body.get("output"), list):
        messages = [one for one in output if isinstance(one, dict) and "content" in one]
        return " ".join(plain(one["content"]) for one in messages if one.get("type") == "message")
    delta = body.get("delta")
    if isinstance(delta, str):
        return delta if body.get("type") == "response.output_text.delta" else ""
    return plain([delta]) if isinstance(delta, dict) else plain(body.get("content"))


class Refused(Exception):
    """A request that is answered with a status and a reason."""


class Handler(BaseHTTPRequestHandler):
    """The four addresses."""

    protocol_version = "HTTP/1.1"
    timeout = 30
    memory: Memory
    token: str
    METHODS = {"/recall": "POST", "/retain": "POST", "/forget": "POST", "/health": "GET"}  # noqa: RUF012

    def do_POST(self) -> None:
        """Answer any method; the wrong one with 405."""
        try:
            status, body = self.answered(self.path.partition("?")[0])
        except Refused as refused:
            status, body = refused.args[0], json.dumps({"error": refused.args[1]}).encode()
            self.close_connection = True  # a body may be left unread
        except OSError:
            status, body = 503, b'{"error": "the disk refused"}'
            self.close_connection = True
        self.send_response(status)
        if body:
            self.send_header("Content-Type", "application/json")
        if status != 204:  # noqa: PLR2004
            self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_POST  # noqa: N815

    def answered(self, path: str) -> tuple[int, bytes]:
        """Do what was asked; return the status and the body."""
        if path not in self.METHODS:
            raise Refused(404, "there is nothing at that address")
        if self.command != self.METHODS[path]:
            raise Refused(405, f"use {self.METHODS[path]}")
        if path == "/health":
            return 200, b'{"ok": true}'
        given = self.headers.get("Authorization", "").partition(" ")[2].strip().encode()
        if self.token and not hmac.compare_digest(given, self.token.encode()):
            raise Refused(401, "a bearer token is needed")
        body = self.body()
        agent = text_in(body, "agent_id")
        if path == "/recall":
            return 200, self.memory.recall(agent, last_question(body))
        if path == "/retain":
            text_in(body.get("entry"), "id")
            self.memory.retain(agent, body["entry"])
            return 202, b"{}"
        ids = body.get("entry_ids")
        if not isinstance(ids, list) or not all(one and isinstance(one, str) for one in ids):
            raise Refused(400, "entry_ids must be a list of texts")
        self.memory.forget(agent, ids)
        return 204, b""

    def body(self) -> dict[str, Any]:
        """Read the request's body."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise Refused(400, "Content-Length is needed")
        if len(length) > len(str(MOST_BODY)) or int(length) > MOST_BODY:
            raise Refused(413, f"a body has at most {MOST_BODY} bytes")
        body = parsed(self.rfile.read(int(length)))
        if not isinstance(body, dict):
            raise Refused(400, "the body must be a JSON object")
        return body

    def log_message(self, *_: object) -> None:
        """Stay quiet: bodies and addresses are nobody's business."""


def text_in(body: Any, name: str) -> str:  # noqa: ANN401
    """Return a text that must be there."""
    value = body.get(name) if isinstance(body, dict) else None
    if not isinstance(value, str) or not value.strip():
        raise Refused(400, f"{name} is required")
    return value


def main() -> None:
    """Listen until told to stop."""
    # Every file is whole at any moment, so there is nothing to tidy up.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    environment = os.environ  # noqa: TID251 - a program of its own
    Handler.memory = Memory(Path(environment.get("MEMORY_REF_DIR", "memory")))
    Handler.token = environment.get("MEMORY_REF_TOKEN", "")
    host, port = environment.get("HOST", "127.0.0.1"), int(environment.get("PORT", "8080"))
    with ThreadingHTTPServer((host, port), Handler) as server:
        print(f"reference memory listens on http://{host}:{server.server_port}", flush=True)  # noqa: T201
        server.serve_forever()


if __name__ == "__main__":
    main()
