"""`memplane forget`: forget entries for good, here or in a pod's memory service."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from memplane.memory.contract import Checked, ForgetAsked, ForgetReceipt
    from memplane.operate.forgetting import AgentForgot, Drained, Forgetting, Share
    from memplane.operate.targets import Asked
    from memplane.operate.verifying import Check
    from memplane.pod.contexts import Contexts
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "service",
        nargs="?",
        help="a pod's memory service, by its name; left out, memplane's own memory",
    )
    parser.add_argument("-f", "--file", metavar="F", help="the pod's file; claw-pod.yml here")
    parser.add_argument(
        "--entry-id",
        action="append",
        default=[],
        metavar="ID",
        help="the entry to forget, by its id; may be repeated. Of memplane's own memory the "
        "beginning of an id is enough",
    )
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="ID",
        help="whose entry; in a pod, by default the agents whose ledger has it",
    )
    parser.add_argument("--reason", default="", help="why, kept with the tombstone")
    parser.add_argument(
        "--allow-unknown",
        action="store_true",
        help="also entries that no ledger has yet; the ids are taken as they are written",
    )
    parser.add_argument("--url", help="where the service answers, if not where the pod says")
    parser.add_argument("--auth-token", metavar="T", help="its token, if not the pod's")
    parser.add_argument(
        "--verify", action="store_true", help="read every place back, and print a receipt"
    )
    parser.add_argument(
        "--purge",
        action="store_true",
        help="also erase what was said from memplane's own ledgers; it cannot be undone",
    )
    parser.add_argument(
        "--copies", action="store_true", help="with --purge: and later turns that repeat it"
    )
    parser.add_argument(
        "--confirm", metavar="AGENT", help="with --purge: the agent's name, instead of typing it"
    )
    parser.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Forget entries of our own memory, or of a pod's agents."""
    if arguments.service is None:
        return await forget_here(arguments, settings)
    from pathlib import Path

    from memplane.errors import InvalidRequest, PodError
    from memplane.operate.targets import pod_of
    from memplane.pod.places import COMPOSE_FILE

    if arguments.purge:
        raise InvalidRequest(
            "--purge erases from memplane's own ledgers: leave the service out. A pod's ledger "
            "belongs to its proxy"
        )
    here = Path.cwd()
    folder = pod_of(arguments.file, here)
    if folder is None:
        raise PodError(
            f"no {COMPOSE_FILE} found in {here}. Name the pod's file with -f, or compile it "
            "first: memplane pod compile"
        )
    return await forget_in_pod(folder, arguments, settings)


async def forget_here(arguments: argparse.Namespace, settings: Settings) -> int:
    """Forget entries of memplane's own memory.

    Raises:
        InvalidRequest: No entry or no agent is named, nobody knows the entry, or a purge is not
            confirmed.
    """
    from memplane.assemble.plane import open_command_telemetry, open_plane
    from memplane.cli import FAILED, OK
    from memplane.cli.show import print_json
    from memplane.cli.telling import telling
    from memplane.errors import InvalidRequest
    from memplane.memory.contract import ForgetAsked
    from memplane.operate.forgetting import wanted_ids
    from memplane.telemetry import MemoryOperation

    if arguments.file or arguments.url or arguments.auth_token:
        raise InvalidRequest(
            "-f, --url and --auth-token are about a pod's memory service: name the service too"
        )
    ids = wanted_ids(arguments.entry_id)
    agents = arguments.agent or [settings.agent]
    if len(agents) != 1 or not agents[0]:
        raise InvalidRequest("say which agent: --agent NAME, or set MEMPLANE_AGENT")
    if arguments.purge:
        _confirm(agents[0], ids, arguments.confirm)
    asked = ForgetAsked(
        agent=agents[0],
        ids=tuple(ids),
        reason=arguments.reason.strip(),
        verify=arguments.verify,
        purge=arguments.purge,
        copies=arguments.copies,
        known_only=not arguments.allow_unknown,
    )
    telemetry = open_command_telemetry(settings.home)
    with telling(MemoryOperation.FORGET, asked.agent, telemetry.emit):
        async with open_plane(settings) as plane:
            receipt = await plane.forget(asked)
    if arguments.json:
        print_json(receipt)
    else:
        _print_here(asked, receipt)
    return OK if receipt.clean else FAILED


