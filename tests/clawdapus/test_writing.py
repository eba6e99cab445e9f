"""Compiling into a folder: what is there afterwards, who may read it, and who can use it."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from memplane.auth.pod_files import read_pod_context
from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.compile_plan import CompilePlan, PlannedAgent, PlannedFile
from memplane.integrations.clawdapus.pod.compiler import compile_pod, is_zone
from memplane.integrations.clawdapus.pod.descriptor import Descriptor, write_descriptor
from memplane.integrations.clawdapus.pod.plan_writer import write_plan
from tests.clawdapus.pods import ALL, GUARDED

POD = """
x-claw: {pod: team}
services:
  one:
    x-claw: {agent: ./ONE.md, cllama: x, memory: {service: mem}}
    environment: {MEM_TOKEN: "${TOKEN}"}
  two:
    x-claw: {agent: ./ONE.md, cllama: x, count: 2}
  mem:
    build: {context: ./mem}
"""


def lay_out(folder: Path, descriptor: Descriptor = GUARDED, text: str = POD) -> Path:
    (folder / "mem").mkdir(parents=True, exist_ok=True)
    (folder / "mem" / ".claw-describe.json").write_bytes(write_descriptor(descriptor))
    (folder / "ONE.md").write_text("# One\n")
    (folder / ".env").write_text("TOKEN=from-dotenv\n")
    (folder / "claw-pod.yml").write_text(text)
    return folder / "claw-pod.yml"


def compiled(file: Path, **environ: str) -> CompilePlan:
    return compile_pod(file, environ=environ, image_files=lambda _name: None)


def token_of(folder: Path, agent: str) -> str:
    path = folder / ".claw-runtime" / "context" / agent / "metadata.json"
    return str(json.loads(path.read_text())["token"])


def test_the_door_knows_the_agents_of_a_compiled_pod(tmp_path: Path) -> None:
    compiled(lay_out(tmp_path))
    root = tmp_path / ".claw-runtime" / "context"
    for agent in ("one", "two-0", "two-1"):
        context = read_pod_context(root, agent)
        assert context is not None
        assert context.has_secret(token_of(tmp_path, agent).partition(":")[2])
    one = read_pod_context(root, "one")
    assert one is not None
    (history,) = one.services
    assert (history.service, history.principal) == ("cllama-history", "mem")
    assert one.service_of(history.token) == history
    assert read_pod_context(root, "mem") is None
    assert (root / "one" / "AGENTS.md").read_text() == "# One\n"


def test_variables_come_from_dotenv_and_before_it_from_the_environment(tmp_path: Path) -> None:
    file = lay_out(tmp_path)
    memory = tmp_path / ".claw-runtime" / "context" / "one" / "memory.json"
    compiled(file)
    assert json.loads(memory.read_text())["auth"]["token"] == "from-dotenv"
    compiled(file, TOKEN="from-environment")
    assert json.loads(memory.read_text())["auth"]["token"] == "from-environment"


def test_only_the_owner_can_look_in(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        compiled(lay_out(tmp_path))
    finally:
        os.umask(before)
    runtime = tmp_path / ".claw-runtime"
    kept = [tmp_path / ".claw-auth", tmp_path / ".claw-session-history"]
    folders = [runtime, *(one for one in runtime.rglob("*") if one.is_dir()), *kept]
    assert {stat.S_IMODE(one.stat().st_mode) for one in folders} == {0o700}
    private = [tmp_path / "compose.generated.yml", *runtime.rglob("service-auth/*")]
    assert len(private) == 2
    assert {stat.S_IMODE(one.stat().st_mode) for one in private} == {0o600}
    assert stat.S_IMODE((runtime / "context/one/memory.json").stat().st_mode) == 0o644


def test_each_compile_rebuilds_what_there_is(tmp_path: Path) -> None:
    file = lay_out(tmp_path)
    compiled(file)
    context = tmp_path / ".claw-runtime" / "context"
    first, mounted = token_of(tmp_path, "one"), context.stat().st_ino
    (context / "one" / "feeds.json").write_text("{}")
    (context / "stray").write_text("")
    (tmp_path / ".claw-session-history" / "one").mkdir()
    lay_out(tmp_path, text=POD.replace("count: 2", "count: 1"))
    compiled(file)
    assert token_of(tmp_path, "one") != first
    assert sorted(one.name for one in context.iterdir()) == ["one", "two"]
    assert not (context / "one" / "feeds.json").exists()
    assert context.stat().st_ino == mounted
    assert (tmp_path / ".claw-session-history" / "one").is_dir()
    assert not list((tmp_path / ".claw-runtime").glob(".memplane-aside-*"))


def test_a_pod_that_cannot_be_compiled_leaves_everything_as_it_was(tmp_path: Path) -> None:
    file = lay_out(tmp_path)
    compiled(file)
    before = token_of(tmp_path, "one")
    lay_out(tmp_path, Descriptor(2))
    with pytest.raises(PodError, match="does not declare a memory capability"):
        compiled(file)
    assert token_of(tmp_path, "one") == before


def test_what_a_killed_compile_left_is_cleared_away(tmp_path: Path) -> None:
    left = tmp_path / ".claw-runtime" / ".memplane-aside-0" / "new" / "one"
    left.mkdir(parents=True)
    compiled(lay_out(tmp_path))
    assert not left.parents[1].exists()


def test_compiles_at_once_leave_one_whole_pod(tmp_path: Path) -> None:
    file = lay_out(tmp_path, Descriptor(2, memory=ALL))
    failed: list[PodError] = []

    def work() -> None:
        try:
            compiled(file)
        except PodError as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    compose = (tmp_path / "compose.generated.yml").read_text()
    for agent in ("one", "two-0", "two-1"):
        assert token_of(tmp_path, agent) in compose


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "claw-pod.yml").unlink(), "there is no pod file at"),
        (lambda folder: (folder / "ONE.md").unlink(), "there is no agent file at"),
        (lambda folder: (folder / ".env").unlink(), "has no value for"),
        (lambda folder: (folder / "mem/.claw-describe.json").unlink(), "has no descriptor: build"),
        (lambda folder: (folder / "mem/.claw-describe.json").write_text("{"), "parse descriptor"),
    ],
)
def test_what_is_missing_is_named(change: object, message: str, tmp_path: Path) -> None:
    file = lay_out(tmp_path)
    assert callable(change)
    change(tmp_path)
    with pytest.raises(PodError, match=message):
        compiled(file)
    assert not (tmp_path / ".claw-runtime").exists()


def test_a_pipe_is_no_pod_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "claw-pod.yml")
    with pytest.raises(PodError, match="no regular file"):
        compiled(tmp_path / "claw-pod.yml")


def test_a_folder_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / ".claw-runtime").write_text("in the way")
    plan = CompilePlan(
        "p", (PlannedAgent("a", "a", None),), (PlannedFile("compose.generated.yml", b""),)
    )
    with pytest.raises(PodError, match="cannot be written"):
        write_plan(plan, tmp_path)


def test_zones() -> None:
    assert is_zone("Europe/Berlin")
    assert not any(map(is_zone, ["Middle/Earth", "", "../etc/passwd", "/etc/passwd", "America"]))
