"""`memplane persona` as people use it: real processes, two machines, one container."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.persona.machines import memory
from tests.support.azurite import KEY, Azurite
from tests.support.doorway import Doorway
from tests.support.in_process import Done, memplane_here
from tests.support.running import environment, memplane, running_memplane

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine: a home, a folder of documents, and a way to the container.

    Its commands are processes of their own where it is `real`; they take ten times as long.
    """

    home: Path
    folder: Path
    env: dict[str, str]
    real: bool = False

    def __call__(self, *words: str, **more: str) -> Done:
        return self.run("persona", *words, **more)

    def run(self, *words: str, **more: str) -> Done:
        run = memplane if self.real else memplane_here
        ran = run(self.home, *words, env={**self.env, **more})
        assert "Traceback" not in ran.stderr, ran.stderr
        return Done(ran.returncode, ran.stdout, ran.stderr)

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json").stdout)

    def write(self, key: str, text: str) -> Path:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def read(self, key: str) -> str:
        return (self.folder / key).read_bytes().decode()

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.folder.glob("*.md")}


@pytest.fixture
def doorway(azurite: Azurite) -> Iterator[Doorway]:
    door = Doorway(azurite.port)
    door.open()
    yield door
    door.shut()


@pytest.fixture
def new_machine(
    tmp_path: Path, azurite: Azurite, doorway: Doorway, container: str
) -> Callable[[str], Machine]:
    def make(name: str) -> Machine:
        folder = tmp_path / name / "memory"
        env = {
            "MEMPLANE_BLOB_CONNECTION_STRING": replace(
                azurite, port=doorway.port
            ).connection_string,
            "MEMPLANE_BLOB_CONTAINER": container,
            "MEMPLANE_PERSONA_DIR": str(folder),
            "MEMPLANE_PERSONA_PROJECT": "demo",
        }
        (tmp_path / name).mkdir()
        return Machine(tmp_path / name / "home", folder, env)

    return make


@pytest.fixture
def laptop(new_machine: Callable[[str], Machine]) -> Machine:
    return new_machine("laptop")


@pytest.fixture
def desktop(new_machine: Callable[[str], Machine]) -> Machine:
    return new_machine("desktop")


def real(*machines: Machine) -> Iterator[Machine]:
    """Run the commands of machines in processes of their own."""
    return (replace(one, real=True) for one in machines)


def in_step(laptop: Machine, desktop: Machine) -> None:
    """Give both machines the same documents."""
    laptop.write("feedback_tests.md", memory("Tests", "one", "two", "three", kind="feedback"))
    laptop.write("user_role.md", memory("Role", "Works on sync.", kind="user"))
    assert laptop("sync").returncode == 0
    assert desktop("pull").returncode == 0
    assert desktop.files() == laptop.files()


# Two machines


def test_documents_follow_from_machine_to_machine(laptop: Machine, desktop: Machine) -> None:
    laptop, desktop = real(laptop, desktop)
    laptop.write("user_role.md", memory("Role", "Works on sync.", kind="user"))
    sent = laptop("sync")
    assert sent.returncode == 0
    assert "sent     user_role.md\n" in sent.stdout
    assert "2 sent" in sent.stdout
    brought = desktop("pull")
    assert "brought  user_role.md\n" in brought.stdout
    assert desktop.files() == laptop.files()
    assert "[Role](user_role.md)" in desktop.read("MEMORY.md")
    again = laptop("sync")
    assert again.stdout == "nothing to do; 2 unchanged\n"


def test_edits_on_both_meet(laptop: Machine, desktop: Machine) -> None:
    laptop, desktop = real(laptop, desktop)
    in_step(laptop, desktop)
    text = laptop.read("feedback_tests.md")
    laptop.write("feedback_tests.md", text.replace("one", "ONE"))
    desktop.write("feedback_tests.md", text.replace("three", "THREE"))
    assert laptop("push").returncode == 0
    assert "merged   feedback_tests.md" in desktop("sync").stdout
    assert "brought  feedback_tests.md" in laptop("pull").stdout
    assert laptop.read("feedback_tests.md").endswith("ONE\ntwo\nTHREE\n")
    assert laptop.files() == desktop.files()


