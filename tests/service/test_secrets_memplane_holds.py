"""Secrets that memplane holds reach no ledger, database or answer."""

from __future__ import annotations

import json
from pathlib import Path

from memplane.auth.grants import Scope, TokenRequest
from memplane.auth.token_store import TOKEN_PREFIX, TokenStore
from memplane.home import Home
from memplane.kit.clock import system_clock
from memplane.ledger.turn_redaction import redact_entry_line
from memplane.redaction.redactor import Redactor
from memplane.service.composition.redactors import log_redactor, open_redactor
from memplane.settings.sources import load_settings

# Words that no rule takes for a secret: only who knows them can find them.
KEY = "plainwordsonly"
LATER = "otherplainwords"
ANALYST = TokenRequest(agent="analyst", scopes=(Scope.READ,))


def redactor_of(home: Path) -> Redactor:
    home.mkdir(mode=0o700, exist_ok=True)
    return open_redactor(load_settings({"home": str(home)}, {}))


def write_providers(home: Path, key: str) -> None:
    providers = {"openai": {"api_key": key}, "local": {"keys": [{"id": "a", "secret": key + "x"}]}}
    (home / "providers.json").write_text(json.dumps({"version": 2, "providers": providers}))


def issue(home: Path) -> tuple[TokenStore, str, str]:
    store = TokenStore(home / "tokens.json", clock=system_clock, admins={})
    record, token = store.issue(ANALYST)
    return store, record.id, token.reveal()


def test_a_key_of_providers_json_is_a_known_secret(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    write_providers(home, KEY)
    redactor = redactor_of(home)
    assert KEY not in redactor.text(f"we use {KEY} here, or {KEY}x").value
    assert redactor.text(f"{KEY} {KEY}x").counts == {"known": 2}


def test_a_key_written_while_running_is_known_and_the_one_before_stays_known(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    redactor = redactor_of(home)
    assert KEY in redactor.text(f"we use {KEY}").value
    write_providers(home, KEY)
    assert KEY not in redactor.text(f"we use {KEY}").value
    write_providers(home, LATER)
    assert LATER not in redactor.text(f"we use {LATER}").value
    assert KEY not in redactor.text(f"we used {KEY}").value


def test_a_file_of_providers_that_became_invalid_makes_no_key_unknown(tmp_path: Path) -> None:
    home = tmp_path / "home"
    redactor = redactor_of(home)
    write_providers(home, KEY)
    assert KEY not in redactor.text(KEY).value
    (home / "providers.json").write_text('{"providers": ')
    assert KEY not in redactor.text(KEY).value


def test_the_logs_know_what_the_ledger_knows(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    redactor = log_redactor(load_settings({"home": str(home)}, {}))
    write_providers(home, KEY)
    assert KEY not in redactor.text(f"we use {KEY}").value


def test_secrets_of_the_settings_files_are_known_when_the_files_change(tmp_path: Path) -> None:
    home = tmp_path / "home"
    redactor = redactor_of(home)
    (home / ".env").write_text(f"MEMPLANE_ADMIN_TOKEN={KEY}\n")
    (home / "config.toml").write_text(f'service_token = "{LATER}"\n')
    assert redactor.text(f"{KEY} and {LATER}").counts == {"known": 2}


def test_the_token_of_the_home_is_known_also_when_it_is_made_later(tmp_path: Path) -> None:
    home = tmp_path / "home"
    redactor = redactor_of(home)
    first = Home(home).token().reveal()
    assert redactor.text(f"it is {first}").counts == {"known": 1}
    (home / "token").unlink()
    second = Home(home).token().reveal()
    assert redactor.text(f"now {second}, then {first}").counts == {"known": 2}


def test_an_issued_token_has_a_fixed_prefix_and_length_and_is_found(tmp_path: Path) -> None:
    home = tmp_path / "home"
    redactor = redactor_of(home)
    _, _, token = issue(home)
    agent, _, bare = token.partition(":")
    assert agent == "analyst"
    assert bare.startswith(TOKEN_PREFIX)
    assert len(bare) == len(TOKEN_PREFIX) + 43
    out = redactor.text(f"use {token}, or just {bare}.")
    assert bare not in out.value
    body = redactor.json(json.dumps({"a": [f"use {token}"]}).encode())
    assert bare.encode() not in body.value
    entry = json.dumps({"id": "hist1_0", "response": {"text": token}}).encode()
    assert bare.encode() not in redact_entry_line(redactor, entry).value


def test_a_token_issued_before_is_found_by_its_hash_and_still_works(tmp_path: Path) -> None:
    home = tmp_path / "home"
    redactor = redactor_of(home)
    store, _, _ = issue(home)
    old = "analyst:" + "Abc-9_xy" * 5 + "Z1w"
    similar = "analyst:" + "Abc-9_xy" * 5 + "Z1x"
    records = json.loads((home / "tokens.json").read_bytes())
    import hashlib

    records["tokens"][0]["sha256"] = hashlib.sha256(old.encode()).hexdigest()
    (home / "tokens.json").write_text(json.dumps(records))
    reopened = TokenStore(home / "tokens.json", clock=system_clock, admins={})
    assert reopened.find(old, system_clock()) is not None
    assert store.find(old, system_clock()) is None
    assert redactor.text(f"x {old} y").counts == {"known": 1}
    assert old.partition(":")[2] not in redactor.json(json.dumps([old]).encode()).value.decode()
    assert redactor.text(f"x {similar} y").counts == {}


def test_a_token_that_was_revoked_or_rotated_stays_known(tmp_path: Path) -> None:
    home = tmp_path / "home"
    redactor = redactor_of(home)
    store, token_id, token = issue(home)
    assert redactor.text(token).counts == {"known": 1}
    _, rotated = store.rotate(token_id)
    assert redactor.text(f"{token} {rotated.reveal()}").counts == {"known": 2}
    store.revoke(token_id)
    assert redactor.text(f"{token} {rotated.reveal()}").counts == {"known": 2}


def test_a_token_of_another_home_is_found_by_its_form(tmp_path: Path) -> None:
    redactor = redactor_of(tmp_path / "home")
    (tmp_path / "other").mkdir(mode=0o700)
    _, _, token = issue(tmp_path / "other")
    assert redactor.text(token).counts == {"memplane-token": 1}
