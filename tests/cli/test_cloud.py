"""`memplane cloud` against stand-ins for Entra, Resource Manager, Graph, `az` and storage."""

from __future__ import annotations

import io
import json
import logging
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from memplane import BlobBackend, LocalBackend
from memplane.errors import ContainerMissing, PermissionDenied, StorageError
from memplane.home import Home
from memplane.kit.clock import system_clock
from memplane.kit.retry_clock import RetryClock
from memplane.service.composition import cloud
from memplane.settings import load_settings
from memplane.storage.identity.certificate import make_certificate
from memplane.storage.identity.key_store import KEY_ACCOUNT, FileKeyStore
from memplane.storage.local import LocalStore
from tests.support.azure_services import AzureServices, running_azure
from tests.support.azurite import Azurite, Certificate
from tests.support.in_process import Done, memplane_here

LOCAL = "MEMPLANE_KEEP_MEMORY_LOCAL=true"
STYLE = "---\nname: Style\ndescription: How to write\ntype: user\n---\n\nShort.\n"


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, none of which takes any time."""
    made: list[float] = []

    async def sleep(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr(
        "memplane.service.composition.cloud.RetryClock", lambda: RetryClock(sleep=sleep)
    )
    return made


class Machine:
    """A home on a machine of its own."""

    def __init__(self, top: Path, azure: AzureServices, certificate: Certificate) -> None:
        self.home = top / "home"
        self.azure = azure
        self.documents = top / "documents"
        self.az = azure.write_az(top / "bin")
        self.env = {
            "PATH": f"{top / 'bin'}:{os.environ['PATH']}",
            "MEMPLANE_AZURE_AUTHORITY": azure.entra.authority,
            "MEMPLANE_AZURE_GRAPH": azure.graph,
            "MEMPLANE_AZURE_MANAGEMENT": azure.management,
            "MEMPLANE_BLOB_CA_FILE": str(certificate.authority),
            "MEMPLANE_PERSONA_DIR": str(self.documents),
            "MEMPLANE_PERSONA_PROJECT": "lab",
        }
        self.said: list[Done] = []

    def __call__(self, *words: str, **more: str) -> Done:
        done = memplane_here(self.home, *words, env={**self.env, **more})
        self.said.append(done)
        return done

    @property
    def agent(self) -> list[str]:
        entra = self.azure.entra
        return [
            *("--blueprint", entra.blueprint),
            *("--agent-identity", entra.agent),
            *("--agent-user", entra.user),
        ]

    def set_up(self, *words: str, **more: str) -> Done:
        given = words or ("--use-cloud-memory", "--yes")
        return self("cloud", "setup", *given, *self.agent, **more)

    @property
    def dotenv(self) -> str:
        return (self.home / ".env").read_text()

    def write(self, **texts: str) -> None:
        with LocalBackend(self.home / "data") as data:
            for name, text in texts.items():
                data.write_text(f"summaries/{name}.html", text)


@pytest.fixture
def azure(
    certificate: Certificate, secure_azurite: Azurite, tmp_path: Path
) -> Iterator[AzureServices]:
    def create(name: str) -> None:
        with BlobBackend(secure_azurite.by_key(name), cache=tmp_path / "c") as backend:
            backend.write_text("first", "x")
            backend.delete("first")

    with running_azure(certificate, secure_azurite, create) as services:
        yield services


@pytest.fixture
def machine(azure: AzureServices, certificate: Certificate, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "laptop", azure, certificate)


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, *typed: str) -> Iterator[None]:
    """Let somebody sit at a terminal, and type this."""

    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    with monkeypatch.context() as patch:
        patch.setattr("sys.stdin", Keyboard("".join(f"{line}\n" for line in typed)))
        yield


def keys_of(azurite: Azurite, azure: AzureServices, folder: Path) -> list[str]:
    name = f"agent-{azure.entra.user}"
    with BlobBackend(azurite.by_key(name), cache=folder / "c") as backend:
        return [key for key in backend.list() if key != "manifest.json"]


# Set-up


def test_from_an_empty_machine_to_one_container_on_two_homes_and_back(
    machine: Machine,
    azure: AzureServices,
    certificate: Certificate,
    secure_azurite: Azurite,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    _set_up_the_first_machine(machine, secure_azurite)
    _expect_a_private_container(azure)
    keys = keys_of(secure_azurite, azure, tmp_path)
    assert {"summaries/a.html", "claude_memory/user_style.md"} < set(keys)
    desktop = Machine(tmp_path / "desktop", azure, certificate)
    assert desktop.set_up().returncode == 0
    assert desktop("persona", "sync").returncode == 0
    assert (desktop.documents / "user_style.md").read_text() == STYLE
    _rotate_while_the_other_works(machine, desktop)
    _remove_everything(machine)
    _expect_no_secrets([machine, desktop], azure, caplog)


def _set_up_the_first_machine(machine: Machine, azurite: Azurite) -> None:
    machine.write(a="one", b="two")
    machine.documents.mkdir()
    (machine.documents / "user_style.md").write_text(STYLE)
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"BLOB_ENDPOINT={azurite.endpoint}",
        f"BLOB_CONTAINER=agent-{machine.azure.entra.user}",
    ]
    assert done.stderr.count("$0.05") == 1
    assert "no key store on this machine" in done.stderr
    assert LOCAL not in machine.dotenv
    assert '"kind": "azure"' in machine("status", "--json").stdout
    assert "no key store on this machine" in machine("status").stdout


def _expect_a_private_container(azure: AzureServices) -> None:
    (account,) = azure.accounts.values()
    assert account.properties["allowSharedKeyAccess"] is False
    assert account.properties["allowBlobPublicAccess"] is False
    assert account.properties["minimumTlsVersion"] == "TLS1_2"
    assert account.undo["isVersioningEnabled"] is True
    assert account.undo["deleteRetentionPolicy"] == {"enabled": True, "days": 7}
    (scope,) = azure.roles
    assert f"/containers/agent-{azure.entra.user}/" in scope


def _rotate_while_the_other_works(machine: Machine, desktop: Machine) -> None:
    entra = machine.azure.entra
    key = machine.home / "keys" / "blueprint-private-key.pem"
    before, registered = key.read_text(), len(entra.key_credentials)
    assert registered == 2
    rotated = machine("cloud", "rotate")
    assert rotated.returncode == 0, rotated.stderr
    assert key.read_text() != before
    assert len(entra.key_credentials) == registered
    for home in (machine, desktop):
        assert "failed" not in home("doctor").stdout


def _remove_everything(machine: Machine) -> None:
    azure = machine.azure
    assert machine("cloud", "deprovision").returncode == 2, "nobody was asked"
    azure.asked.clear()
    assert machine("cloud", "deprovision", "--dry-run").returncode == 0
    assert azure.changes == []
    removed = machine("cloud", "deprovision", "--yes", "--delete-resource-group")
    assert removed.returncode == 0, removed.stderr
    assert (azure.accounts, azure.groups, azure.roles) == ({}, {}, {})
    assert LOCAL in machine.dotenv
    assert '"kind": "local"' in machine("status", "--json").stdout


def test_a_second_run_has_nothing_to_do(machine: Machine, azure: AzureServices) -> None:
    machine.write(a="one")
    assert machine.set_up().returncode == 0
    azure.asked.clear()
    again = machine.set_up()
    assert again.returncode == 0, again.stderr
    assert "copied 0 objects" in again.stderr
    assert azure.changes == []


def _expect_no_secrets(
    machines: list[Machine], azure: AzureServices, caplog: pytest.LogCaptureFixture
) -> None:
    """Look for tokens and keys in what was printed, logged, passed to programs, and in files."""
    secrets = [*azure.entra.secrets, *azure.az_tokens]
    assert len(secrets) > 10
    assert "/oauth2/v2.0/token" in caplog.text, "requests are logged at debug level"
    for machine in machines:
        keys = list((machine.home / "keys").iterdir())
        assert [stat.S_IMODE(file.stat().st_mode) for file in keys] == [0o600]
        own = keys[0].read_text().splitlines()[2]
        printed = "".join(done.stdout + done.stderr for done in machine.said)
        passed = (machine.az.parent / "az.log").read_text()
        for secret in (*secrets, own):
            assert secret not in printed + passed + caplog.text
        for file in machine.home.rglob("*"):
            if file.is_file() and file not in keys:
                body = file.read_bytes()
                assert not any(secret.encode() in body for secret in (*secrets, own)), file
        assert stat.S_IMODE((machine.home / ".env").stat().st_mode) == 0o600


def test_a_dry_run_changes_nothing(machine: Machine, azure: AzureServices) -> None:
    done = machine.set_up("--dry-run")
    assert done.returncode == 0, done.stderr
    assert "create the storage account" in done.stderr
    assert azure.changes == []
    assert not machine.home.exists()


def test_without_az_somebody_signs_in_with_a_code(machine: Machine, azure: AzureServices) -> None:
    machine.azure.write_az(machine.az.parent, logged_in=False)
    done = machine("cloud", "provision", *machine.agent, "--tenant", azure.entra.tenant)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("https://microsoft.com/devicelogin") == 2
    assert azure.entra.sign_ins == 2, "once for Resource Manager, once for Graph"


def test_graph_that_refuses_the_login_of_az_is_asked_by_somebody_who_signs_in(
    machine: Machine, azure: AzureServices
) -> None:
    azure.az_may_register = False
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert azure.entra.sign_ins == 1


def test_what_azure_does_not_know_yet_is_asked_for_again(
    machine: Machine, azure: AzureServices, pauses: list[float]
) -> None:
    azure.fail("PUT /roleAssignments/", 400, "PrincipalNotFound", times=2)
    azure.fail("POST /oauth2PermissionGrants", 404, "Request_ResourceNotFound")
    azure.fail("PUT /containers/", 503, "ServerBusy")
    azure.entra.refuse(3, "AADSTS65001", times=2)
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert [pause for pause in pauses if pause >= 10] == [15, 30, 15, 15, 30]
    assert "AADSTS65001" in done.stderr


async def test_a_role_that_has_not_arrived_yet_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pauses: list[float]
) -> None:
    """The emulator has no roles, so the store of this machine refuses as Azure does."""
    refusals: list[StorageError]
    refusals = [PermissionDenied("AuthorizationPermissionMismatch"), ContainerMissing("none")]

    @asynccontextmanager
    async def refuse_at_first(*_: object, **__: object) -> AsyncIterator[LocalStore]:
        if refusals:
            raise refusals.pop(0)
        yield LocalStore(tmp_path)

    monkeypatch.setattr(cloud, "open_store", refuse_at_first)
    settings = cloud.with_container(load_settings({}, {}), "https://a", "b")
    told: list[str] = []
    await cloud.verify_access(settings, tell=told.append)
    assert (pauses, len(told)) == ([15, 30], 2)
    refusals += [PermissionDenied("never")] * 9
    with pytest.raises(PermissionDenied, match="never"):
        await cloud.verify_access(settings, tell=told.append)
    assert sum(pauses[2:]) == 270


# When it does not work


@pytest.mark.parametrize(
    ("what", "status", "code"),
    [
        ("PUT /storageAccounts/", 409, "StorageAccountAlreadyTaken"),
        ("PUT /roleAssignments/", 403, "AuthorizationFailed"),
    ],
)
def test_when_a_step_is_refused_memory_stays_local_and_the_next_run_goes_on(
    what: str, status: int, code: str, machine: Machine, azure: AzureServices
) -> None:
    machine.home.mkdir(parents=True, mode=0o700)
    (machine.home / ".env").write_text("# mine\nMEMPLANE_OPS_THRESHOLD=40\n")
    (machine.home / ".env").chmod(0o600)
    azure.fail(what, status, code, times=2)
    done = machine.set_up()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Setup INCOMPLETE" in done.stderr
    assert code in done.stderr
    assert machine.dotenv == f"# mine\nMEMPLANE_OPS_THRESHOLD=40\n{LOCAL}\n"
    azure.faults.clear()
    assert machine.set_up().returncode == 0
    assert machine.dotenv.startswith("# mine\nMEMPLANE_OPS_THRESHOLD=40\n")
    assert LOCAL not in machine.dotenv


def test_a_file_that_cannot_be_uploaded_keeps_memory_local(machine: Machine) -> None:
    machine.write(a="one")
    (machine.home / "data" / "link.md").symlink_to("nowhere")
    done = machine.set_up()
    assert done.returncode == 2
    assert "symbolic link" in done.stderr
    assert LOCAL in machine.dotenv
    (machine.home / "data" / "link.md").unlink()
    again = machine.set_up()
    assert again.returncode == 0, again.stderr
    assert "copied 0 objects" in again.stderr


def test_a_home_that_works_in_the_cloud_stays_there_when_a_later_set_up_fails(
    machine: Machine, azure: AzureServices
) -> None:
    assert machine.set_up().returncode == 0
    machine.azure.write_az(machine.az.parent, logged_in=True)
    azure.fail("GET /storageAccounts", 403, "AuthorizationFailed")
    failed = machine.set_up()
    assert failed.returncode == 2
    assert "in the cloud as before" in failed.stderr
    assert LOCAL not in machine.dotenv


def test_what_goes_before_the_new_configuration_is_said(machine: Machine) -> None:
    done = machine.set_up(MEMPLANE_KEEP_MEMORY_LOCAL="true")
    assert done.returncode == 2
    assert "MEMPLANE_KEEP_MEMORY_LOCAL is set" in done.stderr


def test_nobody_to_ask_and_no_yes_is_wrong_usage(machine: Machine, azure: AzureServices) -> None:
    done = machine.set_up("--use-cloud-memory")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert azure.asked == []


def test_the_two_modes_exclude_each_other(machine: Machine) -> None:
    done = machine.set_up("--use-cloud-memory", "--keep-memory-local")
    assert done.returncode == 2
    assert "not allowed with" in done.stderr


def test_an_agent_that_is_not_named_is_asked_for_by_name(machine: Machine) -> None:
    done = machine("cloud", "provision")
    assert done.returncode == 2
    assert "--agent-user" in done.stderr


# Local memory


def test_local_memory_is_a_choice_and_so_is_going_back(
    machine: Machine, secure_azurite: Azurite, azure: AzureServices, tmp_path: Path
) -> None:
    assert machine.set_up("--keep-memory-local").returncode == 0
    assert machine.dotenv == f"{LOCAL}\n"
    machine.write(a="one")
    assert machine.set_up().returncode == 0
    assert "summaries/a.html" in keys_of(secure_azurite, azure, tmp_path)
    back = machine.set_up("--keep-memory-local")
    assert "is left as it is" in back.stderr
    assert '"kind": "local"' in machine("status", "--json").stdout
    assert "summaries/a.html" in keys_of(secure_azurite, azure, tmp_path)
    with LocalBackend(machine.home / "data") as data:
        assert data.read_text("summaries/a.html") == "one"
    assert machine.set_up().returncode == 0
    assert '"kind": "azure"' in machine("status", "--json").stdout


def test_without_a_terminal_and_a_flag_nothing_changes(
    machine: Machine, azure: AzureServices
) -> None:
    done = machine("cloud", "setup")
    assert done.returncode == 0
    assert azure.asked == []
    assert not (machine.home / ".env").exists()


def test_half_an_identity_is_loud_and_keeps_state_here(machine: Machine) -> None:
    assert machine.set_up().returncode == 0
    half = machine.dotenv.replace("MEMPLANE_AGENT_ID=", "MEMPLANE_AGENT_ID=\nOTHER=")
    (machine.home / ".env").write_text(half)
    status = machine("status")
    assert status.returncode == 0, status.stderr
    assert "MEMPLANE_AGENT_ID not set" in status.stdout
    doctor = machine("doctor")
    assert doctor.returncode == 1
    assert "MEMPLANE_AGENT_ID not set" in doctor.stdout
    strict = machine("cloud", "migrate", MEMPLANE_STRICT_CLOUD="true")
    assert strict.returncode == 2


def test_a_running_memplane_is_to_be_restarted(machine: Machine) -> None:
    machine.home.mkdir(parents=True, mode=0o700)
    with Home(machine.home).claim():
        done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert f"process {os.getpid()}) with the settings of before: restart it" in done.stderr
    assert "restart" not in machine.set_up().stderr


# Questions on a terminal


def test_on_a_terminal_the_upload_is_asked_about_with_what_is_missing(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    azure: AzureServices,
    secure_azurite: Azurite,
    tmp_path: Path,
) -> None:
    machine.write(a="x" * 9_000)
    with terminal(monkeypatch, "y", "n"):
        declined = machine.set_up("--create-new-storage")
    assert declined.returncode == 0, declined.stderr
    question = "This will upload about 9 KB of local memory and data, persona included"
    assert question in declined.stderr
    assert LOCAL in machine.dotenv
    assert keys_of(secure_azurite, azure, tmp_path) == []
    with terminal(monkeypatch, "y", "y"):
        agreed = machine.set_up("--with-storage-account", next(iter(azure.accounts)))
    assert agreed.returncode == 0, agreed.stderr
    machine.write(b="y" * 2_000)
    with terminal(monkeypatch, "y"):
        more = machine("cloud", "migrate")
    assert "about 2 KB of local memory and data, persona included (1 file)" in more.stderr
    assert "copied 1 objects (2000 bytes)" in more.stdout
    with terminal(monkeypatch):
        assert "upload" not in machine("cloud", "migrate").stderr, "there is nothing to ask about"


def test_an_older_systems_data_and_the_documents_are_uploaded_too(
    machine: Machine, secure_azurite: Azurite, azure: AzureServices, tmp_path: Path
) -> None:
    assert machine.set_up().returncode == 0
    older = machine.home.parent / ".entraclaw" / "data"
    older.mkdir(parents=True)
    (older / "watched_chats").write_text("chat\n")
    machine.documents.mkdir()
    (machine.documents / "user_style.md").write_text(STYLE)
    (machine.documents / "user_bad.md").write_text("no frontmatter\n")
    done = machine("cloud", "migrate")
    assert done.returncode == 1
    assert "held back 1" in done.stdout
    keys = keys_of(secure_azurite, azure, tmp_path)
    assert {"state/watched_chats", "claude_memory/user_style.md"} < set(keys)
    assert (older / "watched_chats").read_text() == "chat\n"


def test_the_container_is_deleted_when_its_name_was_typed(
    machine: Machine, azure: AzureServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine("cloud", "provision", *machine.agent).returncode == 0
    (account,) = azure.accounts.values()
    with terminal(monkeypatch, "agent-other"):
        refused = machine("cloud", "deprovision", *machine.agent)
    assert refused.returncode == 2
    assert account.containers
    with terminal(monkeypatch, f"agent-{azure.entra.user}"):
        assert machine("cloud", "deprovision", *machine.agent).returncode == 0
    assert account.containers == set()


def test_an_account_with_other_agents_containers_is_never_deleted(
    machine: Machine, azure: AzureServices
) -> None:
    assert machine("cloud", "provision", *machine.agent).returncode == 0
    (account,) = azure.accounts.values()
    account.containers.add("agent-other")
    done = machine("cloud", "deprovision", "--yes", "--delete-account", *machine.agent)
    assert done.returncode == 2
    assert "agent-other" in done.stderr
    assert len(account.containers) == 2


def test_an_older_consent_keeps_what_it_had(machine: Machine, azure: AzureServices) -> None:
    azure.grants.append(
        {
            "id": "older",
            "resourceId": azure.storage_principal,
            "consentType": "Principal",
            "scope": "something_else",
        }
    )
    assert machine("cloud", "provision", *machine.agent, "--json").returncode == 0
    assert [grant["scope"] for grant in azure.grants] == ["something_else user_impersonation"]


# Certificates


def test_a_new_certificate_that_does_not_work_is_taken_back(
    machine: Machine, azure: AzureServices
) -> None:
    assert machine.set_up().returncode == 0
    before = (machine.home / "keys" / "blueprint-private-key.pem").read_bytes()
    registered = [one["key"] for one in azure.entra.key_credentials]
    azure.entra.refuse(1, "AADSTS700027", times=20)
    done = machine("cloud", "rotate")
    assert done.returncode == 3
    assert "AADSTS700027" in done.stderr
    azure.entra.answers.clear()
    assert [file.name for file in (machine.home / "keys").iterdir()] == [
        "blueprint-private-key.pem"
    ]
    assert (machine.home / "keys" / "blueprint-private-key.pem").read_bytes() == before
    assert [one["key"] for one in azure.entra.key_credentials] == registered
    assert "failed" not in machine("doctor").stdout


@pytest.mark.parametrize(("days", "verdict"), [(340, "warning"), (366, "failed")])
def test_the_doctor_warns_of_a_certificate_that_ends(
    days: int, verdict: str, machine: Machine, azure: AzureServices
) -> None:
    old = make_certificate("machine", system_clock() - timedelta(days=days))
    FileKeyStore(machine.home / "keys").write(KEY_ACCOUNT, old)
    assert machine.set_up().returncode == 0, "the stand-in does not look at its dates"
    found = {one["name"]: one for one in json.loads(machine("doctor", "--json").stdout)}
    assert found["certificate"]["verdict"] == verdict
    assert "memplane cloud rotate" in found["certificate"]["remedy"]


def test_an_old_certificate_that_cannot_be_removed_does_not_undo_a_rotation(
    machine: Machine, azure: AzureServices, caplog: pytest.LogCaptureFixture
) -> None:
    assert machine.set_up().returncode == 0
    before = (machine.home / "keys" / "blueprint-private-key.pem").read_text()
    azure.fail("PATCH /applications/", 400, "Request_BadRequest")
    azure.faults.insert(0, ("PATCH /applications/", None))
    done = machine("cloud", "rotate")
    assert done.returncode == 0, done.stderr
    assert (machine.home / "keys" / "blueprint-private-key.pem").read_text() != before
    assert "stays registered" in caplog.text
    assert len(azure.entra.key_credentials) == 2
    assert "failed" not in machine("doctor").stdout


def test_the_doctor_names_the_hop_that_fails(machine: Machine, azure: AzureServices) -> None:
    assert machine.set_up().returncode == 0
    found = {one["name"]: one for one in json.loads(machine("doctor", "--json").stdout)}
    for name in (
        "key store",
        "certificate",
        "hop1:blueprint",
        "hop2:agent_identity",
        "hop3:agent_user",
    ):
        assert found[name]["verdict"] == "ok"
    assert found["consent"]["verdict"] == found["identity clock"]["verdict"] == "ok"
    assert found["conditional writes"]["verdict"] == "ok"
    azure.entra.consents.clear()
    wrong = machine("doctor", "--json")
    assert wrong.returncode == 1
    found = {one["name"]: one for one in json.loads(wrong.stdout)}
    assert found["hop2:agent_identity"]["verdict"] == "ok"
    assert found["hop3:agent_user"]["verdict"] == "failed"
    assert "memplane cloud provision" in found["consent"]["remedy"]