def test_a_deletion_is_carried_and_stays(laptop: Machine, desktop: Machine) -> None:
    laptop, desktop = real(laptop, desktop)
    in_step(laptop, desktop)
    (laptop.folder / "user_role.md").unlink()
    planned = laptop("sync", "--dry-run")
    assert "delete there  user_role.md: it was deleted here" in planned.stdout
    assert "deleted  user_role.md" in laptop("sync").stdout
    assert "deleted  user_role.md" in desktop("sync").stdout
    assert not (desktop.folder / "user_role.md").exists()
    assert laptop("sync").stdout.startswith("nothing to do")
    assert "user_role.md" not in laptop("list").stdout
    states = {row["key"]: row["state"] for row in laptop.json("list", "--all")}
    assert states["user_role.md"] == "deleted"


def test_much_is_deleted_only_when_that_is_meant(laptop: Machine, desktop: Machine) -> None:
    in_step(laptop, desktop)
    for name in ("user_role.md", "feedback_tests.md"):
        (laptop.folder / name).unlink()
    refused = laptop("sync")
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    planned = laptop("sync", "--dry-run")
    assert planned.returncode == 1
    assert "It would be refused" in planned.stdout
    assert (desktop.folder / "user_role.md").exists()
    assert laptop("sync", "--force").returncode == 0


@pytest.mark.parametrize("action", ["push", "push-one"])
def test_one_document_is_pushed_by_its_path(
    laptop: Machine, desktop: Machine, action: str
) -> None:
    in_step(laptop, desktop)
    path = laptop.write("user_role.md", memory("Role", "Works on docs.", kind="user"))
    laptop.write("feedback_tests.md", memory("Tests", "none", kind="feedback"))
    assert laptop(action, str(path)).stdout == "sent     user_role.md\n1 sent\n"
    assert "Works on docs." in laptop.read("user_role.md")
    report = desktop.json("pull")
    assert report["keys"] == ["user_role.md"]
    missing = laptop(action, "user_gone.md")
    assert missing.returncode == 2
    assert "is not in" in missing.stderr
    outside = laptop(action, "/etc/passwd")
    assert outside.returncode == 2
    assert "outside" in outside.stderr


@pytest.mark.parametrize("words", [(), ("a.md", "b.md")])
def test_push_one_takes_one_document(laptop: Machine, words: tuple[str, ...]) -> None:
    laptop.folder.mkdir()
    assert laptop("push-one", *words).returncode == 2


@pytest.mark.parametrize("words", [("push-one", "notes.md"), ("push",), ("sync", "--json")])
def test_held_documents_are_named_on_stderr(laptop: Machine, words: tuple[str, ...]) -> None:
    laptop.write("notes.md", "No frontmatter.\n")
    ran = laptop(*words)
    assert ran.returncode == 1
    assert "held     notes.md: it does not begin with frontmatter" in ran.stderr
    assert "held  " not in ran.stdout


@pytest.mark.usefixtures("short_pauses")
def test_a_pull_sends_what_waits_and_its_plan_says_so(
    laptop: Machine, desktop: Machine, doorway: Doorway
) -> None:
    in_step(laptop, desktop)
    doorway.shut()
    laptop.write("user_role.md", memory("Role", "Written on a train.", kind="user"))
    assert laptop("sync").returncode == 3
    doorway.open()
    laptop.write("feedback_tests.md", memory("Tests", "not asked to go", kind="feedback"))
    assert laptop.json("pull", "--dry-run")["plan"] == [
        {"key": "user_role.md", "action": "send", "why": "it changed here"}
    ]
    assert laptop("pull").stdout.startswith("sent     user_role.md\n1 sent")
    desktop("pull")
    assert "Written on a train." in desktop.read("user_role.md")
    assert "not asked to go" not in desktop.read("feedback_tests.md")


# Looking before


def test_a_dry_run_leaves_no_trace(laptop: Machine, desktop: Machine) -> None:
    laptop.write("user_role.md", memory("Role", "Works on sync.", kind="user"))
    planned = laptop("sync", "--dry-run")
    assert (
        planned.stdout
        == "send          user_role.md: it is new here\n1 to do; nothing was changed\n"
    )
    assert sorted(path.name for path in laptop.folder.iterdir()) == ["user_role.md"]
    # Nobody has claimed the place yet, so that another may.
    desktop.write("user_role.md", memory("Role", "Somebody else.", kind="user"))
    assert desktop("sync").returncode == 0
    del laptop.env["MEMPLANE_PERSONA_PROJECT"]
    refused = laptop("sync", "--dry-run")
    assert refused.returncode == 2
    assert "--join" in refused.stderr


