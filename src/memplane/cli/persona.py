"""`memplane persona`: the documents that follow an agent from machine to machine.

Its arguments stand in `persona_options`, what it prints for people in `persona_show`. What looks
at single documents is in `persona_files`, what keeps and removes them in `persona_keeping`.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final, TextIO

from memplane.cli.persona_arguments import configure
from memplane.cli.persona_request import PersonaRequest, PersonaResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from memplane.errors import MemplaneError
    from memplane.persona.engine import SyncView
    from memplane.persona.plan import PlannedDocument, SyncAction
    from memplane.persona.publish_gate import PublishGate
    from memplane.persona.report import PersonaReport
    from memplane.settings import Settings

__all__ = ["configure", "run"]


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do what was asked, here or with the container."""
    from memplane.cli.output import print_json
    from memplane.service.composition.files import find_persona_folder

    asking = PersonaRequest(arguments, settings, find_persona_folder(settings))
    answer = await _action(arguments.action)(asking)
    if arguments.json:
        print_json(answer.body)
    else:
        answer.show()
    return answer.code


def _action(name: str) -> Callable[[PersonaRequest], Awaitable[PersonaResult]]:
    if name in _SYNCS:
        return _SYNCS[name]
    from memplane.cli import persona_documents, persona_maintenance

    return (persona_documents.DOCUMENT_ACTIONS | persona_maintenance.MAINTENANCE_ACTIONS)[name]


# Syncing


async def _sync(asking: PersonaRequest) -> PersonaResult:
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
    return _make_sync_result(report)


async def _synced(asking: PersonaRequest) -> PersonaReport:
    from memplane.service.composition.persona import open_persona

    given = asking.arguments
    async with open_persona(
        asking.settings, asking.root, asking.project(), join=given.join, force=given.force
    ) as engine:
        progress = _progress if sys.stderr.isatty() else None
        report = await engine.sync(
            _list_wanted_actions(given.action), force=given.force, progress=progress
        )
    if progress is not None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return report


async def _pushed(asking: PersonaRequest, keys: list[str]) -> PersonaReport:
    from memplane.errors import InvalidRequest
    from memplane.service.composition.persona import open_persona

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


def _list_wanted_actions(action: str) -> Collection[SyncAction]:
    from memplane.persona.engine import ALL_ACTIONS
    from memplane.persona.plan import PULL_ACTIONS, PUSH_ACTIONS

    return {"pull": PULL_ACTIONS, "push": PUSH_ACTIONS, "push-one": PUSH_ACTIONS}.get(
        action, ALL_ACTIONS
    )


def _progress(done: int, total: int) -> None:
    print(f"\r\x1b[K{done}/{total} documents", end="", file=sys.stderr, flush=True)


def _make_sync_result(report: PersonaReport) -> PersonaResult:
    from memplane.cli import EXIT_FAILED, EXIT_OK, EXIT_UNAVAILABLE
    from memplane.cli.persona_output import print_report, print_unsynced

    print_unsynced(report)
    wrong = [key for key, _ in (*report.held, *report.errors) if key not in report.waiting]
    code = EXIT_FAILED if wrong else EXIT_UNAVAILABLE if report.waiting else EXIT_OK
    return PersonaResult(report, lambda: print_report(report), code)


def _unavailable(asking: PersonaRequest, error: MemplaneError) -> PersonaResult:
    from memplane.cli import EXIT_UNAVAILABLE
    from memplane.cli.persona_output import print_queue

    print(f"memplane persona: {error}", file=sys.stderr)
    standing = asking.standing()
    waiting = standing.waiting if standing is not None else ()
    body = {"error": str(error), "waiting": [one.key for one in waiting]}
    return PersonaResult(body, lambda: print_queue(waiting), EXIT_UNAVAILABLE)


# Looking before


async def _planned(asking: PersonaRequest, keys: list[str]) -> PersonaResult:
    """Say what would be done, and change nothing."""
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.persona_output import PLAN_WORDS, print_plan
    from memplane.persona.plan import PUSH_ACTIONS, SyncAction

    given = asking.arguments
    view, gate, objection = await _inspect(asking)
    wanted = _list_wanted_actions(given.action)
    drained = _drained(asking) if given.action == "pull" else frozenset[str]()
    rows = [
        row
        for row in view.rows
        if row.action is not SyncAction.NOTHING
        and (row.action in wanted or (row.key in drained and row.action in PUSH_ACTIONS))
    ]
    if keys:
        rows = [row for row in rows if row.key in keys]
    steps: list[dict[str, str]] = []
    for row in rows:
        held = _refusal(row, view, gate)
        word, why = ("hold", held) if held else PLAN_WORDS[row.action]
        moved = f"; it is now {row.moved_to}" if row.moved_to else ""
        steps.append({"key": row.key, "action": word, "why": why + moved})
    refused = {**view.refused, **view.survey.refused}
    body = {"plan": steps, "refused": refused, "objection": objection}
    return PersonaResult(
        body, lambda: print_plan(steps, refused, objection), EXIT_FAILED if objection else EXIT_OK
    )


def _drained(asking: PersonaRequest) -> frozenset[str]:
    """Name the documents that a pull sends first, because they wait in the queue."""
    standing = asking.standing()
    waiting = standing.waiting if standing is not None else ()
    return frozenset(one.key for one in waiting if not one.dead)


async def _inspect(asking: PersonaRequest) -> tuple[SyncView, PublishGate, str]:
    from memplane.errors import PersonaError
    from memplane.service.composition.persona import look_first, open_persona

    given, project = asking.arguments, asking.project()
    if asking.marker is None:
        return *await look_first(asking.settings, asking.root, project, join=given.join), ""
    async with open_persona(
        asking.settings, asking.root, project, join=given.join, force=given.force
    ) as engine:
        view = await engine.survey()
        try:
            engine.refuse_accidents(view, force=given.force)
        except PersonaError as error:
            return view, engine.gate, str(error)
        return view, engine.gate, ""


def _refusal(row: PlannedDocument, view: SyncView, gate: PublishGate) -> str:
    from memplane.persona.plan import PUSH_ACTIONS

    text = view.files.get(row.key)
    refusal = (
        gate.refusal(row.key, text) if text is not None and row.action in PUSH_ACTIONS else None
    )
    return refusal.reason if refusal is not None else ""


# Watching


async def _watch(asking: PersonaRequest) -> PersonaResult:
    """Keep in step until SIGINT or SIGTERM."""
    import asyncio
    import signal
    from functools import partial

    from memplane.cli.output import escape_text
    from memplane.kit.clock import system_clock
    from memplane.service.composition.persona import watch_persona

    def tell(sentence: str, *, file: TextIO | None = None) -> None:
        print(escape_text(f"{system_clock():%H:%M:%S} {sentence}"), file=file, flush=True)

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await watch_persona(
        asking.settings,
        asking.root,
        asking.project(),
        stop=stop,
        greet=lambda: tell(f"watching {asking.root}; Ctrl-C stops it"),
        tell=tell,
        warn=partial(tell, file=sys.stderr),
    )
    return PersonaResult(None, lambda: tell("stopped"))


_SYNCS: Final[dict[str, Callable[[PersonaRequest], Awaitable[PersonaResult]]]] = {
    "sync": _sync,
    "pull": _sync,
    "push": _sync,
    "push-one": _sync,
    "watch": _watch,
}
