"""`memplane queue`: forgets that a memory service has not heard of yet.

They lie beside the ledgers of a proxy, or of the pod whose folder this is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.operate.forgetting import Drained
    from memplane.operate.targets import Place
    from memplane.settings import Settings


def pod_here() -> Path | None:
    """Return the folder that we are in, when it is a compiled pod's."""
    from memplane.operate.targets import pod_of

    return pod_of(None, Path.cwd())


def waiting_forgets(settings: Settings) -> list[dict[str, object]]:
    """Tell which forgets wait."""
    from memplane.operate.queue import queued

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
        for path, one in queued(place.state)
    ]


def _places(settings: Settings) -> list[Place]:
    from memplane.operate.targets import home_place, pod_place

    folder = pod_here()
    places = [home_place(settings.home, settings.ledger.dir)]
    if folder is not None:
        places.append(pod_place(folder))
    return list({place.state: place for place in places}.values())


async def send_forgets(settings: Settings) -> bool:
    """Send the forgets that wait; False when some still do."""
    from memplane.cli.show import harmless

    done = [await _sent_from_pod(pod) for pod in [pod_here()] if pod is not None]
    if settings.context_root is not None:
        done.append(await _sent_by_proxy(settings))
    for drained in done:
        if drained.sent or drained.left:
            print(f"{drained.sent} forgets were sent, {len(drained.left)} were not")
        for item, why in drained.left:
            print(harmless(f'forget "{item.agent}" still waits: {why}'))
    return not any(drained.left for drained in done)


async def _sent_from_pod(folder: Path) -> Drained:
    import asyncio

    from memplane.assemble.plane import open_command_telemetry
    from memplane.clock import system_clock
    from memplane.operate.forgetting import Forgetting
    from memplane.operate.targets import pod_place, queued_target
    from memplane.pod.contexts import read_contexts
    from memplane.services.client import open_client

    place = pod_place(folder)
    contexts = await asyncio.to_thread(read_contexts, folder)
    async with open_client() as client:
        emit = open_command_telemetry(place.state).emit
        return await Forgetting(place, client, system_clock, emit).drain(
            lambda item: queued_target(contexts, item.service, item.agent)
        )


async def _sent_by_proxy(settings: Settings) -> Drained:
    from functools import partial

    from memplane.assemble.plane import open_command_telemetry
    from memplane.assemble.proxy import delivering, forget_target, forgetting
    from memplane.assemble.redactors import open_redactor
    from memplane.ledger.redacting import redact_line
    from memplane.services.client import open_client

    redact = partial(redact_line, open_redactor(settings))
    emit = open_command_telemetry(settings.home).emit
    async with open_client() as client:
        needs = delivering(settings, client, redact, emit)
        return await forgetting(needs).drain(forget_target(needs))