def _confirm(agent: str, ids: Sequence[str], given: str | None) -> None:
    """Let the name be typed before anything is erased."""
    from memplane.errors import InvalidRequest

    if given is None and sys.stdin.isatty():
        print(f"{len(ids)} entries of {agent} will be erased from the ledgers, for good.")
        given = input("Type the agent's name to go on: ")
    if given is None or given.strip() != agent:
        raise InvalidRequest(
            f"nothing was erased: the agent's name was not confirmed. Add --confirm {agent}"
        )


def _print_here(asked: ForgetAsked, receipt: ForgetReceipt) -> None:
    from memplane.cli.show import harmless

    print(f"Forgot {receipt.forgotten} entries for {asked.agent}")
    if receipt.already:
        print(f"Skipped {receipt.already} already-tombstoned entries")
    for entry_id in receipt.ids:
        if entry_id not in asked.ids:
            print(f"  {harmless(entry_id)}")
    if receipt.purged:
        print(f"Erased {len(receipt.purged)} from the ledgers; their chains still verify")
    if asked.purge:
        _print_repeats(asked.agent, receipt)
    _print_checked(receipt.checked)


def _print_repeats(agent: str, receipt: ForgetReceipt) -> None:
    """Say which turns still have what was erased, and what erases them."""
    from memplane.cli.show import harmless

    for entry_id in receipt.erased_before:
        print(
            f"{harmless(entry_id)} was erased before: which later turns repeat what it said "
            "cannot be found any more"
        )
    for entry_id in receipt.repeated:
        print(f"{harmless(entry_id)} repeats what was said, and was left")
    if receipt.repeated:
        named = " ".join(f"--entry-id {harmless(one)}" for one in receipt.repeated)
        print(f"This erases such turns too: memplane forget --agent {agent} {named} --purge")


def _print_checked(checked: Sequence[Checked]) -> None:
    from memplane.cli.show import coloured, harmless

    for one in checked:
        verdict = coloured("ok    ", "green") if one.clean else coloured("failed", "red")
        if one.unsure:
            verdict = coloured("unsure", "yellow")
        print(f"{verdict} {one.place}{': ' if one.note else ''}{harmless(one.note)}")
    if checked:
        unsure = sum(one.unsure for one in checked)
        wrong = sum(not one.clean for one in checked) - unsure
        beside = f"; of {unsure} nobody can tell" if unsure else ""
        print(f"{len(checked)} places searched; {wrong} still have something{beside}")


async def forget_in_pod(folder: Path, arguments: argparse.Namespace, settings: Settings) -> int:
    """Forget entries of a pod's agents: tombstones first, then the service.

    Raises:
        InvalidRequest: No entry is named, or nobody knows one.
        PodError: The pod cannot be used, or nobody has that service for a memory.
        LedgerError: A tombstone cannot be written.
    """
    import asyncio

    from memplane.assemble.plane import open_command_telemetry
    from memplane.cli.backfill import asked_of
    from memplane.clock import system_clock
    from memplane.operate.forgetting import Forgetting, Wish, wanted_ids
    from memplane.operate.targets import offered_targets, pod_place, queued_target
    from memplane.pod.contexts import read_contexts
    from memplane.services.client import open_client

    ids = wanted_ids(arguments.entry_id)
    asked = asked_of(arguments)
    contexts = await asyncio.to_thread(read_contexts, folder)
    for warning in contexts.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    targets = await asyncio.to_thread(offered_targets, contexts, asked, "forget")
    wish = Wish(asked.service, ids, arguments.reason.strip(), arguments.allow_unknown)
    place = pod_place(folder)
    async with open_client() as client:
        emit = open_command_telemetry(place.state).emit
        forgetting = Forgetting(place, client, system_clock, emit)
        shares = await forgetting.decide(targets, wish)
        drained = await forgetting.drain(
            lambda item: queued_target(contexts, item.service, item.agent, asked)
        )
        done = [
            await forgetting.forget(target, shares[target.agent], wish)
            for target in targets
            if target.agent in shares
        ]
        receipt = (
            await _verified(forgetting, contexts, asked, shares=shares, settings=settings)
            if arguments.verify
            else []
        )
    return _tell(done, drained, receipt, arguments)


