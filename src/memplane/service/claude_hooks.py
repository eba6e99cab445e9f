"""What each hook of Claude Code does: it looks at this machine, leaves a job, and returns.

A hook imports neither the container's client nor the web stack. The worker does what takes time;
only the start of a session waits for it, up to a deadline.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from memplane.auth.agent_id import DEFAULT_AGENT
from memplane.errors import MemplaneError, StorageError
from memplane.home import Home
from memplane.integrations.claude_code.hook_payload import HookPayload
from memplane.integrations.claude_code.memory_folder import find_main_root, memory_dir_for_hook
from memplane.integrations.claude_code.session_context import (
    ContextPart,
    compose_context,
    strip_frontmatter,
)
from memplane.integrations.claude_code.session_store import (
    GivenContext,
    OpenSession,
    SessionStore,
    find_changes,
    join_keys,
)
from memplane.kit.ids import new_id
from memplane.persona.document_names import explain_invalid_name
from memplane.persona.folder_scan import scan_folder
from memplane.service.claude_reply import SessionReply
from memplane.service.spool import enqueue_job
from memplane.service.worker_process import wake_worker
from memplane.settings import Settings

_INDEX: Final = "MEMORY.md"
_CARRY_FORWARD: Final = "carry_forward.md"
_SELF_OBSERVATIONS: Final = "self_observations.md"
_DIGESTS: Final = "session_digest_????-??-??.md"
_MAX_DOCUMENT_BYTES: Final = 1024 * 1024
_POLL_S: Final = 0.02
_MAX_GIVEN_ENTRIES: Final = 500
_KEEP_COMMITMENTS: Final = (
    "Keep what is still open: commitments that were made and not delivered, decisions with their "
    "reasons, and the names of memory documents that were read or written."
)


@dataclass(frozen=True, slots=True)
class HookContext:
    """What a hook works with.

    Args:
        settings: The settings.
        environ: The environment, which says where Claude Code keeps its things.
        user: The user's folder.
        today: Returns the day of today in the configured zone, as `YYYY-MM-DD`.
        clock: Tells the time.
        wake: Whether a worker is started for the jobs that are left.
        note: Takes a sentence for the log.
    """

    settings: Settings
    environ: Mapping[str, str]
    user: Path
    today: Callable[[], str]
    clock: Callable[[], datetime]
    note: Callable[[str], None]
    wake: bool = True

    @property
    def home(self) -> Home:
        """The home."""
        return Home(self.settings.home)

    @property
    def sessions(self) -> SessionStore:
        """What hooks remember."""
        return SessionStore(self.settings.state_dir / "claude")

    @property
    def agent(self) -> str:
        """Whose memory it is."""
        return self.settings.agent or DEFAULT_AGENT

    def project(self, payload: HookPayload) -> Path:
        """Return the root of the project that a session works in."""
        cwd = Path(os.path.realpath(self.environ.get("CLAUDE_PROJECT_DIR") or payload.cwd or "."))
        return find_main_root(cwd) or cwd

    def folder(self, payload: HookPayload) -> Path:
        """Return the folder of the project's documents."""
        transcript = Path(payload.transcript_path) if payload.transcript_path else None
        return memory_dir_for_hook(
            Path(payload.cwd or "."),
            environ=self.environ,
            home=self.user,
            explicit=self.settings.persona.dir,
            transcript=transcript,
        )

    def leave_job(self, kind: str, details: Mapping[str, str]) -> None:
        """Leave a job for the worker. It is durable on return."""
        self.home.create()
        enqueue_job(self.home.spool, kind, details, now=self.clock())
        self.note(f"queued {kind}")
        if self.wake:
            wake_worker(self.home)


def has_container(settings: Settings) -> bool:
    """Say whether documents go to a container at all."""
    blob, s3 = settings.blob, settings.s3
    names_blob = blob.sas_url or (blob.container and (blob.endpoint or blob.connection_string))
    names_bucket = s3.bucket and s3.access_key and s3.secret_key
    return bool(names_blob) != bool(names_bucket) and not settings.keep_memory_local


