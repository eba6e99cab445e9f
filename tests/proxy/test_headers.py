"""Which headers go on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.proxy.headers import (
    Header,
    managed_key_headers,
    passthrough_headers,
    response_headers,
)
from memplane.proxy.provider import AuthScheme, UpstreamCandidate
from memplane.secret import Secret

IDENTITY = (b"accept-encoding", b"identity")
JSON = (b"content-type", b"application/json")
BEARER = UpstreamCandidate("openai", "m", "http://a/v1", Secret("sk-ours"), AuthScheme.BEARER)
X_API_KEY = UpstreamCandidate(
    "anthropic", "m", "http://a/v1", Secret("sk-ours"), AuthScheme.X_API_KEY
)
KEYLESS = UpstreamCandidate("ollama", "m", "http://a/v1", None, AuthScheme.NONE)

CREDENTIALS: list[Header] = [
    (b"Authorization", b"Bearer agent:hunter2"),
    (b"X-Api-Key", b"agent:hunter2"),
    (b"Api-Key", b"agent:hunter2"),
    (b"x-goog-api-key", b"agent:hunter2"),
]
KEPT: list[Header] = [
    (b"User-Agent", b"claude-cli/2.1.197"),
    (b"anthropic-beta", b"a"),
    (b"Anthropic-Beta", b"b"),
    (b"X-Claude-Code-Session-Id", b"1"),
    (b"X-Stainless-Retry-Count", b"0"),
    (b"Origin", b"http://127.0.0.1:1"),
    (b"Referer", b"http://127.0.0.1:1/"),
    (b"Range", b"bytes=0-1"),
    (b"X-Unknown", b"\xff\xfe"),
]
LEFT: list[Header] = [
    (b"Host", b"127.0.0.1:6367"),
    (b"Connection", b"keep-alive, X-Hop ,x-other"),
    (b"X-Hop", b"1"),
    (b"X-OTHER", b"1"),
    (b"Keep-Alive", b"timeout=5"),
    (b"Proxy-Connection", b"keep-alive"),
    (b"Proxy-Authorization", b"Basic hunter2"),
    (b"Proxy-Anything", b"1"),
    (b"TE", b"trailers"),
    (b"Trailer", b"x"),
    (b"Transfer-Encoding", b"chunked"),
    (b"Upgrade", b"h2c"),
    (b"HTTP2-Settings", b"x"),
    (b"Cookie", b"session=hunter2"),
    (b"Accept-Encoding", b"gzip, br"),
    (b"Content-Length", b"12"),
    (b"Expect", b"100-continue"),
    (b"X-Claw-Agent", b"a"),
    (b"x-memplane-memory", b"off"),
]


def test_a_client_with_its_own_key_keeps_it() -> None:
    typed = (b"Content-Type", b"multipart/form-data; boundary=x")
    given = [*LEFT[:4], *CREDENTIALS, *KEPT, typed, *LEFT[4:]]
    assert passthrough_headers(given) == [*CREDENTIALS, *KEPT, typed, IDENTITY]


def test_an_agents_credentials_are_replaced() -> None:
    given = [*CREDENTIALS, *LEFT, *KEPT, (b"Content-Type", b"text/plain")]
    expected = [*KEPT, JSON, IDENTITY]
    assert managed_key_headers(given, BEARER) == [*expected, (b"authorization", b"Bearer sk-ours")]
    assert managed_key_headers(given, X_API_KEY) == [*expected, (b"x-api-key", b"sk-ours")]
    assert managed_key_headers(given, KEYLESS) == expected


def test_a_body_that_is_not_json_may_keep_its_type() -> None:
    typed = (b"Content-Type", b"multipart/form-data; boundary=x")
    assert managed_key_headers([typed], KEYLESS, content_type=None) == [typed, IDENTITY]


def test_an_agents_secret_stays_here_whatever_its_header_is_called() -> None:
    given = [(b"X-My-Auth", b"token agent:hunter2;"), (b"X-A", b"1")]
    found = managed_key_headers(given, KEYLESS, secrets=[Secret("hunter2"), Secret("")])
    assert found == [(b"X-A", b"1"), JSON, IDENTITY]


def test_the_encoding_of_a_body_that_was_decoded_is_not_told() -> None:
    given = [(b"Content-Encoding", b"zstd")]
    assert passthrough_headers(given) == [*given, IDENTITY]
    assert passthrough_headers(given, decoded=True) == [IDENTITY]
    assert managed_key_headers(given, KEYLESS, decoded=True) == [JSON, IDENTITY]


def test_an_answer_keeps_its_headers_and_their_order() -> None:
    given: list[Header] = [
        (b"Content-Type", b"text/event-stream"),
        (b"request-id", b"req_1"),
        (b"Retry-After", b"7"),
        (b"X-Twice", b"1"),
        (b"content-encoding", b"br"),
        (b"x-twice", b"2"),
        (b"Content-Length", b"5"),
    ]
    assert response_headers(given) == given
    assert response_headers(given, unchanged=False) == given[:-1]


def test_what_is_said_between_neighbours_or_of_another_address_stays() -> None:
    given: list[Header] = [
        (b"Connection", b"close, x-hop"),
        (b"X-Hop", b"1"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Upgrade", b"h2"),
        (b"Set-Cookie", b"a=b"),
        (b"set-cookie", b"c=d"),
        (b"Alt-Svc", b'h3=":443"'),
        (b"Strict-Transport-Security", b"max-age=1"),
        (b"Clear-Site-Data", b"*"),
        (b"Access-Control-Allow-Origin", b"*"),
        (b"X-A", b"1"),
    ]
    assert response_headers(given) == [(b"X-A", b"1")]


def test_of_a_chunked_answer_no_length_is_told() -> None:
    given = [(b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"5"), (b"X-A", b"1")]
    assert response_headers(given) == [(b"X-A", b"1")]


def test_a_header_that_cannot_be_sent_does_not_take_the_answer_with_it() -> None:
    odd: list[Header] = [(b"X-A", b"a\x01b"), (b"X-B", b"a\x7f"), (b"X-C", b"\x00")]
    kept: list[Header] = [(b"X-D", b"a\tb"), (b"X-E", "é".encode()), (b"X-F", b"")]
    assert response_headers([*odd, *kept]) == kept


_NAMES = st.sampled_from([name for name, _ in [*CREDENTIALS, *KEPT, *LEFT]])
_SPELLED = _NAMES.flatmap(lambda name: st.sampled_from([name, name.lower(), name.upper()]))
_HEADERS = st.lists(st.tuples(_SPELLED, st.sampled_from([b"hunter2", b"x-api-key, te", b"1"])))


@given(_HEADERS, st.sampled_from([BEARER, X_API_KEY, KEYLESS]))
def test_no_credential_of_an_agent_reaches_a_provider(
    given: list[Header], candidate: UpstreamCandidate
) -> None:
    found = managed_key_headers(given, candidate, secrets=[Secret("hunter2")])
    assert b"hunter2" not in b"".join(name + value for name, value in found)
    secret = {b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"}
    ours = [value for name, value in found if name.lower() in secret]
    assert ours in ([], [b"Bearer sk-ours"], [b"sk-ours"])
    assert [one for one in found if one[0].lower() == b"accept-encoding"] == [IDENTITY]


@pytest.mark.parametrize("name", [name for name, _ in LEFT])
def test_each_is_left_out_in_both_ways(name: bytes) -> None:
    given = [(b"Connection", b"x-hop, x-other"), (name.swapcase(), b"1")]
    assert passthrough_headers(given) == [IDENTITY]
    assert managed_key_headers(given, KEYLESS) == [JSON, IDENTITY]