def test_a_plan_says_what_would_be_held(laptop: Machine, desktop: Machine) -> None:
    in_step(laptop, desktop)
    laptop.write("notes.md", "no frontmatter\n")
    rows = {row["key"]: row["action"] for row in laptop.json("sync", "--dry-run")["plan"]}
    assert rows == {"notes.md": "hold"}


def test_list_says_how_each_document_stands(laptop: Machine, desktop: Machine) -> None:
    in_step(laptop, desktop)
    desktop.write("user_role.md", memory("Role", "Works on docs.", kind="user"))
    desktop("push")
    laptop.write("feedback_tests.md", memory("Tests", "none", kind="feedback"))
    laptop.write("notes.md", "no frontmatter\n")
    laptop("push")
    rows = {row["key"]: row for row in laptop.json("list")}
    assert rows["user_role.md"]["state"] == "changed there"
    assert rows["feedback_tests.md"]["state"] == "same"
    assert rows["feedback_tests.md"]["kind"] == "feedback"
    assert rows["feedback_tests.md"]["size"] == len(laptop.read("feedback_tests.md"))
    assert rows["feedback_tests.md"]["etag"]
    assert rows["notes.md"]["state"] == "held"


# Without a network, and without a container


def test_offline_work_waits_and_goes_later(
    laptop: Machine, desktop: Machine, doorway: Doorway
) -> None:
    laptop, desktop = real(laptop, desktop)
    in_step(laptop, desktop)
    doorway.shut()
    laptop.write("user_role.md", memory("Role", "Written on a train.", kind="user"))
    ran = laptop("sync")
    assert ran.returncode == 3
    assert "waits    user_role.md (tried once" in ran.stdout
    assert laptop("push", "user_role.md").returncode == 3
    status = laptop("status")
    assert status.returncode == 0
    assert "waits    user_role.md: " in status.stdout
    assert [row["key"] for row in laptop.json("status")["waiting"]] == ["user_role.md"]
    listed = laptop("list")
    assert listed.returncode == 3
    assert "only what is here" in listed.stdout
    queued = laptop.run("queue", "list", "--json")
    assert [row["key"] for row in json.loads(queued.stdout)] == ["user_role.md"]
    assert laptop.run("queue", "retry").returncode != 0
    doorway.open()
    retried = laptop.run("queue", "retry")
    assert retried.returncode == 0, retried.stdout + retried.stderr
    assert "1 sent" in retried.stdout
    assert laptop.json("status")["waiting"] == []
    desktop("pull")
    assert "Written on a train." in desktop.read("user_role.md")


@pytest.mark.usefixtures("short_pauses")
def test_what_waits_can_be_dropped_from_the_queue(
    laptop: Machine, desktop: Machine, doorway: Doorway
) -> None:
    in_step(laptop, desktop)
    doorway.shut()
    laptop.write("user_role.md", memory("Role", "Written on a train.", kind="user"))
    assert laptop("sync").returncode == 3
    dropped = laptop.run("queue", "drop", "user_role.md")
    assert dropped.stdout == "dropped user_role.md\n"
    assert laptop.json("status")["waiting"] == []
    assert "Written on a train." in laptop.read("user_role.md")


@pytest.mark.usefixtures("short_pauses")
def test_a_first_sync_without_a_network_says_so(laptop: Machine, doorway: Doorway) -> None:
    laptop.write("user_role.md", memory("Role", "Works on sync.", kind="user"))
    doorway.shut()
    ran = laptop("sync")
    assert ran.returncode == 3
    assert "no usable answer" in ran.stderr


@pytest.mark.parametrize("words", [("sync",), ("pull",), ("push",), ("watch",)])
def test_without_a_container_it_stops_at_once(words: tuple[str, ...], home: Path) -> None:
    ran = memplane_here(home, "persona", *words)
    assert ran.returncode == 2
    assert "MEMPLANE_BLOB_CONTAINER" in ran.stderr
    assert ran.stdout == "", "it does not say first that it does it"


def without_a_container(machine: Machine) -> Machine:
    named = {name: text for name, text in machine.env.items() if "_BLOB_" not in name}
    return replace(machine, env=named)


@pytest.mark.parametrize("was_synced", [False, True])
def test_list_needs_no_container(laptop: Machine, desktop: Machine, *, was_synced: bool) -> None:
    if was_synced:
        in_step(laptop, desktop)
    laptop.write("user_role.md", memory("Role", "Works on sync.", kind="user"))
    bare = without_a_container(laptop)
    ran = bare("list")
    assert ran.returncode == 0, ran.stderr
    assert "user_role.md" in ran.stdout
    assert "no container" in ran.stdout, "and it says why it does not know more"
    assert "user_role.md" in [row["key"] for row in bare.json("list")]


