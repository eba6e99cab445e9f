"""Whether Claude Code asks its provider through the proxy or directly (pure).

Its settings files win over its environment, and `--settings` wins over all files; so an address
that a file names is overridden in `--settings`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from memplane.integrations.claude_code.launch_command import LaunchCommand, find_option
from memplane.kit.json_values import as_object, as_string, decode_json_or_none

BASE_URL_VARIABLE: Final = "ANTHROPIC_BASE_URL"
KEY_VARIABLES: Final = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
"""What the client shows; the first goes before the second."""

_SETTINGS_OPTION: Final = "--settings"
_LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class ProxyState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the proxy.

    Args:
        address: Where it answers, with the agent's path; empty when it does not.
        ports: The ports that are memplane's on this machine.
        upstream: Where it sends Anthropic's requests.
        trouble: Why it does not answer, and what to do.
        governed_agent: The agent, where it takes its turns with a token of memplane's only.
    """

    address: str = ""
    ports: frozenset[int] = frozenset()
    upstream: str
    trouble: str = ""
    governed_agent: str = ""


class Route(msgspec.Struct, frozen=True):
    """Where the client sends its requests: empty leaves that to its configuration."""

    address: str = ""
    warning: str = ""
    is_possible: bool = True


def choose_route(configured: str, proxy: ProxyState, *, has_token: bool = False) -> Route:
    """Choose between the proxy and the provider.

    A provider that refuses a client's key is asked again and again, in silence. So nobody is sent
    where it is sure that the key is refused.

    Args:
        configured: The address that the client is configured for.
        proxy: What is known of the proxy.
        has_token: The client shows a token of memplane's, and no key of the provider's.
    """
    if has_token:
        if proxy.address:
            return Route(proxy.address)
        why = (
            f"{proxy.trouble} Claude Code has a token of memplane's, and no key of the provider's"
        )
        return Route(warning=why, is_possible=False)
    is_ours = _is_own_address(configured, proxy.ports)
    if configured and not is_ours and configured.rstrip("/") != proxy.upstream.rstrip("/"):
        return Route(
            warning=f"the client is configured for {configured}, and the proxy sends to "
            f"{proxy.upstream}. It goes to {configured} directly, without the proxy. To have "
            f"both, set proxy.upstream_anthropic to {configured}"
        )
    trouble = proxy.trouble
    if proxy.governed_agent:
        trouble = (
            f"{proxy.governed_agent} takes its turns with a token of memplane's, and Claude Code "
            "shows none: put it into ANTHROPIC_AUTH_TOKEN, or name another agent with --agent."
        )
    elif proxy.address:
        return Route(proxy.address)
    return Route(
        proxy.upstream if is_ours else "",
        f"{trouble} Claude Code goes to the provider directly, without the proxy",
    )


def read_variable(settings: bytes | str, name: str) -> str:
    """Return a variable that a settings file of the client sets; empty when it sets none."""
    data = settings if isinstance(settings, bytes) else settings.encode()
    return as_string(as_object(as_object(decode_json_or_none(data)).get("env")).get(name))


def find_settings_argument(command: Sequence[str]) -> str:
    """Return the value of `--settings`, a file or JSON; empty when there is none."""
    place = find_option(command, _SETTINGS_OPTION)
    return place[2] if place else ""


def build_routed_command(
    command: Sequence[str],
    environment: Mapping[str, str],
    address: str,
    read_file: Callable[[str], bytes],
    *,
    in_file: bool,
) -> LaunchCommand:
    """Say how the client is started for an address; `in_file` says that a file names another.

    Raises:
        OSError: The file of the command's own `--settings` cannot be read.
    """
    if not address:
        return LaunchCommand(tuple(command), environment)
    arguments = _override_settings(command, address, read_file) if in_file else tuple(command)
    return LaunchCommand(arguments, {**environment, BASE_URL_VARIABLE: address})


def _override_settings(
    command: Sequence[str], address: str, read_file: Callable[[str], bytes]
) -> tuple[str, ...]:
    own = find_settings_argument(command)
    text = own.encode() if own.lstrip().startswith("{") else read_file(own) if own else b""
    settings: dict[str, Any] = dict(as_object(decode_json_or_none(text)))
    settings["env"] = {**as_object(settings.get("env")), BASE_URL_VARIABLE: address}
    place = find_option(command, _SETTINGS_OPTION)
    start, end = place[:2] if place else (1, 1)
    return (*command[:start], _SETTINGS_OPTION, json.dumps(settings), *command[end:])


def _is_own_address(address: str, ports: frozenset[int]) -> bool:
    try:
        parts = urlsplit(address)
        port = parts.port or 80
    except ValueError:
        return False
    return parts.hostname in _LOOPBACK_NAMES and port in ports
