"""Memory of turns: retain, recall, forget and rebuild, for operators and clients.

`/retain`, `/recall` and `/forget` have the wire format of memory services; they call these.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

import msgspec

from memplane.auth.grants import Scope
from memplane.episodes.api_types import (
    ForgetReceipt,
    ForgetRequest,
    NoteRequest,
    RebuildResult,
    RecallRequest,
    RecallResponse,
    RetainReceipt,
    RetainRequest,
    RollbackReceipt,
    RollbackRequest,
    SourceList,
)
from memplane.episodes.entry_input import build_note_entry
from memplane.episodes.retain_queue import EntryOrigin
from memplane.errors import (
    EntryTooLarge,
    InvalidEntry,
    InvalidRequest,
    MemplaneError,
    RecordsError,
    UnknownAgent,
)
from memplane.exchange.prompt_cleanup import strip_client_text
from memplane.kit.clock import system_clock
from memplane.ledger.turn_note import TurnNote
from memplane.proxy.memory_blocks import filter_blocks, format_fenced_blocks
from memplane.redaction.redactor import RedactionResult
from memplane.service.model import PromptMemory, PromptMemoryQuery
from memplane.service.operation import Context, OneAgent, operation

_MAX_LISTED_TURNS: Final = 100
_MAX_REBUILD_BODY_BYTES = 1024 * 1024
_WRONG_ENTRIES: Final = (InvalidRequest, UnknownAgent, EntryTooLarge, InvalidEntry)
"""What is wrong with the entry itself, and says nothing about other entries."""


@operation(
    "POST",
    "/api/v1/memory/retain",
    scope=Scope.WRITE,
)
async def retain(context: Context, body: RetainRequest) -> RetainReceipt:
    """Keep a turn that was recorded."""
    unkept = context.services.unkept
    try:
        memory = await context.services.lazy_memory.memory()
        origin = make_origin(body)
        receipt = await memory.retain(origin, bytes(body.entry))
    except _WRONG_ENTRIES:
        raise
    except Exception as error:
        unkept[body.agent] = _describe(error)
        raise
    unkept.pop(body.agent, None)
    return receipt


def make_origin(asked: RetainRequest) -> EntryOrigin:
    """Say whose an entry is; it is of the user that its own request names if nobody says."""
    scope = asked.scope
    user = None if asked.user is None else scope.user
    who = asked.asker
    note = TurnNote(
        subject=who.subject, role=who.role, purpose=who.purpose, invocation=who.invocation_id
    )
    return EntryOrigin(asked.agent, user, scope.view, note, asked.holds_token)


@operation(
    "POST",
    "/api/v1/memory/notes",
    scope=Scope.WRITE,
)
async def retain_note(context: Context, body: NoteRequest) -> RetainReceipt:
    """Keep a note in the agent's own words."""
    entry = build_note_entry(body.agent, body.text, system_clock(), is_by_agent=True)
    retained = RetainRequest(
        agent=body.agent, entry=msgspec.Raw(entry), user=body.user, view=body.view
    )
    return await retain.handler(context, retained)


def _describe(error: Exception) -> str:
    """Say why an entry was not kept; what a database says of itself is for the log alone."""
    is_shown = isinstance(error, MemplaneError) and not isinstance(error, RecordsError)
    return str(error) if is_shown else "the database failed; the log says more"


@operation(
    "POST",
    "/api/v1/memory/recall",
    scope=Scope.READ,
)
async def recall(context: Context, body: RecallRequest) -> RecallResponse:
    """Return what an agent remembers about a question."""
    memory = await context.services.lazy_memory.memory()
    curator = await context.services.lazy_memory.curator()
    ask = memory.resolve_users(body)
    return await curator.recalled(ask, await memory.recall(ask))


