"""`memplane forget`: forget entries for good, here or in a pod's memory service."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from memplane.cli.user_argument import parse_user

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from memplane.episodes.api_types import ForgetReceipt, ForgetRequest
    from memplane.episodes.user_deletion import UserForgetReceipt
    from memplane.integrations.clawdapus.memory_service.forget import (
        AgentForgetPlan,
        AgentForgetResult,
        ForgetDrainReport,
        ForgetRunner,
    )
    from memplane.integrations.clawdapus.memory_service.forget_verification import PlaceCheck
    from memplane.integrations.clawdapus.memory_service.service_targets import ServiceSelection
    from memplane.integrations.clawdapus.pod.agent_contexts import PodContexts
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
    parser.add_argument(
        "--source",
        default="",
        metavar="S",
        help="roll back all that repeats a source, such as web:HOST, tool:NAME, file:PATH or "
        "import:NAME, or a whole kind; what would go is listed first",
    )
    parser.add_argument(
        "--session",
        default="",
        metavar="S",
        help="roll back all that was said in a session, by the client's name for it or its number",
    )
    parser.add_argument(
        "--yes", action="store_true", help="with --source or --session: do not ask before"
    )
    parser.add_argument(
        "--user",
        type=parse_user,
        metavar="U",
        help="with --all: an end user of the agent; everything of theirs is erased and verified",
    )
    parser.add_argument("--all", action="store_true", help="with --user: all of their turns")
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
        "--confirm",
        metavar="NAME",
        help="with --purge the agent's name, with --user the user's, instead of typing it",
    )
    parser.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Forget entries of our own memory, or of a pod's agents."""
    if arguments.source or arguments.session:
        from memplane.cli.rollback import roll_back_in_home

        return await roll_back_in_home(arguments, settings)
    if arguments.service is None:
        return await forget_in_home(arguments, settings)
    from pathlib import Path

    from memplane.errors import InvalidRequest, PodError
    from memplane.integrations.clawdapus.memory_service.service_targets import resolve_pod_folder
    from memplane.integrations.clawdapus.pod.paths import COMPOSE_FILE

    if arguments.purge:
        raise InvalidRequest(
            "--purge erases from memplane's own ledgers: leave the service out. A pod's ledger "
            "belongs to its proxy"
        )
    here = Path.cwd()
    folder = resolve_pod_folder(arguments.file, here)
    if folder is None:
        raise PodError(
            f"no {COMPOSE_FILE} found in {here}. Name the pod's file with -f, or compile it "
            "first: memplane pod compile"
        )
    return await forget_in_pod(folder, arguments, settings)


async def forget_in_home(arguments: argparse.Namespace, settings: Settings) -> int:
    """Forget entries of memplane's own memory.

    Raises:
        InvalidRequest: No entry or no agent is named, or a purge is not confirmed.
        UnknownAgent: Nobody has heard of the agent.
        UnknownMemory: Nobody knows the entry.
    """
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.output import print_json
    from memplane.episodes.api_types import ForgetRequest
    from memplane.errors import InvalidRequest
    from memplane.integrations.clawdapus.memory_service.forget import normalise_ids

    if arguments.file or arguments.url or arguments.auth_token:
        raise InvalidRequest(
            "-f, --url and --auth-token are about a pod's memory service: name the service too"
        )
    agents = arguments.agent or [settings.agent]
    if len(agents) != 1 or not agents[0]:
        raise InvalidRequest("say which agent: --agent NAME, or set MEMPLANE_AGENT")
    if arguments.user is not None or arguments.all:
        return await _forget_user(agents[0], arguments, settings)
    ids = normalise_ids(arguments.entry_id)
    if arguments.purge:
        warning = f"{len(ids)} entries of {agents[0]} will be erased from the ledgers, for good."
        _confirm_name("agent", agents[0], arguments.confirm, warning)
    asked = ForgetRequest(
        agent=agents[0],
        ids=tuple(ids),
        reason=arguments.reason.strip(),
        verify=arguments.verify,
        purge=arguments.purge,
        copies=arguments.copies,
        known_only=not arguments.allow_unknown,
    )
    receipt = await _forget(asked, settings)
    if arguments.json:
        print_json(receipt)
    else:
        _print_home_receipt(asked, receipt)
    return EXIT_OK if receipt.clean else EXIT_FAILED