def run_hook(event: str, payload: HookPayload, context: HookContext) -> str:
    """Do what an event asks for, and return what the client is to read on standard output."""
    handler = _HANDLERS.get(event)
    if handler is None or not context.settings.persona.sync:
        context.note("nothing to do")
        return ""
    return handler(payload, context)


# The start of a session


def _start_session(payload: HookPayload, context: HookContext) -> str:
    """Bring the documents up to date within the deadline, and return them as context."""
    folder, project = context.folder(payload), context.project(payload)
    notes = _take_over_crashed(payload, context)
    before = context.sessions.given(payload.session_id)
    context.sessions.mark_open(_describe_session(payload, context))
    if payload.source == "compact":
        reply = SessionReply(operational=before.operational if before else "")
    else:
        reply = _wait_for_worker(folder, project, payload, context)
    documents = read_documents(folder)
    digests = {key: _digest(text) for key, text in documents.items()}
    seen = before.documents if before is not None and payload.source == "resume" else {}
    parts = [
        _document_part(folder, key, documents[key])
        for key in _always_read(documents, context.today())
        if seen.get(key) != digests[key]
    ]
    if changed := _describe_changes(reply, documents):
        parts.append(ContextPart("What changed since the last sync on this machine", changed))
    if reply.operational and not (seen and before and before.operational == reply.operational):
        parts.append(ContextPart("Operational memory", reply.operational))
    if reply.problem:
        notes.append(reply.problem)
    # A resumed session still has what it recalled; after a compaction it does not.
    recalled = before.entries if before is not None and payload.source == "resume" else ()
    context.sessions.note_given(
        payload.session_id, GivenContext(digests, recalled, reply.operational)
    )
    context.sessions.note_snapshot(folder, digests)
    context.sessions.prune(context.clock())
    text = compose_context(parts, notes=[*_about(payload, folder, parts), *notes])
    # Codex, which has the same hooks, refuses an answer with a field that it does not know.
    is_watched = "CLAUDE_PROJECT_DIR" in context.environ
    watch = (str(folder / _INDEX), str(folder)) if is_watched else ()
    return _output("SessionStart", text, watch=watch)


def _about(payload: HookPayload, folder: Path, parts: list[ContextPart]) -> list[str]:
    """Say which session this is, for the skills that write about it."""
    return [f"Session {payload.session_id}. Documents are in {folder}."] if parts else []


def _wait_for_worker(
    folder: Path, project: Path, payload: HookPayload, context: HookContext
) -> SessionReply:
    """Let the worker sync, and look up what was learned; returns when it has or time is over."""
    settings = context.settings
    if not has_container(settings) and not context.home.database.exists():
        return SessionReply()
    reply = context.sessions.new_reply(new_id())
    deadline = time.monotonic() + settings.claude.start_ms / 1000
    details = {"folder": str(folder), "project": str(project), "agent": context.agent}
    details |= {"session": payload.session_id, "reply": str(reply)}
    context.leave_job("session-start", details)
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            data = reply.read_bytes()
            reply.unlink()
            return msgspec.json.decode(data, type=SessionReply)
        time.sleep(_POLL_S)
    context.note("the worker did not reply in time")
    if not has_container(settings):
        return SessionReply()
    return SessionReply(
        problem="The container did not answer in time: documents that changed on other machines "
        "may be missing here. They come as soon as it answers."
    )


def _take_over_crashed(payload: HookPayload, context: HookContext) -> list[str]:
    """Finish the sessions whose end was not seen, and say so."""
    notes: list[str] = []
    now = context.clock()
    for session in context.sessions.list_crashed(but=payload.session_id, now=now):
        _leave_session_end(session, context)
        context.sessions.mark_closed(session.session)
        notes.append(
            f"Session {session.session} of {session.started:%Y-%m-%d %H:%M} UTC ended without "
            "notice. A digest of it is drafted from its transcript; /digest-session replaces it."
        )
    return notes


