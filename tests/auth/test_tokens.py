"""Tokens: only hashes are kept, a change is durable before it counts, expiry is honoured."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memplane.auth.grants import Scope, TokenRequest
from memplane.auth.token_store import TokenStore
from memplane.errors import HomeError, InvalidRequest, UnknownToken
from memplane.secret import Secret

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANALYST = TokenRequest(agent="analyst", scopes=(Scope.READ,))


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


def opened(path: Path, clock: Clock | None = None, **admins: str) -> TokenStore:
    return TokenStore(
        path / "tokens.json",
        clock=clock or Clock(),
        admins={name: Secret(value) for name, value in admins.items()},
    )


def test_an_agents_token_is_found_again_also_after_a_restart(tmp_path: Path) -> None:
    record, token = opened(tmp_path).issue(ANALYST)
    assert token.reveal().startswith("analyst:")
    assert len(token.reveal()) >= len("analyst:") + 43
    grant = opened(tmp_path).find(token.reveal(), NOON)
    assert grant is not None
    assert (grant.id, grant.agent, [*grant.scopes]) == (record.id, "analyst", [Scope.READ])
    assert grant.reaches("analyst")
    assert not grant.reaches("other")
    assert grant.allows(Scope.READ)
    assert not grant.allows(Scope.WRITE)


def test_an_admins_token_is_bare_and_reaches_everybody(tmp_path: Path) -> None:
    store = opened(tmp_path)
    _, token = store.issue(TokenRequest(admin=True))
    assert ":" not in token.reveal()
    grant = store.find(token.reveal(), NOON)
    assert grant is not None
    assert grant.agent is None
    assert all(grant.allows(scope) for scope in Scope)
    assert grant.reaches("anybody")


def test_the_file_holds_no_token_and_is_private_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        _, token = opened(tmp_path).issue(ANALYST)
    finally:
        os.umask(before)
    path = tmp_path / "tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token.reveal().partition(":")[2] not in path.read_text()
    assert [one.name for one in tmp_path.glob("*tokens*")] == ["tokens.json"]


@pytest.mark.parametrize(
    "given", ["", "analyst:", "analyst", "Bearer x", "é\udcff", "x" * 1_000_000, "\x00"]
)
def test_what_is_no_token_is_not_found(given: str, tmp_path: Path) -> None:
    store = opened(tmp_path, home="home's own")
    store.issue(ANALYST)
    assert store.find(given, NOON) is None


def test_tokens_from_elsewhere_are_admins_and_not_listed(tmp_path: Path) -> None:
    store = opened(tmp_path, home="one", settings="two", unset="")
    assert [getattr(store.find(one, NOON), "name", None) for one in ("one", "two", "")] == [
        "home",
        "settings",
        None,
    ]
    assert store.records() == ()
    with pytest.raises(UnknownToken, match="no token 'home'"):
        store.revoke("home")


def test_every_known_token_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path, home="one")
    tokens = [store.issue(ANALYST)[1] for _ in range(5)]
    compared: list[bytes] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append(left)
        return left == right

    monkeypatch.setattr("memplane.auth.token_store.hmac.compare_digest", compare)
    for given in ("wrong", "one", tokens[0].reveal(), tokens[4].reveal()):
        compared.clear()
        store.find(given, NOON)
        assert len(compared) == 6


def test_a_token_expires_when_it_was_said_to(tmp_path: Path) -> None:
    store = opened(tmp_path)
    _, token = store.issue(TokenRequest(agent="a", scopes=(Scope.READ,), expires_in=60))
    just_before = NOON + timedelta(seconds=59)
    assert store.find(token.reveal(), just_before) is not None
    assert store.find(token.reveal(), NOON + timedelta(seconds=60)) is None
    assert len(store.records()) == 1


def test_only_a_token_that_may_take_turns_now_governs_its_agent(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.issue(ANALYST)
    store.issue(TokenRequest(admin=True))
    assert not store.governs("analyst", NOON)
    turns = TokenRequest(agent="analyst", scopes=(Scope.READ, Scope.PROXY), expires_in=100)
    record, _ = store.issue(turns)
    assert store.governs("analyst", NOON)
    assert not store.governs("ada", NOON)
    assert not store.governs("analyst", NOON + timedelta(seconds=100))
    store.revoke(record.id)
    assert not store.governs("analyst", NOON)


def test_a_revoked_token_is_good_for_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    record, token = store.issue(ANALYST)
    kept, other = store.issue(ANALYST)
    store.revoke(record.id)
    for one in (store, opened(tmp_path)):
        assert one.find(token.reveal(), NOON) is None
        assert one.find(other.reveal(), NOON) is not None
        assert [left.id for left in one.records()] == [kept.id]
    with pytest.raises(UnknownToken, match="token list"):
        store.revoke(record.id)


def test_a_rotated_token_lives_as_long_again(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path, clock)
    wanted = TokenRequest(agent="a", scopes=(Scope.READ,), expires_in=60, name="mine")
    record, token = store.issue(wanted)
    clock.now = NOON + timedelta(seconds=50)
    rotated, new = store.rotate(record.id)
    assert (rotated.id, rotated.name, rotated.scopes) == (record.id, "mine", record.scopes)
    assert store.find(token.reveal(), clock.now) is None
    assert store.find(new.reveal(), NOON + timedelta(seconds=109)) is not None
    assert store.find(new.reveal(), NOON + timedelta(seconds=110)) is None
    with pytest.raises(UnknownToken):
        store.rotate("nothing")


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (TokenRequest(), "which agent"),
        (TokenRequest(scopes=(Scope.READ,)), "which agent"),
        (TokenRequest(agent="*", scopes=(Scope.READ,)), "'\\*' is no agent's id"),
        (TokenRequest(agent="", scopes=(Scope.READ,)), "no agent's id"),
        (TokenRequest(agent="../x", scopes=(Scope.READ,)), "no agent's id"),
        (TokenRequest(agent="a"), "what the token is good for"),
        (TokenRequest(agent="a", scopes=(Scope.ADMIN,)), "cannot be an admin's"),
        (TokenRequest(agent="a", scopes=(Scope.READ, Scope.ADMIN)), "cannot be an admin's"),
        (TokenRequest(agent="a", admin=True), "for every agent"),
        (TokenRequest(admin=True, scopes=(Scope.READ,)), "leave the scopes out"),
        (TokenRequest(admin=True, name="a\nb"), "printable"),
        (TokenRequest(admin=True, name="\ud83d"), "printable"),
        (TokenRequest(admin=True, name="x" * 201), "200"),
        (TokenRequest(admin=True, expires_in=0), "one second"),
        (TokenRequest(admin=True, expires_in=-1), "one second"),
        (TokenRequest(admin=True, expires_in=10**12), "ten years"),
    ],
)
def test_what_may_not_be_issued(wanted: TokenRequest, says: str, tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(InvalidRequest, match=says):
        store.issue(wanted)
    assert store.records() == ()
    assert not (tmp_path / "tokens.json").exists()


def test_there_are_not_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memplane.auth.token_store._MAX_TOKENS", 2)
    store = opened(tmp_path)
    store.issue(ANALYST)
    store.issue(ANALYST)
    with pytest.raises(InvalidRequest, match="Revoke some"):
        store.issue(ANALYST)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"version":2,"tokens":[]}',
        b'{"version":1,"tokens":[{}]}',
        b'{"version":1,"tokens":null}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_an_error_and_never_no_tokens(body: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_bytes(body)
    (tmp_path / "tokens.json").chmod(0o600)
    with pytest.raises(HomeError, match=r"tokens\.json"):
        opened(tmp_path)


def test_a_hash_that_is_none_is_damage(tmp_path: Path) -> None:
    opened(tmp_path).issue(ANALYST)
    path = tmp_path / "tokens.json"
    body = json.loads(path.read_text())
    body["tokens"][0]["sha256"] = "nonsense"
    path.write_text(json.dumps(body))
    with pytest.raises(HomeError, match="damaged"):
        opened(tmp_path)


def test_a_file_that_others_can_read_or_that_is_a_link_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).issue(ANALYST)
    path = tmp_path / "tokens.json"
    path.chmod(0o644)
    with pytest.raises(HomeError, match="chmod 600"):
        opened(tmp_path)
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HomeError, match="cannot be read"):
        opened(tmp_path)


def test_what_cannot_be_written_did_not_happen(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    store = opened(folder)
    record, token = store.issue(ANALYST)
    (folder / "tokens.json").rename(tmp_path / "kept")
    folder.rmdir()
    with pytest.raises(HomeError, match="cannot be written"):
        store.issue(ANALYST)
    with pytest.raises(HomeError, match="cannot be written"):
        store.revoke(record.id)
    assert store.find(token.reveal(), NOON) is not None
    assert store.records() == (record,)


KILLED = """
import os, sys
from pathlib import Path
from memplane.auth.grants import TokenRequest
from memplane.auth.token_store import TokenStore
from memplane.kit.clock import system_clock

store = TokenStore(Path(sys.argv[1]) / "tokens.json", clock=system_clock, admins={})
call = sys.argv[2]
real = getattr(os, call)
def die(*words, **named):
    os._exit(9)
setattr(os, call, die)
store.issue(TokenRequest(admin=True, name="new"))
"""


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_a_kill_at_any_step_leaves_the_old_file_or_the_new(call: str, tmp_path: Path) -> None:
    record, token = opened(tmp_path).issue(ANALYST)
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), call], capture_output=True, check=False
    )
    assert ran.returncode == 9, ran.stderr
    after = opened(tmp_path)
    assert after.find(token.reveal(), NOON) is not None
    assert [one.id for one in after.records()] == [record.id]
