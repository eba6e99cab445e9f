"""JSON documents: only secrets change, and escapes hide none."""

from __future__ import annotations

import json

import pytest

from memplane.redaction.redactor import Redactor
from memplane.secret import Secret
from tests.redaction.generators import ALNUM, pem, seeded, some

REDACTOR = Redactor(key=b"test")
SECRET = "sk-" + "live-123456789"
CONTRACT = [
    "password",
    "passwd",
    "secret",
    "client_secret",
    "api_key",
    "apikey",
    "access_token",
    "refresh_token",
    "authorization",
    "x-api-key",
]


def test_every_byte_outside_of_a_secret_stays() -> None:
    before = b'{ "b" : 1.50e+3, "a":"\\u00e9\\/ ok\\n", "b":[ 0.70 ,null],\t"c": "x '
    after = b' \\ud83d\\ude00" ,"d":-0}\r\n'
    out = REDACTOR.json(before + SECRET.encode() + after)
    assert out.value.startswith(before + b"[redacted:sk-key:")
    assert out.value.endswith(b"]" + after)


@pytest.mark.parametrize("name", CONTRACT)
@pytest.mark.parametrize("value", ["x", "correct horse", "1234", "secret"])
def test_strings_under_the_names_of_the_contract_are_redacted(name: str, value: str) -> None:
    for written in (name, name.upper(), name.replace("_", "-")):
        out = REDACTOR.json(json.dumps({"a": {written: value, "z": value}}).encode())
        found = json.loads(out.value)["a"]
        assert found[written].startswith("[redacted:")
        assert found["z"] == value


@pytest.mark.parametrize(
    "value", ["", "<password>", "${X}", "****", None, True, 12, {"type": "string"}]
)
def test_what_is_no_secret_under_such_a_name_stays(value: object) -> None:
    raw = json.dumps({"password": value, "tools": [{"password": value}]}).encode()
    assert REDACTOR.json(raw).value is raw


def test_strings_in_a_list_stand_under_its_name() -> None:
    out = REDACTOR.json(b'{"authorization":["Bearer abc","Basic zzz"],"o":["Bearer abc"]}').value
    found = json.loads(out)
    assert [one.split(" ")[0] for one in found["authorization"]] == ["Bearer", "Basic"]
    assert all(" [redacted:" in one for one in found["authorization"])
    assert found["o"] == ["Bearer abc"]


@pytest.mark.parametrize(
    "hidden",
    [
        "\\u0073k-live-123456789",
        "sk\\u002dlive-123456789",
        "line\\nsk-live-123456789",
        '\\"sk-live-123456789\\"',
        "\\\\sk-live-123456789",
        "\\u00e9sk-live-123456789",
        "http:\\/\\/a:b1c2d3@h",
        "\\ud83d\\ude00\\u0073\\u006b-live-123456789\\ud83d",
    ],
)
def test_escapes_hide_no_secret(hidden: str) -> None:
    raw = f'{{"a":"{hidden}","b":1}}'.encode()
    out = REDACTOR.json(raw)
    assert sum(out.counts.values()) == 1
    assert b"123456789" not in out.value
    assert b"b1c2d3" not in out.value
    json.loads(out.value)


def test_half_of_a_surrogate_pair_is_json_too() -> None:
    raw = json.dumps({"a": 'Cookie: sid=a1b2c3d4e5"\ud800'}).encode()
    out = REDACTOR.json(raw)
    assert out.counts == {"cookie": 1}
    assert json.loads(out.value)["a"].endswith('"\ud800')


def test_a_document_that_is_only_a_string_is_searched() -> None:
    assert REDACTOR.json(json.dumps("x\n" + SECRET).encode()).counts == {"sk-key": 1}


def test_json_that_is_nested_too_deeply_stays_json() -> None:
    inner = json.dumps('Cookie: sid=a1b2c3d4e5"').encode()
    out = REDACTOR.json(b"[" * 3000 + inner + b"]" * 3000)
    assert out.counts == {"cookie": 1}
    json.loads(out.value[3000:-3000])


