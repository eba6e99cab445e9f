"""Where a request goes (pure).

The address is always a configured one with the request's path and query after it. A path that a
server could read as leading out of there is refused, and nothing else in a request has a say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import msgspec

from memplane.exchange.dialect import ApiFamily
from memplane.exchange.url_paths import canonical_path
from memplane.integrations.clawdapus.pod.model_policy import ModelPolicy
from memplane.proxy.address_policy import check_base_url
from memplane.proxy.headers import Header
from memplane.proxy.provider import AuthScheme, Provider, UpstreamCandidate

OPENAI_UPSTREAM: Final = "https://api.openai.com/v1"
ANTHROPIC_UPSTREAM: Final = "https://api.anthropic.com/v1"

_VERSION_PATH: Final = "/v1"
_ANTHROPIC: Final[ApiFamily] = "anthropic"
_OPENAI: Final[ApiFamily] = "openai"
_BRIDGE_PROVIDER: Final = "openrouter"
_PRIMARY: Final = "primary"
_FALLBACK: Final = "fallback"
_ANTHROPIC_PATHS: Final = ("/v1/messages", "/v1/complete")
_ANTHROPIC_HEADER: Final = b"anthropic-version"
_BAD_REQUEST: Final = 400
_FORBIDDEN: Final = 403
_BAD_GATEWAY: Final = 502
_REMEDY: Final = (
    "Whoever runs memplane names providers in providers.json, or gives it a key as "
    "OPENAI_API_KEY; a model is asked for as <provider>/<model>"
)
_MAX_SHOWN_CHARS: Final = 100
_MAX_PERCENT_DECODINGS: Final = 8
# What cannot stand in a request's first line, and the mark of a fragment; the rest is kept.
_UNSENDABLE_CHARS: Final = re.compile(r"[^!-~]|#")


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """What a request names: its path and query as they were sent, and its headers."""

    path: str
    query: str
    headers: Sequence[Header] = field(default=(), repr=False)


class UpstreamRoute(msgspec.Struct, frozen=True):
    """Whom to ask, one after the other until somebody answers.

    It is `clamped` where the agent may not use what it asked for, and gets something else.
    """

    candidates: tuple[UpstreamCandidate, ...]
    clamped: bool = False


class RequestRefusal(msgspec.Struct, frozen=True):
    """Why nobody is asked."""

    status: int
    text: str


class Upstreams(msgspec.Struct, frozen=True):
    """Where requests go that bring their own key; `upstreams` checks what an operator wrote."""

    openai: str = OPENAI_UPSTREAM
    anthropic: str = ANTHROPIC_UPSTREAM


def parse_upstreams(openai: str = "", anthropic: str = "", *, own_port: int = 0) -> Upstreams:
    """Check the upstreams that an operator wrote; an empty one is the vendor's own.

    Raises:
        SettingsError: One of them is no address, or one that is never asked.
    """

    def checked(written: str, what: str) -> str:
        return add_version_path(check_base_url(written, what, own_port=own_port))

    return Upstreams(
        checked(openai or OPENAI_UPSTREAM, "the OpenAI upstream"),
        checked(anthropic or ANTHROPIC_UPSTREAM, "the Anthropic upstream"),
    )


def add_version_path(base: str) -> str:
    """Add `/v1` to an address that has no path at all, as people write them."""
    return base if urlsplit(base).path else base + _VERSION_PATH


def choose_passthrough(
    path: str, query: str, headers: Sequence[Header], upstreams: Upstreams
) -> UpstreamCandidate | RequestRefusal:
    """Choose the upstream of a request that brings its own key.

    Args:
        path: As it was sent, with its percent signs.
        query: As it was sent, without its question mark.
        headers: As they were sent.
        upstreams: Where requests may go.
    """
    family = detect_family(path, headers)
    base = upstreams.anthropic if family == _ANTHROPIC else upstreams.openai
    url = _build_url(base, path, query)
    return url if isinstance(url, RequestRefusal) else UpstreamCandidate(family, "", url)


def detect_family(path: str, headers: Sequence[Header]) -> ApiFamily:
    """Say whose API a request speaks, by its path or by a header that only one vendor has."""
    named = f"{canonical_path(path).lower()}/"
    below = any(named.startswith(f"{one}/") for one in _ANTHROPIC_PATHS)
    is_anthropic = below or any(name.lower() == _ANTHROPIC_HEADER for name, _ in headers)
    return _ANTHROPIC if is_anthropic else _OPENAI


def choose_route(
    model: str,
    *,
    family: ApiFamily,
    path: str,
    query: str,
    providers: Mapping[str, Provider],
    policy: ModelPolicy | None = None,
    clamps: bool = True,
) -> UpstreamRoute | RequestRefusal:
    """Choose the providers of a request whose keys are ours.

    Args:
        model: What the request asks for, `<provider>/<model>` or the model alone.
        family: Of the dialect.
        path: As it was sent, with its percent signs.
        query: As it was sent, without its question mark.
        providers: By their names.
        policy: What the agent may use; None is anything.
        clamps: Something else is asked where the agent may not use this model; else it is
            refused, as where another kind of model would make no sense.
    """
    wanted = _choose_models(model.strip(), policy, clamps=clamps)
    if isinstance(wanted, RequestRefusal):
        return wanted
    found: list[UpstreamCandidate] = []
    for ref in dict.fromkeys(wanted):
        candidate = _choose_candidate(ref, family, RequestTarget(path, query), providers)
        if isinstance(candidate, UpstreamCandidate):
            found.append(candidate)
        elif not found:
            # Only a fallback may be missing.
            return candidate
    return UpstreamRoute(tuple(found), clamped=policy is not None and _is_clamped(model, policy))


def _choose_models(
    model: str, policy: ModelPolicy | None, *, clamps: bool
) -> Sequence[str] | RequestRefusal:
    """Say which models to try, in order."""
    if policy is None:
        return [model] if model else RequestRefusal(_BAD_REQUEST, "missing model")
    if not policy.allowed:
        return RequestRefusal(_BAD_GATEWAY, "this agent's model policy allows no model")
    refs = [one.ref for one in policy.allowed]
    allowed = _allowed_ref(model, refs)
    if not clamps:
        return [allowed] if allowed else _refuse_model(model, refs)
    primary = next((one.ref for one in policy.allowed if one.slot == _PRIMARY), refs[0])
    chosen = allowed or primary
    return [chosen, *(one.ref for one in policy.allowed if one.slot.startswith(_FALLBACK))]


def _refuse_model(model: str, refs: Sequence[str]) -> RequestRefusal:
    if not model:
        return RequestRefusal(_BAD_REQUEST, "missing model")
    return RequestRefusal(
        _FORBIDDEN,
        f"this agent's model policy does not allow {_format_sent_text(model)}, only "
        f"{', '.join(refs)}",
    )


def _is_clamped(model: str, policy: ModelPolicy) -> bool:
    name = model.strip()
    return bool(name) and _allowed_ref(name, [one.ref for one in policy.allowed]) is None


def _allowed_ref(model: str, refs: Sequence[str]) -> str | None:
    """Find what was asked for among what is allowed; a name alone must mean one of them only."""
    if model in refs:
        return model
    alike = [ref for ref in refs if model in _short_names(ref)]
    return alike[0] if len(alike) == 1 else None


def _short_names(ref: str) -> Iterator[str]:
    _, slash, name = ref.partition("/")
    if slash:
        yield name
        yield name.rpartition("/")[2]


def choose_default_provider(
    family: ApiFamily, target: RequestTarget, providers: Mapping[str, Provider]
) -> UpstreamCandidate | RequestRefusal:
    """Choose the provider of a request that names no model, such as one for the list of them."""
    bridge = providers.get(_BRIDGE_PROVIDER) if family == _OPENAI else None
    provider = providers.get(family) or bridge
    if provider is None:
        return RequestRefusal(_BAD_GATEWAY, f"no provider {family} is configured. {_REMEDY}")
    return _make_candidate(provider, "", target)


def _choose_candidate(
    ref: str, family: ApiFamily, target: RequestTarget, providers: Mapping[str, Provider]
) -> UpstreamCandidate | RequestRefusal:
    named = _find_provider(ref, family, providers)
    return named if isinstance(named, RequestRefusal) else _make_candidate(*named, target)


def _make_candidate(
    provider: Provider, model: str, target: RequestTarget
) -> UpstreamCandidate | RequestRefusal:
    if not provider.usable:
        return RequestRefusal(
            _BAD_GATEWAY, f"the provider {provider.name} has no key that can be used"
        )
    url = _build_url(provider.base_url, target.path, target.query)
    if isinstance(url, RequestRefusal):
        return url
    key = None if provider.auth is AuthScheme.NONE else provider.key
    return UpstreamCandidate(provider.name, model, url, key, provider.auth)


def _find_provider(
    ref: str, family: ApiFamily, providers: Mapping[str, Provider]
) -> tuple[Provider, str] | RequestRefusal:
    """Find the provider of a model and the provider's own name for it."""
    prefix, slash, rest = ref.partition("/")
    known = providers.get(prefix.strip().lower()) if slash else None
    if slash and not (prefix.strip() and rest.strip()):
        return _refuse_unknown_provider(ref)
    if family == _ANTHROPIC:
        return _find_anthropic_provider(ref, known, providers.get(_ANTHROPIC))
    if not slash:
        known, rest = providers.get(_OPENAI), ref
    if known is not None:
        return known, rest
    # The bridge knows models by the names of their makers.
    bridge = providers.get(_BRIDGE_PROVIDER)
    return (
        (bridge, ref if slash else f"{_OPENAI}/{ref}")
        if bridge is not None
        else _refuse_unknown_provider(ref)
    )