def _describe_session(payload: HookPayload, context: HookContext) -> OpenSession:
    known = context.sessions.find_open(payload.session_id)
    pid = context.environ.get("CLAUDE_PID", "")
    return OpenSession(
        session=payload.session_id,
        transcript=payload.transcript_path,
        cwd=payload.cwd,
        folder=str(context.folder(payload)),
        project=str(context.project(payload)),
        pid=int(pid) if pid.isdecimal() else os.getppid(),
        started=known.started if known else context.clock(),
    )


def _always_read(documents: Mapping[str, bytes], today: str) -> tuple[str, ...]:
    """Name the documents that every session is given, in their order."""
    wanted = (_INDEX, _CARRY_FORWARD, _newest_digest(documents, today), _SELF_OBSERVATIONS)
    return tuple(key for key in wanted if key in documents)


def _document_part(folder: Path, key: str, text: bytes) -> ContextPart:
    return ContextPart(key, strip_frontmatter(text.decode(errors="replace")), str(folder / key))


def _newest_digest(documents: Mapping[str, bytes], today: str) -> str:
    """Return today's digest, else the newest one."""
    own = f"session_digest_{today}.md"
    if own in documents:
        return own
    return max((key for key in documents if Path(key).match(_DIGESTS)), default="")


def _describe_changes(reply: SessionReply, documents: Mapping[str, bytes]) -> str:
    lines = [
        f"- {key}: {what}{_description(documents.get(key, b''))}"
        for key, what in reply.changed
        if key != _INDEX
    ]
    return "\n".join(lines)


def _description(document: bytes) -> str:
    """Return what a document's frontmatter says it is about."""
    for line in document[:2000].decode(errors="replace").splitlines():
        if line.startswith("description:"):
            return f" ({line.partition(':')[2].strip()})"
    return ""


# Between the start and the end


def _push_changed(payload: HookPayload, context: HookContext) -> str:
    """Queue the document that was written, if it is one of the folder's."""
    if not payload.changed_file or not has_container(context.settings):
        return ""
    folder = context.folder(payload)
    key = find_key(payload.changed_file, folder, payload.cwd)
    if key is None:
        return ""
    gone = payload.event == "unlink"  # a deletion takes a look at everything
    _leave_push(folder, context.project(payload), set() if gone else {key}, context)
    return ""


def _recall(payload: HookPayload, context: HookContext) -> str:
    """Return what is remembered about a prompt, as context."""
    # The other hooks do without an HTTP client.
    from memplane.service.model import PromptMemory, PromptMemoryQuery  # noqa: PLC0415
    from memplane.service.owner_socket import ask_owner  # noqa: PLC0415

    claude = context.settings.claude
    if not claude.recall or not payload.prompt.strip() or payload.is_notification:
        return ""
    if not context.home.socket.exists():
        context.note("no recall: memplane does not run")
        return ""
    sessions = context.sessions
    given = sessions.given(payload.session_id) or GivenContext()
    query = PromptMemoryQuery(agent=context.agent, prompt=payload.prompt, without=given.entries)
    try:
        answer = ask_owner(
            context.home,
            "/api/v1/memory/prompt",
            msgspec.json.encode(query),
            seconds=claude.recall_ms / 1000,
        )
    except MemplaneError as error:
        context.note(f"no recall: {error}")
        return ""
    memory = msgspec.json.decode(answer, type=PromptMemory)
    entries = (*given.entries, *memory.entry_ids)[-_MAX_GIVEN_ENTRIES:]
    sessions.note_given(payload.session_id, msgspec.structs.replace(given, entries=entries))
    return _output("UserPromptSubmit", memory.text)


