"""Where an agent's requests go, by the providers that are configured now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from memplane.pod.policy import ModelPolicy
from memplane.proxy.candidate import Family, Provider
from memplane.proxy.providers import read_providers
from memplane.proxy.routing import (
    Refused,
    Routed,
    Target,
    Upstreams,
    family_of,
    passed_through,
    route,
    without_model,
)


@dataclass(slots=True)
class Providers:
    """The providers of a file and of the environment; the file is read again when it changed."""

    path: Path
    environ: Mapping[str, str] = field(repr=False)
    own_port: int = 0
    _stamp: tuple[int, int, int] | None = None
    _read: Mapping[str, Provider] | None = field(default=None, repr=False)

    def now(self) -> Mapping[str, Provider]:
        """Return them, by their names.

        Raises:
            SettingsError: The file cannot be used.
        """
        stamp = _stamp_of(self.path)
        if self._read is None or stamp != self._stamp:
            self._read = read_providers(self.path, self.environ, own_port=self.own_port)
            self._stamp = stamp
        return self._read


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        there = os.stat(path)  # noqa: PTH116 - for each request
    except OSError:
        return None
    return there.st_mtime_ns, there.st_size, there.st_ino


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
        family = family_of(target.path, target.headers)
        found = without_model(family, target, self.providers.now())
        return found if isinstance(found, Refused) else Routed((found,))
