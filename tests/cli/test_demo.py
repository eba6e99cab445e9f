"""`memplane up --demo`: no key, no model, and a conversation that is remembered."""

from __future__ import annotations

import json
import re
from http.client import HTTPConnection
from pathlib import Path

from tests.support.in_process import memplane_here
from tests.support.running import running_memplane


def test_a_newcomer_sees_a_conversation_captured_and_recalled(home: Path) -> None:
    with running_memplane(home, "--demo") as running:
        told, asked = running.printed.split("A second one")
        assert "My sister Ada comes on Friday. She is allergic to peanuts." in told
        assert "From what I remember: My sister Ada comes on Friday." in asked
        put = re.search(r"memplane put (\d+) bytes of memory into that prompt", asked)
        assert put is not None
        # What it says to type works.
        shown = re.search(r"history show --agent demo --receipt (\w+)", asked)
        assert shown is not None
        receipt = memplane_here(home, "history", "show", "--agent", "demo", "--receipt", shown[1])
        assert f"in message 1, from memplane, {put[1]} bytes" in receipt.stdout
        assert "My sister Ada comes on Friday" in receipt.stdout
        turns = memplane_here(home, "history", "show", "--agent", "demo", "--json")
        assert len(turns.stdout.splitlines()) == 2
        found = memplane_here(home, "recall", "--agent", "demo", "Ada, Friday")
        assert "allergic to peanuts" in found.stdout
        assert "From what I remember" not in found.stdout  # the rest of it was an echo
        body = {"model": "demo", "messages": [{"role": "user", "content": "When does Ada come?"}]}
        connection = HTTPConnection("127.0.0.1", running.port)
        connection.request("POST", "/agent/demo/v1/chat/completions", json.dumps(body))
        said = json.load(connection.getresponse())["choices"][0]["message"]["content"]
        connection.close()
        assert "Ada comes on Friday" in said