async def _forget_user(agent: str, arguments: argparse.Namespace, settings: Settings) -> int:
    """Erase everything of an end user, and print where how much was.

    Raises:
        InvalidRequest: No user is named, or it is not confirmed.
    """
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.agent_argument import expect_agent
    from memplane.cli.output import print_json
    from memplane.errors import InvalidRequest
    from memplane.service.client import Client
    from memplane.service.operations.users import UserForgetRequest, forget_user

    if arguments.user is None or not arguments.all or arguments.entry_id:
        raise InvalidRequest(
            "--user U and --all go together: they erase everything of one end user. To forget "
            "single turns, leave both out and name the turns with --entry-id"
        )
    user = arguments.user
    warning = f"Everything of the user {user} of {agent} will be erased, for good."
    _confirm_name("user", user, arguments.confirm, warning)
    asked = UserForgetRequest(
        agent=agent, user=user, confirm=user, reason=arguments.reason.strip()
    )
    async with Client(settings) as client:
        await expect_agent(agent, client, settings)
        receipt = await client.call(forget_user, asked)
    if arguments.json:
        print_json(receipt)
    else:
        _print_user_receipt(receipt)
    return EXIT_OK if receipt.clean else EXIT_FAILED


def _print_user_receipt(receipt: UserForgetReceipt) -> None:
    from memplane.cli.output import escape_text, print_forget_checks

    print(f"Erased {len(receipt.ids)} turns of {escape_text(receipt.user)} of {receipt.agent}")
    for one in receipt.deleted:
        if one.deleted:
            print(f"{one.deleted:>6} {one.place}")
    for entry_id in receipt.repeated:
        print(f"{escape_text(entry_id)} is another user's, says the same words, and was left")
    print_forget_checks(receipt.checked)


async def _forget(asked: ForgetRequest, settings: Settings) -> ForgetReceipt:
    from memplane.cli.agent_argument import expect_agent
    from memplane.cli.operation_telemetry import record_operation
    from memplane.service.client import Client
    from memplane.service.composition.home import open_command_telemetry
    from memplane.service.operations.memory import forget
    from memplane.telemetry import MemoryOperation

    telemetry = open_command_telemetry(settings.home)
    with record_operation(MemoryOperation.FORGET, asked.agent, telemetry.emit):
        async with Client(settings) as client:
            if asked.known_only:
                await expect_agent(asked.agent, client, settings)
            return await client.call(forget, asked)


def _confirm_name(what: str, name: str, given: str | None, warning: str) -> None:
    """Let a name be typed before anything is erased."""
    from memplane.errors import InvalidRequest

    if given is None and sys.stdin.isatty():
        print(warning)
        given = input(f"Type the {what}'s name to go on: ")
    if given is None or given.strip() != name.strip():
        raise InvalidRequest(
            f"nothing was erased: the {what}'s name was not confirmed. Add --confirm {name}"
        )


def _print_home_receipt(asked: ForgetRequest, receipt: ForgetReceipt) -> None:
    from memplane.cli.output import escape_text, print_forget_checks

    print(f"Forgot {receipt.forgotten} entries for {asked.agent}")
    if receipt.already:
        print(f"Skipped {receipt.already} already-tombstoned entries")
    for entry_id in receipt.ids:
        if entry_id not in asked.ids:
            print(f"  {escape_text(entry_id)}")
    if receipt.purged:
        print(f"Erased {len(receipt.purged)} from the ledgers; their chains still verify")
    if asked.purge:
        _print_repeats(asked.agent, receipt)
    print_forget_checks(receipt.checked)


def _print_repeats(agent: str, receipt: ForgetReceipt) -> None:
    """Say which turns still have what was erased, and what erases them."""
    from memplane.cli.output import escape_text

    for entry_id in receipt.erased_before:
        print(
            f"{escape_text(entry_id)} was erased before: which later turns repeat what it said "
            "cannot be found any more"
        )
    for entry_id in receipt.repeated:
        print(f"{escape_text(entry_id)} repeats what was said, and was left")
    if receipt.repeated:
        named = " ".join(f"--entry-id {escape_text(one)}" for one in receipt.repeated)
        print(f"This erases such turns too: memplane forget --agent {agent} {named} --purge")


