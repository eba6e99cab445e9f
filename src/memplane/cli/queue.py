"""`memplane queue`: what has not reached the container, or another memory service.

Documents and forgets that wait have modules of their own: `queue_documents`, `queue_forgets`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from memplane.proxy.redriving import Redriven
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
    cache = _cache(settings)
    match arguments.action:
        case "list":
            return _list(settings, cache, as_json=arguments.json)
        case "retry":
            return await _retry(settings, cache, background=arguments.background)
        case _:
            return await _drop(settings, cache, arguments.name)


def _cache(settings: Settings) -> Path | None:
    """Return the cache of the container; a pod may have none.

    Raises:
        BackendMisconfigured: There is neither.
    """
    from memplane.assemble.storage import BlobStorage, choose_storage, configured_container
    from memplane.cli.queue_forgets import pod_here

    if settings.context_root is None and pod_here() is None:
        return configured_container(settings).cache
    chosen = choose_storage(settings).storage
    return chosen.cache if isinstance(chosen, BlobStorage) else None


def _list(settings: Settings, cache: Path | None, *, as_json: bool) -> int:
    from memplane.cli import OK
    from memplane.cli.queue_documents import waiting_documents
    from memplane.cli.queue_forgets import waiting_forgets
    from memplane.cli.show import harmless, print_json

    writes = _writes(cache) if cache else []
    letters = _letters(settings)
    forgets = waiting_forgets(settings)
    documents = waiting_documents(settings)
    if as_json:
        print_json([*writes, *letters, *forgets, *documents])
        return OK
    for row in writes:
        print("{state:<8} {what:<6} {bytes:>8} bytes  {key}  {name}".format(**row))
    for row in letters:
        shown = "{state:<8} {what:<6} of {agent} for {service}: {reason}  {name}".format(**row)
        print(harmless(shown))
    for row in forgets:
        shown = "{state:<8} {what:<6} of {agent} for {service}: {entries} entries  {name}"
        print(harmless(shown.format(**row)))
    for row in documents:
        print(harmless("{state:<8} {what:<6} {key} of {folder}: {reason}  {name}".format(**row)))
    print(f"{len(writes) + len(letters) + len(forgets) + len(documents)} in all")
    return OK


def _writes(cache: Path) -> list[dict[str, object]]:
    """Tell what has not reached the container."""
    from memplane.objects.outbox import all_parcels

    return [
        {
            "state": state,
            "key": one.key,
            "what": "append" if one.appends else "write",
            "bytes": len(one.data),
            "name": one.path.name,
        }
        for state, folder in (("waiting", cache / "outbox"), ("rejected", cache / "rejected"))
        for one in all_parcels(folder)
    ]


def _letters(settings: Settings) -> list[dict[str, object]]:
    """Tell which turns another memory service did not take."""
    from memplane.assemble.proxy import outbox_folder
    from memplane.proxy.outbox import dead_letters

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
        for one in dead_letters(outbox_folder(settings))
    ]


async def _retry(settings: Settings, cache: Path | None, *, background: bool) -> int:
    from memplane.cli import FAILED, OK
    from memplane.cli.queue_documents import folders_that_wait, send_documents
    from memplane.cli.queue_forgets import send_forgets

    if background:
        from memplane.worker import leave_and_wake

        leave_and_wake(settings, "deliver", {})
        for folder in folders_that_wait(settings):
            leave_and_wake(settings, "persona", {"folder": folder})
        print("left to the worker; `memplane status` shows what still waits")
        return OK
    sent = await _sent(settings, cache) if cache else True
    taken = await _redriven(settings) if settings.context_root else None
    if taken is not None:
        dropped = f", {taken.dropped} were forgotten meanwhile" if taken.dropped else ""
        print(f"{taken.delivered} turns were taken, {len(taken.left)} were not{dropped}")
    told = await send_forgets(settings)
    in_step = await send_documents(settings)
    return OK if sent and told and in_step and not (taken and taken.left) else FAILED


async def _sent(settings: Settings, cache: Path) -> bool:
    """Send what waits for the container; False when something is left."""
    from memplane.assemble.storage import choose_storage, open_store
    from memplane.objects.cached import CachedStore
    from memplane.objects.outbox import count_waiting

    before = count_waiting(cache / "outbox")
    async with open_store(choose_storage(settings).storage) as store:
        if isinstance(store, CachedStore):
            await store.flush()
    left = count_waiting(cache / "outbox")
    held = " They belong to processes that still run" if left else ""
    print(f"sent {before - left} of {before}.{held}")
    return not left


async def _redriven(settings: Settings) -> Redriven:
    """Offer turns again that another memory service did not take."""
    from functools import partial

    from memplane.assemble.plane import open_telemetry
    from memplane.assemble.proxy import delivering
    from memplane.assemble.redactors import open_redactor
    from memplane.ledger.redacting import redact_line
    from memplane.proxy.redriving import redrive
    from memplane.services.client import open_client

    redact = partial(redact_line, open_redactor(settings))
    async with open_client() as client:
        return await redrive(delivering(settings, client, redact, open_telemetry(settings).emit))


async def _drop(settings: Settings, cache: Path | None, name: str) -> int:
    from memplane.assemble.proxy import outbox_folder
    from memplane.cli import FAILED, OK
    from memplane.cli.queue_documents import drop_documents
    from memplane.proxy.outbox import dead_letters, settle_letter

    writes = (cache / "rejected").glob("*") if cache else ()
    files = [path for path in writes if path.name == name]
    for path in files:
        path.unlink()
    folder = outbox_folder(settings)
    letters = [one for one in dead_letters(folder) if one.entry_id == name]
    for letter in letters:
        settle_letter(folder, letter)
    found = bool(files or letters) | await drop_documents(settings, name)
    print(f"dropped {name}" if found else f"nothing rejected is called {name}")
    return OK if found else FAILED
