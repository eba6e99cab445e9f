"""Whose memory it is: which scope sees which."""

from __future__ import annotations

from itertools import product

import pytest

from memplane.auth.memory_scope import MAX_USER_CHARS, MemoryScope, WholeAgent, check_user
from memplane.errors import InvalidRequest

ADA = MemoryScope("ops", user="ada")
BEN = MemoryScope("ops", user="ben")
SHARED = MemoryScope("ops")
OTHER_AGENT = MemoryScope("shop", user="ada")
SCOPES = (ADA, BEN, SHARED, OTHER_AGENT, MemoryScope("ops", view="sales"))


def test_a_user_sees_their_own_and_the_shared_memories() -> None:
    assert [scope for scope in SCOPES if ADA.can_see(scope)] == [ADA, SHARED]


def test_without_a_user_only_shared_memories_are_seen() -> None:
    assert [scope for scope in SCOPES if SHARED.can_see(scope)] == [SHARED]


def test_an_operator_sees_every_scope_of_one_agent() -> None:
    seen = [scope for scope in SCOPES if WholeAgent("ops").can_see(scope)]
    assert seen == [scope for scope in SCOPES if scope.agent == "ops"]


def test_two_views_of_one_agent_share_nothing_of_their_own() -> None:
    sales, support = MemoryScope("ops", view="sales"), MemoryScope("ops", view="support")
    assert not sales.can_see(support)
    assert not support.can_see(sales)
    assert sales.can_see(SHARED)


@pytest.mark.parametrize(("reader", "writer"), [*product(SCOPES, SCOPES)])
def test_nobody_sees_another_users_memory(reader: MemoryScope, writer: MemoryScope) -> None:
    if writer.user not in {"", reader.user} or writer.agent != reader.agent:
        assert not reader.can_see(writer)


@pytest.mark.parametrize("user", ["u-1", "Ünal", "a b", "x" * MAX_USER_CHARS, "mail@example.com"])
def test_ordinary_names_are_users(user: str) -> None:
    assert check_user(f" {user} ") == user


@pytest.mark.parametrize("user", ["", "  ", "a\nb", "a\x00", "\x7f", "x" * (MAX_USER_CHARS + 1)])
def test_what_cannot_be_a_user_is_refused(user: str) -> None:
    with pytest.raises(InvalidRequest, match="a user is a name"):
        check_user(user)


def test_equal_names_are_equal_users_however_they_are_composed() -> None:
    assert check_user("Zoe\u0308") == check_user("Zo\u00eb")
