"""`memplane status`: what is configured, where state lives, what is pending."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memplane.service.model import LedgerStatus, Status
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Ask the plane and print what it says."""
    import os

    from memplane.cli import EXIT_OK
    from memplane.cli.output import print_json, print_rows
    from memplane.cli.queue_forgets import list_waiting_forgets
    from memplane.service.client import Client

    async with Client(settings) as client:
        status = await client.status()
    running = status.pid != os.getpid()
    documents, forgets = _documents(settings), len(list_waiting_forgets(settings))
    if arguments.json:
        import msgspec

        body = {"running": running, **msgspec.structs.asdict(status), "persona": documents}
        body["forgets_waiting"] = forgets
        print_json(body)
    else:
        _print(status, settings, running=running)
        if identity := _describe_identity(settings):
            print_rows([("identity ", identity)])
        if forgets:
            print_rows([("forgets", f"{forgets} wait to be sent: memplane queue list")])
        _print_documents(documents)
    return EXIT_OK


def _describe_identity(settings: Settings) -> str:
    """Say as whom the container is opened, and where the key for that is."""
    from memplane.errors import MemplaneError
    from memplane.service.composition.identity import open_keys
    from memplane.service.composition.storage import BlobStorage, choose_storage

    storage = choose_storage(settings).storage
    identity = storage.identity if isinstance(storage, BlobStorage) else None
    if identity is None:
        return ""
    try:
        where = open_keys(identity).where
    except MemplaneError as error:
        where = str(error)
    return f"Agent User {identity.user_id or identity.user_upn}; its key is in {where}"


def _documents(settings: Settings) -> list[dict[str, Any]]:
    """Say how the folders of documents stand that were synced from this home."""
    from memplane.persona.folder_watcher import find_watcher
    from memplane.persona.sync_status import list_sync_statuses
    from memplane.service.composition.persona import persona_post, sync_folder

    told: list[dict[str, Any]] = []
    for one in list_sync_statuses(sync_folder(settings)):
        watcher = find_watcher(persona_post(settings, Path(one.folder)))
        told.append(
            {
                "folder": one.folder,
                "project": one.project,
                "documents": one.documents,
                "waiting": len(one.waiting),
                "held": len(one.held),
                "conflicts": len(one.conflicts),
                "last_sync": one.last_sync,
                "watched_by": watcher.pid if watcher else None,
                "trouble": watcher.trouble if watcher else "",
            }
        )
    return told


def _print_documents(documents: list[dict[str, Any]]) -> None:
    from memplane.cli.output import colour_text, escape_text, print_rows

    for one in documents:
        counts = [f"{one[name]} {name}" for name in ("documents", "waiting", "held", "conflicts")]
        last = one["last_sync"]
        when = f"synced {last[:10]} {last[11:16]}" if last else "never synced"
        print_rows([("persona  ", escape_text(f"{', '.join(counts)}; {when}; {one['folder']}"))])
        if one["trouble"]:
            print(colour_text(f"  {escape_text(one['trouble'])}", "red"))


def _print(status: Status, settings: Settings, *, running: bool) -> None:
    from memplane.cli.output import colour_text, print_rows

    storage = status.storage
    up = f"up at {status.address} (process {status.pid})" if running else "not running"
    print(colour_text(f"memplane {status.version}: {up}", "bold"))
    rows = [
        ("home", status.home),
        ("state", f"{storage.kind}: {storage.where}"),
        ("because", storage.reason),
        ("jobs", f"{status.jobs} for the worker"),
        ("ledger", f"{_agents(status.ledger.agents)} in {status.ledger.where}"),
    ]
    if running:
        secrets = sum(status.ledger.redacted.values())
        rows.append(("recorded", f"{status.ledger.recorded} turns, {secrets} secrets taken out"))
    if (memory := status.memory) is not None:
        left = memory.underived + memory.unindexed
        behind = f", {left} still to be worked on" if left else ""
        episodes = "1 episode" if memory.episodes == 1 else f"{memory.episodes} episodes"
        behind += f", {memory.unembedded} without a vector yet" if memory.unembedded else ""
        rows.append(("memory", f"{episodes} of {_agents(memory.agents)}{behind}"))
    rows.append(("recall", _describe_recall(settings)))
    if storage.kind != "local":
        rows += [
            ("waiting", f"{storage.waiting} writes have not reached the container"),
            ("rejected", f"{storage.rejected} writes the container will not take"),
            ("conflicts", f"{storage.conflicts} replaced versions kept"),
        ]
    print_rows(rows)
    degraded = status.memory.degraded if status.memory else ""
    complaints = (
        storage.complaint,
        *_list_ledger_warnings(status.ledger),
        status.failing,
        degraded,
    )
    for complaint in complaints:
        if complaint:
            print(colour_text(f"  {complaint}", "red"))


def _describe_recall(settings: Settings) -> str:
    """Say whether recall understands paraphrases, and what to do where it does not."""
    from memplane.search.embeddings.minilm import is_available

    source = settings.vectors.source
    if not source:
        return "by words"
    if source == "builtin" and not is_available():
        return "by words; by meaning too with: pip install 'memplane[semantic]'"
    return f"by words and meaning (vectors.source is {source})"


def _agents(count: int) -> str:
    return f"{count} agent" if count == 1 else f"{count} agents"


def _list_ledger_warnings(ledger: LedgerStatus) -> list[str]:
    """Say what an operator should know about the ledger."""
    verbatim = "ledger.verbatim is on: turns are written with the secrets in them"
    return [ledger.failing, ledger.degraded, verbatim if ledger.verbatim else ""]
