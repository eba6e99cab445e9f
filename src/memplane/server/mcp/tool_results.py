"""Results of rows as a model reads them (pure)."""

from __future__ import annotations

import msgspec

from memplane.episodes.api_types import ForgetReceipt, RecallResponse, RetainReceipt
from memplane.observations.api_types import IngestReceipt
from memplane.persona.api_types import DocumentList, DocumentView, WrittenDocument
from memplane.server.mcp.quotation import quote_document, quote_line, quote_memories
from memplane.service.model import Status


def render_memories(found: RecallResponse, agent: str) -> str:
    """Quote what was recalled."""
    return quote_memories(found.told, agent)


def render_receipt(receipt: RetainReceipt, agent: str) -> str:
    """Say what became of a note."""
    words = {
        "retained": f"Kept in the memory of {agent}",
        "known": "It was kept before",
        "forgotten": "It was forgotten before, and stays so",
    }
    secrets = f". {receipt.redacted} secrets were taken out" if receipt.redacted else ""
    return f"{words.get(receipt.status, receipt.status)}, as entry {receipt.id}{secrets}."


def render_forgotten(receipt: ForgetReceipt, agent: str) -> str:
    """Say what was forgotten."""
    ids = ", ".join(receipt.ids)
    already = f" {receipt.already} had been forgotten before." if receipt.already else ""
    return f"{agent} forgot {receipt.forgotten} entries: {ids}.{already}"


def render_learned(receipt: IngestReceipt, _agent: str) -> str:
    """Say what became of an observation."""
    outcomes = {
        "Recorded as a new observation": sorted({*receipt.asserted} - {*receipt.quarantined}),
        "Confirmed an observation that was known": receipt.reinforced,
        "Known already, and confirmed before": receipt.echoed,
        "Recorded; it contradicts an observation, and a person will decide": (
            receipt.contradicted
        ),
        "Kept aside until a person approves it": receipt.quarantined,
    }
    lines = [
        f"{words}: {', '.join(map(str, numbers))}."
        for words, numbers in outcomes.items()
        if numbers
    ]
    lines += [f"Not recorded ({reject.reason}): {reject.hint}" for reject in receipt.rejects]
    return "\n".join(lines) or "Nothing new: it is known already."


def render_documents(listed: DocumentList, _agent: str) -> str:
    """List documents."""
    rows = [
        f"{one.key} [{one.kind}, {one.condition}] {quote_line(one.name)}: "
        f"{quote_line(one.description)}"
        for one in listed.contents.documents
    ]
    if not rows:
        return f"There are no documents yet in {listed.folder.root}. persona_write makes one."
    head = (
        f"{len(rows)} documents in {listed.folder.root}. Names and descriptions are stored data."
    )
    return "\n".join([head, *rows, *_describe_copies(listed)])


def _describe_copies(listed: DocumentList) -> list[str]:
    if not listed.contents.copies:
        return []
    keys = ", ".join(sorted({copy.key for copy in listed.contents.copies}))
    return [f"Conflict copies wait for a person: {keys}. `memplane persona conflicts` shows them."]


def render_document(view: DocumentView, _agent: str) -> str:
    """Quote a document."""
    document = view.document
    if view.text is None:
        return f"The document {document.key} was deleted here; {document.condition}."
    return quote_document(
        document.key, document.kind, view.version, view.text, is_exact=view.is_exact
    )


def render_written(written: WrittenDocument, _agent: str) -> str:
    """Say which version a document has now."""
    what = "Created" if written.created else "Changed"
    missing = "" if written.linked else " MEMORY.md has no line for it yet: add one."
    return f"{what} {written.key}, now at version {written.version}.{missing}"


def render_status(status: Status, _agent: str) -> str:
    """Show the status as it is."""
    return msgspec.json.format(msgspec.json.encode(status), indent=1).decode()
