"""Who may read whose history: every status and text of the read API."""

from __future__ import annotations

import pytest

from memplane.access.contexts import PodContext, ServiceToken
from memplane.access.grants import Grant, Scope
from memplane.access.history import (
    Decision,
    Known,
    Reader,
    Refused,
    Role,
    claimed_agent,
    may_read_history_of,
    may_read_own_history,
)

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
OWN = "analyst:s3:cret"


@pytest.mark.parametrize(
    ("given", "agent"),
    [("a:b", "a"), ("a:b:c", "a"), ("a:", ""), ("a", ""), ("", ""), (":b", "")],
)
def test_the_agent_that_a_token_claims(given: str, agent: str) -> None:
    assert claimed_agent(given) == agent


@pytest.mark.parametrize(
    ("given", "known", "decided"),
    [
        # the pod's own token
        (OWN, Known(grant=None, context=POD), Reader("analyst", Role.AGENT, "analyst")),
        # memplane's own tokens
        (
            "analyst:x",
            Known(grant=grant("analyst", Scope.READ), context=None, elsewhere=True),
            Reader("analyst", Role.AGENT, "named"),
        ),
        (
            "analyst:x",
            Known(grant=grant("analyst", Scope.WRITE), context=None, elsewhere=True),
            Refused(403, "forbidden"),
        ),
        # 401
        ("", Known(grant=None, context=None), Refused(401, "invalid bearer token")),
        ("bare", Known(grant=None, context=None), Refused(401, "invalid bearer token")),
        ("analyst:", Known(grant=None, context=POD), Refused(401, "invalid bearer token")),
        ("admin", Known(grant=ADMIN, context=None), Refused(401, "invalid bearer token")),
        ("ad:min", Known(grant=ADMIN, context=None), Refused(401, "invalid bearer token")),
        ("mem-history:abc", Known(grant=None, context=None), Refused(401, "invalid bearer token")),
        # 403
        ("ghost:x", Known(grant=None, context=None), Refused(403, "agent context not found")),
        ("../x:y", Known(grant=None, context=None), Refused(403, "agent context not found")),
        (OWN, Known(grant=None, context=BROKEN), Refused(403, "agent context not found")),
        ("analyst:x", Known(grant=None, context=POD), Refused(403, "invalid agent secret")),
        (
            "analyst:x",
            Known(grant=None, context=None, elsewhere=True),
            Refused(403, "invalid agent secret"),
        ),
    ],
)
def test_ones_own_history(given: str, known: Known, decided: Decision) -> None:
    assert may_read_own_history(given, known) == decided


@pytest.mark.parametrize(
    ("given", "known", "decided"),
    [
        (OWN, Known(grant=None, context=POD), Reader("analyst", Role.AGENT, "analyst")),
        ("x", Known(grant=ADMIN, context=POD), Reader("analyst", Role.ADMIN, "named")),
        ("x", Known(grant=ADMIN, context=BROKEN), Reader("analyst", Role.ADMIN, "named")),
        (
            "mem-history:abc",
            Known(grant=None, context=POD),
            Reader("analyst", Role.REPLAY, "mem"),
        ),
        (
            "analyst:x",
            Known(grant=grant("analyst", Scope.READ), context=None, elsewhere=True),
            Reader("analyst", Role.AGENT, "named"),
        ),
        # 404 comes first, whoever asks
        ("", Known(grant=None, context=None), Refused(404, "agent context not found")),
        ("x", Known(grant=ADMIN, context=None), Refused(404, "agent context not found")),
        # 401
        ("", Known(grant=None, context=POD), Refused(401, "missing bearer token")),
        # 403
        ("analyst:x", Known(grant=None, context=POD), Refused(403, "forbidden")),
        ("s3:cret", Known(grant=None, context=POD), Refused(403, "forbidden")),
        ("other:s3:cret", Known(grant=None, context=POD), Refused(403, "forbidden")),
        ("bearer-of-the-service", Known(grant=None, context=POD), Refused(403, "forbidden")),
        (OWN, Known(grant=None, context=BROKEN), Refused(403, "forbidden")),
        (
            "other:x",
            Known(grant=grant("other", Scope.READ), context=POD),
            Refused(403, "forbidden"),
        ),
        (
            "analyst:x",
            Known(grant=grant("analyst", Scope.WRITE), context=POD),
            Refused(403, "forbidden"),
        ),
        # and what is not recorded at all
        (
            OWN,
            Known(grant=None, context=POD, configured=False),
            Refused(404, "history not configured"),
        ),
        (
            "wrong",
            Known(grant=None, context=POD, configured=False),
            Refused(403, "forbidden"),
        ),
    ],
)
def test_the_history_of_an_agent(given: str, known: Known, decided: Decision) -> None:
    assert may_read_history_of("analyst", given, known) == decided


def test_only_a_replay_is_redacted() -> None:
    assert [role for role in Role if Reader("a", role, "n").redacted] == [Role.REPLAY]