@operation(
    "POST",
    "/api/v1/memory/prompt",
    scope=Scope.READ,
)
async def recall_for_prompt(context: Context, body: PromptMemoryQuery) -> PromptMemory:
    """Return what an agent remembers about a prompt, as text to put beside it."""
    question = strip_client_text(body.prompt)
    if not question:
        return PromptMemory()
    answer = await recall.handler(
        context, RecallRequest(agent=body.agent, text=question, without=body.without)
    )
    kept = filter_blocks(answer.memories, _leave_as_stored)
    ids = (entry for block in kept.blocks for entry in block.entry_ids)
    return PromptMemory(
        text=format_fenced_blocks(kept, service="memplane", nonce=secrets.token_hex(8)),
        entry_ids=tuple(dict.fromkeys(ids)),
    )


def _leave_as_stored(texts: Sequence[str]) -> Sequence[RedactionResult[str]]:
    """Return texts as they are: their secrets were taken out before they were stored."""
    return [RedactionResult(text, {}) for text in texts]


@operation(
    "POST",
    "/api/v1/memory/forget",
    scope=Scope.ADMIN,
    is_slow=True,
    refusals={404: "An entry that has to be known is in no ledger of that agent's."},
)
async def forget(context: Context, body: ForgetRequest) -> ForgetReceipt:
    """Forget entries, and verify or purge them."""
    return await _forget(context, body)


async def _forget(context: Context, body: ForgetRequest) -> ForgetReceipt:
    memory = await context.services.lazy_memory.memory()
    curator = await context.services.lazy_memory.curator()
    receipt = await memory.run_forget(body)
    checked = await curator.forgotten(body.agent, receipt.ids, purge=body.purge)
    if not body.verify:
        return receipt
    return msgspec.structs.replace(receipt, checked=(*receipt.checked, *checked))


@operation(
    "GET",
    "/api/v1/memory/sources",
    scope=Scope.ADMIN,
)
async def list_sources(context: Context, agent: OneAgent) -> SourceList:
    """List the sources that an agent's turns repeat, and whether they are trusted."""
    return await (await context.services.lazy_memory.memory()).list_sources(agent)


@operation(
    "POST",
    "/api/v1/memory/rollback",
    scope=Scope.ADMIN,
    is_slow=True,
    is_attributed=True,
)
async def roll_back(context: Context, body: RollbackRequest) -> RollbackReceipt:
    """Forget all turns of a source or a session, and take back what they did to observations."""
    if bool(body.source.strip()) == bool(body.session.strip()):
        raise InvalidRequest("say what to roll back: a source, or a session, and one of them")
    source, session = body.source.strip(), body.session.strip()
    memory = await context.services.lazy_memory.memory()
    curator = await context.services.lazy_memory.curator()
    turns = await memory.find_turns_of(body.agent, source=source, session=session)
    reason = body.reason.strip() or f"rolled back {source or f'session {session}'}"
    ids = tuple(one.id for one in turns)
    # Observations first: where this ends half-way, the same again finds the turns. What is purged
    # need not be taken back, and could not be brought back.
    said_in = ids if body.dry_run or not body.purge else ()
    changed = await curator.roll_back(
        body.agent, said_in, session, by=context.operator, reason=reason, dry_run=body.dry_run
    )
    receipt = RollbackReceipt(
        count=len(turns),
        turns=tuple(turns[:_MAX_LISTED_TURNS]),
        memories=changed.memories,
        batch=changed.batch,
        done=not body.dry_run and bool(turns or changed.memories),
    )
    if body.dry_run or not ids:
        return receipt
    asked = ForgetRequest(
        agent=body.agent, ids=ids, reason=reason, verify=body.verify, purge=body.purge
    )
    return msgspec.structs.replace(receipt, forgotten=await _forget(context, asked))


@operation(
    "POST",
    "/api/v1/memory/rebuild",
    scope=Scope.ADMIN,
    max_body_bytes=_MAX_REBUILD_BODY_BYTES,
    is_slow=True,
)
async def rebuild(context: Context) -> RebuildResult:
    """Derive all memory again from the ledgers, and compare."""
    episodes = await (await context.services.lazy_memory.memory()).rebuild()
    observations = await (await context.services.lazy_memory.curator()).rebuild()
    return RebuildResult(tables=(*episodes.tables, observations.to_table_rebuild()))
