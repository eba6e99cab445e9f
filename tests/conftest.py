"""What every test has: no settings of the developer's, a home of its own, a real Azurite."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import hypothesis
import pytest
import trustme

from tests.support.azurite import Azurite, Certificate, FreshAzurite
from tests.support.s3_server import S3Server, running_s3_server

# The machine may be busy; speed is measured in bench/, not here.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")

_CLEARED = (
    "MEMPLANE_",
    "ENTRACLAW_",
    "CLAUDEOPS_",
    "CLAUDE",
    "ANTHROPIC_",
    "OPENAI_",
    "AWS_",
    "AZURE_",
    "CLAW_",
    "CLLAMA_",
    "LISTEN_ADDR",
)


@pytest.fixture(autouse=True)
def no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(_CLEARED):
            monkeypatch.delenv(name)
    user = tmp_path / "user"
    user.mkdir()
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.chdir(user)


@pytest.fixture(autouse=True)
def recall_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recall works by words, as in processes that tests start; tests of meaning choose a model.

    Vectors are made in the background: what a test recalls would depend on when.
    """
    monkeypatch.setattr("memplane.search.embeddings.minilm.is_available", lambda: False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="session")
def fresh_azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshAzurite]:
    with closing(FreshAzurite(lambda: tmp_path_factory.mktemp("azurite"), None)) as fresh:
        yield fresh


@pytest.fixture
def azurite(fresh_azurite: FreshAzurite) -> Azurite:
    return fresh_azurite.azurite()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("certificate")
    made = Certificate(folder / "cert.pem", folder / "key.pem", folder / "ca.pem")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    for blob in issued.cert_chain_pems:
        blob.write_to_path(str(made.chain), append=True)
    issued.private_key_pem.write_to_path(str(made.key))
    authority.cert_pem.write_to_path(str(made.authority))
    return made


@pytest.fixture(scope="session")
def fresh_secure_azurite(
    tmp_path_factory: pytest.TempPathFactory, certificate: Certificate
) -> Iterator[FreshAzurite]:
    with closing(FreshAzurite(lambda: tmp_path_factory.mktemp("azurite"), certificate)) as fresh:
        yield fresh


@pytest.fixture
def secure_azurite(fresh_secure_azurite: FreshAzurite) -> Azurite:
    return fresh_secure_azurite.azurite()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with running_s3_server() as running:
        yield running


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    name = f"test-{uuid.uuid4().hex[:16]}"
    s3_server.create(name)
    return name


@pytest.fixture
def container() -> str:
    return f"test-{uuid.uuid4().hex[:16]}"
