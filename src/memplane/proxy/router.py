"""Where an agent's requests go, by the providers that are configured now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from memplane.exchange.dialect import ApiFamily
from memplane.integrations.clawdapus.pod.model_policy import ModelPolicy
from memplane.proxy.provider import Provider
from memplane.proxy.provider_config import read_providers
from memplane.proxy.route_selection import (
    RequestRefusal,
    RequestTarget,
    UpstreamRoute,
    Upstreams,
    choose_default_provider,
    choose_passthrough,
    choose_route,
    detect_family,
)


@dataclass(slots=True)
class ConfiguredProviders:
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
        stamp = _file_stamp(self.path)
        if self._read is None or stamp != self._stamp:
            self._read = read_providers(self.path, self.environ, own_port=self.own_port)
            self._stamp = stamp
        return self._read


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        there = os.stat(path)  # noqa: PTH116 - for each request
    except OSError:
        return None
    return there.st_mtime_ns, there.st_size, there.st_ino


class Router(msgspec.Struct, frozen=True):
    """Chooses providers."""

    upstreams: Upstreams
    providers: ConfiguredProviders

    def passed(self, target: RequestTarget) -> UpstreamRoute | RequestRefusal:
        """Choose for a request that brings its own key."""
        found = choose_passthrough(target.path, target.query, target.headers, self.upstreams)
        return found if isinstance(found, RequestRefusal) else UpstreamRoute((found,))

    def governed(
        self,
        target: RequestTarget,
        model: str,
        family: ApiFamily,
        policy: ModelPolicy | None,
        *,
        clamps: bool = True,
    ) -> UpstreamRoute | RequestRefusal:
        """Choose for a request whose provider's key is ours; `route` says what is chosen.

        Raises:
            SettingsError: The providers' file cannot be used.
        """
        return choose_route(
            model,
            family=family,
            path=target.path,
            query=target.query,
            providers=self.providers.now(),
            policy=policy,
            clamps=clamps,
        )

    def governed_path(self, target: RequestTarget) -> UpstreamRoute | RequestRefusal:
        """Choose for a request that names no model, such as one for the list of models.

        Raises:
            SettingsError: The providers' file cannot be used.
        """
        family = detect_family(target.path, target.headers)
        found = choose_default_provider(family, target, self.providers.now())
        return found if isinstance(found, RequestRefusal) else UpstreamRoute((found,))
