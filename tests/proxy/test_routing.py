"""Where a request goes, and that nothing in it can send it elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from memplane.errors import SettingsError
from memplane.exchange.dialect import ApiFamily
from memplane.integrations.clawdapus.pod.model_policy import AllowedModel, ModelPolicy
from memplane.proxy.provider import AuthScheme, Provider, UpstreamCandidate
from memplane.proxy.route_selection import (
    RequestRefusal,
    UpstreamRoute,
    Upstreams,
    add_version_path,
    choose_passthrough,
    choose_route,
    parse_upstreams,
)
from memplane.secret import Secret

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
OPENAI = Provider("openai", "https://api.openai.com/v1", Secret("o"))
ANTHROPIC = Provider(
    "anthropic", "https://api.anthropic.com/v1", Secret("a"), AuthScheme.X_API_KEY, "anthropic"
)
OPENROUTER = Provider("openrouter", "https://openrouter.ai/api/v1", Secret("r"))
OLLAMA = Provider("ollama", "http://ollama:11434/v1", None, AuthScheme.NONE)
CLAUDES = Provider("claudes", "http://10.0.0.7", Secret("c"), AuthScheme.X_API_KEY, "anthropic")
EMPTY = Provider("empty", "http://10.0.0.8")
ALL = MappingProxyType(
    {one.name: one for one in (OPENAI, ANTHROPIC, OPENROUTER, OLLAMA, CLAUDES, EMPTY)}
)


def only(*providers: Provider) -> dict[str, Provider]:
    return {one.name: one for one in providers}


def routed(
    model: str,
    family: ApiFamily = "openai",
    providers: Mapping[str, Provider] = ALL,
    policy: ModelPolicy | None = None,
) -> UpstreamRoute | RequestRefusal:
    path = MESSAGES if family == "anthropic" else CHAT
    return choose_route(
        model, family=family, path=path, query="", providers=providers, policy=policy
    )


def refs(found: UpstreamRoute | RequestRefusal) -> list[tuple[str, str]]:
    assert isinstance(found, UpstreamRoute), found
    return [(one.provider, one.model) for one in found.candidates]


# Governed


@pytest.mark.parametrize(
    ("model", "family", "provider", "name"),
    [
        ("openai/gpt-4o", "openai", "openai", "gpt-4o"),
        (" openai/gpt-4o ", "openai", "openai", "gpt-4o"),
        ("OpenAI/gpt-4o", "openai", "openai", "gpt-4o"),
        ("gpt-4o", "openai", "openai", "gpt-4o"),
        ("openrouter/openai/gpt-4o", "openai", "openrouter", "openai/gpt-4o"),
        ("ollama/qwen3:8b", "openai", "ollama", "qwen3:8b"),
        ("anthropic/claude-x", "openai", "anthropic", "claude-x"),
        ("mistral/large", "openai", "openrouter", "mistral/large"),
        ("mistral/large/2", "openai", "openrouter", "mistral/large/2"),
        ("claude-x", "anthropic", "anthropic", "claude-x"),
        ("anthropic/claude-x", "anthropic", "anthropic", "claude-x"),
        ("claudes/claude-x", "anthropic", "claudes", "claude-x"),
        ("mystery/claude-x", "anthropic", "anthropic", "mystery/claude-x"),
    ],
)
def test_a_model_goes_to_its_provider(
    model: str, family: ApiFamily, provider: str, name: str
) -> None:
    assert refs(routed(model, family)) == [(provider, name)]


def test_a_name_alone_is_bridged_under_its_makers_name() -> None:
    assert refs(routed("gpt-4o", providers=only(OPENROUTER))) == [("openrouter", "openai/gpt-4o")]


@pytest.mark.parametrize(
    ("model", "family", "providers", "status"),
    [
        ("", "openai", ALL, 400),
        ("  ", "anthropic", ALL, 400),
        ("mistral/large", "openai", only(OPENAI, ANTHROPIC), 502),
        ("gpt-4o", "openai", only(ANTHROPIC), 502),
        ("claude-x", "anthropic", only(OPENAI, OPENROUTER), 502),
        ("openai/gpt-4o", "anthropic", ALL, 502),
        ("/gpt-4o", "openai", ALL, 502),
        ("openai/", "openai", ALL, 502),
        ("/", "anthropic", ALL, 502),
        ("empty/x", "openai", ALL, 502),
    ],
)
def test_a_model_that_goes_nowhere_is_refused(
    model: str, family: ApiFamily, providers: Mapping[str, Provider], status: int
) -> None:
    found = routed(model, family, providers)
    assert isinstance(found, RequestRefusal)
    assert found.status == status


def test_a_provider_that_speaks_another_dialect_is_not_said_to_be_missing() -> None:
    found = routed("openai/gpt-4o", "anthropic", ALL)
    assert found == RequestRefusal(
        502,
        "the model 'openai/gpt-4o' is of the provider openai, which does not speak Anthropic's "
        "Messages: ask for it at /v1/chat/completions, or for a model of a provider whose "
        "api_format is anthropic",
    )


def test_a_refusal_shows_little_of_what_was_sent_and_on_one_line() -> None:
    found = routed("a\r\nb/" + "x" * 10_000, providers=only(OPENAI))
    assert isinstance(found, RequestRefusal)
    assert found.text.isprintable()
    assert found.text.count("x" * 50) == 1


def test_the_address_is_the_providers_with_path_and_query() -> None:
    query = "beta=true&q=%zz%2F+a&x=b%20c?d"
    found = choose_route("gpt-4o", family="openai", path=CHAT, query=query, providers=ALL)
    url = f"https://api.openai.com/v1/chat/completions?{query}"
    assert found == UpstreamRoute(
        (UpstreamCandidate("openai", "gpt-4o", url, Secret("o"), AuthScheme.BEARER),)
    )
    found = choose_route(
        "ollama/q", family="openai", path="/v1/responses", query="", providers=ALL
    )
    assert found == UpstreamRoute(
        (UpstreamCandidate("ollama", "q", "http://ollama:11434/v1/responses"),)
    )
    # What a file says is used as it is, also without a path.
    found = choose_route("claudes/x", family="anthropic", path=MESSAGES, query="", providers=ALL)
    assert isinstance(found, UpstreamRoute)
    assert found.candidates[0].url == "http://10.0.0.7/messages"


def policy(*allowed: tuple[str, str], mode: str = "clamp") -> ModelPolicy:
    return ModelPolicy(mode, tuple(AllowedModel(slot, ref) for slot, ref in allowed))


CLAMP = policy(
    ("primary", "openai/gpt-4o"),
    ("fallback", "openrouter/openai/gpt-4o-mini"),
    ("fallback2", "ollama/qwen3"),
    ("vision", "openai/gpt-4o-vision"),
)
AFTER = [("openrouter", "openai/gpt-4o-mini"), ("ollama", "qwen3")]


@pytest.mark.parametrize(
    ("model", "first"),
    [
        ("openai/gpt-4o", ("openai", "gpt-4o")),
        ("openai/gpt-4o-vision", ("openai", "gpt-4o-vision")),
        ("gpt-4o-vision", ("openai", "gpt-4o-vision")),
        # What is not allowed becomes the primary, and so does nothing at all.
        ("openai/gpt-5", ("openai", "gpt-4o")),
        ("gpt-5", ("openai", "gpt-4o")),
        ("mystery/x", ("openai", "gpt-4o")),
        ("", ("openai", "gpt-4o")),
        ("/", ("openai", "gpt-4o")),
    ],
)
def test_a_policy_clamps_and_has_fallbacks(model: str, first: tuple[str, str]) -> None:
    assert refs(routed(model, policy=CLAMP)) == [first, *AFTER]


@pytest.mark.parametrize(
    ("model", "clamped"), [("openai/gpt-4o", False), ("gpt-4o-vision", False), ("gpt-5", True)]
)
def test_it_is_said_that_a_model_was_clamped(model: str, *, clamped: bool) -> None:
    found, free = routed(model, policy=CLAMP), routed(model)
    assert isinstance(found, UpstreamRoute)
    assert isinstance(free, UpstreamRoute)
    assert (found.clamped, free.clamped) == (clamped, False)


def test_a_fallback_that_is_chosen_comes_once() -> None:
    assert refs(routed("ollama/qwen3", policy=CLAMP)) == [AFTER[1], AFTER[0]]
    assert refs(routed("gpt-4o-mini", policy=CLAMP)) == AFTER


def test_a_name_that_may_mean_two_models_means_neither() -> None:
    both = policy(("a", "openai/x"), ("b", "ollama/x"), ("primary", "openai/gpt-4o"))
    assert refs(routed("x", policy=both)) == [("openai", "gpt-4o")]


def test_without_a_primary_the_first_is_it() -> None:
    assert refs(routed("z", policy=policy(("a", "ollama/a"), ("b", "ollama/b")))) == [
        ("ollama", "a")
    ]


@pytest.mark.parametrize("mode", ["clamp", "", "something new"])
def test_no_mode_is_looser_than_clamp(mode: str) -> None:
    found = routed("openai/gpt-5", policy=policy(("primary", "ollama/a"), mode=mode))
    assert refs(found) == [("ollama", "a")]


def test_a_policy_that_allows_nothing_refuses() -> None:
    found = routed("openai/gpt-5", policy=policy())
    assert isinstance(found, RequestRefusal)
    assert found.status == 502


def test_only_a_fallback_may_be_missing() -> None:
    given = policy(("primary", "openai/gpt-4o"), ("fallback", "mistral/x"))
    assert refs(routed("gpt-4o", providers=only(OPENAI), policy=given)) == [("openai", "gpt-4o")]
    given = policy(("primary", "mistral/x"), ("fallback", "openai/gpt-4o"))
    assert isinstance(routed("x", providers=only(OPENAI), policy=given), RequestRefusal)


# Passed through


@pytest.mark.parametrize(
    ("path", "headers", "url"),
    [
        ("/v1/messages", [], "https://api.anthropic.com/v1/messages"),
        ("/v1/messages/count_tokens", [], "https://api.anthropic.com/v1/messages/count_tokens"),
        ("/v1/complete", [], "https://api.anthropic.com/v1/complete"),
        ("/v1/completions", [], "https://api.openai.com/v1/completions"),
        ("/v1/messagesx", [], "https://api.openai.com/v1/messagesx"),
        ("/v1/models", [], "https://api.openai.com/v1/models"),
        (
            "/v1/models",
            [(b"Anthropic-Version", b"2023-06-01")],
            "https://api.anthropic.com/v1/models",
        ),
        ("/v1", [], "https://api.openai.com/v1"),
        ("/v1/", [], "https://api.openai.com/v1/"),
        ("/v1beta/x", [], "https://api.openai.com/v1/v1beta/x"),
        ("/models", [], "https://api.openai.com/v1/models"),
        ("/v1/files/a%2Fb%20c", [], "https://api.openai.com/v1/files/a%2Fb%20c"),
        ("/v1/models/ft:gpt-4o:x@1", [], "https://api.openai.com/v1/models/ft:gpt-4o:x@1"),
        ("/v1/a..b/...", [], "https://api.openai.com/v1/a..b/..."),
    ],
)
def test_a_path_goes_to_its_upstream(
    path: str, headers: list[tuple[bytes, bytes]], url: str
) -> None:
    found = choose_passthrough(path, "", headers, Upstreams())
    assert found == UpstreamCandidate("anthropic" if "anthropic" in url else "openai", "", url)


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("https://gateway.example", "https://gateway.example/v1"),
        ("https://gateway.example/", "https://gateway.example/v1"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/team/openai", "http://127.0.0.1:8000/team/openai"),
        ("", "https://api.openai.com/v1"),
    ],
)
def test_an_upstream_without_a_path_gets_a_version(written: str, base: str) -> None:
    found = choose_passthrough(CHAT, "a=%zz", [], parse_upstreams(written))
    assert isinstance(found, UpstreamCandidate)
    assert found.url == f"{base}/chat/completions?a=%zz"


def test_an_upstream_that_may_not_be_asked_is_no_upstream() -> None:
    for written in ("http://169.254.169.254", "file:///x", "https://a:b@c.example"):
        with pytest.raises(SettingsError, match="the Anthropic upstream"):
            parse_upstreams("", written)


def test_what_has_a_path_keeps_it() -> None:
    assert add_version_path("http://a/v2") == "http://a/v2"
    assert add_version_path("http://a") == "http://a/v1"


# Nothing leaves


BASE = "https://gateway.example:8443/team/v1"
INSIDE = Upstreams(BASE, BASE)
ESCAPES = [
    "/v1/../admin",
    "/v1/..",
    "/v1/.",
    "/v1/./x",
    "/../v1/x",
    "/..",
    "/v1/%2e%2e/x",
    "/v1/.%2E/x",
    "/v1/%2e/x",
    "/v1/%252e%252e/x",
    "/v1/%25252e%25252e/x",
    "/v1/..%2f..%2fx",
    "/v1/x%2f..%2f..",
    "/v1/..%5cx",
    "/v1/..\\x",
    "/v1\\..\\x",
    "/\\evil.example/x",
    "/v1/%5c%5cevil.example",
    "/v1/..;/x",
    "/v1/..;a=b/x",
    "/v1/%2e%2e;/x",
    "/v1/ ../x",
    "/v1/..%20/x",
    "/v1/x%00/../y",
    "/v1/%00",
    "@evil.example/x",
    "https://evil.example/v1/x",
    "evil.example",
    "*",
    "",
    ":80/x",
    "?x",
    "#x",
    f"/v1/%{'25' * 40}2e%{'25' * 40}2e/x",
]
HARMLESS = [
    "//evil.example/x",
    "///evil.example",
    "/v1//evil.example/x",
    "/v1/@evil.example/x",
    "/@evil.example",
    "/v1/x@evil.example:80/y",
    "/v1/https://evil.example/x",
    "/v1/:80",
    "/v1/x?host=evil.example",
    "/v1/x#@evil.example",
    "/v1/x%23%3f",
    "/v1/x\r\nHost: evil.example",
    "/v1/x y",
    "/v1/\u2025/\uff0e\uff0e/x",
    "/v1/%c0%ae%c0%ae/x",
    "/v1/\ud800",
]
QUERIES = [
    "",
    "a=b",
    "@evil.example/",
    "#@evil.example",
    "../..",
    "x\r\nHost: y",
    "url=http://e",
    "é",
]


def below(path: str, query: str) -> str | None:
    """Say what comes after the base, seen by two readers of addresses; None when refused."""
    found = choose_passthrough(path, query, [], INSIDE)
    if isinstance(found, RequestRefusal):
        assert found.status == 400
        return None
    assert found.url.isascii()
    assert found.url.isprintable()
    assert " " not in found.url
    base = urlsplit(BASE)
    for parts in (urlsplit(found.url), urlsplit(str(URL(found.url)))):
        assert (parts.scheme, parts.netloc) == (base.scheme, base.netloc)
        assert parts.path == base.path or parts.path.startswith(f"{base.path}/")
        assert parts.fragment == ""
    target = URL(found.url, encoded=True).raw_path_qs
    assert found.url == f"https://gateway.example:8443{target}"
    return target.removeprefix(base.path)


@pytest.mark.parametrize("path", ESCAPES)
def test_a_path_that_could_lead_out_is_refused(path: str) -> None:
    assert below(path, "") is None
    found = choose_route("gpt-4o", family="openai", path=path, query="", providers=ALL)
    assert isinstance(found, RequestRefusal)


@pytest.mark.parametrize("path", HARMLESS)
@pytest.mark.parametrize("query", QUERIES)
def test_a_path_that_looks_so_stays_inside(path: str, query: str) -> None:
    assert below(path, query) is not None


_PIECES = st.sampled_from(
    ["/", "//", ".", "..", "%2e", "%2E", "%252e", "%2f", "%5c", "\\", "@", ":", ";", "?", "#"]
) | st.sampled_from(
    [" ", "\t", "\r\n", "%", "%00", "v1", "messages", "x", "evil.example", "é", "\ud83d", "http:"]
)
_PATHS = st.lists(_PIECES, max_size=12).map("".join).map("/v1/".__add__) | st.lists(
    _PIECES, max_size=12
).map("".join)


@given(_PATHS, st.lists(_PIECES, max_size=6).map("".join) | st.text(max_size=20))
@example("/v1/a", "?")
def test_no_request_leaves_its_upstream(path: str, query: str) -> None:
    after = below(path, query)
    if after is None:
        return
    decoded = after.partition("?")[0]
    for _ in range(5):
        assert not {"..", "."} & set(decoded.replace("\\", "/").split("/"))
        decoded = unquote(decoded)


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), max_size=60))
def test_a_query_goes_on_byte_for_byte(query: str) -> None:
    if "#" in query or not query:
        return
    found = choose_passthrough("/v1/x", query, [], INSIDE)
    assert isinstance(found, UpstreamCandidate)
    assert found.url == f"{BASE}/x?{query}"
    assert URL(found.url, encoded=True).raw_path_qs == f"/team/v1/x?{query}"
