"""`memplane persona`: the documents that follow an agent from machine to machine.

Its arguments stand in `persona_options`, what it prints for people in `persona_show`. What looks
at single documents is in `persona_files`, what keeps and removes them in `persona_keeping`.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from memplane.cli.persona_asking import Answer, Asking, folder_here
from memplane.cli.persona_options import configure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from memplane.errors import MemplaneError
    from memplane.persona.engine import View
    from memplane.persona.gate import Gate
    from memplane.persona.plan import Action, Planned
    from memplane.persona.report import PersonaReport
    from memplane.settings import Settings

__all__ = ["configure", "run"]


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do what was asked, here or with the container."""
    from memplane.cli.show import print_json

    asking = Asking(arguments, settings, folder_here(settings))
    answer = await _action(arguments.action)(asking)
    if arguments.json:
        print_json(answer.body)
    else:
        answer.show()
    return answer.code


def _action(name: str) -> Callable[[Asking], Awaitable[Answer]]:
    if name in _SYNCS:
        return _SYNCS[name]
    from memplane.cli import persona_files, persona_keeping

    return (persona_files.ACTIONS | persona_keeping.ACTIONS)[name]


# Syncing


async def _sync(asking: Asking) -> Answer:
    """Sync, pull or push; what could not be sent is told."""
    from memplane.errors import AuthError, BackendUnavailable

    given = asking.arguments
    keys = [asking.key_of(path) for path in getattr(given, "path", ())]
    try:
        if given.dry_run:
            return await _planned(asking, keys)
        report = await _pushed(asking, keys) if keys else await _synced(asking)
    except (BackendUnavailable, AuthError) as error:
        return _unavailable(asking, error)
    return _told(report)


async def _synced(asking: Asking) -> PersonaReport:
    from memplane.assemble.persona import open_persona

    given = asking.arguments
    async with open_persona(
        asking.settings, asking.root, asking.project(), join=given.join, force=given.force
    ) as engine:
        progress = _progress if sys.stderr.isatty() else None
        report = await engine.sync(_wanted(given.action), force=given.force, progress=progress)
    if progress is not None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return report


async def _pushed(asking: Asking, keys: list[str]) -> PersonaReport:
    from memplane.assemble.persona import open_persona
    from memplane.errors import InvalidRequest

    given = asking.arguments
    for key in keys:
        if not (asking.root / key).exists():
            raise InvalidRequest(
                f"{key} is not in {asking.root}. If it was deleted, `memplane persona push` "
                "without a name carries that to the container"
            )
    project = asking.project()
    if given.allow_secrets is not None:
        async with open_persona(asking.settings, asking.root, project, join=given.join) as engine:
            for key in keys:
                engine.baseline.allow(key, may_go=given.allow_secrets)
    async with open_persona(
        asking.settings, asking.root, project, join=given.join, force=given.force
    ) as engine:
        return await engine.push(keys)


def _wanted(action: str) -> Collection[Action]:
    from memplane.persona.engine import BOTH
    from memplane.persona.plan import BRINGS, SENDS

    return {"pull": BRINGS, "push": SENDS}.get(action, BOTH)


def _progress(done: int, total: int) -> None:
    print(f"\r\x1b[K{done}/{total} documents", end="", file=sys.stderr, flush=True)


def _told(report: PersonaReport) -> Answer:
    from memplane.cli import FAILED, OK, UNAVAILABLE
    from memplane.cli.persona_show import print_report

    wrong = [key for key, _ in (*report.held, *report.errors) if key not in report.waiting]
    code = FAILED if wrong else UNAVAILABLE if report.waiting else OK
    return Answer(report, lambda: print_report(report), code)


def _unavailable(asking: Asking, error: MemplaneError) -> Answer:
    from memplane.cli import UNAVAILABLE
    from memplane.cli.persona_show import print_waiting

    print(f"memplane persona: {error}", file=sys.stderr)
    standing = asking.standing()
    waiting = standing.waiting if standing is not None else ()
    body = {"error": str(error), "waiting": [one.key for one in waiting]}
    return Answer(body, lambda: print_waiting(waiting), UNAVAILABLE)


# Looking before


async def _planned(asking: Asking, keys: list[str]) -> Answer:
    """Say what would be done, and change nothing."""
    from memplane.cli import FAILED, OK
    from memplane.cli.persona_show import PLANNED, print_plan
    from memplane.persona.plan import Action

    given = asking.arguments
    view, gate, objection = await _looked(asking)
    wanted = _wanted(given.action)
    rows = [row for row in view.rows if row.action in wanted and row.action is not Action.NOTHING]
    if keys:
        rows = [row for row in rows if row.key in keys]
    steps: list[dict[str, str]] = []
    for row in rows:
        held = _refusal(row, view, gate)
        word, why = ("hold", held) if held else PLANNED[row.action]
        moved = f"; it is now {row.moved_to}" if row.moved_to else ""
        steps.append({"key": row.key, "action": word, "why": why + moved})
    refused = {**view.refused, **view.survey.refused}
    body = {"plan": steps, "refused": refused, "objection": objection}
    return Answer(body, lambda: print_plan(steps, refused, objection), FAILED if objection else OK)


async def _looked(asking: Asking) -> tuple[View, Gate, str]:
    from memplane.assemble.persona import look_first, open_persona
    from memplane.errors import PersonaError

    given, project = asking.arguments, asking.project()
    if asking.marker is None:
        return *await look_first(asking.settings, asking.root, project, join=given.join), ""
    async with open_persona(
        asking.settings, asking.root, project, join=given.join, force=given.force
    ) as engine:
        view = await engine.look()
        try:
            engine.refuse_accidents(view, force=given.force)
        except PersonaError as error:
            return view, engine.gate, str(error)
        return view, engine.gate, ""


def _refusal(row: Planned, view: View, gate: Gate) -> str:
    from memplane.persona.plan import SENDS

    text = view.files.get(row.key)
    refusal = gate.refusal(row.key, text) if text is not None and row.action in SENDS else None
    return refusal.reason if refusal is not None else ""


# Watching


async def _watch(asking: Asking) -> Answer:
    """Keep in step until SIGINT or SIGTERM."""
    import asyncio
    import signal

    from memplane.assemble.persona import watch_persona
    from memplane.cli.show import harmless
    from memplane.clock import system_clock

    def tell(sentence: str) -> None:
        print(harmless(f"{system_clock():%H:%M:%S} {sentence}"), flush=True)

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    tell(f"watching {asking.root}; Ctrl-C stops it")
    await watch_persona(
        asking.settings, asking.root, asking.project(), stop=stop, tell=tell, warn=tell
    )
    return Answer(None, lambda: tell("stopped"))


_SYNCS: Final[dict[str, Callable[[Asking], Awaitable[Answer]]]] = {
    "sync": _sync,
    "pull": _sync,
    "push": _sync,
    "watch": _watch,
}