def _find_anthropic_provider(
    ref: str, known: Provider | None, own: Provider | None
) -> tuple[Provider, str] | RequestRefusal:
    if known is not None:
        speaks = known is own or known.format == _ANTHROPIC
        return (known, ref.partition("/")[2]) if speaks else _refuse_dialect(ref, known)
    return (own, ref) if own is not None else _refuse_unknown_provider(ref)


def _refuse_unknown_provider(ref: str) -> RequestRefusal:
    return RequestRefusal(
        _BAD_GATEWAY,
        f"no provider is configured for the model {_format_sent_text(ref)}. {_REMEDY}",
    )


def _refuse_dialect(ref: str, provider: Provider) -> RequestRefusal:
    return RequestRefusal(
        _BAD_GATEWAY,
        f"the model {_format_sent_text(ref)} is of the provider {provider.name}, which does "
        "not speak "
        "Anthropic's Messages: ask for it at /v1/chat/completions, or for a model of a provider "
        "whose api_format is anthropic",
    )


def _build_url(base: str, path: str, query: str) -> str | RequestRefusal:
    """Put an address together that nobody can read as any other place than one below `base`."""
    if not path.startswith("/") or _leads_upwards(path):
        return RequestRefusal(_BAD_REQUEST, "that path is not passed on")
    below = (
        path.removeprefix(_VERSION_PATH) if f"{path}/".startswith(f"{_VERSION_PATH}/") else path
    )
    # A question mark in a path was sent percent-encoded, or it would not be in the path.
    tail = f"?{_quote_unsendable(query)}" if query else ""
    return f"{base}{_quote_unsendable(below).replace('?', '%3F')}{tail}"


def _leads_upwards(path: str) -> bool:
    """Say whether a server could read a path as leading upwards, however it is encoded."""
    for _ in range(_MAX_PERCENT_DECODINGS):
        if "\\" in path or "\0" in path:
            return True
        segments = (one.partition(";")[0].strip() for one in path.split("/"))
        if not {".", ".."}.isdisjoint(segments):
            return True
        decoded = unquote(path)
        if decoded == path:
            return False
        path = decoded
    return True


def _quote_unsendable(text: str) -> str:
    return _UNSENDABLE_CHARS.sub(
        lambda found: quote(found[0], safe="", errors="surrogatepass"), text
    )


def _format_sent_text(text: str) -> str:
    """Show what somebody sent on one line, and not more than a little of it."""
    return ascii(text[:_MAX_SHOWN_CHARS])
