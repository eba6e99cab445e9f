"""`memplane queue`: forgets that a memory service has not heard of yet.

They lie beside the ledgers of a proxy, or of the pod whose folder this is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.integrations.clawdapus.memory_service.forget import ForgetDrainReport
    from memplane.integrations.clawdapus.memory_service.service_targets import LedgerPaths
    from memplane.settings import Settings


def find_pod_here() -> Path | None:
    """Return the folder that we are in, when it is a compiled pod's."""
    from memplane.integrations.clawdapus.memory_service.service_targets import resolve_pod_folder

    return resolve_pod_folder(None, Path.cwd())


def list_waiting_forgets(settings: Settings) -> list[dict[str, object]]:
    """Tell which forgets wait."""
    from memplane.integrations.clawdapus.memory_service.forget_queue import list_queued_forgets

    return [
        {
            "state": "waiting",
            "what": "forget",
            "service": one.service,
            "agent": one.agent,
            "entries": len(one.entry_ids),
            "since": one.ts,
            "name": path.name,
        }
        for place in _places(settings)
        for path, one in list_queued_forgets(place.state)
    ]


def _places(settings: Settings) -> list[LedgerPaths]:
    from memplane.integrations.clawdapus.memory_service.service_targets import (
        get_home_paths,
        get_pod_paths,
    )

    folder = find_pod_here()
    places = [get_home_paths(settings.home, settings.ledger.dir)]
    if folder is not None:
        places.append(get_pod_paths(folder))
    return list({place.state: place for place in places}.values())


async def send_forgets(settings: Settings) -> bool:
    """Send the forgets that wait; False when some still do."""
    from memplane.cli.output import escape_text

    done = [await _send_from_pod(pod) for pod in [find_pod_here()] if pod is not None]
    if settings.context_root is not None:
        done.append(await _send_as_proxy(settings))
    for drained in done:
        if drained.sent or drained.left:
            print(f"{drained.sent} forgets were sent, {len(drained.left)} were not")
        for item, why in drained.left:
            print(escape_text(f'forget "{item.agent}" still waits: {why}'))
    return not any(drained.left for drained in done)


async def _send_from_pod(folder: Path) -> ForgetDrainReport:
    import asyncio

    from memplane.integrations.clawdapus.memory_service.client import open_service_client
    from memplane.integrations.clawdapus.memory_service.forget import ForgetRunner
    from memplane.integrations.clawdapus.memory_service.service_targets import (
        find_queued_target,
        get_pod_paths,
    )
    from memplane.integrations.clawdapus.pod.agent_contexts import read_contexts
    from memplane.kit.clock import system_clock
    from memplane.service.composition.home import open_command_telemetry

    place = get_pod_paths(folder)
    contexts = await asyncio.to_thread(read_contexts, folder)
    async with open_service_client() as client:
        emit = open_command_telemetry(place.state).emit
        return await ForgetRunner(place, client, system_clock, emit).drain(
            lambda item: find_queued_target(contexts, item.service, item.agent)
        )


async def _send_as_proxy(settings: Settings) -> ForgetDrainReport:
    from functools import partial

    from memplane.integrations.clawdapus.memory_service.client import open_service_client
    from memplane.ledger.turn_redaction import redact_entry_line
    from memplane.service.composition.home import open_command_telemetry
    from memplane.service.composition.proxy import delivering, forget_target, forgetting
    from memplane.service.composition.redactors import open_redactor

    redact = partial(redact_entry_line, open_redactor(settings))
    emit = open_command_telemetry(settings.home).emit
    async with open_service_client() as client:
        needs = delivering(settings, client, redact, emit)
        return await forgetting(needs).drain(forget_target(needs))
