"""`memplane claude`: it is installed with one command, and gone with another."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memplane.cli import main
from memplane.integrations.claude_code.hook_settings import HOOK_ENTRIES, Program
from memplane.service.claude_install import make_plugin_entries
from tests.support.claude_code import find_program
from tests.support.claude_hooks import Workstation, make_workstations

THEIRS = {"hooks": [{"type": "command", "command": "echo theirs"}]}
SETTINGS = (
    '{\n    "theme": "dark",\n    "hooks": {"Stop": [' + json.dumps(THEIRS) + "],\n"
    '      "PostToolUse": []}\n}'
)
SERVERS = '{"mcpServers": {"theirs": {"command": "theirs"}}, "numStartups": 7}\n'
PLUGIN = Path(make_plugin_entries.__code__.co_filename).parents[1] / (
    "integrations/claude_code/plugin"
)


@dataclass(frozen=True, slots=True)
class Printed:
    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Machine(Workstation):
    """A machine whose commands run in this process, which saves the start of one for each."""

    capture: pytest.CaptureFixture[str] | None = None

    def memplane(self, *words: str) -> Any:
        assert self.capture is not None
        self.capture.readouterr()
        code = main(words)
        return Printed(code, *self.capture.readouterr())


@pytest.fixture
def machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Machine:
    (place,) = make_workstations(tmp_path, "laptop")
    made = Machine(place.user, place.project, capture=capsys)
    monkeypatch.setenv("HOME", str(made.user))
    monkeypatch.chdir(made.project)
    (made.user / ".claude").mkdir(parents=True)
    (made.user / ".claude" / "settings.json").write_text(SETTINGS)
    (made.user / ".claude.json").write_text(SERVERS)
    (made.user / ".claude" / "CLAUDE.md").write_text("Be brief.")
    return made


def files(machine: Machine) -> dict[str, bytes]:
    """Everything of the user's and the project's, but memplane's home and git's folder."""
    return {
        path.relative_to(machine.user).as_posix(): path.read_bytes()
        for path in machine.user.rglob("*")
        if path.is_file() and not {".memplane", ".git"} & {*path.parts}
    }


def settings(machine: Machine, name: str = ".claude/settings.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((machine.user / name).read_text())
    return found


@pytest.mark.parametrize("scope", ["user", "project", "plugin"])
def test_what_is_installed_goes_to_the_byte(machine: Machine, scope: str) -> None:
    (machine.project / "AGENTS.md").write_text("# Rules\n")
    before = files(machine)
    machine.install("--scope", scope)
    assert files(machine) != before
    ran = machine.memplane("claude", "uninstall", "--yes")
    assert ran.returncode == 0, ran.stderr
    assert files(machine) == before
    assert not (machine.user / ".claude" / "skills").exists()
    assert not (machine.project / ".claude").exists()
    assert "nothing to remove" in machine.memplane("claude", "uninstall", "--yes").stdout


def test_nothing_of_others_is_disturbed_and_a_second_time_changes_nothing(
    machine: Machine,
) -> None:
    machine.install()
    installed = files(machine)
    hooks = settings(machine)["hooks"]
    assert hooks["Stop"][0] == THEIRS
    assert hooks.keys() == {entry.event for entry in HOOK_ENTRIES}
    servers = settings(machine, ".claude.json")
    assert servers["mcpServers"].keys() == {"theirs", "memplane"}
    assert servers["mcpServers"]["memplane"]["alwaysLoad"] is True
    assert servers["numStartups"] == 7
    again = machine.memplane("claude", "install", "--yes")
    assert "nothing to change" in again.stdout
    assert files(machine) == installed


def test_of_files_that_were_edited_since_only_ours_goes(machine: Machine) -> None:
    machine.install()
    edited = settings(machine) | {"model": "opus"}
    edited["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "echo new"}]})
    (machine.user / ".claude" / "settings.json").write_text(json.dumps(edited))
    guide = machine.user / ".claude" / "CLAUDE.md"
    guide.write_text(guide.read_text() + "And polite.\n")
    skill = machine.user / ".claude" / "skills" / "remember" / "SKILL.md"
    skill.write_text(skill.read_text() + "More.\n")
    ran = machine.memplane("claude", "uninstall", "--yes")
    left = settings(machine)
    assert (left["theme"], left["model"]) == ("dark", "opus")
    assert [group["hooks"][0]["command"] for group in left["hooks"]["Stop"]] == [
        *("echo theirs", "echo new")
    ]
    assert "memplane" not in json.dumps(left)
    assert guide.read_text() == "Be brief.\nAnd polite.\n"
    assert skill.exists()
    assert "edited since" in ran.stderr


def test_one_scope_goes_and_the_other_stays(machine: Machine) -> None:
    machine.install()
    only_user = files(machine)
    machine.install("--scope", "plugin", "--no-claude-md")
    ran = machine.memplane("claude", "uninstall", "--scope", "plugin", "--yes")
    assert ran.returncode == 0, ran.stderr
    hooks = json.loads(only_user[".claude/settings.json"])["hooks"]
    assert settings(machine)["hooks"] == hooks
    assert "enabledPlugins" not in settings(machine)


def test_the_changes_are_shown_and_made_only_when_that_is_wanted(machine: Machine) -> None:
    before = files(machine)
    ran = machine.memplane("claude", "install")
    assert ran.returncode == 1
    assert '"command": ' in ran.stdout
    assert any(
        line[:1] == "+" and '"alwaysLoad": true' in line for line in ran.stdout.splitlines()
    )
    assert "--yes" in ran.stderr
    assert files(machine) == before


def test_a_file_that_cannot_be_read_stops_everything(machine: Machine) -> None:
    (machine.user / ".claude.json").write_text("{not json")
    before = files(machine)
    ran = machine.memplane("claude", "install", "--yes")
    assert ran.returncode == 2
    assert ".claude.json is not valid JSON" in ran.stderr
    assert files(machine) == before


def test_a_skill_of_the_same_name_that_is_the_users_stays(machine: Machine) -> None:
    own = machine.user / ".claude" / "skills" / "remember" / "SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("---\nname: remember\n---\nMine.\n")
    ran = machine.memplane("claude", "install", "--yes")
    assert f"{own} is there and not memplane's" in ran.stderr
    machine.memplane("claude", "uninstall", "--yes")
    assert own.read_text().endswith("Mine.\n")


def test_the_guide_goes_where_the_client_reads_it(machine: Machine) -> None:
    (machine.project / "AGENTS.md").write_text("# Rules\n")
    machine.install("--scope", "project")
    assert "memplane:persona:begin" in (machine.project / "AGENTS.md").read_text()
    assert not (machine.project / "CLAUDE.md").exists()
    machine.memplane("claude", "uninstall", "--yes")
    machine.install("--scope", "project", "--no-claude-md")
    assert (machine.project / "AGENTS.md").read_text() == "# Rules\n"


def test_a_settings_file_that_is_a_link_stays_one(machine: Machine, tmp_path: Path) -> None:
    own = tmp_path / "dotfiles.json"
    own.write_text(SETTINGS)
    link = machine.user / ".claude" / "settings.json"
    link.unlink()
    link.symlink_to(own)
    machine.install()
    assert link.is_symlink()
    assert "memplane" in own.read_text()


# Whether it works


def status(machine: Machine) -> tuple[int, dict[str, Any]]:
    ran = machine.memplane("claude", "status", "--json")
    return ran.returncode, json.loads(ran.stdout)


def test_status_tries_the_installed_hook_with_a_canary(machine: Machine) -> None:
    code, found = status(machine)
    assert (code, found["has_canary"]) == (1, False)
    machine.install()
    code, found = status(machine)
    assert (code, found["has_canary"], found["canary"]) == (0, True, "")
    assert [scope["is_installed"] for scope in found["scopes"]] == [True, False, False]
    assert "user_canary.md" not in str(files(machine))  # it was a folder of its own


def break_program(found: dict[str, Any]) -> None:
    for group in found["hooks"]["PostToolUse"]:
        for hook in group["hooks"]:
            hook["command"] = "/bin/true/memplane"


def break_event(found: dict[str, Any]) -> None:
    for group in found["hooks"]["PostToolUse"]:
        for hook in group["hooks"]:
            hook["args"][-1] = "Stop"


@pytest.mark.parametrize(
    ("damage", "words"), [(break_program, "cannot be run"), (break_event, "did not queue")]
)
def test_a_hook_that_does_not_work_is_noticed(
    machine: Machine, damage: Callable[[dict[str, Any]], None], words: str
) -> None:
    machine.install()
    found = settings(machine)
    damage(found)
    (machine.user / ".claude" / "settings.json").write_text(json.dumps(found))
    code, told = status(machine)
    assert code == 1
    assert words in told["canary"]
    (finding,) = claude_findings(machine)
    assert (finding["verdict"], finding["remedy"]) == ("failed", "memplane claude install")


def test_doctor_tries_the_hooks_where_they_are_installed(machine: Machine) -> None:
    assert claude_findings(machine) == []
    machine.install()
    (finding,) = claude_findings(machine)
    assert finding["verdict"] == "ok"


def claude_findings(machine: Machine) -> list[dict[str, Any]]:
    findings = json.loads(machine.memplane("doctor", "--json").stdout)
    return [finding for finding in findings if finding["name"] == "Claude Code"]


# The plugin


def test_the_shipped_plugin_has_the_hooks_of_the_table() -> None:
    for name, entries in make_plugin_entries(Program("memplane")).items():
        assert json.loads((PLUGIN / name).read_text()) == entries


@pytest.mark.parametrize("part", ["plugin.json", "marketplace.json"])
def test_the_client_finds_the_shipped_plugin_valid(part: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [
            str(find_program()),
            "plugin",
            "validate",
            "--strict",
            str(PLUGIN / ".claude-plugin" / part),
        ],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("skill", sorted(PLUGIN.glob("skills/*")), ids=lambda path: path.name)
def test_a_skill_has_the_portable_form(skill: Path) -> None:
    head = (skill / "SKILL.md").read_text().split("---\n")[1]
    keys = [line.partition(":") for line in head.splitlines() if not line.startswith(" ")]
    found = {key: value.strip() for key, _, value in keys}
    portable = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert found.keys() <= portable
    assert found["name"] == skill.name
    assert 0 < len(found["description"]) <= 1024
