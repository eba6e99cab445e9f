"""Whose turn a request is: every way to be let through, and every refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memplane.auth.grants import Grant, Scope
from memplane.auth.pod_context import PodContext
from memplane.auth.proxy_access import (
    CallerRefusal,
    ProxyCaller,
    ProxyCredentials,
    ProxyDeployment,
    identify_caller,
)

INVALID, WRONG = "invalid bearer token", "invalid agent secret"
LAPTOP = ProxyDeployment(pod=False, default="me")
POD = ProxyDeployment(pod=True, default="me")
NOBODY = ProxyCredentials(
    agent_name="", token="", grant=None, context=None, is_ours=False, nearby=True
)
PROVIDER_KEY = replace(NOBODY, token="sk-provider")
CONTEXT = PodContext("analyst", "s3:cret")
OF_POD = replace(NOBODY, token="analyst:s3:cret", context=CONTEXT, is_ours=True)


def grant(agent: str | None, *scopes: Scope) -> Grant:
    return Grant(id="1", name="named", agent=agent, scopes=frozenset(scopes))


def of_token(agent: str | None, *scopes: Scope, named: str = "") -> ProxyCredentials:
    return replace(NOBODY, token="analyst:x", grant=grant(agent, *scopes), agent_name=named)


@pytest.mark.parametrize(
    ("shown", "here", "expected"),
    [
        (PROVIDER_KEY, LAPTOP, ProxyCaller("me", governed=False)),
        (NOBODY, LAPTOP, ProxyCaller("me", governed=False)),
        (replace(PROVIDER_KEY, agent_name="ada"), LAPTOP, ProxyCaller("ada", governed=False)),
        (of_token("analyst", Scope.PROXY), LAPTOP, ProxyCaller("analyst", governed=True)),
        (of_token("analyst", Scope.PROXY), POD, ProxyCaller("analyst", governed=True)),
        (
            replace(of_token("analyst", Scope.PROXY), context=CONTEXT),
            POD,
            ProxyCaller("analyst", governed=True, in_pod=True),
        ),
        (
            replace(of_token(None, Scope.ADMIN, named="ada"), context=CONTEXT),
            POD,
            ProxyCaller("ada", governed=True),
        ),
        (of_token(None, Scope.ADMIN, named="ada"), LAPTOP, ProxyCaller("ada", governed=True)),
        (of_token(None, Scope.ADMIN), LAPTOP, ProxyCaller("me", governed=True)),
        (OF_POD, POD, ProxyCaller("analyst", governed=True, in_pod=True)),
        (
            replace(OF_POD, agent_name="analyst"),
            POD,
            ProxyCaller("analyst", governed=True, in_pod=True),
        ),
    ],
)
def test_who_is_let_through(
    shown: ProxyCredentials, here: ProxyDeployment, expected: ProxyCaller
) -> None:
    assert identify_caller(shown, here, is_governed=False) == expected


@pytest.mark.parametrize(
    ("shown", "here", "expected"),
    [
        # A stranger on the network, and a token of ours that is good for nothing any more.
        (replace(PROVIDER_KEY, nearby=False), LAPTOP, (401, f"{INVALID}: from another machine")),
        (replace(NOBODY, token="ada:old", is_ours=True), LAPTOP, (401, f"{INVALID}: nobody was")),
        (replace(PROVIDER_KEY, agent_name="../x"), LAPTOP, (403, "'../x' is no agent's id: ")),
        (replace(PROVIDER_KEY, agent_name="../x"), POD, (403, "agent context not found")),
        # None speaks for another agent, whatever it is good for.
        (of_token("analyst", Scope.READ, named="ada"), LAPTOP, (403, f"{WRONG}: this token")),
        (of_token("analyst", Scope.PROXY, named="ada"), LAPTOP, (403, f"{WRONG}: this token")),
        # In a pod nobody comes without its token.
        (NOBODY, POD, (401, "invalid bearer token")),
        (PROVIDER_KEY, POD, (401, "invalid bearer token")),
        (replace(OF_POD, token="analyst:wrong"), POD, (403, "invalid agent secret")),
        (replace(OF_POD, context=None), POD, (403, "agent context not found")),
        (
            replace(OF_POD, context=PodContext("analyst", None)),
            POD,
            (403, "agent context not found"),
        ),
        (replace(OF_POD, agent_name="other"), POD, (403, "agent context not found")),
    ],
)
def test_who_is_refused(
    shown: ProxyCredentials, here: ProxyDeployment, expected: tuple[int, str]
) -> None:
    refused = identify_caller(shown, here, is_governed=False)
    assert isinstance(refused, CallerRefusal)
    status, text = expected
    assert refused.status == status
    # In a pod the contract fixes the words.
    assert refused.text == text if here.pod else refused.text.startswith(text)


def test_a_token_that_may_not_take_turns_is_told_what_it_lacks() -> None:
    refused = identify_caller(
        of_token("analyst", Scope.READ, Scope.WRITE), LAPTOP, is_governed=False
    )
    assert refused == CallerRefusal(
        403,
        "this token is good for read, write, and a turn needs the scope proxy. "
        "`memplane token create --agent analyst --scope proxy` makes one that has it",
    )


def test_an_agent_that_takes_turns_with_a_token_is_never_served_without_it() -> None:
    refused = identify_caller(PROVIDER_KEY, LAPTOP, is_governed=True)
    assert isinstance(refused, CallerRefusal)
    assert refused.status == 401
    assert "holds a token of memplane's, and takes turns with it" in refused.text
