"""Every command that takes an agent, an id or a number: a wrong one is named, and never ignored.

The commands are found by walking their parsers, so that a new one cannot be left out.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from memplane.cli import COMMANDS, HIDDEN_COMMANDS
from memplane.cli.number_argument import NumberRange
from tests.support.in_process import memplane_here
from tests.support.turns import record, turn

QUESTIONS = "questions.jsonl"

# Commands that look for an agent, each with what else it needs.
OF_AN_AGENT: dict[str, list[str]] = {
    "audit": ["--claw=nobody"],
    "backfill": ["http://127.0.0.1:9", "--agent=nobody"],
    "bench recall": [QUESTIONS, "--agent=nobody"],
    "forget": ["--entry-id=x", "--agent=nobody"],
    "digest": ["--agent=nobody"],
    "export": ["--user=ada", "--agent=nobody"],
    "history export": ["nobody"],
    "history show": ["--agent=nobody"],
    "history verify": ["nobody"],
    "memories accept": ["x", "--agent=nobody"],
    "memories approve": ["1", "--agent=nobody"],
    "memories conflicts": ["--agent=nobody"],
    "memories edit": ["1", "--text=x", "--agent=nobody"],
    "memories evidence": ["1", "--agent=nobody"],
    "memories export": ["--agent=nobody"],
    "memories history": ["1", "--agent=nobody"],
    "memories list": ["--agent=nobody"],
    "memories merge": ["1", "--into=2", "--agent=nobody"],
    "memories pin": ["1", "--agent=nobody"],
    "memories preview": ["--agent=nobody"],
    "memories purge": ["1", "--confirm=purge 1", "--agent=nobody"],
    "memories rejects": ["--agent=nobody"],
    "memories resolve": ["1-2", "both", "--agent=nobody"],
    "memories restore": ["1", "--agent=nobody"],
    "memories retire": ["1", "--agent=nobody"],
    "memories sessions": ["--agent=nobody"],
    "memories share": ["1", "--agent=nobody"],
    "memories show": ["1", "--agent=nobody"],
    "memories stats": ["--agent=nobody"],
    "memories undo": ["--agent=nobody"],
    "memories unpin": ["1", "--agent=nobody"],
    "memory backfill": ["http://127.0.0.1:9", "--agent=nobody"],
    "memory forget": ["--entry-id=x", "--agent=nobody"],
    "recall": ["tea", "--agent=nobody"],
    "users list": ["--agent=nobody"],
    "users share": ["x", "--agent=nobody"],
}

# Commands that an agent may begin with.
OF_A_NEW_AGENT = {
    *("memories add", "memories import", "memories learn"),
    *("retain", "run", "token create"),
    *("agent install", "claude import", "claude install", "claude run", "mcp"),
}

# Ids of what is not there, in every place that takes one; the agent is there.
_HUGE = "9" * 30
WITH_AN_ID: dict[str, list[list[str]]] = {
    "digest": [["--session=nothing"]],
    "forget": [["--entry-id=hist1_ff"], ["--entry-id=nothing"]],
    "history show": [["hist1_ff"], ["nothing"]],
    "memories accept": [["nothing"]],
    "memories approve": [["99"], [_HUGE], ["1", "99"]],
    "memories edit": [["99", "--text=Takes 60s"], [_HUGE, "--text=Takes 60s"]],
    "memories evidence": [["99"], [_HUGE]],
    "memories history": [["99"], [_HUGE]],
    "memories learn": [["/dev/null", "--session=99"], ["/dev/null", f"--session={_HUGE}"]],
    "memories list": [["--session=99"], [f"--session={_HUGE}"], ["--session=0"]],
    "memories merge": [["99", "--into=1"], ["1", "--into=99"], ["1", f"--into={_HUGE}"]],
    "memories pin": [["99"], [_HUGE], ["1", _HUGE]],
    "memories purge": [["99", "--confirm=purge 99"], [_HUGE, f"--confirm=purge {_HUGE}"]],
    "memories resolve": [["1-2", "both"], ["nothing", "keep_a"]],
    "memories restore": [["99"], [_HUGE]],
    "memories retire": [["99"], [_HUGE], ["0"], ["-1"]],
    "memories share": [["99"], [_HUGE]],
    "memories show": [["99"], [_HUGE], ["0"], ["-1"]],
    "memories undo": [["99"], [_HUGE], ["--batch=nothing"]],
    "memories unpin": [["99"], [_HUGE]],
    "memory forget": [["--entry-id=hist1_ff"]],
    "token revoke": [["nothing"]],
    "token rotate": [["nothing"]],
}
_ID_NAMES = {"id", "into", "batch", "entry_id", "session"}
_MAKES_ITS_OWN_ID = {"memories preview"}  # whose --session only makes a fence


def arguments() -> Iterator[tuple[str, argparse.Action]]:
    """Every argument of every command, with the command's words."""

    def within(
        words: str, parser: argparse.ArgumentParser
    ) -> Iterator[tuple[str, argparse.Action]]:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, inner in action.choices.items():
                    yield from within(f"{words} {name}", inner)
            else:
                yield words, action

    for name in (*COMMANDS, *HIDDEN_COMMANDS):
        parser = argparse.ArgumentParser(prog=name)
        import_module(f"memplane.cli.{name}").configure(parser)
        yield from within(name, parser)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one agent that has turns and a memory."""
    made = tmp_path_factory.mktemp("known") / "home"
    for words in (
        ["memories", "add", "--category=timing", "Takes 60s to start"],
        ["retain", "I like tea"],
    ):
        assert memplane_here(made, *words, "--agent=alpha").returncode == 0
    asyncio.run(record(made / "ledger", [turn("Where is the tea?", agent="alpha")]))
    (made.parent / QUESTIONS).write_text('{"question": "tea?", "entry_ids": ["x"]}\n')
    return made


def test_each_command_with_an_agent_is_tried_below() -> None:
    taking = {words for words, one in arguments() if one.dest in {"agent", "claw"}}
    assert taking == OF_AN_AGENT.keys() | OF_A_NEW_AGENT


@pytest.mark.parametrize("command", OF_AN_AGENT)
def test_an_unknown_agent_is_named_with_those_that_there_are(command: str, home: Path) -> None:
    given = [str(home.parent / one) if one == QUESTIONS else one for one in OF_AN_AGENT[command]]
    ran = memplane_here(home, *command.split(), *given)
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
    assert "nobody" in ran.stderr
    assert ran.stderr.endswith("There are: alpha\n")


@pytest.mark.parametrize("command", ["history show", "memories list", "recall", "audit"])
def test_an_agent_that_is_there_is_found(command: str, home: Path) -> None:
    given = [one.replace("nobody", "alpha") for one in OF_AN_AGENT[command]]
    assert memplane_here(home, *command.split(), *given).returncode == 0


def test_an_agent_with_nothing_but_a_token_or_a_session_is_known(tmp_path: Path) -> None:
    home = tmp_path / "home"
    memplane_here(home, "token", "create", "--agent=fresh")
    assert memplane_here(home, "memories", "list", "--agent=fresh").returncode == 0
    said = home.parent / "said.txt"
    said.write_text("[MEMORY:misc:rack] The fan is loud\n")
    memplane_here(home, "memories", "learn", str(said), "--agent=quiet")
    listed = memplane_here(home, "memories", "list", "--agent=quiet")
    assert (listed.returncode, listed.stdout) == (0, "")


def test_where_there_is_no_agent_yet_that_is_said(tmp_path: Path) -> None:
    new = tmp_path / "home"
    new.mkdir(mode=0o700)
    ran = memplane_here(new, "recall", "--agent=nobody", "tea")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.endswith("there is no agent nobody. There is none yet\n")


def test_each_command_with_an_id_is_tried_below() -> None:
    taking = {words for words, one in arguments() if one.dest in _ID_NAMES}
    assert taking == WITH_AN_ID.keys() | _MAKES_ITS_OWN_ID


@pytest.mark.parametrize(
    ("command", "given"),
    [(command, given) for command, all_given in WITH_AN_ID.items() for given in all_given],
    ids=lambda one: one if isinstance(one, str) else " ".join(one)[:40],
)
def test_an_unknown_id_is_exit_1_and_named(command: str, given: list[str], home: Path) -> None:
    takes_agent = command in OF_AN_AGENT.keys() | OF_A_NEW_AGENT
    agent = ["--agent=alpha"] if takes_agent else []
    ran = memplane_here(home, *command.split(), *agent, *given)
    assert ran.returncode == 1, (ran.stdout, ran.stderr)
    told = ran.stdout + ran.stderr
    unknown = {one.partition("=")[2] or one for one in given} - {"1", "/dev/null", "both"}
    assert any(one in told for one in unknown)
    assert "Traceback" not in told


def test_each_number_has_a_range_that_is_checked_before_anything_is_done() -> None:
    tried = 0
    for words, one in arguments():
        if one.type in {int, float}:
            is_id = one.dest in _ID_NAMES
            assert is_id or one.choices is not None, f"{words} {one.dest} has no range"
        if not isinstance(one.type, NumberRange):
            continue
        tried += 1
        assert one.type(str(one.type.low)) == one.type.low
        for text in ("nan", "x", "", "1e400", str(one.type.low - 1), str(one.type.high + 1)):
            with pytest.raises(argparse.ArgumentTypeError, match=r"is not a (whole )?number"):
                one.type(text)
    assert tried >= 8
