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

from memplane.proxy.dialects.table import DIALECTS
from memplane.proxy.paths import plain
from memplane.proxy.routing import Refused

_LONGEST_SHOWN: Final = 100


class Use(Enum):
    """What a request wants of a provider."""

    TURN = "a turn"
    BESIDE_A_TURN = "something about a turn; its model is chosen as that turn's would be"
    AT_ONCE = "one answer of a model that the agent may use; nothing is kept of it"
    MODELS = "which models there are"


_TURNS: Final = frozenset(one.path for one in DIALECTS)
_BESIDE_TURNS: Final = frozenset(
    {"/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/responses/compact"}
)
_AT_ONCE: Final = frozenset(
    {
        "/v1/embeddings",
        "/v1/images/generations",
        "/v1/audio/speech",
        "/v1/moderations",
        "/v1/rerank",
    }
)
_MODELS: Final = "/v1/models"
_MODELS_NAMED: Final = frozenset({"model", "models", "fallbacks"})
"""Members in which providers and gateways are told whom to ask, some in any letter case."""
_SERVED: Final = ", ".join(
    (*(f"POST {one}" for one in sorted(_TURNS | _BESIDE_TURNS | _AT_ONCE)), f"GET {_MODELS}")
)


def use_of(method: str, path: str) -> Use | Refused:
    """Say what a request is for, by its path as it was sent; refuse it where our key is not.

    Only one spelling of a path is taken: a provider may read another one as it likes, and what
    it reads must be what was checked here.
    """
    spelled = plain(path)
    if spelled != path:
        return Refused(
            HTTPStatus.BAD_REQUEST,
            f"with a key of memplane's a path has one spelling: ask for {_shown(spelled)}",
        )
    if method in {"GET", "HEAD"} and f"{path}/".startswith(f"{_MODELS}/"):
        return Use.MODELS
    if method == "POST":
        for paths, use in (
            (_TURNS, Use.TURN),
            (_BESIDE_TURNS, Use.BESIDE_A_TURN),
            (_AT_ONCE, Use.AT_ONCE),
        ):
            if path in paths:
                return use
    return Refused(
        HTTPStatus.FORBIDDEN,
        f"{method} {_shown(path)} is not served with a key of memplane's, which serves {_SERVED}. "
        "For anything else an agent brings a provider's key of its own, and no token",
    )


def names_other_models(members: Collection[str]) -> Refused | None:
    """Refuse a request that lets its provider choose among models, which no policy has seen."""
    named = [one for one in members if one != "model" and one.lower() in _MODELS_NAMED]
    if not named:
        return None
    return Refused(
        HTTPStatus.FORBIDDEN,
        f"this agent's models are chosen by its policy: leave {named[0]!r} out of the request, "
        "and let the operator name fallbacks in the policy",
    )


def _shown(path: str) -> str:
    return ascii(path[:_LONGEST_SHOWN])[1:-1]
