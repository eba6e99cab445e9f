"""Free text: what the contract asks for, markers, order, and long inputs."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from memplane.redaction.redactor import Redactor
from memplane.redaction.rules import RULES
from memplane.secret import Secret
from tests.redaction.generators import ALNUM, HEX, UPPER, pem, seeded, some

KEY = b"of this installation"
REDACTOR = Redactor(key=KEY)
RNG = seeded(20)

SECRET = "sk-" + "live-123456789"
VENDORS = [
    *(f"gh{kind}_" + some(RNG, ALNUM, 36) for kind in "pousr"),
    "github" + "_pat_" + some(RNG, ALNUM, 30),
    "AK" + "IA" + some(RNG, UPPER, 16),
    "AS" + "IA" + some(RNG, UPPER, 16),
    "AI" + "za" + some(RNG, ALNUM, 35),
    *(f"xo{'x'}{kind}-" + some(RNG, ALNUM, 24) for kind in "abprs"),
    "sk_" + "live_" + some(RNG, ALNUM, 24),
    "rk_" + "live_" + some(RNG, ALNUM, 24),
    "h" + "f_" + some(RNG, ALNUM, 34),
    "np" + "m_" + some(RNG, ALNUM, 36),
    "py" + "pi-" + some(RNG, ALNUM, 60),
    "gl" + "pat-" + some(RNG, ALNUM, 20),
]


def marked(kind: str, secret: str) -> str:
    digest = hmac.new(KEY, secret.encode(), hashlib.sha256).hexdigest()
    return f"[redacted:{kind}:{digest[:8]}]"


def test_an_sk_key_leaves_a_marker_made_of_its_kind_and_an_hmac() -> None:
    secret = "sk-" + "live-123456789"
    assert REDACTOR.text(secret).value == marked("sk-key", secret)


def test_the_scheme_word_of_a_bearer_token_stays_as_written() -> None:
    for word in ("Bearer", "bearer", "BEARER"):
        out = REDACTOR.text(f"{word} " + "supersecret" + "token")
        assert out.value == f"{word} " + marked("bearer", "supersecrettoken")
        assert out.counts == {"bearer": 1}


@pytest.mark.parametrize("secret", VENDORS, ids=lambda secret: secret[:5])
def test_every_vendor_prefix_of_the_contract_is_redacted(secret: str) -> None:
    out = REDACTOR.text(f"use {secret}, please")
    assert secret[5:] not in out.value
    assert out.value.startswith("use [redacted:")
    assert out.value.endswith("], please")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("postgres://user:pass" + "word@host/db", "postgres://user:[redacted:url-password:"),
        ("AccountName=a;Account" + "Key=" + "b1" * 44, "AccountName=a;AccountKey=[redacted:azure"),
        ("https://h/b?s" + "ig=" + "a1" * 22, "https://h/b?sig=[redacted:azure-sas:"),
        ("DB_PASS" + "WORD=sunshine", "DB_PASSWORD=[redacted:password:"),
        ("Set-Cookie: sid=" + "a1" * 9 + "; Path=/", "Set-Cookie: sid=[redacted:cookie:"),
        ("analyst:" + "a1" * 24, "analyst:[redacted:agent-token:"),
    ],
)
def test_only_the_secret_part_is_replaced(text: str, kept: str) -> None:
    out = REDACTOR.text(text)
    assert out.value.startswith(kept)
    assert sum(out.counts.values()) == 1


def test_equal_secrets_have_equal_markers_and_other_keys_other_ones() -> None:
    first, second = VENDORS[:2]
    both = REDACTOR.text(f"{first} {second} {first}").value.split(" ")
    assert both[0] == both[2] != both[1]
    assert Redactor(key=b"another").text(first).value != both[0]


def test_a_known_secret_has_one_marker_in_all_its_forms() -> None:
    secret = some(RNG, ALNUM, 20)
    redactor = Redactor(key=KEY, known=[Secret(secret)])
    out = redactor.text(f"{secret} {secret.encode().hex()}").value.split(" ")
    assert out == [marked("known", secret)] * 2


def test_of_overlapping_hits_the_outermost_leaves_one_marker() -> None:
    inner = some(RNG, ALNUM, 12)
    redactor = Redactor(key=KEY, known=[Secret(inner)])
    whole = f"sk-{some(RNG, ALNUM, 9)}{inner}{some(RNG, ALNUM, 9)}1"
    out = redactor.text(f"a {whole} z")
    assert out.value == f"a {marked('sk-key', whole)} z"
    assert out.counts == {"sk-key": 1}


def test_of_hits_that_overlap_in_part_nothing_is_left() -> None:
    redactor = Redactor(key=KEY, known=[Secret("6789 and more")])
    out = redactor.text("a " + SECRET + " and more z")
    assert sum(out.counts.values()) == 1
    assert out.value.startswith("a [redacted:")
    assert out.value.endswith("] z")


def test_a_name_in_the_place_of_a_value_is_a_name() -> None:
    out = REDACTOR.text("authorization: token: " + "a1b2c3d4" + "e5f6")
    assert out.value.startswith("authorization: token: [redacted:token:")


def test_a_keyword_may_stand_anywhere_in_a_long_text() -> None:
    for place in range(32_768 - 6, 32_768 + 2):
        assert REDACTOR.text(" " * place + SECRET).counts == {"sk-key": 1}


def test_what_stood_right_beside_a_secret_is_found_too() -> None:
    known = some(RNG, ALNUM, 12)
    redactor = Redactor(key=KEY, known=[Secret(known)])
    out = redactor.text(known + "sk-" + "live-123456789")
    assert out.counts == {"known": 1, "sk-key": 1}


def test_counts_are_by_kind() -> None:
    out = REDACTOR.text(f"{VENDORS[0]} and {VENDORS[1]} and {VENDORS[6]}")
    assert out.counts == {"github-token": 2, "aws-key-id": 1}


@pytest.mark.parametrize("place", [0, 1 << 20, (1 << 20) - 30, (1 << 20) - 4096, 3 << 20])
def test_no_text_is_too_long_and_no_place_in_it_is_missed(place: int) -> None:
    block = pem(seeded(21)).text
    filler = ("lorem ipsum " * (1 << 18))[:place]
    out = REDACTOR.text(f"{filler}\n{block}\n{filler}")
    assert out.counts == {"private-key": 1}


def test_long_blocks_and_long_known_secrets_are_found_whole() -> None:
    secret = some(RNG, ALNUM, 9000)
    edge = "-" * 5
    lines = "\n".join(some(RNG, ALNUM, 64) for _ in range(400))
    block = f"{edge}BEGIN PRIVATE KEY{edge}\n{lines}\n{edge}END PRIVATE KEY{edge}"
    filler = "x" * ((1 << 20) - 5000)
    out = Redactor(key=KEY, known=[Secret(secret)]).text(f"{filler} {secret} {filler} {block}")
    assert out.counts == {"known": 1, "private-key": 1}
    assert lines[-64:] not in out.value


def test_a_private_key_that_is_cut_off_is_redacted_as_far_as_it_goes() -> None:
    block = pem(seeded(22)).text
    out = REDACTOR.text(block[: len(block) // 2])
    assert out.value.startswith("[redacted:private-key:")
    assert out.value.endswith("]")


def test_text_with_letters_beyond_ascii_and_lone_surrogates_keeps_them() -> None:
    text = "grüße \ud800 漢字 " + VENDORS[0] + " 🙂 \udfff"
    out = REDACTOR.text(text).value
    assert out.startswith("grüße \ud800 漢字 [redacted:")
    assert out.endswith("] 🙂 \udfff")


def test_every_rule_is_announced_by_its_keywords() -> None:
    """A keyword with a capital letter, or none, would never be seen."""
    for rule in RULES:
        assert all(word == word.lower() and len(word) >= 2 for word in rule.keywords)
    assert len({rule.kind for rule in RULES}) >= 60
    always = [rule.kind for rule in RULES if not rule.keywords and not rule.gate]
    assert always == ["agent-token"]


def test_hex_of_another_length_is_no_agent_token() -> None:
    for length in (40, 47, 49, 64):
        text = "sha:" + some(RNG, HEX, length)
        assert REDACTOR.text(text).value is text
