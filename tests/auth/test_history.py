"""Who may read whose history: every status and text of the read API."""

from __future__ import annotations

import pytest

from memplane.auth.grants import Grant, Scope
from memplane.auth.history_access import (
    HistoryCredentials,
    HistoryDecision,
    HistoryReader,
    HistoryRefusal,
    ReaderRole,
    authorise_agent_history,
    authorise_own_history,
    parse_claimed_agent,
)
from memplane.auth.pod_context import PodContext, ServiceToken

POD = PodContext(
    "analyst",
    "s3:cret",
    (
        ServiceToken("cllama-history", "mem", "mem-history:abc"),
        ServiceToken("mem", "analyst", "bearer-of-the-service"),
    ),
)
BROKEN = PodContext("analyst", None, POD.services)


def grant(agent: str | None, *scopes: Scope) -> Grant:
    return Grant(id="1", name="named", agent=agent, scopes=frozenset(scopes))


ADMIN = grant(None, Scope.ADMIN)
WHOSE = HistoryRefusal(
    400, "an admin token reads the history of any agent: name one, as in /history/AGENT"
)
OWN = "analyst:s3:cret"


@pytest.mark.parametrize(
    ("given", "agent"),
    [("a:b", "a"), ("a:b:c", "a"), ("a:", ""), ("a", ""), ("", ""), (":b", "")],
)
def test_the_agent_that_a_token_claims(given: str, agent: str) -> None:
    assert parse_claimed_agent(given) == agent


@pytest.mark.parametrize(
    ("given", "known", "decided"),
    [
        # the pod's own token
        (
            OWN,
            HistoryCredentials(grant=None, context=POD),
            HistoryReader("analyst", ReaderRole.AGENT, "analyst"),
        ),
        # memplane's own tokens
        (
            "analyst:x",
            HistoryCredentials(grant=grant("analyst", Scope.READ), context=None, elsewhere=True),
            HistoryReader("analyst", ReaderRole.AGENT, "named"),
        ),
        (
            "analyst:x",
            HistoryCredentials(grant=grant("analyst", Scope.WRITE), context=None, elsewhere=True),
            HistoryRefusal(403, "forbidden"),
        ),
        # 401
        (
            "",
            HistoryCredentials(grant=None, context=None),
            HistoryRefusal(401, "invalid bearer token"),
        ),
        (
            "bare",
            HistoryCredentials(grant=None, context=None),
            HistoryRefusal(401, "invalid bearer token"),
        ),
        (
            "analyst:",
            HistoryCredentials(grant=None, context=POD),
            HistoryRefusal(401, "invalid bearer token"),
        ),
        ("admin", HistoryCredentials(grant=ADMIN, context=None), WHOSE),
        ("ad:min", HistoryCredentials(grant=ADMIN, context=None), WHOSE),
        (
            "mem-history:abc",
            HistoryCredentials(grant=None, context=None),
            HistoryRefusal(401, "invalid bearer token"),
        ),
        # 403
        (
            "ghost:x",
            HistoryCredentials(grant=None, context=None),
            HistoryRefusal(403, "agent context not found"),
        ),
        (
            "../x:y",
            HistoryCredentials(grant=None, context=None),
            HistoryRefusal(403, "agent context not found"),
        ),
        (
            OWN,
            HistoryCredentials(grant=None, context=BROKEN),
            HistoryRefusal(403, "agent context not found"),
        ),
        (
            "analyst:x",
            HistoryCredentials(grant=None, context=POD),
            HistoryRefusal(403, "invalid agent secret"),
        ),
        (
            "analyst:x",
            HistoryCredentials(grant=None, context=None, elsewhere=True),
            HistoryRefusal(403, "invalid agent secret"),
        ),
    ],
)
def test_ones_own_history(given: str, known: HistoryCredentials, decided: HistoryDecision) -> None:
    assert authorise_own_history(given, known) == decided


@pytest.mark.parametrize(
    ("given", "known", "decided"),
    [
        (
            OWN,
            HistoryCredentials(grant=None, context=POD),
            HistoryReader("analyst", ReaderRole.AGENT, "analyst"),
        ),
        (
            "x",
            HistoryCredentials(grant=ADMIN, context=POD),
            HistoryReader("analyst", ReaderRole.ADMIN, "named"),
        ),
        (
            "x",
            HistoryCredentials(grant=ADMIN, context=BROKEN),
            HistoryReader("analyst", ReaderRole.ADMIN, "named"),
        ),
        (
            "mem-history:abc",
            HistoryCredentials(grant=None, context=POD),
            HistoryReader("analyst", ReaderRole.REPLAY, "mem"),
        ),
        (
            "analyst:x",
            HistoryCredentials(grant=grant("analyst", Scope.READ), context=None, elsewhere=True),
            HistoryReader("analyst", ReaderRole.AGENT, "named"),
        ),
        # Only an admin is told that there is no such agent.
        (
            "",
            HistoryCredentials(grant=None, context=None),
            HistoryRefusal(401, "missing bearer token"),
        ),
        ("x", HistoryCredentials(grant=None, context=None), HistoryRefusal(403, "forbidden")),
        (
            "x",
            HistoryCredentials(grant=ADMIN, context=None),
            HistoryRefusal(404, "agent context not found"),
        ),
        # 401
        (
            "",
            HistoryCredentials(grant=None, context=POD),
            HistoryRefusal(401, "missing bearer token"),
        ),
        # 403
        (
            "analyst:x",
            HistoryCredentials(grant=None, context=POD),
            HistoryRefusal(403, "forbidden"),
        ),
        ("s3:cret", HistoryCredentials(grant=None, context=POD), HistoryRefusal(403, "forbidden")),
        (
            "other:s3:cret",
            HistoryCredentials(grant=None, context=POD),
            HistoryRefusal(403, "forbidden"),
        ),
        (
            "bearer-of-the-service",
            HistoryCredentials(grant=None, context=POD),
            HistoryRefusal(403, "forbidden"),
        ),
        (OWN, HistoryCredentials(grant=None, context=BROKEN), HistoryRefusal(403, "forbidden")),
        (
            "other:x",
            HistoryCredentials(grant=grant("other", Scope.READ), context=POD),
            HistoryRefusal(403, "forbidden"),
        ),
        (
            "analyst:x",
            HistoryCredentials(grant=grant("analyst", Scope.WRITE), context=POD),
            HistoryRefusal(403, "forbidden"),
        ),
        # and what is not recorded at all
        (
            OWN,
            HistoryCredentials(grant=None, context=POD, configured=False),
            HistoryRefusal(404, "history not configured"),
        ),
        (
            "wrong",
            HistoryCredentials(grant=None, context=POD, configured=False),
            HistoryRefusal(403, "forbidden"),
        ),
    ],
)
def test_the_history_of_an_agent(
    given: str, known: HistoryCredentials, decided: HistoryDecision
) -> None:
    assert authorise_agent_history("analyst", given, known) == decided
