"""Commands through their real door: a process, its output and its exit code."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memplane import BlobBackend, LocalBackend
from memplane.cli import COMMANDS
from memplane.kit.clock import system_clock
from memplane.storage.outbox import Outbox
from tests.support.azurite import Azurite
from tests.support.in_process import memplane_here
from tests.support.running import memplane, running_memplane
from tests.support.turns import record, turn


def cloud(azurite: Azurite, container: str) -> dict[str, str]:
    return {
        "MEMPLANE_BLOB_CONNECTION_STRING": azurite.connection_string,
        "MEMPLANE_BLOB_CONTAINER": container,
    }


def test_help_lists_the_commands(home: Path) -> None:
    ran = memplane(home, "--help")
    assert ran.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in ran.stdout
    assert "worker" not in ran.stdout
    assert not home.exists()


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_explains_itself(command: str, home: Path) -> None:
    ran = memplane(home, command, "--help")
    assert ran.returncode == 0
    assert ran.stdout.startswith(f"usage: memplane {command}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "usage: memplane"),
        (("nonsense",), "there is no command 'nonsense'. See `memplane --help`"),
        (("statsu",), "'statsu'. Did you mean `memplane status`? See `memplane --help`"),
        (("status", "--nonsense"), "unrecognized arguments: --nonsense"),
        (("status", "Tea."), "unrecognized arguments: Tea. See `memplane status --help`"),
        (("--set", "http.port", "status"), "--set takes NAME=VALUE"),
        (("--set", "=x", "status"), "--set takes NAME=VALUE, not '=x'"),
        (("up", "--port", "abc"), "--port is 'abc': expected a whole number"),
        (("--home", __file__, "status"), "cannot be the home: it is no folder"),
        (("--set", "http.prot=1", "status"), "Did you mean http.port?"),
        (("up", "--port", "99999999"), "expected a port"),
        (("cloud",), "action"),
        (("cloud", "migrate"), "no container to work with"),
        (("manifest", "verify"), "no container to work with"),
        (("queue", "retry"), "no container to work with"),
    ],
)
def test_wrong_usage_is_explained_and_exits_with_2(
    words: tuple[str, ...], says: str, home: Path
) -> None:
    ran = memplane_here(home, *words)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_version(home: Path) -> None:
    assert memplane(home, "--version").stdout == "0.1.0\n"


def test_status_while_nothing_runs(home: Path) -> None:
    home.mkdir(mode=0o700)
    ran = memplane_here(home, "status", "--json")
    assert ran.returncode == 0
    status = json.loads(ran.stdout)
    assert status["running"] is False
    assert status["home"] == str(home)
    assert status["storage"]["kind"] == "local"
    assert status["storage"]["complaint"] is None
    assert "not running" in memplane_here(home, "status").stdout


def test_status_of_a_running_memplane(home: Path) -> None:
    with running_memplane(home) as running:
        status = json.loads(memplane_here(home, "status", "--json").stdout)
        assert status["running"] is True
        assert status["address"] == running.address
        assert running.address in memplane_here(home, "status").stdout


def test_up_says_what_a_newcomer_needs(home: Path) -> None:
    with running_memplane(home) as running:
        assert running.address in running.printed
        assert str(home / "token") in running.printed
        assert f"memplane --home {home} status" in running.printed
        assert running.token not in running.printed


def test_half_a_cloud_is_loud_everywhere(home: Path) -> None:
    home.mkdir(mode=0o700)
    half = {"MEMPLANE_BLOB_ENDPOINT": "https://account.blob.example"}
    status = memplane(home, "status", env=half)
    assert status.returncode == 0
    assert "MEMPLANE_BLOB_CONTAINER is not set" in status.stdout
    assert "MEMPLANE_BLOB_CONTAINER is not set" in status.stderr
    doctor = memplane(home, "doctor", env=half)
    assert doctor.returncode == 1
    assert "failed  configuration" in doctor.stdout
    strict = memplane(home, "status", env={**half, "MEMPLANE_STRICT_CLOUD": "true"})
    assert strict.returncode == 2
    assert "half configured" in strict.stderr
    quiet = memplane(home, "status", env={**half, "MEMPLANE_KEEP_MEMORY_LOCAL": "true"})
    assert "not set" not in quiet.stdout + quiet.stderr


def test_doctor_finds_a_healthy_machine_healthy(home: Path) -> None:
    ran = memplane_here(home, "doctor", "--json")
    findings = {one["name"]: one for one in json.loads(ran.stdout)}
    assert ran.returncode == 0
    assert {"home", "secrets", "sqlite", "clock", "disk", "configuration", "names"} <= set(
        findings
    )
    assert {"sync", "ledger", "door"} <= set(findings)
    # A home in memory, as tests may have, is synced quicker than any disk could.
    findings.pop("sync")
    assert {one["verdict"] for one in findings.values()} == {"ok"}
    assert LocalBackend(home / "data").list() == []


def test_doctor_looks_at_the_database_and_leaves_it_as_it_is(home: Path) -> None:
    assert "ok      database: there is none yet" in memplane_here(home, "doctor").stdout
    assert memplane_here(home, "retain", "--agent", "a", "The osprey nests.").returncode == 0
    with running_memplane(home):
        beside = memplane_here(home, "doctor")
        assert f"ok      database: {home / 'memplane.db'} can be read" in beside.stdout
    database = home / "memplane.db"
    before = {one.name: one.read_bytes() for one in home.glob("memplane.db*")}
    assert f"{database} can be read" in memplane_here(home, "doctor").stdout
    assert {one.name: one.read_bytes() for one in home.glob("memplane.db*")} == before


@pytest.mark.parametrize("wrong", ["garbage", "another's", "cut", "folder"])
def test_doctor_fails_where_the_database_cannot_be_used(home: Path, wrong: str) -> None:
    assert memplane_here(home, "retain", "--agent", "a", "The osprey nests.").returncode == 0
    database = home / "memplane.db"
    whole = database.read_bytes()
    database.unlink()
    match wrong:
        case "garbage":
            database.write_bytes(b"no database " * 1000)
        case "cut":
            database.write_bytes(whole[: len(whole) // 2])
        case "folder":
            database.mkdir()
        case _:
            with closing(sqlite3.connect(database)) as other:
                other.execute("CREATE TABLE birds (name)")
    ran = memplane_here(home, "doctor")
    assert ran.returncode == 1
    assert "failed  database: " in ran.stdout
    assert f"→ move {database} away" in ran.stdout


def test_doctor_names_what_is_wrong_and_the_remedy(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "token").write_text("x")
    (home / "token").chmod(0o644)
    (home / "data").mkdir(exist_ok=True)
    (home / "data" / "trailing. ").write_text("x")
    ran = memplane_here(home, "doctor", env={"MEMPLANE_KEEP_MEMROY_LOCAL": "true"})
    assert ran.returncode == 1
    assert "failed  secrets: others can read" in ran.stdout
    assert f"chmod 600 {home / 'token'}" in ran.stdout
    assert "warning names" in ran.stdout
    assert "MEMPLANE_KEEP_MEMROY_LOCAL" in ran.stdout


async def test_doctor_checks_the_ledgers_and_the_door(home: Path) -> None:
    await record(home / "ledger", [turn(f"turn {n}") for n in range(3)])
    with running_memplane(home) as running:
        ran = memplane(home, "doctor")
    assert "3 entries, as recorded; agents: 1" in ran.stdout
    assert f"{running.address} refuses other hosts and origins" in ran.stdout
    history = home / "ledger" / "analyst" / "history.jsonl"
    history.write_bytes(history.read_bytes().replace(b"turn 1", b"turn 9", 1))
    ran = memplane(home, "doctor")
    assert ran.returncode == 1
    assert "failed  ledger: not as it was recorded: analyst (1)" in ran.stdout


def test_doctor_looks_at_providers_and_at_a_pods_agents(home: Path) -> None:
    home.mkdir(mode=0o700)
    providers = home / "providers.json"
    providers.write_text(
        '{"providers": {"local": {"base_url": "http://127.0.0.1:9/v1", "auth": "none"}}}'
    )
    providers.chmod(0o600)
    for agent, manifest in (
        ("good", '{"version": 1, "service": "m", "base_url": "http://m"}'),
        ("bad", "{"),
    ):
        folder = home.parent / "context" / agent
        folder.mkdir(parents=True)
        (folder / "metadata.json").write_text(json.dumps({"token": f"{agent}:secret"}))
        (folder / "memory.json").write_text(manifest)
    env = {"MEMPLANE_CONTEXT_ROOT": str(home.parent / "context")}
    ran = memplane_here(home, "doctor", env=env)
    assert "ok      providers: keys for local" in ran.stdout
    assert "warning pod: bad: " in ran.stdout
    providers.write_text('{"providers": {"evil": {"base_url": "http://169.254.169.254/v1"}}}')
    ran = memplane_here(home, "doctor")
    assert ran.returncode == 1
    assert "failed  providers: " in ran.stdout
    providers.write_text('{"openai": {"api_key": "k"}}')
    ran = memplane_here(home, "doctor")
    assert "warning providers: no keys of our own" in ran.stdout
    assert 'has no member "providers"' in ran.stdout


def test_doctor_refuses_a_home_that_others_can_read(home: Path) -> None:
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    ran = memplane_here(home, "doctor")
    assert ran.returncode == 1
    of_home, _, _ = ran.stdout.partition("sqlite: ")
    assert f"→ chmod 700 {home}\n" in of_home
    assert "MEMPLANE_HOME" not in of_home
    assert memplane_here(home, "up").returncode == 1


def test_doctor_speaks_of_the_folder_where_that_is_what_fails(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "data").mkdir()
    (home / "data" / "state").write_text("where a folder should be")
    ran = memplane_here(home, "doctor")
    assert ran.returncode == 1
    assert f"→ see that {home / 'data'} can be read and written" in ran.stdout
    assert "credentials" not in ran.stdout


LOOKING = [
    ["status"],
    ["recall", "--agent", "a", "osprey"],
    ["rebuild"],
    ["token", "list"],
    ["memories", "list", "--agent", "a"],
    ["memories", "preview", "--agent", "a"],
    ["memories", "export", "--agent", "a"],
    ["history", "verify"],
    ["audit"],
]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_what_only_looks_makes_no_home(home: Path, words: list[str]) -> None:
    ran = memplane_here(home, "--home", str(home / "x"), *words)
    assert not home.exists()
    if words[0] not in {"history", "audit"}:
        assert ran.returncode == 1
        assert f"there is no home at {home / 'x'} yet. memplane up makes it" in ran.stderr


MISUSED = [
    ["recall", "osprey"],
    ["recall", "--agent", "../x", "osprey"],
    ["recall", "--agent", "a", "--limit", "0", "osprey"],
    ["retain", "--agent", "a", " "],
    ["retain", "--agent", "../x", "osprey"],
    ["memories", "list"],
    ["memories", "list", "--agent", "../x"],
    ["memories", "add", "--agent", "a", "--category", "timing", " "],
    ["run", "--", "true"],
    ["history", "show"],
    ["history", "show", "--agent", "../x"],
    ["forget", "--entry-id", "x"],
    ["persona", "new", "nonsense"],
    ["persona", "prune", "--older-than", "9x"],
    ["up", "--port", "abc"],
    ["--set", "=x", "status"],
]


@pytest.mark.parametrize("words", MISUSED, ids=" ".join)
def test_wrong_usage_is_an_exit_code_of_its_own(home: Path, words: list[str]) -> None:
    home.mkdir(mode=0o700)
    ran = memplane_here(home, *words)
    assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
    assert ran.stderr


def test_doctor_tries_the_container(azurite: Azurite, container: str, home: Path) -> None:
    ran = memplane_here(home, "doctor", env=cloud(azurite, container))
    assert ran.returncode == 0, ran.stdout
    assert "conditions honoured" in ran.stdout
    with BlobBackend(azurite.by_key(container), cache=home / "c") as backend:
        assert backend.list() == []


@pytest.mark.usefixtures("short_pauses")
def test_doctor_says_when_the_container_does_not_answer(home: Path) -> None:
    nobody = {
        "MEMPLANE_BLOB_CONNECTION_STRING": "AccountName=a;AccountKey=c2VjcmV0;"
        "BlobEndpoint=http://127.0.0.1:9/a;",
        "MEMPLANE_BLOB_CONTAINER": "box",
    }
    ran = memplane_here(home, "doctor", env=nobody)
    assert ran.returncode == 1
    assert "failed  names" in ran.stdout
    assert "check the address" in ran.stdout
    assert "c2VjcmV0" not in ran.stdout + ran.stderr


def test_migrate_and_manifest(azurite: Azurite, container: str, home: Path) -> None:
    with LocalBackend(home / "data") as local:
        for number in range(5):
            local.write_text(f"summaries/{number}.html", "x" * number)
    env = cloud(azurite, container)
    first = memplane_here(home, "cloud", "migrate", "--json", env=env)
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["copied"] == 5
    assert json.loads(first.stdout)["bytes_copied"] == 10
    assert "5/5" in first.stderr
    second = memplane_here(home, "cloud", "migrate", env=env)
    assert second.returncode == 0
    assert "copied 0 objects" in second.stdout
    assert memplane_here(home, "manifest", "verify", env=env).returncode == 0
    (home / "data" / "link.md").symlink_to("nowhere")
    failed = memplane_here(home, "cloud", "migrate", env=env)
    assert failed.returncode == 2
    assert "symbolic link" in failed.stdout


def test_manifest_verify_finds_and_rebuild_repairs(
    azurite: Azurite, container: str, home: Path
) -> None:
    env = cloud(azurite, container)
    with BlobBackend(azurite.by_key(container), cache=home / "c") as backend:
        backend.write_text("a.md", "x")
        backend._open().store._changes.clear()  # type: ignore[attr-defined] # as if it was killed
    found = memplane_here(home, "manifest", "verify", env=env)
    assert found.returncode == 1
    assert "missing  a.md" in found.stdout
    assert "lists 1 objects" in memplane_here(home, "manifest", "rebuild", env=env).stdout
    assert memplane_here(home, "manifest", "verify", env=env).returncode == 0


def test_the_queue_is_shown_sent_and_dropped(azurite: Azurite, container: str, home: Path) -> None:
    from memplane.service.composition.storage import fingerprint

    env = cloud(azurite, container)
    cache = home / "cache" / "blob" / fingerprint(azurite.by_key(container))
    left = Outbox(cache / "outbox", "dead", clock=system_clock)
    left.append("log.txt", b"one\n")
    left.close()
    memplane_here(home, "status")
    (row,) = json.loads(memplane_here(home, "queue", "list", "--json", env=env).stdout)
    assert (row["state"], row["key"], row["what"]) == ("waiting", "log.txt", "append")
    status = json.loads(memplane_here(home, "status", "--json", env=env).stdout)
    assert status["storage"]["waiting"] == 1
    sent = memplane_here(home, "queue", "retry", env=env)
    assert (sent.returncode, sent.stdout) == (0, "sent 1 of 1.\n")
    with BlobBackend(azurite.by_key(container), cache=home / "c") as backend:
        assert backend.read_text("log.txt") == "one\n"
    assert memplane_here(home, "queue", "list", env=env).stdout == "0 in all\n"
    assert memplane_here(home, "queue", "drop", "nothing", env=env).returncode == 1


@pytest.mark.usefixtures("short_pauses")
def test_the_queue_says_when_nobody_answers(home: Path) -> None:
    nobody = {
        "MEMPLANE_BLOB_CONNECTION_STRING": "AccountName=a;AccountKey=c2VjcmV0;"
        "BlobEndpoint=http://127.0.0.1:9/a;",
        "MEMPLANE_BLOB_CONTAINER": "box",
    }
    from memplane.service.composition.storage import fingerprint
    from memplane.settings import load_settings

    blob = load_settings({"home": str(home)}, nobody).blob
    left = Outbox(
        home / "cache" / "blob" / fingerprint(blob) / "outbox", "dead", clock=system_clock
    )
    left.append("log.txt", b"one\n")
    left.close()
    ran = memplane_here(home, "queue", "retry", env=nobody)
    assert ran.returncode == 3
    assert "'log.txt'" in ran.stderr
    assert "1 in all" in memplane_here(home, "queue", "list", env=nobody).stdout
