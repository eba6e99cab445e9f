"""What an agent may ask for with a key that is memplane's (pure).

With a key of its own an agent asks its provider for anything. With the operator's it takes turns,
which are recorded, and asks for what a model does at once and a policy can check. It gets at
nothing that lies at the provider under that key: files, batches, stored answers, other keys.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from http import HTTPStatus
from typing import Final

from memplane.exchange.dialect_registry import DIALECTS
from memplane.exchange.url_paths import canonical_path
from memplane.proxy.route_selection import RequestRefusal

_MAX_SHOWN_CHARS: Final = 100


class ManagedKeyUse(Enum):
    """What a request wants of a provider."""

    TURN = "a turn"
    BESIDE_A_TURN = "something about a turn; its model is chosen as that turn's would be"
    AT_ONCE = "one answer of a model that the agent may use; nothing is kept of it"
    MODELS = "which models there are"


_TURN_PATHS: Final = frozenset(one.path for one in DIALECTS)
_TURN_RELATED_PATHS: Final = frozenset(
    {"/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/responses/compact"}
)
_STATELESS_PATHS: Final = frozenset(
    {
        "/v1/embeddings",
        "/v1/images/generations",
        "/v1/audio/speech",
        "/v1/moderations",
        "/v1/rerank",
    }
)
_MODELS_PATH: Final = "/v1/models"
_MODEL_MEMBERS: Final = frozenset({"model", "models", "fallbacks"})
"""Members in which providers and gateways are told whom to ask, some in any letter case."""
_SERVED_ENDPOINTS: Final = ", ".join(
    (
        *(f"POST {one}" for one in sorted(_TURN_PATHS | _TURN_RELATED_PATHS | _STATELESS_PATHS)),
        f"GET {_MODELS_PATH}",
    )
)


def classify_use(method: str, path: str) -> ManagedKeyUse | RequestRefusal:
    """Say what a request is for, by its path as it was sent; refuse it where our key is not.

    Only one spelling of a path is taken: a provider may read another one as it likes, and what
    it reads must be what was checked here.
    """
    spelled = canonical_path(path)
    if spelled != path:
        return RequestRefusal(
            HTTPStatus.BAD_REQUEST,
            f"with a key of memplane's a path has one spelling: ask for {_format_path(spelled)}",
        )
    if method in {"GET", "HEAD"} and f"{path}/".startswith(f"{_MODELS_PATH}/"):
        return ManagedKeyUse.MODELS
    if method == "POST":
        for paths, use in (
            (_TURN_PATHS, ManagedKeyUse.TURN),
            (_TURN_RELATED_PATHS, ManagedKeyUse.BESIDE_A_TURN),
            (_STATELESS_PATHS, ManagedKeyUse.AT_ONCE),
        ):
            if path in paths:
                return use
    return RequestRefusal(
        HTTPStatus.FORBIDDEN,
        f"{method} {_format_path(path)} is not served with a key of memplane's, which "
        f"serves {_SERVED_ENDPOINTS}. "
        "For anything else an agent brings a provider's key of its own, and no token",
    )


def refuse_model_override(members: Collection[str]) -> RequestRefusal | None:
    """Refuse a request that lets its provider choose among models, which no policy has seen."""
    named = [one for one in members if one != "model" and one.lower() in _MODEL_MEMBERS]
    if not named:
        return None
    return RequestRefusal(
        HTTPStatus.FORBIDDEN,
        f"this agent's models are chosen by its policy: leave {named[0]!r} out of the request, "
        "and let the operator name fallbacks in the policy",
    )


def _format_path(path: str) -> str:
    return ascii(path[:_MAX_SHOWN_CHARS])[1:-1]