def _before_compaction(payload: HookPayload, context: HookContext) -> str:
    """Queue what changed, and ask whoever summarises to keep what is open."""
    _scan(payload, context)
    # The checkpoint: what happened so far is in today's digest when the session goes on.
    context.leave_job(
        "session-digest", _session_details(_describe_session(payload, context), context)
    )
    sessions = context.sessions
    if given := sessions.given(payload.session_id):
        # The summary does not have what was recalled, so it may be recalled again.
        sessions.note_given(payload.session_id, msgspec.structs.replace(given, entries=()))
    return _KEEP_COMMITMENTS


def _after_turn(payload: HookPayload, context: HookContext) -> str:
    """Queue what changed by ways that no other hook sees, such as a shell command."""
    _scan(payload, context)
    context.sessions.touch(payload.session_id)
    return ""


def _end_session(payload: HookPayload, context: HookContext) -> str:
    """Leave the rest to the worker: the client waits a second and a half at most."""
    _leave_session_end(_describe_session(payload, context), context)
    context.sessions.mark_closed(payload.session_id)
    return ""


# What is left to the worker


def _scan(payload: HookPayload, context: HookContext) -> None:
    """Compare the folder with how it last was, and queue what changed."""
    folder = context.folder(payload)
    now = {key: _digest(text) for key, text in read_documents(folder).items()}
    changed = find_changes(context.sessions.snapshot(folder), now)
    if changed == set():
        context.note("nothing changed")
        return
    if has_container(context.settings):
        _leave_push(folder, context.project(payload), changed or set(), context)
    context.sessions.note_snapshot(folder, now)


def _leave_push(folder: Path, project: Path, keys: set[str], context: HookContext) -> None:
    details = {"folder": str(folder), "project": str(project), "keys": join_keys(keys)}
    context.leave_job("persona", details)


def _leave_session_end(session: OpenSession, context: HookContext) -> None:
    context.leave_job("session-end", _session_details(session, context))


def _session_details(session: OpenSession, context: HookContext) -> dict[str, str]:
    return {
        "folder": session.folder,
        "project": session.project,
        "session": session.session,
        "transcript": session.transcript,
        "agent": context.agent,
    }


# Documents


def find_key(path: str, folder: Path, cwd: str) -> str | None:
    """Return the key of a file that is a document of the folder; None for any other file."""
    whole = Path(os.path.realpath(Path(cwd or ".") / path))
    root = Path(os.path.realpath(folder))
    if not whole.is_relative_to(root) or whole == root:
        return None
    key = whole.relative_to(root).as_posix()
    return None if explain_invalid_name(key) else key


def read_documents(folder: Path) -> dict[str, bytes]:
    """Read the documents of a folder; what cannot be read is not there."""
    try:
        scan = scan_folder(folder)
    except StorageError:
        return {}
    documents: dict[str, bytes] = {}
    for key, file in scan.documents.items():
        if file.size <= _MAX_DOCUMENT_BYTES:
            with suppress(OSError):
                documents[key] = (folder / key).read_bytes()
    return documents


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _output(event: str, text: str, *, watch: tuple[str, ...] = ()) -> str:
    """Return the JSON that the client reads; empty when there is nothing to say."""
    fields: dict[str, object] = {"hookEventName": event}
    if text:
        fields["additionalContext"] = text
    if watch:
        fields["watchPaths"] = list(watch)
    if len(fields) == 1:
        return ""
    return msgspec.json.encode({"hookSpecificOutput": fields}).decode()


_HANDLERS: Final[Mapping[str, Callable[[HookPayload, HookContext], str]]] = {
    "SessionStart": _start_session,
    "UserPromptSubmit": _recall,
    "PostToolUse": _push_changed,
    "FileChanged": _push_changed,
    "PreCompact": _before_compaction,
    "Stop": _after_turn,
    "SessionEnd": _end_session,
}
