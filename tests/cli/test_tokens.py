"""`memplane token` through its real door, with and without a running memplane."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.door import ask, own_host
from tests.support.in_process import memplane_here
from tests.support.running import Running, environment, running_memplane


def whoami(running: Running, token: str) -> int:
    given = f"Authorization: Bearer {token}"
    return ask(running, "GET /api/v1/whoami", own_host(running), given).status


def test_a_new_token_is_all_there_is_on_standard_output(home: Path) -> None:
    ran = memplane_here(home, "token", "create", "--agent", "analyst")
    assert ran.returncode == 0
    assert ran.stdout.startswith("analyst:")
    assert ran.stdout.count("\n") == 1
    assert "cannot show it again" in ran.stderr
    assert ran.stdout.strip() not in ran.stderr
    admin = memplane_here(home, "token", "create", "--admin")
    assert ":" not in admin.stdout


def test_tokens_of_a_running_memplane_work_at_once(home: Path) -> None:
    with running_memplane(home) as running:
        token = memplane_here(home, "token", "create", "--agent", "analyst").stdout.strip()
        assert whoami(running, token) == 200
        (about,) = json.loads(memplane_here(home, "token", "list", "--json").stdout)
        assert (about["agent"], about["scopes"]) == ("analyst", ["proxy", "read", "write"])
        new = memplane_here(home, "token", "rotate", about["id"]).stdout.strip()
        assert (whoami(running, token), whoami(running, new)) == (401, 200)
        gone = memplane_here(home, "token", "revoke", about["id"])
        assert (gone.returncode, gone.stdout) == (0, "")
        assert whoami(running, new) == 401
        again = memplane_here(home, "token", "revoke", about["id"])
        assert again.returncode == 1
        assert f"there is no token '{about['id']}'" in again.stderr


def test_tokens_made_before_the_start_work_after_it(home: Path) -> None:
    ran = memplane_here(home, "token", "create", "--agent", "a", "--scope", "read", "--json")
    made = json.loads(ran.stdout)
    assert made["about"]["scopes"] == ["read"]
    with running_memplane(home) as running:
        assert whoami(running, made["token"]) == 200
    with running_memplane(home) as running:
        assert whoami(running, made["token"]) == 200


def test_the_admins_token_of_the_settings_works(home: Path) -> None:
    for name in ("MEMPLANE_ADMIN_TOKEN", "CLLAMA_UI_TOKEN"):
        with running_memplane(home, env={name: "from outside"}) as running:
            assert whoami(running, "from outside") == 200
            assert whoami(running, running.token) == 200
    with running_memplane(home) as running:
        assert whoami(running, "from outside") == 401


def test_processes_that_issue_at_once_lose_nothing(home: Path) -> None:
    command = [sys.executable, "-m", "memplane", "token", "create", "--agent"]
    with running_memplane(home) as running:
        both = [
            subprocess.Popen(
                [*command, name], env=environment(home), stdout=subprocess.PIPE, text=True
            )
            for name in ("a", "b", "c", "d")
        ]
        tokens = [process.communicate(timeout=60)[0].strip() for process in both]
        assert [whoami(running, token) for token in tokens] == [200] * 4
        listed = json.loads(memplane_here(home, "token", "list", "--json").stdout)
    assert {one["agent"] for one in listed} == {"a", "b", "c", "d"}


def test_the_list_says_for_whom_and_how_long(home: Path) -> None:
    memplane_here(
        home, "token", "create", "--agent", "a", "--name", "the desk", "--expires", "30d"
    )
    memplane_here(home, "token", "create", "--admin")
    ran = memplane_here(home, "token", "list")
    assert "the desk  a: proxy, read, write  until 20" in ran.stdout
    assert "every agent: admin  until revoked" in ran.stdout
    assert "2 in all" in ran.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("create",), 2, "--agent --admin is required"),
        (("create", "--agent", "../x"), 2, "'../x' is no agent's id"),
        (("create", "--agent", "*"), 2, "'*' is no agent's id"),
        (("create", "--agent", "a", "--admin"), 2, "not allowed with"),
        (("create", "--agent", "a", "--expires", "soon"), 2, "'soon' is no duration"),
        (("create", "--agent", "a", "--expires", "0d"), 2, "'0d' is no duration"),
        (("create", "--agent", "a", "--expires", "9999w"), 2, "ten years"),
        (("create", "--agent", "a", "--scope", "admin"), 2, "read,write,proxy"),
        (("create", "--agent", "a", "--scope", ""), 2, "read,write,proxy"),
        (("create", "--admin", "--scope", "read"), 2, "leave the scopes out"),
        (("revoke", "nothing"), 1, "there is no token 'nothing'"),
        (("rotate", "../status"), 1, "there is no token '../status'"),
        ((), 2, "action"),
    ],
)
def test_what_cannot_be_done_is_explained(
    words: tuple[str, ...], code: int, says: str, home: Path
) -> None:
    ran = memplane_here(home, "token", *words)
    assert ran.returncode == code
    assert says in ran.stderr
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr


def test_damaged_tokens_are_an_error_at_the_start(home: Path) -> None:
    memplane_here(home, "token", "create", "--admin")
    (home / "tokens.json").write_text("{")
    for words in (("up", "--port", "0"), ("token", "list"), ("token", "create", "--admin")):
        ran = memplane_here(home, *words)
        assert ran.returncode == 1
        assert f"{home / 'tokens.json'} is damaged" in ran.stderr
    assert (home / "tokens.json").read_text() == "{"