def test_list_without_a_folder_and_a_container_is_empty(home: Path) -> None:
    ran = memplane_here(home, "persona", "list", "--json")
    assert (ran.returncode, json.loads(ran.stdout)) == (0, [])


def test_list_answers_while_sync_is_switched_off(laptop: Machine) -> None:
    laptop.write("user_role.md", memory("Role", "Works on sync.", kind="user"))
    ran = laptop("list", MEMPLANE_PERSONA_SYNC="off")
    assert ran.returncode == 0
    assert "user_role.md" in ran.stdout


def test_list_refuses_half_a_configuration_that_is_to_be_strict(laptop: Machine) -> None:
    bare = without_a_container(laptop)
    half = {"MEMPLANE_BLOB_CONTAINER": "agent", "MEMPLANE_STRICT_CLOUD": "true"}
    assert bare("list", **half).returncode == 2


@pytest.mark.usefixtures("short_pauses")
def test_the_queue_is_listed_and_let_go_of_without_a_container(
    laptop: Machine, desktop: Machine, doorway: Doorway, home: Path
) -> None:
    in_step(laptop, desktop)
    doorway.shut()
    laptop.write("user_role.md", memory("Role", "Written on a train.", kind="user"))
    assert laptop("sync").returncode == 3
    alone = without_a_container(laptop)
    ran = alone.run("queue", "list")
    assert ran.returncode == 0, ran.stderr
    assert "user_role.md" in ran.stdout
    unknown = alone.run("queue", "drop", "user_rule.md")
    assert (unknown.returncode, unknown.stderr) == (1, "")
    assert unknown.stdout == "nothing rejected is called user_rule.md\n"
    assert alone.run("queue", "drop", "user_role.md").stdout == "dropped user_role.md\n"
    assert alone.run("queue", "list").stdout == "0 in all\n"
    empty = memplane_here(home, "queue", "list")
    assert (empty.returncode, empty.stdout) == (0, "0 in all\n")


@pytest.mark.parametrize("words", [("sync",), ("pull",), ("list",)])
def test_a_wrong_account_key_is_called_that(words: tuple[str, ...], laptop: Machine) -> None:
    wrong = base64.b64encode(b"the key of another account").decode()
    text = laptop.env["MEMPLANE_BLOB_CONNECTION_STRING"].replace(KEY, wrong)
    ran = laptop(*words, MEMPLANE_BLOB_CONNECTION_STRING=text)
    assert ran.returncode == 3
    assert "wrong account key" in ran.stderr + ran.stdout
    assert wrong not in ran.stderr + ran.stdout


def test_switched_off_is_off(laptop: Machine) -> None:
    ran = laptop("sync", MEMPLANE_PERSONA_SYNC="off")
    assert ran.returncode == 2
    assert "MEMPLANE_PERSONA_SYNC" in ran.stderr
    assert "switched off" in laptop("status", MEMPLANE_PERSONA_SYNC="off").stdout


def test_status_needs_no_container(home: Path) -> None:
    ran = memplane_here(home, "persona", "status")
    assert ran.returncode == 0
    assert f"{home.parent}/.claude/projects/" in ran.stdout
    assert "no container to work with" in ran.stdout


def test_status_tells_where_everything_is(laptop: Machine, desktop: Machine) -> None:
    in_step(laptop, desktop)
    status = laptop.json("status")
    assert status["folder"] == str(laptop.folder)
    assert status["documents"] == 3
    assert status["project"] == desktop.json("status")["project"]
    assert status["device"] != desktop.json("status")["device"]
    assert status["last_sync"]
    # Without the container's name it is still known how the folder stands.
    bare = replace(laptop, env={"MEMPLANE_PERSONA_DIR": str(laptop.folder)})
    assert bare.json("status")["device"] == status["device"]


# Joining


