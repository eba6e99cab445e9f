"""`memplane agent install`: Codex gets its files, others are told what to paste."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from memplane.cli import main

THEIRS = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo theirs"}]}]}}
CONFIG = 'model = "gpt-5"\n\n[mcp_servers.theirs]\ncommand = "theirs"\n'


@pytest.fixture
def codex(tmp_path: Path) -> Path:
    folder = tmp_path / "user" / ".codex"
    folder.mkdir()
    (folder / "hooks.json").write_text(json.dumps(THEIRS))
    (folder / "config.toml").write_text(CONFIG)
    return folder


def files(codex: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in codex.iterdir()}


def test_codex_gets_hooks_and_the_server_and_all_of_it_goes_again(codex: Path) -> None:
    before = files(codex)
    assert main(["agent", "install", "codex", "--yes"]) == 0
    hooks: dict[str, Any] = json.loads((codex / "hooks.json").read_text())["hooks"]
    assert hooks["Stop"][0] == THEIRS["hooks"]["Stop"][0]
    assert {"SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"} <= hooks.keys()
    assert hooks["SessionEnd"][0]["hooks"][0]["timeout"] == 3  # Codex allows no more
    servers = tomllib.loads((codex / "config.toml").read_text())["mcp_servers"]
    assert servers["memplane"]["args"][-1] == "mcp"
    assert servers["theirs"] == {"command": "theirs"}
    installed = files(codex)
    assert main(["agent", "install", "codex", "--yes"]) == 0
    assert files(codex) == installed
    assert main(["agent", "uninstall", "codex", "--yes"]) == 0
    assert files(codex) == before


def test_what_was_edited_since_stays(codex: Path) -> None:
    main(["agent", "install", "codex", "--yes"])
    config = codex / "config.toml"
    config.write_text(config.read_text() + 'approval_policy = "never"\n')
    main(["agent", "uninstall", "codex", "--yes"])
    assert config.read_text() == CONFIG + 'approval_policy = "never"\n'


def test_a_server_of_the_same_name_is_not_replaced(
    codex: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (codex / "config.toml").write_text('[mcp_servers.memplane]\ncommand = "mine"\n')
    before = files(codex)
    assert main(["agent", "install", "codex", "--yes"]) == 2
    assert "has an MCP server called memplane already" in capsys.readouterr().err
    assert files(codex) == before


@pytest.mark.parametrize(("client", "key"), [("opencode", "mcp"), ("gemini", "mcpServers")])
def test_others_are_told_what_to_paste(
    client: str, key: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["agent", "install", client]) == 0
    printed = capsys.readouterr().out
    pasted = json.loads(printed[printed.index("{") : printed.rindex("}") + 1])
    assert "memplane" in pasted[key]
    assert not any((tmp_path / "user").rglob("*.json"))
