"""Tokens of an Agent User: three hops, each checked by a stand-in for the token endpoint."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import keyring
import keyring.backend
import pytest
from aiohttp import web

from memplane import acquire_agent_user_storage_token, get_backend
from memplane.errors import BackendMisconfigured, BackendUnavailable, HomeError, HopError
from memplane.kit.clock import system_clock
from memplane.secret import Secret
from memplane.service.composition.identity import find_identity, open_tokens
from memplane.settings import Settings, load_settings
from memplane.storage.identity.agent_user import AgentUser, Hop, Resource
from memplane.storage.identity.certificate import (
    AgentCertificate,
    UnusableCertificate,
    make_certificate,
    read_certificate,
)
from memplane.storage.identity.key_store import (
    KEY_ACCOUNT,
    FileKeyStore,
    SystemKeyStore,
    is_round_trip_possible,
    open_key_store,
)
from memplane.storage.identity.token_chain import AgentUserTokens
from memplane.storage.identity.token_exchange import MsalExchange
from memplane.storage.token_sources import AgentUserTokenSource
from tests.support.azurite import Azurite, Certificate
from tests.support.entra import Entra, running_entra

PEM = make_certificate("memplane test", system_clock())
OTHER_PEM = make_certificate("memplane test", system_clock())


@pytest.fixture(scope="module")
def served(certificate: Certificate) -> Iterator[Entra]:
    with running_entra(certificate) as entra:
        yield entra


@pytest.fixture
def entra(served: Entra) -> Entra:
    """A tenant that has forgotten what earlier tests did, and knows our certificate."""
    fresh = Entra()
    for name in ("asked", "answers", "minted", "key_credentials", "consents", "used_assertions"):
        setattr(served, name, getattr(fresh, name))
    served.lifetime, served.ahead = 3600, timedelta()
    served.register(read_certificate(PEM).der)
    return served


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


def user_of(entra: Entra, certificate: Certificate, folder: Path = Path("/nowhere")) -> AgentUser:
    return AgentUser(
        tenant_id=entra.tenant,
        blueprint_app_id=entra.blueprint,
        agent_id=entra.agent,
        user_id=entra.user,
        user_upn="",
        authority=entra.authority,
        key_folder=folder,
        ca_file=certificate.authority,
    )


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(entra: Entra, certificate: Certificate, clock: Clock) -> AgentUserTokens:
    user = user_of(entra, certificate)
    exchange = MsalExchange(user, lambda: read_certificate(PEM), clock=clock)
    return AgentUserTokens(exchange, clock=clock)


# What is sent. The stand-in refuses every parameter that is not as documented.


def test_three_hops_lead_to_a_token_for_storage(entra: Entra, tokens: AgentUserTokens) -> None:
    token = tokens.token(Resource.STORAGE)
    assert entra.minted[token].hop == 3
    assert entra.hops == [1, 2, 3]
    forms = [form for _, form in entra.asked]
    assert forms[0]["fmi_path"] == entra.agent
    assert forms[1]["client_assertion"] == forms[2]["client_assertion"]


def test_another_resource_changes_the_last_hop_only(entra: Entra, tokens: AgentUserTokens) -> None:
    storage, graph = tokens.token(Resource.STORAGE), tokens.token(Resource.GRAPH)
    assert storage != graph
    assert entra.hops == [1, 2, 3, 3]
    scopes = [form["scope"] for _, form in entra.asked]
    assert "https://storage.azure.com/.default" in scopes[2].split()
    assert "https://graph.microsoft.com/.default" in scopes[3].split()
    assert tokens.token(Resource.STORAGE) == storage


def test_a_user_may_be_named_by_upn(entra: Entra, certificate: Certificate, clock: Clock) -> None:
    from msgspec.structs import replace

    named = replace(user_of(entra, certificate), user_id="", user_upn=entra.upn)
    exchange = MsalExchange(named, lambda: read_certificate(PEM), clock=clock)
    AgentUserTokens(exchange, clock=clock).token(Resource.STORAGE)
    assert entra.asked[2][1]["username"] == entra.upn
    assert "user_id" not in entra.asked[2][1]


@pytest.mark.parametrize(
    ("change", "hop"),
    [
        ({"agent_id": "somebody-else"}, Hop.AGENT_IDENTITY),
        ({"user_id": "somebody-else"}, Hop.AGENT_USER),
        ({"algorithm": "RS256"}, Hop.BLUEPRINT),
    ],
)
def test_the_stand_in_refuses_what_is_not_as_documented(
    change: dict[str, str], hop: Hop, entra: Entra, certificate: Certificate, clock: Clock
) -> None:
    from msgspec.structs import replace

    wrong = replace(user_of(entra, certificate), **change)
    exchange = MsalExchange(wrong, lambda: read_certificate(PEM), clock=clock)
    with pytest.raises(HopError) as refused:
        AgentUserTokens(exchange, clock=clock).token(Resource.STORAGE)
    assert refused.value.hop == hop


@pytest.mark.parametrize(
    ("authority", "is_asked"),
    [("https://login.microsoftonline.com", True), ("https://127.0.0.1:1", False)],
)
def test_only_a_stand_in_goes_without_instance_discovery(
    authority: str, *, is_asked: bool, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msgspec.structs import replace

    made: list[dict[str, object]] = []

    def make(*_: object, **options: object) -> object:
        made.append(options)
        raise ValueError("nothing is asked")

    monkeypatch.setattr("msal.ConfidentialClientApplication", make)
    nobody = replace(
        user_of(Entra(), Certificate(Path("/"), Path("/"), Path("/"))), authority=authority
    )
    with pytest.raises(BackendUnavailable):
        MsalExchange(nobody, lambda: read_certificate(PEM), clock=clock).blueprint_token()
    assert made[0]["instance_discovery"] is is_asked


# How often is asked


def test_each_hop_is_renewed_five_minutes_before_its_own_end(
    entra: Entra, tokens: AgentUserTokens, clock: Clock
) -> None:
    tokens.token(Resource.STORAGE)
    clock.now += timedelta(minutes=54)
    entra.ahead = timedelta(minutes=56)
    tokens.token(Resource.STORAGE)
    assert entra.hops == [1, 2, 3]
    entra.lifetime = 7200
    clock.now += timedelta(minutes=2)
    tokens.token(Resource.STORAGE)
    assert entra.hops == [1, 2, 3] * 2


def test_fifty_threads_that_ask_at_once_cost_three_requests(
    entra: Entra, tokens: AgentUserTokens
) -> None:
    together = threading.Barrier(50)

    def ask() -> str:
        together.wait()
        return tokens.token(Resource.STORAGE)

    with ThreadPoolExecutor(50) as pool:
        handed_out = {one.result() for one in [pool.submit(ask) for _ in range(50)]}
    assert len(handed_out) == 1
    assert entra.hops == [1, 2, 3]


def test_a_refused_token_costs_the_last_hop_and_then_the_earlier_ones(
    entra: Entra, tokens: AgentUserTokens
) -> None:
    first = tokens.token(Resource.STORAGE)
    tokens.refused(Resource.STORAGE, first)
    second = tokens.token(Resource.STORAGE)
    assert entra.hops == [1, 2, 3, 3]
    tokens.refused(Resource.STORAGE, first)  # somebody else was told late
    assert tokens.token(Resource.STORAGE) == second
    tokens.refused(Resource.STORAGE, second)
    assert tokens.token(Resource.STORAGE) not in {first, second}
    assert entra.hops == [1, 2, 3, 3, 1, 2, 3]


def test_a_refusal_long_ago_does_not_count(
    entra: Entra, tokens: AgentUserTokens, clock: Clock
) -> None:
    tokens.refused(Resource.STORAGE, tokens.token(Resource.STORAGE))
    tokens.token(Resource.STORAGE)
    clock.now += timedelta(minutes=56)
    entra.ahead = timedelta(minutes=56)
    renewed = tokens.token(Resource.STORAGE)
    entra.asked.clear()
    tokens.refused(Resource.STORAGE, renewed)
    tokens.token(Resource.STORAGE)
    assert entra.hops == [3]


# Failures


@pytest.mark.parametrize(
    ("hop", "code", "named", "says"),
    [
        (1, "AADSTS700027", Hop.BLUEPRINT, "memplane cloud setup"),
        (1, "AADSTS700024", Hop.BLUEPRINT, "set the clock"),
        (1, "AADSTS700016", Hop.BLUEPRINT, "MEMPLANE_BLUEPRINT_APP_ID"),
        (2, "AADSTS700211", Hop.AGENT_IDENTITY, "MEMPLANE_AGENT_ID"),
        (3, "AADSTS65001", Hop.AGENT_USER, "memplane cloud provision"),
        (3, "AADSTS50034", Hop.AGENT_USER, "MEMPLANE_AGENT_USER_ID"),
    ],
)
def test_a_failure_names_the_hop_and_what_to_do(
    hop: int, code: str, named: Hop, says: str, entra: Entra, tokens: AgentUserTokens
) -> None:
    entra.refuse(hop, code)
    with pytest.raises(HopError, match=says) as refused:
        tokens.token(Resource.STORAGE)
    assert (refused.value.hop, refused.value.code) == (named, code)
    assert "\n" not in str(refused.value)
    assert tokens.token(Resource.STORAGE), "the next attempt begins anew"


def test_an_answer_that_is_no_json_is_said(entra: Entra, tokens: AgentUserTokens) -> None:
    page = web.Response(text="<html>log in</html>", content_type="text/html")
    entra.answers[2] = [page]
    with pytest.raises(HopError) as refused:
        tokens.token(Resource.STORAGE)
    assert (refused.value.hop, refused.value.code) == (Hop.AGENT_IDENTITY, "non_json_response")


def test_when_nobody_answers_it_is_no_refusal(
    entra: Entra, certificate: Certificate, clock: Clock
) -> None:
    from msgspec.structs import replace

    nobody = replace(user_of(entra, certificate), authority="https://127.0.0.1:9")
    exchange = MsalExchange(nobody, lambda: read_certificate(PEM), clock=clock)
    with pytest.raises(BackendUnavailable, match="hop1"):
        AgentUserTokens(exchange, clock=clock).token(Resource.STORAGE)


@pytest.mark.parametrize(
    ("pem", "thumbprint", "says"),
    [
        (Secret("garbage"), "", "MEMPLANE_BLUEPRINT_CERT_THUMBPRINT"),
        (Secret("garbage"), "a" * 43, "cannot be read"),
        (PEM, "a" * 43, "Correct the setting"),
    ],
)
def test_a_bad_certificate_is_the_first_hops_and_nothing_is_asked(
    pem: Secret, thumbprint: str, says: str, entra: Entra, certificate: Certificate, clock: Clock
) -> None:
    def read() -> AgentCertificate:
        return read_certificate(pem, thumbprint)

    exchange = MsalExchange(user_of(entra, certificate), read, clock=clock)
    with pytest.raises(HopError, match=says) as refused:
        AgentUserTokens(exchange, clock=clock).token(Resource.STORAGE)
    assert (refused.value.hop, refused.value.code) == (Hop.BLUEPRINT, "bad_certificate")
    assert entra.asked == []


def test_nothing_secret_is_in_a_log_at_debug_level(
    entra: Entra, tokens: AgentUserTokens, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens.token(Resource.STORAGE)
    entra.refuse(3, "AADSTS65001")
    tokens.refused(Resource.STORAGE, tokens.token(Resource.STORAGE))
    with pytest.raises(HopError):
        tokens.token(Resource.STORAGE)
    assert "/oauth2/v2.0/token" in caplog.text, "the requests are logged"
    assert len(entra.secrets) > 5
    for secret in (*entra.secrets, PEM.reveal()):
        assert secret not in caplog.text


def test_the_libraries_are_imported_when_a_token_is_asked_for(home: Path) -> None:
    program = (
        "import sys, memplane\n"
        "memplane.get_backend(memplane.load_settings({}, {\n"
        f"    'MEMPLANE_HOME': {str(home)!r}, 'MEMPLANE_BLOB_ENDPOINT': 'https://a',\n"
        "    'MEMPLANE_BLOB_CONTAINER': 'b', 'MEMPLANE_TENANT_ID': 't',\n"
        "    'MEMPLANE_BLUEPRINT_APP_ID': 'b', 'MEMPLANE_AGENT_ID': 'a',\n"
        "    'MEMPLANE_AGENT_USER_ID': 'u'}))\n"
        "print(sorted({'msal', 'cryptography', 'keyring', 'requests'} & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"


# The key


class FakeKeyring(keyring.backend.KeyringBackend):
    priority = -1  # so that nobody finds it who was not given it

    def __init__(self) -> None:
        self.priority = 5
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise keyring.errors.PasswordDeleteError


@pytest.fixture
def system_keyring() -> Iterator[FakeKeyring]:
    before = keyring.get_keyring()
    fake = FakeKeyring()
    keyring.set_keyring(fake)
    yield fake
    keyring.set_keyring(before)


def test_the_key_is_in_the_key_store_of_the_system(
    system_keyring: FakeKeyring, tmp_path: Path
) -> None:
    store = open_key_store(tmp_path / "keys")
    assert isinstance(store, SystemKeyStore)
    store.write(KEY_ACCOUNT, PEM)
    assert system_keyring.kept == {("memplane", "blueprint-private-key"): PEM.reveal()}
    assert store.read(KEY_ACCOUNT) == PEM
    assert is_round_trip_possible(store, Secret("x"))
    store.delete(KEY_ACCOUNT)
    store.delete(KEY_ACCOUNT)
    assert store.read(KEY_ACCOUNT) is None
    assert not (tmp_path / "keys").exists()


def test_without_a_key_store_the_key_is_in_a_private_file_that_says_so(tmp_path: Path) -> None:
    store = open_key_store(tmp_path / "keys")
    assert isinstance(store, FileKeyStore)
    store.write(KEY_ACCOUNT, PEM)
    (file,) = (tmp_path / "keys").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "no key store" in store.where
    assert "because there is no key store" in file.read_text()
    assert store.read(KEY_ACCOUNT) == PEM
    assert is_round_trip_possible(store, Secret("x"))


@pytest.mark.usefixtures("system_keyring")
def test_a_key_that_is_in_a_file_stays_there(tmp_path: Path) -> None:
    FileKeyStore(tmp_path).write(KEY_ACCOUNT, PEM)
    assert isinstance(open_key_store(tmp_path), FileKeyStore)


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    store = FileKeyStore(tmp_path)
    store.write(KEY_ACCOUNT, PEM)
    (tmp_path / f"{KEY_ACCOUNT}.pem").chmod(0o644)
    with pytest.raises(HomeError, match="chmod 600"):
        store.read(KEY_ACCOUNT)


def test_a_key_without_its_certificate_needs_the_thumbprint() -> None:
    key = Secret(PEM.reveal().partition("-----BEGIN CERTIFICATE")[0])
    with pytest.raises(UnusableCertificate, match="THUMBPRINT"):
        read_certificate(key)
    known = read_certificate(PEM).thumbprint
    assert read_certificate(key, known).thumbprint == known


# Through the settings


def settings_of(
    entra: Entra, home: Path, certificate: Certificate, azurite: Azurite | None, container: str
) -> Settings:
    environ = {
        "MEMPLANE_HOME": str(home),
        "MEMPLANE_TENANT_ID": entra.tenant,
        "MEMPLANE_BLUEPRINT_APP_ID": entra.blueprint,
        "MEMPLANE_AGENT_ID": entra.agent,
        "MEMPLANE_AGENT_USER_ID": entra.user,
        "MEMPLANE_AZURE_AUTHORITY": entra.authority,
        "MEMPLANE_BLOB_CA_FILE": str(certificate.authority),
    }
    if azurite is not None:
        environ |= {
            "MEMPLANE_BLOB_ENDPOINT": azurite.endpoint,
            "MEMPLANE_BLOB_CONTAINER": container,
        }
    return load_settings({}, environ)


@pytest.fixture
def settings(
    entra: Entra, home: Path, certificate: Certificate, secure_azurite: Azurite, container: str
) -> Settings:
    home.mkdir(mode=0o700)
    FileKeyStore(home / "keys").write(KEY_ACCOUNT, PEM)
    return settings_of(entra, home, certificate, secure_azurite, container)


def test_a_program_can_have_a_token(entra: Entra, settings: Settings) -> None:
    token = acquire_agent_user_storage_token(settings)
    assert entra.minted[token].hop == 3
    assert acquire_agent_user_storage_token(settings) == token


def test_without_an_identity_there_is_no_token(home: Path) -> None:
    with pytest.raises(BackendMisconfigured, match="memplane cloud setup"):
        acquire_agent_user_storage_token(load_settings({}, {"MEMPLANE_HOME": str(home)}))


def test_half_an_identity_is_refused_by_name(home: Path) -> None:
    half = {"MEMPLANE_HOME": str(home), "MEMPLANE_AGENT_ID": "a", "MEMPLANE_TENANT_ID": "t"}
    with pytest.raises(BackendMisconfigured, match="MEMPLANE_BLUEPRINT_APP_ID") as refused:
        find_identity(load_settings({}, half))
    assert "MEMPLANE_TENANT_ID" not in str(refused.value)


def test_a_machine_without_a_certificate_is_told_what_to_do(
    entra: Entra, home: Path, certificate: Certificate
) -> None:
    with pytest.raises(HopError, match="memplane cloud setup"):
        acquire_agent_user_storage_token(settings_of(entra, home, certificate, None, ""))


def test_a_pull_of_fifty_objects_costs_three_token_requests(
    entra: Entra, settings: Settings, secure_azurite: Azurite, container: str
) -> None:
    from memplane import BlobBackend

    with BlobBackend(secure_azurite.by_key(container), cache=settings.home / "c") as direct:
        for number in range(50):
            direct.write_text(f"notes/{number}.md", "x")
    with get_backend(settings) as backend:
        assert entra.asked == []
        assert {backend.read_text(key) for key in backend.list("notes/")} == {"x"}
    assert entra.hops == [1, 2, 3]


async def test_waiting_for_a_token_leaves_the_threads_to_others(
    entra: Entra, settings: Settings
) -> None:
    identity = find_identity(settings)
    assert identity is not None
    source = AgentUserTokenSource(open_tokens(identity))
    handed_out = await asyncio.gather(*(source.token() for _ in range(50)))
    assert len(set(handed_out)) == 1
    assert entra.hops == [1, 2, 3]


def test_a_second_machine_does_not_lock_out_the_first(
    entra: Entra, tokens: AgentUserTokens, certificate: Certificate, clock: Clock
) -> None:
    other = MsalExchange(
        user_of(entra, certificate), lambda: read_certificate(OTHER_PEM), clock=clock
    )
    with pytest.raises(HopError, match="AADSTS700027"):
        other.blueprint_token()
    entra.register(read_certificate(OTHER_PEM).der)
    other.blueprint_token()
    tokens.token(Resource.STORAGE)
    header = json.dumps(entra.key_credentials)
    assert "PRIVATE" not in header
