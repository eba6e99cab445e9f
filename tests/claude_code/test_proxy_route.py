"""Whether Claude Code is sent through the proxy or to its provider."""

from __future__ import annotations

import json

import pytest

from memplane.integrations.claude_code.proxy_route import (
    ProxyState,
    build_routed_command,
    choose_route,
    read_variable,
)

OURS = "http://127.0.0.1:6367/agent/ada"
VENDOR = "https://api.anthropic.com"
GATEWAY = "https://gateway.example"
UP = ProxyState(address=OURS, ports=frozenset({6367}), upstream=VENDOR)
DOWN = ProxyState(ports=frozenset({6367}), upstream=VENDOR, trouble="memplane is not running.")


@pytest.mark.parametrize("configured", ["", VENDOR, f"{VENDOR}/", "http://localhost:6367"])
def test_the_proxy_is_asked_where_it_answers(configured: str) -> None:
    route = choose_route(configured, UP)
    assert (route.address, route.warning) == (OURS, "")


@pytest.mark.parametrize(
    ("configured", "address"), [("", ""), (VENDOR, ""), (OURS, VENDOR), ("http://[::1", "")]
)
def test_the_provider_is_asked_where_the_proxy_does_not_answer(
    configured: str, address: str
) -> None:
    route = choose_route(configured, DOWN)
    assert route.address == address
    assert "directly" in route.warning


def test_an_agent_with_tokens_is_not_sent_to_a_proxy_that_refuses_it() -> None:
    governed = ProxyState(address=OURS, upstream=VENDOR, governed_agent="ada")
    route = choose_route("", governed)
    assert route.address == ""
    assert "put it into ANTHROPIC_AUTH_TOKEN, or name another agent" in route.warning
    assert choose_route("", governed, has_token=True).address == OURS


def test_a_token_of_memplanes_is_not_shown_to_the_provider() -> None:
    route = choose_route(OURS, DOWN, has_token=True)
    assert not route.is_possible
    assert "memplane is not running. Claude Code has a token of memplane's" in route.warning


@pytest.mark.parametrize("proxy", [UP, DOWN])
def test_a_gateway_that_the_proxy_does_not_send_to_keeps_its_requests(proxy: ProxyState) -> None:
    route = choose_route(GATEWAY, proxy)
    assert route.address == ""
    assert f"set proxy.upstream_anthropic to {GATEWAY}" in route.warning


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"env": 1}', '{"env": {"ANTHROPIC_BASE_URL": 1}}']
)
def test_settings_of_another_shape_name_no_address(text: str) -> None:
    assert read_variable(text, "ANTHROPIC_BASE_URL") == ""


def read_nothing(name: str) -> bytes:
    raise FileNotFoundError(name)


def test_an_address_of_the_environment_is_replaced_there() -> None:
    launch = build_routed_command(["claude", "-p"], {"A": "b"}, OURS, read_nothing, in_file=False)
    assert launch.arguments == ("claude", "-p")
    assert launch.variables == {"A": "b", "ANTHROPIC_BASE_URL": OURS}


@pytest.mark.parametrize(
    "own",
    [(), ("--settings", '{"model": "x", "env": {"B": "c"}}'), ("--settings=mine.json",)],
    ids=["none", "JSON", "a file"],
)
def test_an_address_of_a_settings_file_is_overridden_and_other_settings_stay(
    own: tuple[str, ...],
) -> None:
    launch = build_routed_command(
        ["claude", "-p", *own, "--", "--settings"],
        {},
        OURS,
        lambda name: b'{"model": "x", "env": {"B": "c"}}' if name == "mine.json" else b"",
        in_file=True,
    )
    at = launch.arguments.index("--settings")
    given = json.loads(launch.arguments[at + 1])
    assert given["env"]["ANTHROPIC_BASE_URL"] == OURS
    assert (given.get("model"), given["env"].get("B")) == (("x", "c") if own else (None, None))
    assert launch.arguments[-2:] == ("--", "--settings")
    assert launch.arguments.count("--settings") == 2


def test_nothing_is_changed_where_the_configuration_is_right() -> None:
    launch = build_routed_command(["claude"], {"A": "b"}, "", read_nothing, in_file=True)
    assert (launch.arguments, launch.variables) == (("claude",), {"A": "b"})