async def forget_in_pod(folder: Path, arguments: argparse.Namespace, settings: Settings) -> int:
    """Forget entries of a pod's agents: tombstones first, then the service.

    Raises:
        InvalidRequest: No entry is named.
        UnknownMemory: Nobody knows one.
        PodError: The pod cannot be used, or nobody has that service for a memory.
        LedgerError: A tombstone cannot be written.
    """
    import asyncio

    from memplane.cli.backfill import read_service_selection
    from memplane.integrations.clawdapus.memory_service.client import open_service_client
    from memplane.integrations.clawdapus.memory_service.forget import (
        ForgetRunner,
        PodForgetRequest,
        normalise_ids,
    )
    from memplane.integrations.clawdapus.memory_service.service_targets import (
        find_all_pod_targets,
        find_queued_target,
        get_pod_paths,
    )
    from memplane.integrations.clawdapus.pod.agent_contexts import read_contexts
    from memplane.kit.clock import system_clock
    from memplane.service.composition.home import open_command_telemetry

    ids = normalise_ids(arguments.entry_id)
    asked = read_service_selection(arguments)
    contexts = await asyncio.to_thread(read_contexts, folder)
    for warning in contexts.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    targets = await asyncio.to_thread(find_all_pod_targets, contexts, asked, "forget")
    wish = PodForgetRequest(asked.service, ids, arguments.reason.strip(), arguments.allow_unknown)
    place = get_pod_paths(folder)
    async with open_service_client() as client:
        emit = open_command_telemetry(place.state).emit
        forgetting = ForgetRunner(place, client, system_clock, emit)
        shares = await forgetting.decide(targets, wish)
        drained = await forgetting.drain(
            lambda item: find_queued_target(contexts, item.service, item.agent, asked)
        )
        done = [
            await forgetting.forget(target, shares[target.agent], wish)
            for target in targets
            if target.agent in shares
        ]
        receipt = (
            await _verify_forgotten(forgetting, contexts, asked, shares=shares, settings=settings)
            if arguments.verify
            else []
        )
    return _print_result(done, drained, receipt, arguments)


async def _verify_forgotten(
    forgetting: ForgetRunner,
    contexts: PodContexts,
    asked: ServiceSelection,
    *,
    shares: Mapping[str, AgentForgetPlan],
    settings: Settings,
) -> list[PlaceCheck]:
    import asyncio

    from memplane.integrations.clawdapus.memory_service.forget_verification import ForgetVerifier
    from memplane.integrations.clawdapus.memory_service.service_targets import (
        adapt_selection,
        find_all_pod_targets,
    )
    from memplane.service.composition.redactors import open_redactor

    redactor = open_redactor(settings)
    verification = ForgetVerifier(
        forgetting.place, forgetting.client, lambda text: redactor.text(text).value
    )
    elsewhere = adapt_selection(contexts, asked, "forget")
    targets = await asyncio.to_thread(find_all_pod_targets, contexts, elsewhere, "recall")
    return [
        check
        for target in targets
        if target.agent in shares
        for check in await verification.check(target, shares[target.agent].entry_ids)
    ]


def _print_result(
    done: Sequence[AgentForgetResult],
    drained: ForgetDrainReport,
    receipt: Sequence[PlaceCheck],
    arguments: argparse.Namespace,
) -> int:
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.output import print_json

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
        _print_pod_results(done, drained, arguments.service)
        _print_receipt(receipt)
    failed = any(one.complaint for one in done) or not all(one.ok for one in receipt)
    return EXIT_FAILED if failed or waiting else EXIT_OK


def _print_pod_results(
    done: Sequence[AgentForgetResult], drained: ForgetDrainReport, service: str
) -> None:
    from memplane.cli.output import escape_text

    for one in done:
        if one.complaint:
            print(f'forget "{one.agent}": {escape_text(one.complaint)}', file=sys.stderr)
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
        print(f'forget "{item.agent}" still waits: {escape_text(why)}', file=sys.stderr)


def _print_receipt(receipt: Sequence[PlaceCheck]) -> None:
    from memplane.cli.output import colour_text, escape_text

    for one in receipt:
        verdict = colour_text("ok    ", "green") if one.ok else colour_text("failed", "red")
        about = f"{one.agent} {escape_text(one.entry_id)} {one.place}: {escape_text(one.found)}"
        print(f"{verdict} {about}")
    if receipt:
        wrong = sum(not one.ok for one in receipt)
        print(f"{len(receipt)} places read back; {wrong} still have something")