def test_a_folder_with_documents_of_its_own_joins_only_when_told(
    laptop: Machine, desktop: Machine
) -> None:
    laptop.write("user_role.md", memory("Role", "Works on sync.", kind="user"))
    laptop("sync")
    desktop.write("feedback_tests.md", memory("Tests", "one", kind="feedback"))
    desktop.write("user_role.md", laptop.read("user_role.md"))
    del desktop.env["MEMPLANE_PERSONA_PROJECT"]
    refused = desktop("sync")
    assert refused.returncode == 2
    assert "--join" in refused.stderr
    planned = desktop.json("sync", "--join", "demo", "--dry-run")["plan"]
    actions = {row["key"]: row["action"] for row in planned}
    assert actions["user_role.md"] == "note", "nobody need be warned of a merge"
    assert actions["feedback_tests.md"] == "send"
    assert desktop("sync", "--join", "demo").returncode == 0
    laptop("sync")
    assert laptop.files() == desktop.files()


def test_clones_of_one_repository_need_no_join(
    tmp_path: Path, azurite: Azurite, container: str
) -> None:
    env = {
        "MEMPLANE_BLOB_CONNECTION_STRING": azurite.connection_string,
        "MEMPLANE_BLOB_CONTAINER": container,
    }
    first, second = tmp_path / "laptop", tmp_path / "desktop"
    for one in (first, second):
        one.mkdir()
    _git(first, "init", "-q", "shop")
    _git(first / "shop", "commit", "-q", "--allow-empty", "-m", "the first")
    _git(second, "clone", "-q", str(first / "shop"), "shop")
    for one, text in ((first, "from the laptop"), (second, "from the desktop")):
        found = _persona_in(one, env, "new", "feedback", text)
        assert Path(found.stdout.strip()).parent.parent.name.endswith("-shop")
    assert _persona_in(first, env, "sync").returncode == 0
    joined = _persona_in(second, env, "sync")
    assert joined.returncode == 0, joined.stderr
    assert "feedback_from_the_laptop.md" in joined.stdout


def _git(folder: Path, *words: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *names, *words], cwd=folder, env=env, check=True, timeout=30)


