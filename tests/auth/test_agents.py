"""What an agent may be called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.auth.agent_id import is_agent_id


@pytest.mark.parametrize("name", ["a", "analyst", "a.b", "A-1_x", "0", "a" * 128, "trader-0"])
def test_a_name(name: str) -> None:
    assert is_agent_id(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "a..b", ".a", "-a", "_a", "a/b", "a\\b", "a b", "a\n", "a\x00", "*"),
        *("a" * 129, "é", "a\u0661", "a:b", "../a", "%2e%2e"),
    ],
)
def test_no_name(name: str) -> None:
    assert not is_agent_id(name)


@given(st.text(alphabet=st.sampled_from("aZ0._-/\\\n\x00:*é"), max_size=6))
def test_a_name_stays_one_part_of_a_path(name: str) -> None:
    if is_agent_id(name):
        assert not {*"/\\\n\x00:*"} & {*name}
        assert ".." not in name
        assert name[0].isalnum()
