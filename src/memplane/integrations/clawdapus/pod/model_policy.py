"""Which models an agent of a pod may use, as its `metadata.json` says. Pure."""

from __future__ import annotations

import msgspec


class AllowedModel(msgspec.Struct, frozen=True):
    """A model that an agent may use, and what for."""

    slot: str = ""
    ref: str = ""


class ModelPolicy(msgspec.Struct, frozen=True):
    """What an agent may use. Whatever else it asks for, it gets the primary model.

    There is one mode, `clamp`. A mode that is not known is read as that: too strict is seen, and
    too loose is not.
    """

    mode: str = ""
    allowed: tuple[AllowedModel, ...] = ()