def _persona_in(
    folder: Path, env: dict[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memplane", "persona", *words],
        env={**environment(folder / "home"), **env},
        cwd=folder / "shop",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# Conflicts


@pytest.fixture
def conflict(laptop: Machine, desktop: Machine) -> str:
    """Both changed the same line; the desktop keeps what lost. Returns the copy's name."""
    in_step(laptop, desktop)
    text = laptop.read("user_role.md")
    laptop.write("user_role.md", text.replace("sync", "the proxy"))
    laptop("push")
    desktop.write("user_role.md", text.replace("sync", "recall"))
    met = desktop("sync")
    assert met.returncode == 0
    assert "kept     " in met.stdout
    (copy,) = desktop.json("conflicts")
    assert copy["key"] == "user_role.md"
    assert Path(copy["path"]).exists()
    name: str = copy["name"]
    return name


def test_a_conflict_is_shown_and_dropped(desktop: Machine, conflict: str) -> None:
    assert "conflicts  1 kept: memplane persona conflicts" in desktop("status").stdout
    listed = desktop("conflicts").stdout
    assert f"{conflict}  user_role.md" in listed
    shown = desktop("conflicts", "show", conflict).stdout
    assert "-Works on recall." in shown
    assert "+Works on the proxy." in shown
    assert desktop("conflicts", "drop", conflict).returncode == 0
    assert desktop.json("conflicts") == []
    assert "recall" in desktop.read("user_role.md")


def test_a_conflict_copy_can_take_the_place_of_its_document(
    laptop: Machine, desktop: Machine, conflict: str
) -> None:
    assert desktop("conflicts", "restore", conflict).returncode == 0
    assert "Works on the proxy." in desktop.read("user_role.md")
    assert desktop.json("conflicts") == []
    kept = [path.read_text() for path in desktop.home.rglob("snapshots/user_role.md/*.md")]
    assert any("recall" in text for text in kept)
    desktop("sync")
    laptop("sync")
    assert "Works on the proxy." in laptop.read("user_role.md")


def test_a_name_that_no_conflict_has(laptop: Machine) -> None:
    ran = laptop("conflicts", "show", "nothing")
    assert ran.returncode == 2
    assert "no conflict copy is called nothing" in ran.stderr
    assert "which one?" in laptop("conflicts", "drop").stderr


# Held, secret, hostile


def test_a_document_without_frontmatter_is_held_until_adopted(
    laptop: Machine, desktop: Machine
) -> None:
    in_step(laptop, desktop)
    laptop.write("notes.md", "# Things to know\n\nThe text.\n")
    held = laptop("sync")
    assert held.returncode == 1
    assert "held     notes.md: it does not begin with frontmatter" in held.stderr
    assert "held  " not in held.stdout
    assert "1 held" in held.stdout
    assert [row["key"] for row in laptop.json("status")["held"]] == ["notes.md"]
    doctor = laptop.run("doctor").stdout
    assert "not published: notes.md" in doctor
    assert "1 held" in laptop.run("status").stdout
    adopted = laptop("adopt", "notes.md").stdout
    assert (
        adopted == "added name: Notes\nadded description: Things to know\nadded type: reference\n"
    )
    assert laptop("adopt", "notes.md").stdout == "notes.md needs nothing\n"
    assert laptop("sync").returncode == 0
    assert laptop.json("status")["held"] == []
    desktop("pull")
    assert desktop.read("notes.md").endswith("# Things to know\n\nThe text.\n")


def test_a_held_document_that_is_removed_is_forgotten(laptop: Machine, desktop: Machine) -> None:
    in_step(laptop, desktop)
    path = laptop.write("notes.md", "no frontmatter\n")
    assert laptop("sync").returncode == 1
    path.unlink()
    assert laptop("sync").returncode == 0
    assert laptop.json("status")["held"] == []


def test_secrets_go_only_when_allowed(laptop: Machine, desktop: Machine) -> None:
    in_step(laptop, desktop)
    laptop.write("reference_token.md", memory("Token", SECRET))
    held = laptop("sync")
    assert held.returncode == 1
    assert "secret" in held.stderr
    assert SECRET not in held.stdout + held.stderr
    assert laptop("push", "reference_token.md", "--allow-secrets").returncode == 0
    desktop("pull")
    assert SECRET in desktop.read("reference_token.md")
    laptop.write("reference_token.md", memory("Token", f"{SECRET}, once more"))
    held = laptop("push", "reference_token.md", "--no-allow-secrets")
    assert held.returncode == 1
    assert "held     reference_token.md" in held.stderr
    desktop("pull")
    assert "once more" not in desktop.read("reference_token.md")


def test_a_link_is_refused_and_the_rest_goes(laptop: Machine, desktop: Machine) -> None:
    in_step(laptop, desktop)
    (laptop.folder / "user_link.md").symlink_to("/etc/passwd")
    laptop.write("user_role.md", memory("Role", "Works on docs.", kind="user"))
    ran = laptop("sync")
    assert ran.returncode == 1
    assert "error    user_link.md" in ran.stdout
    assert "sent     user_role.md" in ran.stdout
    assert "user_link.md" in laptop.run("doctor").stdout


# Documents


def test_check_is_fit_for_ci(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("- [Role](user_role.md) — who\n")
    (folder / "user_role.md").write_text(memory("Role", "Works on sync.", kind="user"))
    fine = memplane_here(home, "persona", "check", str(folder))
    assert fine.returncode == 0
    assert fine.stdout == "2 documents, 0 errors, 0 warnings\n"
    (folder / "notes.md").write_text("no frontmatter\n")
    for word in ("check", "validate"):
        wrong = memplane_here(home, "persona", word, str(folder))
        assert wrong.returncode == 1
        assert "error    notes.md: it does not begin with frontmatter" in wrong.stdout
        assert "memplane persona adopt notes.md" in wrong.stdout
    body = json.loads(memplane_here(home, "persona", "check", str(folder), "--json").stdout)
    assert {one["severity"] for one in body["problems"]} == {"error", "warning"}
    (folder / "notes.md").unlink()
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    (folder / "user_role.md").write_text(memory("Role", f"token {token[:40]}", kind="user"))
    secret = memplane_here(home, "persona", "check", str(folder))
    assert secret.returncode == 1
    assert "error    user_role.md: it looks as if it held a secret" in secret.stdout
    assert token[:40] not in secret.stdout
    assert not home.exists()
    assert memplane_here(home, "persona", "check", str(tmp_path / "nowhere")).returncode == 2


@pytest.mark.parametrize("reader", ["claude", "agent"])
def test_the_guide(reader: str, home: Path) -> None:
    ran = memplane_here(home, "persona", "guide", "--for", reader)
    assert ran.returncode == 0
    assert "## Your documents" in ran.stdout
    assert ("### Messages" in ran.stdout) == (reader == "agent")


def test_a_new_document_has_a_line_in_the_index_and_is_never_overwritten(laptop: Machine) -> None:
    made = laptop("new", "feedback", "How", "we", "test")
    assert made.stdout == f"{laptop.folder}/feedback_how_we_test.md\n"
    assert "[How we test](feedback_how_we_test.md)" in laptop.read("MEMORY.md")
    laptop.write("feedback_how_we_test.md", "mine\n")
    again = laptop("new", "feedback", "How we test")
    assert again.returncode == 2
    assert "there already" in again.stderr
    assert laptop.read("feedback_how_we_test.md") == "mine\n"
    assert laptop("new", "relationship", "Ada", "--upn", "ada@example.org").returncode == 0
    known = laptop("new", "relationship", "Ada L", "--upn", "ADA@example.org")
    assert known.returncode == 2
    assert "relationship_ada.md" in known.stderr
    unknown = laptop("new", "poem")
    assert unknown.returncode == 2
    assert "there is no kind 'poem'" in unknown.stderr


def test_prune_removes_what_is_covered_when_told(laptop: Machine, desktop: Machine) -> None:
    laptop("new", "session_digest", "2026-01-05")
    laptop("new", "session_digest", "2026-01-13")
    covered = memory("Week 2", "- all of it", kind="weekly_digest").replace(
        "---\n-", "period: 2026-W02\nsources: [session_digest_2026-01-05]\n---\n-"
    )
    laptop.write("weekly_digest_2026-W02.md", covered)
    laptop("sync")
    desktop("sync")
    said = laptop("prune", "--older-than", "90d", "--type", "session_digest")
    assert said.returncode == 0
    assert (
        "remove   session_digest_2026-01-05.md: weekly_digest_2026-W02.md covers it" in said.stdout
    )
    assert "kept     session_digest_2026-01-13.md: no weekly_digest" in said.stdout
    assert (laptop.folder / "session_digest_2026-01-05.md").exists()
    assert "1 moved to the trash" in laptop("prune", "--yes").stdout
    assert not (laptop.folder / "session_digest_2026-01-05.md").exists()
    assert "session_digest_2026-01-05" not in laptop.read("MEMORY.md")
    assert list(laptop.home.rglob("trash/session_digest_2026-01-05.md/*.md"))
    laptop("sync")
    desktop("sync")
    assert not (desktop.folder / "session_digest_2026-01-05.md").exists()
    assert "not '5 weeks'" in laptop("prune", "--older-than", "5 weeks").stderr


def test_tombstones_are_kept_for_long(laptop: Machine, desktop: Machine) -> None:
    in_step(laptop, desktop)
    (laptop.folder / "user_role.md").unlink()
    laptop("sync")
    early = laptop("prune", "--tombstones", "--older-than", "30d", "--yes")
    assert early.returncode == 2
    assert "at least 90 days" in early.stderr
    assert laptop.json("prune", "--tombstones", "--yes")["tombstones"] == []


# Archives


def test_an_export_restores_byte_for_byte(
    laptop: Machine, desktop: Machine, tmp_path: Path
) -> None:
    laptop.write("user_role.md", memory("Role", "Ends in CRLF\r", "no end", kind="user").strip())
    laptop.write("sub/reference_x.md", "\ufeff" + memory("X", "é"))
    laptop.write("notes.md", "held, but kept\n")
    laptop.write("MEMORY.md", "# Mine\n")
    archive = tmp_path / "persona.tar.gz"
    assert laptop("export", str(archive)).returncode == 0
    assert archive.stat().st_mode & 0o777 == 0o600
    assert "there already" in laptop("export", str(archive)).stderr
    assert desktop("import", str(archive)).returncode == 0
    for path in laptop.folder.rglob("*.md"):
        twin = desktop.folder / path.relative_to(laptop.folder)
        assert twin.read_bytes() == path.read_bytes()
    assert "4 were here already" in desktop("import", str(archive)).stdout


def test_an_import_merges_unless_it_is_told_to_replace(
    laptop: Machine, desktop: Machine, tmp_path: Path
) -> None:
    archive = tmp_path / "persona.tar.gz"
    laptop.write("user_role.md", memory("Role", "From the archive.", kind="user"))
    laptop("export", str(archive))
    mine = desktop.write("user_role.md", memory("Role", "Mine.", kind="user"))
    desktop.write("user_other.md", memory("Other", "Stays.", kind="user"))
    merged = desktop("import", str(archive))
    assert merged.returncode == 0
    assert "merged    user_role.md: a text that did not fit is kept" in merged.stdout
    (copy,) = desktop.json("conflicts")
    assert copy["why"] == "an archive had another text"
    texts = mine.read_text() + Path(copy["path"]).read_text()
    assert "Mine." in texts
    assert "From the archive." in texts
    replaced = desktop("import", str(archive), "--replace")
    assert mine.read_text() == laptop.read("user_role.md")
    assert replaced.returncode == 0
    assert "Stays." in desktop.read("user_other.md")
    # The copies from before the first sync are still found after it.
    desktop("sync")
    assert len(desktop.json("conflicts")) == 1


def test_a_hostile_archive_is_refused(laptop: Machine, tmp_path: Path) -> None:
    archive = tmp_path / "hostile.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        info = tarfile.TarInfo("../../evil.md")
        info.size = 4
        tar.addfile(info, io.BytesIO(b"evil"))
    ran = laptop("import", str(archive))
    assert ran.returncode == 1
    assert "refused" in ran.stderr
    assert not list(tmp_path.rglob("evil.md"))
    assert "cannot be read" in laptop("import", str(tmp_path / "nothing.tar.gz")).stderr


# Programs


def test_the_example_in_the_guide_runs(laptop: Machine, tmp_path: Path) -> None:
    guide = Path(__file__).parents[2] / "docs" / "persona.md"
    (example,) = re.findall(r"^```py\n(.*?)^```", guide.read_text(), re.MULTILINE | re.DOTALL)
    ran = subprocess.run(
        [sys.executable, "-c", example],
        env={**environment(laptop.home), **laptop.env},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "No lost edits." in (tmp_path / "memory" / "user_goals.md").read_text()


# Watching


@contextmanager
def watching(machine: Machine) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "memplane", "persona", "watch"],
        env={**environment(machine.home), **machine.env, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def until(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def said(process: subprocess.Popen[str], words: str) -> None:
    """Wait until it says so."""
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    raise AssertionError(f"it never said {words!r}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_watched_folder_is_sent_when_it_changes(
    laptop: Machine, desktop: Machine, number: signal.Signals
) -> None:
    in_step(laptop, desktop)
    with watching(laptop) as process:
        said(process, "watching")
        until(lambda: laptop.json("status")["watched_by"] == process.pid)
        laptop.write("user_role.md", memory("Role", "Typed while watched.", kind="user"))
        said(process, "1 sent")
        desktop("pull")
        assert "Typed while watched." in desktop.read("user_role.md")
        process.send_signal(number)
        said(process, "stopped")
        assert process.wait(timeout=60) == 0
    assert laptop.json("status")["watched_by"] is None


def waiting(machine: Machine) -> list[str]:
    return [row["key"] for row in machine.json("status")["waiting"]]


def test_a_watcher_goes_on_while_the_container_is_away(
    laptop: Machine, desktop: Machine, doorway: Doorway
) -> None:
    in_step(laptop, desktop)
    with watching(laptop) as process:
        said(process, "watching")
        until(lambda: laptop.json("status")["watched_by"] == process.pid)
        doorway.shut()
        laptop.write("user_role.md", memory("Role", "Written on a train.", kind="user"))
        said(process, "does not answer")
        until(lambda: waiting(laptop) == ["user_role.md"])
        assert any("does not answer" in one for one in laptop.json("status")["complaints"])
        doorway.open()
        laptop.write("feedback_tests.md", memory("Tests", "none", kind="feedback"))
        said(process, "answers again")
        until(lambda: waiting(laptop) == [])

        def arrived() -> bool:
            desktop("pull")
            return (
                "Written on a train." in desktop.read("user_role.md")
                and (desktop.folder / "feedback_tests.md").exists()
            )

        until(arrived)


def test_up_watches_when_it_is_told_to(laptop: Machine, desktop: Machine) -> None:
    in_step(laptop, desktop)
    env = {**laptop.env, "MEMPLANE_PERSONA_WATCH": "true"}
    with running_memplane(laptop.home, env=env) as running:
        until(lambda: laptop.json("status")["watched_by"] == running.process.pid)
        laptop.write("user_role.md", memory("Role", "Typed while up.", kind="user"))

        def arrived() -> bool:
            desktop("pull")
            return "Typed while up." in desktop.read("user_role.md")

        until(arrived)
        shown = laptop.run("status", "--json")
        (folder,) = json.loads(shown.stdout)["persona"]
        assert folder["folder"] == str(laptop.folder)
        assert folder["documents"] == 3
        assert folder["watched_by"] == running.process.pid


def test_up_starts_although_nothing_can_be_watched(home: Path) -> None:
    with running_memplane(home, env={"MEMPLANE_PERSONA_WATCH": "true"}) as running:
        assert running.process.poll() is None
        assert memplane(home, "status").returncode == 0