async def _verified(
    forgetting: Forgetting,
    contexts: Contexts,
    asked: Asked,
    *,
    shares: Mapping[str, Share],
    settings: Settings,
) -> list[Check]:
    import asyncio

    from memplane.assemble.redactors import open_redactor
    from memplane.operate.targets import beside, offered_targets
    from memplane.operate.verifying import Verification

    redactor = open_redactor(settings)
    verification = Verification(
        forgetting.place, forgetting.client, lambda text: redactor.text(text).value
    )
    elsewhere = beside(contexts, asked, "forget")
    targets = await asyncio.to_thread(offered_targets, contexts, elsewhere, "recall")
    return [
        check
        for target in targets
        if target.agent in shares
        for check in await verification.check(target, shares[target.agent].entry_ids)
    ]


def _tell(
    done: Sequence[AgentForgot],
    drained: Drained,
    receipt: Sequence[Check],
    arguments: argparse.Namespace,
) -> int:
    from memplane.cli import FAILED, OK
    from memplane.cli.show import print_json

    waiting = [(item, why) for item, why in drained.left if item.service == arguments.service]
    if arguments.json:
        print_json(
            {
                "service": arguments.service,
                "agents": done,
                "sent_from_queue": drained.sent,
                "waiting": [
                    {"agent": item.agent, "entry_ids": item.entry_ids, "why": why}
                    for item, why in drained.left
                ],
                "receipt": receipt,
            }
        )
    else:
        _print_done(done, drained, arguments.service)
        _print_receipt(receipt)
    failed = any(one.complaint for one in done) or not all(one.ok for one in receipt)
    return FAILED if failed or waiting else OK


def _print_done(done: Sequence[AgentForgot], drained: Drained, service: str) -> None:
    from memplane.cli.show import harmless

    for one in done:
        if one.complaint:
            print(f'forget "{one.agent}": {harmless(one.complaint)}', file=sys.stderr)
            print(
                "the tombstones stand and the service is told later: the forget is queued",
                file=sys.stderr,
            )
        elif one.forgotten:
            print(f"Forgot {len(one.forgotten)} entries for {one.agent}")
            if not one.told:
                print(
                    f'memory service "{service}" has no forget endpoint for agent "{one.agent}"; '
                    "it was not told",
                    file=sys.stderr,
                )
    skipped = sum(len(one.skipped) for one in done)
    if skipped:
        print(f"Skipped {skipped} already-tombstoned entries")
    if drained.sent:
        print(f"Sent {drained.sent} forgets that were queued")
    for item, why in drained.left:
        print(f'forget "{item.agent}" still waits: {harmless(why)}', file=sys.stderr)


def _print_receipt(receipt: Sequence[Check]) -> None:
    from memplane.cli.show import coloured, harmless

    for one in receipt:
        verdict = coloured("ok    ", "green") if one.ok else coloured("failed", "red")
        about = f"{one.agent} {harmless(one.entry_id)} {one.place}: {harmless(one.found)}"
        print(f"{verdict} {about}")
    if receipt:
        wrong = sum(not one.ok for one in receipt)
        print(f"{len(receipt)} places read back; {wrong} still have something")
