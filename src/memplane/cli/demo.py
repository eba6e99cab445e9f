"""What `memplane up --demo` plays: two conversations, and a memory between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from memplane.plane.local import LocalPlane
    from memplane.proxy.turn import Proxy

AGENT: Final = "demo"
_TOLD: Final = "My sister Ada comes on Friday. She is allergic to peanuts."
_ASKED: Final = "What must I not cook for my sister Ada?"


async def play(address: str, plane: LocalPlane, proxy: Proxy, name: str) -> None:
    """Hold both conversations through the proxy, and show what happened.

    `name` is how this program is called for this home.
    """
    import aiohttp

    from memplane.cli.show import coloured, print_rows, say_how_to_stop

    async with aiohttp.ClientSession() as client:
        print(coloured("\nA first conversation", "bold"))
        await _talk(client, address, _TOLD)
        await proxy.recorder.drain()
        await (await plane.remembering.memory()).follow()
        print(coloured("\nA second one, which knows nothing of the first", "bold"))
        await _talk(client, address, _ASKED)
        await proxy.recorder.drain()
    entry_id, sizes = _last_turn(plane)
    print(f"  memplane put {sum(sizes)} bytes of memory into that prompt.")
    print(coloured("\nLook at it", "bold"))
    asked = '{"model":"demo","messages":[{"role":"user","content":"When does Ada come?"}]}'
    print_rows(
        [
            (f"{name} history show --agent {AGENT}", "the turns that were captured"),
            (
                f"{name} history show --agent {AGENT} --receipt {entry_id[6:18]}",
                "which memories were in that prompt",
            ),
            (f'{name} recall --agent {AGENT} "Ada, Friday"', "ask the memory itself"),
            (f"{name} dashboard --open", "see all of it in a browser"),
            (f"export OPENAI_BASE_URL={address}/agent/{AGENT}/v1", "any agent, any SDK"),
        ]
    )
    print(f"  curl {address}/agent/{AGENT}/v1/chat/completions -d '{asked}'")
    say_how_to_stop()


async def _talk(client: ClientSession, address: str, said: str) -> None:
    from memplane.cli.show import coloured, harmless

    print(f"  you   {said}")
    body = {"model": AGENT, "messages": [{"role": "user", "content": said}]}
    async with client.post(f"{address}/agent/{AGENT}/v1/chat/completions", json=body) as reply:
        answer = (await reply.json())["choices"][0]["message"]["content"]
    print(f"  demo  {coloured(harmless(answer), 'dim')}")


def _last_turn(plane: LocalPlane) -> tuple[str, list[int]]:
    from memplane.ledger.folder import AgentFolder
    from memplane.ledger.note import Note
    from memplane.ledger.notes import note_of
    from memplane.ledger.reader import open_last
    from memplane.ledger.summary import summary_of

    folder = AgentFolder(plane.recording.root, AGENT)
    with open_last(folder, 1) as page:
        entry_id = next((summary_of(line).id for line in page.lines()), "")
    note = note_of(folder, entry_id) or Note()
    return entry_id, [one.bytes for one in note.injected]
