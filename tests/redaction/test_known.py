"""Known secrets: which ones count, and where they come from."""

from __future__ import annotations

import base64

import pytest

from memplane.redaction.known_secrets import collect_environment_secrets
from memplane.redaction.redactor import Redactor
from memplane.secret import Secret
from tests.redaction.generators import ALNUM, seeded, some

VALUE = some(seeded(26), ALNUM, 20)


@pytest.mark.parametrize("short", ["", "abc", "12345", "true", "password", "<token>", "********"])
def test_short_and_ordinary_values_are_no_known_secrets(short: str) -> None:
    text = f"true password abc 12345 <token> ******** {short}"
    assert Redactor(key=b"k", known=[Secret(short)]).text(text).value is text


def test_the_longest_of_several_known_secrets_wins() -> None:
    redactor = Redactor(key=b"k", known=[Secret(VALUE[:10]), Secret(VALUE)])
    assert redactor.text(f"a {VALUE} b").counts == {"known": 1}


@pytest.mark.parametrize("before", ["", "a", "ab"])
def test_of_base64_the_characters_that_hold_a_part_of_the_secret_go_too(before: str) -> None:
    redactor = Redactor(key=b"k", known=[Secret(VALUE)])
    for after in ("", "c", "cd"):
        encoded = base64.b64encode(f"xyz{before}{VALUE}{after}uvw".encode()).decode()
        kept = redactor.text(encoded).value.partition("[redacted:known:")
        clean = "eHl6" + base64.b64encode(before.encode()).decode()[: len(before)]
        assert clean.startswith(kept[0])
        inside = base64.b64encode(f"xyz{before}{VALUE}".encode()).decode().rstrip("=")
        assert len(kept[0]) + len(kept[2].partition("]")[2]) <= len(encoded) - len(inside) + 6


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "CLIENT_SECRET",
        "DB_PASSWORD",
        "AZURE_STORAGE_CONNECTION_STRING",
        "BLOB_SAS",
        "DATABASE_URL",
        "db_password",
    ],
)
def test_variables_with_telling_names_are_known_secrets(name: str) -> None:
    assert collect_environment_secrets({name: VALUE, "HOME": VALUE, "LANG": "C"}) == [
        Secret(VALUE)
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", VALUE),
        ("API_KEY", "abc"),
        ("MAX_TOKENS", "200000"),
        ("SSH_KEY_PATH", "/home/me/.ssh/id"),
        ("TOKEN_URL", "https://login.example.com"),
        ("API_KEY", "${API_KEY}"),
        ("USE_TOKEN", "true"),
    ],
)
def test_other_variables_are_not(name: str, value: str) -> None:
    assert collect_environment_secrets({name: value}) == []


def test_no_secret_shows_in_the_representation_of_a_redactor() -> None:
    redactor = Redactor(key=b"k" * 9, known=[Secret(VALUE)])
    assert VALUE not in repr(redactor)
    assert "kkk" not in repr(redactor)
