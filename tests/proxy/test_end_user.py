"""Where requests name the person behind them."""

from __future__ import annotations

import json

import pytest

from memplane.exchange.end_user import (
    NO_USER,
    EndUser,
    UserSource,
    find_claude_account,
    find_end_user,
    find_entry_user,
)

ACCOUNT = "6f1b0f3e-0000-4000-8000-1a2b3c4d5e6f"
CLAUDE_JSON = json.dumps({"device_id": "d" * 64, "account_uuid": ACCOUNT, "session_id": "5e55-10"})
CLAUDE_TEXT = f"user_{'d' * 64}_account_{ACCOUNT}_session_5e55-10"


@pytest.mark.parametrize(
    ("members", "source"),
    [
        ({"user": "u-1"}, UserSource.USER),
        ({"safety_identifier": "u-1"}, UserSource.SAFETY_IDENTIFIER),
        ({"safety_identifier": "u-1", "user": "u-2"}, UserSource.SAFETY_IDENTIFIER),
        ({"metadata": {"user_id": "u-1"}}, UserSource.USER_ID),
    ],
)
def test_each_api_names_its_user(members: dict[str, object], source: UserSource) -> None:
    assert find_end_user(members) == EndUser("u-1", source)


def test_the_header_comes_first() -> None:
    assert find_end_user({"user": "u-2"}, "u-1") == EndUser("u-1", UserSource.HEADER)


@pytest.mark.parametrize("members", [{}, {"metadata": {}}, {"metadata": "text"}, {"user": None}])
def test_most_requests_name_nobody(members: dict[str, object]) -> None:
    assert find_end_user(members) == NO_USER


@pytest.mark.parametrize("value", ["", " ", "a\nb", "x" * 300, 7, ["u-1"], {"id": "u-1"}])
def test_what_cannot_be_a_user_is_not_used_and_can_be_counted(value: object) -> None:
    user = find_end_user({"user": value})
    assert (user.id, user.is_invalid) == ("", True)


@pytest.mark.parametrize("user_id", [CLAUDE_JSON, CLAUDE_TEXT])
def test_claude_code_names_an_account_a_device_and_a_session(user_id: str) -> None:
    assert find_claude_account(user_id) == ACCOUNT
    user = find_end_user({"metadata": {"user_id": user_id}})
    assert user == EndUser(ACCOUNT, UserSource.CLAUDE_ACCOUNT)


@pytest.mark.parametrize(
    "user_id", [CLAUDE_JSON.replace(ACCOUNT, ""), CLAUDE_TEXT.replace(ACCOUNT, "")]
)
def test_claude_code_without_an_account_names_nobody(user_id: str) -> None:
    assert find_end_user({"metadata": {"user_id": user_id}}) == NO_USER


@pytest.mark.parametrize("user_id", ["u-1", "{not json", '{"name": "x"}', "my_account_7"])
def test_other_clients_ids_are_theirs(user_id: str) -> None:
    assert find_claude_account(user_id) is None
    assert find_end_user({"metadata": {"user_id": user_id}}).id == user_id


def test_a_recorded_turn_names_the_user_of_its_request() -> None:
    entry = {"request_original": {"user": "u-1", "messages": []}}
    assert find_entry_user(entry).id == "u-1"
    assert find_entry_user({}) == NO_USER
