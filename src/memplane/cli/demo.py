"""What `memplane up --demo` plays: two conversations, and a memory between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from memplane.proxy.turn import Proxy
    from memplane.service.services import Services

DEMO_AGENT: Final = "demo"
_FIRST_MESSAGE: Final = "My sister Ada comes on Friday. She is allergic to peanuts."
_SECOND_MESSAGE: Final = "What must I not cook for my sister Ada?"


async def play_demo(address: str, services: Services, proxy: Proxy, name: str) -> None:
    """Hold both conversations through the proxy, and show what happened.

    `name` is how this program is called for this home.
    """
    import aiohttp

    from memplane.cli.output import colour_text, print_rows, print_stop_hint

    async with aiohttp.ClientSession() as client:
        print(colour_text("\nA first conversation", "bold"))
        await _talk(client, address, _FIRST_MESSAGE)
        await proxy.recorder.drain()
        await (await services.lazy_memory.memory()).follow()
        print(colour_text("\nA second one, which knows nothing of the first", "bold"))
        await _talk(client, address, _SECOND_MESSAGE)
        await proxy.recorder.drain()
    entry_id, sizes = _last_turn(services)
    print(f"  memplane put {sum(sizes)} bytes of memory into that prompt.")
    print(colour_text("\nLook at it", "bold"))
    asked = '{"model":"demo","messages":[{"role":"user","content":"When does Ada come?"}]}'
    print_rows(
        [
            (f"{name} history show --agent {DEMO_AGENT}", "the turns that were captured"),
            (
                f"{name} history show --agent {DEMO_AGENT} --receipt {entry_id[6:18]}",
                "which memories were in that prompt",
            ),
            (f'{name} recall --agent {DEMO_AGENT} "Ada, Friday"', "ask the memory itself"),
            (f"{name} dashboard --open", "see all of it in a browser"),
            (f"export OPENAI_BASE_URL={address}/agent/{DEMO_AGENT}/v1", "any agent, any SDK"),
        ]
    )
    print(f"  curl {address}/agent/{DEMO_AGENT}/v1/chat/completions -d '{asked}'")
    print_stop_hint()


async def _talk(client: ClientSession, address: str, said: str) -> None:
    from memplane.cli.output import colour_text, escape_text

    print(f"  you   {said}")
    body = {"model": DEMO_AGENT, "messages": [{"role": "user", "content": said}]}
    async with client.post(
        f"{address}/agent/{DEMO_AGENT}/v1/chat/completions", json=body
    ) as reply:
        answer = (await reply.json())["choices"][0]["message"]["content"]
    print(f"  demo  {colour_text(escape_text(answer), 'dim')}")


def _last_turn(services: Services) -> tuple[str, list[int]]:
    from memplane.episodes.ledger_view import LedgerView
    from memplane.ledger.entry_summary import summarise_entry
    from memplane.ledger.folder import AgentFolder
    from memplane.ledger.note_reader import find_note
    from memplane.ledger.turn_note import TurnNote

    folder = AgentFolder(services.recording.root, DEMO_AGENT)
    with LedgerView(folder, [services.home.tombstones]).last(1) as page:
        entry_id = next((summarise_entry(line).id for line in page.lines()), "")
    note = find_note(folder, entry_id) or TurnNote()
    return entry_id, [one.bytes for one in note.injected]
