"""`memplane forget --source` and `--session`: roll back all that came of one origin."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.episodes.api_types import RollbackReceipt, RollbackRequest
    from memplane.service.client import Client
    from memplane.settings import Settings

_MAX_PREVIEWED_TURNS = 20


async def roll_back_in_home(arguments: argparse.Namespace, settings: Settings) -> int:
    """Show what would go, let it be confirmed, and roll it back.

    Raises:
        InvalidRequest: What is asked for does not fit together, or is not confirmed.
        UnknownAgent: Nobody has heard of the agent.
    """
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.agent_argument import expect_agent
    from memplane.cli.output import get_program_name, print_json
    from memplane.service.client import Client
    from memplane.service.operations.memory import roll_back

    asked = _read_request(arguments, settings)
    async with Client(settings) as client:
        await expect_agent(asked.agent, client, settings)
        if not arguments.yes:
            await _confirm(asked, client, is_quiet=arguments.json)
        receipt = await client.call(roll_back, asked)
    if arguments.json:
        print_json(receipt)
    else:
        _print_receipt(asked, receipt, get_program_name(settings.home))
    forgotten = receipt.forgotten
    return EXIT_OK if forgotten is None or forgotten.clean else EXIT_FAILED


def _read_request(arguments: argparse.Namespace, settings: Settings) -> RollbackRequest:
    from memplane.episodes.api_types import RollbackRequest
    from memplane.errors import InvalidRequest

    beside = {
        "a memory service": arguments.service,
        "--entry-id": arguments.entry_id,
        "--copies": arguments.copies,
        "--allow-unknown": arguments.allow_unknown,
        "-f": arguments.file,
        "--url": arguments.url,
        "--auth-token": arguments.auth_token,
    }
    if wrong := [name for name, value in beside.items() if value]:
        raise InvalidRequest(f"{wrong[0]} does not go with --source or --session")
    if arguments.source and arguments.session:
        raise InvalidRequest("roll back a source or a session, one after the other")
    agents = arguments.agent or [settings.agent]
    if len(agents) != 1 or not agents[0]:
        raise InvalidRequest("say which agent: --agent NAME, or set MEMPLANE_AGENT")
    return RollbackRequest(
        agent=agents[0],
        source=arguments.source,
        session=arguments.session,
        reason=arguments.reason.strip(),
        verify=arguments.verify,
        purge=arguments.purge,
    )


async def _confirm(asked: RollbackRequest, client: Client, *, is_quiet: bool) -> None:
    """List what would go, and let the agent's name be typed."""
    import msgspec

    from memplane.errors import InvalidRequest
    from memplane.service.operations.memory import roll_back

    preview = await client.call(roll_back, msgspec.structs.replace(asked, dry_run=True))
    if not is_quiet:
        _print_preview(asked, preview)
    if not preview.count and not preview.memories:
        return
    if _ask_for_name() != asked.agent:
        raise InvalidRequest("nothing was rolled back: it was not confirmed. Add --yes")


def _ask_for_name() -> str:
    return input("Type the agent's name to go on: ").strip() if sys.stdin.isatty() else ""


def _print_preview(asked: RollbackRequest, preview: RollbackReceipt) -> None:
    from memplane.cli.output import escape_text

    erased = " and erased" if asked.purge else ""
    print(f"{preview.count} turns of {asked.agent} would be forgotten{erased}:")
    for turn in preview.turns[:_MAX_PREVIEWED_TURNS]:
        sources = ", ".join(turn.sources)
        print(f"  {turn.ts}  {escape_text(turn.id[:18])}  {escape_text(turn.question)}")
        if sources:
            print(f"    repeats {escape_text(sources)}")
    if preview.count > _MAX_PREVIEWED_TURNS:
        print(f"  and {preview.count - _MAX_PREVIEWED_TURNS} more")
    if preview.memories:
        print(f"What they did to {_name_memories(preview.memories)} would be taken back")


def _print_receipt(asked: RollbackRequest, receipt: RollbackReceipt, program: str) -> None:
    from memplane.cli.output import print_forget_checks

    if not receipt.count and not receipt.memories:
        origin = f"session {asked.session}" if asked.session else asked.source
        print(f"{asked.agent} remembers nothing of {origin}")
        return
    forgotten = receipt.forgotten.forgotten if receipt.forgotten else 0
    print(f"Forgot {forgotten} entries for {asked.agent}")
    if receipt.memories:
        print(f"Took back what they did to {_name_memories(receipt.memories)}")
    if receipt.batch and not asked.purge:
        undo = f"{program} memories undo --batch {receipt.batch}"
        print(f"This brings the observations back: {undo}")
    if receipt.forgotten is not None:
        print_forget_checks(receipt.forgotten.checked)


def _name_memories(memories: tuple[int, ...]) -> str:
    many = "observations" if len(memories) > 1 else "observation"
    return f"{many} {', '.join(map(str, memories))}"