def test_a_private_key_with_escaped_line_breaks_is_one_marker() -> None:
    block = pem(seeded(23)).text
    out = REDACTOR.json(json.dumps({"type": "service_account", "data": block}).encode())
    assert json.loads(out.value)["data"].startswith("[redacted:private-key:")
    assert out.counts == {"private-key": 1}


def test_json_within_json_is_redacted_by_its_names_at_any_usual_depth() -> None:
    inner = json.dumps({"password": "hunter", "note": 'é \\ " \n'}, ensure_ascii=False)
    for _ in range(3):
        inner = json.dumps({"arguments": inner})
        found = json.loads(REDACTOR.json(inner.encode()).value)
        while "arguments" in found:
            found = json.loads(found["arguments"])
        assert found["password"].startswith("[redacted:password:")
        assert found["note"] == 'é \\ " \n'


def test_a_header_behind_a_line_break_in_json_within_json_is_found() -> None:
    inner = "x:\nBear" + "er a1b2c3d4e5\nx"
    for _ in range(3):
        inner = json.dumps({"arguments": inner})
        assert REDACTOR.json(inner.encode()).counts == {"bearer": 1}


def test_escapes_hide_no_secret_in_json_within_json() -> None:
    inner = '{"a":"\\u0073k-live-123456789"}'
    for _ in range(3):
        inner = json.dumps({"arguments": inner})
        assert REDACTOR.json(inner.encode()).counts == {"sk-key": 1}


def test_cookies_in_a_list_of_headers_are_redacted() -> None:
    out = REDACTOR.json(b'{"headers":{"Cookie":"sid=abc; theme=dark","Cookie-Policy":"none"}}')
    assert out.counts == {"cookie": 1}
    assert b"abc" not in out.value


def test_names_of_members_are_searched_too() -> None:
    out = REDACTOR.json(json.dumps({SECRET: 1}).encode())
    assert out.value.startswith(b'{"[redacted:sk-key:')


@pytest.mark.parametrize(
    "raw",
    [
        b"no json, but " + SECRET.encode(),
        b'{"a": "' + SECRET.encode(),
        b"\xef\xbb\xbf" + json.dumps({"a": SECRET}).encode(),
        b"\xff\xfe " + SECRET.encode() + b" \xc3",
        b'{"a":1}\n{"a":"' + SECRET.encode() + b'"}\n',
        b'{"a": password="' + SECRET.encode() + b'"}',
        b"[" * 100_000 + b'"' + SECRET.encode() + b'"' + b"]" * 100_000,
    ],
    ids=["text", "cut", "bom", "bytes", "lines", "broken", "deep"],
)
def test_what_is_not_quite_json_is_redacted_all_the_same(raw: bytes) -> None:
    out = REDACTOR.json(raw)
    before, _, after = raw.partition(SECRET.encode())
    assert out.value.startswith(before + b"[redacted:")
    assert out.value.endswith(b"]" + after)


@pytest.mark.parametrize("raw", [b"[" * 100_000, b'{"a":' * 100_000, b'["', b'"\\', b"\\u00", b""])
def test_nothing_is_too_deep_or_too_broken(raw: bytes) -> None:
    assert REDACTOR.json(raw).value is raw


def test_a_body_without_secrets_is_the_same_object() -> None:
    body = {"max_tokens": 4096, "messages": [{"role": "user", "content": 'a "token"\nfor é'}]}
    raw = json.dumps(body).encode()
    assert REDACTOR.json(raw).value is raw


def test_image_data_as_a_whole_value_stays() -> None:
    noise = some(seeded(24), ALNUM + "+/", 200_000)
    raw = json.dumps({"url": f"data:image/png;base64,{noise}", "data": noise}).encode()
    assert REDACTOR.json(raw).value is raw


def test_a_known_secret_within_base64_is_found() -> None:
    redactor = Redactor(key=b"test", known=[Secret("correct-horse")])
    out = redactor.json(b'{"note":"dXNlcjpjb3JyZWN0LWhvcnNl"}')
    assert out.counts == {"known": 1}
    assert b"Y29ycmVj" not in out.value
    assert b"jb3JyZWN0LWhvcnNl" not in out.value
