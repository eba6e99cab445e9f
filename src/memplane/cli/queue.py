"""`memplane queue`: what has not reached the container, or another memory service.

Documents and forgets that wait have modules of their own: `queue_documents`, `queue_forgets`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from memplane.integrations.clawdapus.memory_service.dead_letter_retry import (
        DeadLetterRetryResult,
    )
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="show what waits, and what was rejected")
    listing.add_argument("--json", action="store_true", help="for machines")
    retry = actions.add_parser("retry", help="send it now")
    retry.add_argument("--background", action="store_true", help="leave it to the worker")
    drop = actions.add_parser("drop", help="let go of what was rejected")
    drop.add_argument("name", help="its name in `memplane queue list`")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """List, retry or drop."""
    if arguments.action == "list":
        return _list(settings, _cache(settings), as_json=arguments.json)
    if arguments.action == "drop":
        return await _drop(settings, _cache(settings), arguments.name)
    return await _retry(settings, _cache_of_queue(settings), background=arguments.background)


def _cache_of_queue(settings: Settings) -> Path | None:
    """Return the cache of the container; a pod may have none.

    Raises:
        BackendMisconfigured: There is neither.
    """
    from memplane.cli.queue_forgets import find_pod_here
    from memplane.service.composition.storage import (
        configured_container,
    )

    if settings.context_root is None and find_pod_here() is None:
        return configured_container(settings).cache
    return _cache(settings)


def _cache(settings: Settings) -> Path | None:
    """Return the cache of the container; None when no container is configured."""
    from memplane.service.composition.storage import LocalStorage, choose_storage

    chosen = choose_storage(settings).storage
    return None if isinstance(chosen, LocalStorage) else chosen.cache


def _list(settings: Settings, cache: Path | None, *, as_json: bool) -> int:
    from memplane.cli import EXIT_OK
    from memplane.cli.output import escape_text, print_json
    from memplane.cli.queue_documents import list_waiting_documents
    from memplane.cli.queue_forgets import list_waiting_forgets

    writes = _list_writes(cache) if cache else []
    letters = _list_turns(settings)
    forgets = list_waiting_forgets(settings)
    documents = list_waiting_documents(settings)
    if as_json:
        print_json([*writes, *letters, *forgets, *documents])
        return EXIT_OK
    for row in writes:
        print("{state:<8} {what:<6} {bytes:>8} bytes  {key}  {name}".format(**row))
    for row in letters:
        shown = "{state:<8} {what:<6} of {agent} for {service}: {reason}  {name}".format(**row)
        print(escape_text(shown))
    for row in forgets:
        shown = "{state:<8} {what:<6} of {agent} for {service}: {entries} entries  {name}"
        print(escape_text(shown.format(**row)))
    for row in documents:
        print(
            escape_text("{state:<8} {what:<6} {key} of {folder}: {reason}  {name}".format(**row))
        )
    print(f"{len(writes) + len(letters) + len(forgets) + len(documents)} in all")
    return EXIT_OK


def _list_writes(cache: Path) -> list[dict[str, object]]:
    """Tell what has not reached the container."""
    from memplane.storage.outbox import read_all_items

    return [
        {
            "state": state,
            "key": one.key,
            "what": "append" if one.appends else "write",
            "bytes": len(one.data),
            "name": one.path.name,
        }
        for state, folder in (("waiting", cache / "outbox"), ("rejected", cache / "rejected"))
        for one in read_all_items(folder)
    ]


def _list_turns(settings: Settings) -> list[dict[str, object]]:
    """Tell which turns another memory service did not take."""
    from memplane.integrations.clawdapus.memory_service.delivery_state import read_dead_letters
    from memplane.service.composition.proxy import outbox_folder

    return [
        {
            "state": "rejected",
            "what": "turn",
            "service": one.service,
            "agent": one.agent,
            "reason": one.reason,
            "since": one.ts,
            "name": one.entry_id,
        }
        for one in read_dead_letters(outbox_folder(settings))
    ]


async def _retry(settings: Settings, cache: Path | None, *, background: bool) -> int:
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.queue_documents import list_waiting_folders, send_documents
    from memplane.cli.queue_forgets import send_forgets

    if background:
        from memplane.home import Home
        from memplane.service.worker_process import enqueue_and_wake

        enqueue_and_wake(Home(settings.home), "deliver", {})
        for folder in list_waiting_folders(settings):
            enqueue_and_wake(Home(settings.home), "persona", {"folder": folder})
        print("left to the worker; `memplane status` shows what still waits")
        return EXIT_OK
    sent = await _send_writes(settings, cache) if cache else True
    taken = await _retry_turns(settings) if settings.context_root else None
    if taken is not None:
        dropped = f", {taken.dropped} were forgotten meanwhile" if taken.dropped else ""
        print(f"{taken.delivered} turns were taken, {len(taken.left)} were not{dropped}")
    told = await send_forgets(settings)
    in_step = await send_documents(settings)
    return EXIT_OK if sent and told and in_step and not (taken and taken.left) else EXIT_FAILED


async def _send_writes(settings: Settings, cache: Path) -> bool:
    """Send what waits for the container; False when something is left."""
    from memplane.service.composition.storage import choose_storage, open_store
    from memplane.storage.cached_store import CachedStore
    from memplane.storage.outbox import count_waiting

    before = count_waiting(cache / "outbox")
    async with open_store(choose_storage(settings).storage) as store:
        if isinstance(store, CachedStore):
            await store.flush()
    left = count_waiting(cache / "outbox")
    held = " They belong to processes that still run" if left else ""
    print(f"sent {before - left} of {before}.{held}")
    return not left


async def _retry_turns(settings: Settings) -> DeadLetterRetryResult:
    """Offer turns again that another memory service did not take."""
    from functools import partial

    from memplane.integrations.clawdapus.memory_service.client import open_service_client
    from memplane.integrations.clawdapus.memory_service.dead_letter_retry import retry_dead_letters
    from memplane.ledger.turn_redaction import redact_entry_line
    from memplane.service.composition.home import open_telemetry
    from memplane.service.composition.proxy import delivering
    from memplane.service.composition.redactors import open_redactor

    redact = partial(redact_entry_line, open_redactor(settings))
    async with open_service_client() as client:
        return await retry_dead_letters(
            delivering(settings, client, redact, open_telemetry(settings).emit)
        )


async def _drop(settings: Settings, cache: Path | None, name: str) -> int:
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.queue_documents import drop_documents
    from memplane.integrations.clawdapus.memory_service.delivery_state import (
        read_dead_letters,
        remove_dead_letter,
    )
    from memplane.service.composition.proxy import outbox_folder

    writes = (cache / "rejected").glob("*") if cache else ()
    files = [path for path in writes if path.name == name]
    for path in files:
        path.unlink()
    folder = outbox_folder(settings)
    letters = [one for one in read_dead_letters(folder) if one.entry_id == name]
    for letter in letters:
        remove_dead_letter(folder, letter)
    found = bool(files or letters) | await drop_documents(settings, name)
    print(f"dropped {name}" if found else f"nothing rejected is called {name}")
    return EXIT_OK if found else EXIT_FAILED
