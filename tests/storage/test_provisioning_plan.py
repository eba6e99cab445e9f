"""What is to be created or removed in Azure, given what there is."""

from __future__ import annotations

import re
import uuid

import pytest
from msgspec.structs import replace

from memplane.errors import InvalidRequest
from memplane.settings.dotenv_file import edit_dotenv
from memplane.storage.provisioning.plan import (
    AccountState,
    CloudState,
    ConsentGrant,
    ProvisionRequest,
    StepKind,
    check_account_name,
    check_container_name,
    name_account,
    name_container,
    name_new_account,
    name_role_assignment,
    plan_deprovisioning,
    plan_provisioning,
)

USER = "AAAAAAAA-1111-2222-3333-444444444444"
REQUEST = ProvisionRequest("tenant", "subscription", "agent", USER, "memplane1", "agent-a")
ACCOUNT = AccountState("/x/y", "group", "https://e", is_private=True, has_undo=True)
NOTHING = CloudState(
    has_group=False,
    account=None,
    has_container=False,
    has_role=False,
    storage_principal="",
    agent_principal="p",
    grant=None,
)
EVERYTHING = CloudState(
    has_group=True,
    account=ACCOUNT,
    has_container=True,
    has_role=True,
    storage_principal="s",
    agent_principal="p",
    grant=ConsentGrant("g", frozenset({"user_impersonation"})),
)


def kinds(state: CloudState) -> list[StepKind]:
    return [step.kind for step in plan_provisioning(REQUEST, state)]


def test_from_nothing_everything_is_created_in_order() -> None:
    assert kinds(NOTHING) == [
        StepKind.CREATE_GROUP,
        StepKind.CREATE_ACCOUNT,
        StepKind.ENABLE_UNDO,
        StepKind.CREATE_CONTAINER,
        StepKind.ASSIGN_ROLE,
        StepKind.ADD_STORAGE_PRINCIPAL,
        StepKind.GRANT_CONSENT,
    ]


def test_what_is_there_is_left_alone() -> None:
    assert kinds(EVERYTHING) == []


@pytest.mark.parametrize(
    ("state", "missing"),
    [
        (replace(EVERYTHING, account=replace(ACCOUNT, is_private=False)), StepKind.SECURE_ACCOUNT),
        (replace(EVERYTHING, account=replace(ACCOUNT, has_undo=False)), StepKind.ENABLE_UNDO),
        (replace(EVERYTHING, has_role=False), StepKind.ASSIGN_ROLE),
        (
            replace(EVERYTHING, grant=ConsentGrant("g", frozenset({"User.Read"}))),
            StepKind.GRANT_CONSENT,
        ),
        (replace(EVERYTHING, has_group=False), None),
    ],
)
def test_only_what_is_missing_is_created(state: CloudState, missing: StepKind | None) -> None:
    assert kinds(state) == ([missing] if missing else [])


def removal(*, account: bool = False, group: bool = False, others: str = "") -> list[StepKind]:
    steps = plan_deprovisioning(
        REQUEST,
        EVERYTHING,
        delete_account=account,
        delete_group=group,
        other_containers=["agent-b"] if others == "containers" else [],
        other_resources=["/a/vm"] if others == "resources" else [],
    )
    return [step.kind for step in steps]


def test_by_default_the_container_and_its_role_are_removed() -> None:
    assert removal() == [StepKind.REMOVE_ROLE, StepKind.DELETE_CONTAINER]
    assert removal(group=True)[2:] == [StepKind.DELETE_ACCOUNT, StepKind.DELETE_GROUP]


def test_what_others_have_is_never_removed() -> None:
    with pytest.raises(InvalidRequest, match="agent-b"):
        removal(account=True, others="containers")
    with pytest.raises(InvalidRequest, match="/a/vm"):
        removal(group=True, others="resources")
    assert removal(others="containers") == removal()


def test_names_are_always_the_same_and_ones_that_azure_takes() -> None:
    account = name_account("Tenant")
    assert account == name_account("tenant")
    assert (len(account), check_account_name(account)) == (24, account)
    assert check_account_name(name_new_account("tenant", uuid.uuid4().hex)) != account
    assert check_container_name(name_container(USER)) == f"agent-{USER.lower()}"
    one = name_role_assignment("/scope", USER)
    assert one == name_role_assignment("/SCOPE", USER.lower()) == str(uuid.UUID(one))
    assert one != name_role_assignment("/scope/other", USER)


@pytest.mark.parametrize("name", ["ab", "a" * 25, "With-dash", "UPPER", ""])
def test_an_account_name_that_azure_refuses_is_refused_here(name: str) -> None:
    with pytest.raises(InvalidRequest, match="3 to 24"):
        check_account_name(name)


@pytest.mark.parametrize("name", ["ab", "a" * 64, "-edge", "edge-", "two--dashes", "Upper", ""])
def test_a_container_name_that_azure_refuses_is_refused_here(name: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(repr(name))):
        check_container_name(name)


# The file of variables

BEFORE = "# mine\nOTHER=1\nexport MEMPLANE_A='old'\n\nODD LINE\nMEMPLANE_A=older"


def test_other_lines_of_the_file_stay_as_they_are() -> None:
    after = edit_dotenv(BEFORE, {"MEMPLANE_A": "new", "MEMPLANE_B": "2"})
    assert after == "# mine\nOTHER=1\nMEMPLANE_A=new\n\nODD LINE\nMEMPLANE_B=2\n"


def test_a_variable_is_removed_and_no_newline_is_lost() -> None:
    assert edit_dotenv(BEFORE, {"MEMPLANE_A": None}) == "# mine\nOTHER=1\n\nODD LINE\n"
    assert edit_dotenv("A=1", {"B": "2"}) == "A=1\nB=2\n"
    assert edit_dotenv("", {"B": None}) == ""
