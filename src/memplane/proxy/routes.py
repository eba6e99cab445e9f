"""Where an agent's requests go, by the providers that are configured now."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from memplane.proxy.candidate import Candidate, Provider
from memplane.proxy.headers import Header
from memplane.proxy.providers import read_providers
from memplane.proxy.routing import (
    Family,
    ModelPolicy,
    Refused,
    Routed,
    Upstreams,
    passed_through,
    route,
)

_ANY_MODEL: Final = "any"


@dataclass(slots=True)
class Providers:
    """The providers of a file and of the environment; the file is read again when it changed."""

    path: Path
    environ: Mapping[str, str] = field(repr=False)
    _stamp: tuple[int, int, int] | None = None
    _read: Mapping[str, Provider] | None = field(default=None, repr=False)

    def now(self) -> Mapping[str, Provider]:
        """Return them, by their names.

        Raises:
            SettingsError: The file cannot be used.
        """
        stamp = _stamp_of(self.path)
        if self._read is None or stamp != self._stamp:
            self._read = read_providers(self.path, self.environ)
            self._stamp = stamp
        return self._read


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        there = os.stat(path)  # noqa: PTH116 - for each request
    except OSError:
        return None
    return there.st_mtime_ns, there.st_size, there.st_ino


@dataclass(frozen=True, slots=True)
class Target:
    """What a request names: its path and query as they were sent, and its headers."""

    path: str
    query: str
    headers: Sequence[Header] = field(repr=False)


class Routes(msgspec.Struct, frozen=True):
    """Chooses providers."""

    upstreams: Upstreams
    providers: Providers

    def passed(self, target: Target) -> Routed | Refused:
        """Choose for a request that brings its own key."""
        found = passed_through(target.path, target.query, target.headers, self.upstreams)
        return found if isinstance(found, Refused) else Routed((found,))

    def governed(
        self,
        target: Target,
        model: str,
        family: Family,
        policy: ModelPolicy | None,
        *,
        clamps: bool = True,
    ) -> Routed | Refused:
        """Choose for a request whose provider's key is ours; `route` says what is chosen.

        Raises:
            SettingsError: The providers' file cannot be used.
        """
        return route(
            model,
            family=family,
            path=target.path,
            query=target.query,
            providers=self.providers.now(),
            policy=policy,
            clamps=clamps,
        )

    def governed_path(self, target: Target) -> Routed | Refused:
        """Choose for a request that names no model, such as one for the list of models.

        Raises:
            SettingsError: The providers' file cannot be used.
        """
        usual = passed_through(target.path, target.query, target.headers, self.upstreams)
        if isinstance(usual, Refused):
            return usual
        family: Family = "anthropic" if usual.provider == "anthropic" else "openai"
        found = self.governed(target, _ANY_MODEL, family, None)
        if isinstance(found, Refused):
            return found
        first = found.candidates[0]
        return Routed((Candidate(first.provider, "", first.url, first.key, first.auth),))
