"""Where state lives: half a configuration is never quiet, and no address holds a secret."""

from __future__ import annotations

import itertools
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memplane.errors import BackendMisconfigured
from memplane.secret import Secret
from memplane.service.backends import CachedBlobBackend, LocalBackend, get_backend
from memplane.service.claude_hooks import has_container
from memplane.service.composition.storage import (
    BlobStorage,
    Choice,
    LocalStorage,
    S3Storage,
    announce_choice,
    choose_storage,
    container_address,
    fingerprint,
    place_of,
)
from memplane.settings import BlobSettings, S3Settings, Settings, load_settings

ENDPOINT = "https://acct.blob.core.windows.net"
KEY = "a2V5LW9mLXRoZS1hY2NvdW50LW5vYm9keS1tYXktc2Vl=="
SIGNATURE = "c2lnbmF0dXJlLW5vYm9keS1tYXktc2Vl%3D"
CONNECTION_STRING = (
    f"DefaultEndpointsProtocol=https;AccountName=acct;AccountKey={KEY};"
    "EndpointSuffix=core.windows.net"
)
SAS_URL = f"{ENDPOINT}/things?sv=2021-08-06&sr=c&sp=racwdl&sig={SIGNATURE}"

E, C = "MEMPLANE_BLOB_ENDPOINT", "MEMPLANE_BLOB_CONTAINER"
STRING, SAS = "MEMPLANE_BLOB_CONNECTION_STRING", "MEMPLANE_BLOB_SAS_URL"
LOCAL, STRICT = "MEMPLANE_KEEP_MEMORY_LOCAL", "MEMPLANE_STRICT_CLOUD"

WHOLE = [
    pytest.param({E: ENDPOINT, C: "things"}, id="endpoint and container"),
    pytest.param({STRING: CONNECTION_STRING, C: "things"}, id="connection string and container"),
    pytest.param({SAS: SAS_URL}, id="sas url"),
]
HALF = [
    pytest.param({E: ENDPOINT}, C, id="endpoint only"),
    pytest.param({C: "things"}, E, id="container only"),
    pytest.param({STRING: CONNECTION_STRING}, C, id="connection string only"),
]


def settings_of(home: Path, environ: dict[str, str]) -> Settings:
    return load_settings({}, {"MEMPLANE_HOME": str(home), **environ})


def chosen(home: Path, environ: dict[str, str]) -> Choice:
    return choose_storage(settings_of(home, environ))


def blob(
    *, endpoint: str = "", container: str = "", connection_string: str = "", sas_url: str = ""
) -> BlobSettings:
    return BlobSettings(
        endpoint=endpoint,
        container=container,
        connection_string=Secret(connection_string),
        sas_url=Secret(sas_url),
    )


B, ACCESS, SECRET = "MEMPLANE_S3_BUCKET", "MEMPLANE_S3_ACCESS_KEY", "MEMPLANE_S3_SECRET_KEY"
BUCKET = {B: "box", ACCESS: "AKIAEXAMPLE", SECRET: "s3cr3t"}


# The choice


def test_without_a_container_state_is_local(home: Path) -> None:
    choice = chosen(home, {})
    assert choice.storage == LocalStorage(home / "data")
    assert choice.reason == "no container is configured"
    assert choice.complaint is None


@pytest.mark.parametrize("environ", WHOLE)
def test_a_whole_configuration_is_the_cloud(home: Path, environ: dict[str, str]) -> None:
    choice = chosen(home, environ)
    assert isinstance(choice.storage, BlobStorage)
    assert choice.complaint is None
    for variable in environ:
        assert variable in choice.reason


@pytest.mark.parametrize("environ", WHOLE)
def test_the_cache_lies_in_the_cache_folder_under_the_fingerprint(
    home: Path, environ: dict[str, str]
) -> None:
    settings = settings_of(home, environ)
    storage = choose_storage(settings).storage
    assert isinstance(storage, BlobStorage)
    assert storage.blob == settings.blob
    assert storage.cache == home / "cache" / "blob" / fingerprint(settings.blob)


@pytest.mark.parametrize("environ", WHOLE)
def test_keeping_memory_local_wins_over_a_whole_configuration(
    home: Path, environ: dict[str, str]
) -> None:
    choice = chosen(home, {**environ, LOCAL: "true"})
    assert choice.storage == LocalStorage(home / "data")
    assert LOCAL in choice.reason
    assert choice.complaint is None


def test_local_state_lies_in_the_data_folder(home: Path, tmp_path: Path) -> None:
    choice = chosen(home, {"MEMPLANE_DATA_DIR": str(tmp_path / "elsewhere")})
    assert choice.storage == LocalStorage(tmp_path / "elsewhere")


@pytest.mark.parametrize(("environ", "missing"), HALF)
def test_half_a_configuration_stays_local_and_complains(
    home: Path, environ: dict[str, str], missing: str
) -> None:
    choice = chosen(home, environ)
    assert choice.storage == LocalStorage(home / "data")
    assert choice.complaint is not None
    assert missing in choice.complaint
    assert missing in choice.reason
    for given in environ:
        assert given not in choice.complaint


@pytest.mark.parametrize(("environ", "missing"), HALF)
def test_half_a_configuration_is_an_error_when_strict(
    home: Path, environ: dict[str, str], missing: str
) -> None:
    with pytest.raises(BackendMisconfigured, match=missing):
        chosen(home, {**environ, STRICT: "true"})


@pytest.mark.parametrize(("environ", "missing"), HALF)
def test_keeping_memory_local_silences_the_complaint_also_when_strict(
    home: Path, environ: dict[str, str], missing: str
) -> None:
    choice = chosen(home, {**environ, LOCAL: "true", STRICT: "true"})
    assert choice.storage == LocalStorage(home / "data")
    assert choice.complaint is None
    assert missing not in choice.reason


@pytest.mark.parametrize("environ", [{}, *(one.values[0] for one in WHOLE)])
def test_being_strict_changes_nothing_else(home: Path, environ: dict[str, str]) -> None:
    assert chosen(home, {**environ, STRICT: "true"}) == chosen(home, environ)


def test_an_empty_variable_is_a_missing_one(home: Path) -> None:
    complaint = chosen(home, {E: ENDPOINT, C: ""}).complaint
    assert complaint is not None
    assert C in complaint
    assert chosen(home, {E: "", C: ""}).complaint is None


def test_the_backend_is_the_one_that_was_chosen(home: Path) -> None:
    with get_backend(settings_of(home, {})) as local:
        assert isinstance(local, LocalBackend)
    with get_backend(settings_of(home, {E: ENDPOINT, C: "things"})) as cloud:
        assert isinstance(cloud, CachedBlobBackend)
    with pytest.raises(BackendMisconfigured):
        get_backend(settings_of(home, {E: ENDPOINT, STRICT: "true"}))


# What is said about it


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize("environ", [{}, *(one.values[0] for one in WHOLE)])
def test_announcing_a_whole_configuration_warns_of_nothing(
    home: Path, environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    choice = chosen(home, environ)
    announce_choice(choice)
    assert not warnings_of(caplog)
    assert choice.reason in caplog.text
    assert place_of(choice.storage) in caplog.text


def test_keeping_memory_local_silences_the_warning(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    announce_choice(chosen(home, {E: ENDPOINT, LOCAL: "true"}))
    assert not warnings_of(caplog)


ASK = """
import logging, sys
from memplane.service.composition.storage import announce_choice, choose_storage
from memplane.settings import load_settings_from_environment
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
for _ in range(int(sys.argv[1])):
    announce_choice(choose_storage(load_settings_from_environment()))
"""


def warnings_of_a_process(home: Path, environ: dict[str, str], *, times: int) -> list[str]:
    """Announce the choice in a process of its own, and return the warnings it logged."""
    ran = subprocess.run(
        [sys.executable, "-c", ASK, str(times)],
        env={**os.environ, "MEMPLANE_HOME": str(home), **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in ran.stderr.splitlines() if line.startswith("WARNING")]


@pytest.mark.parametrize(("environ", "missing"), HALF)
def test_half_a_configuration_is_warned_of_by_name(
    home: Path, environ: dict[str, str], missing: str
) -> None:
    (warning,) = warnings_of_a_process(home, environ, times=1)
    assert missing in warning


def test_a_process_warns_once_however_often_it_asks(home: Path) -> None:
    assert len(warnings_of_a_process(home, {E: ENDPOINT}, times=3)) == 1


@pytest.mark.parametrize("environ", WHOLE)
def test_nothing_that_is_said_shows_a_secret(
    home: Path, environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    choice = chosen(home, environ)
    announce_choice(choice)
    shown = f"{caplog.text} {choice} {place_of(choice.storage)}"
    assert KEY not in shown
    assert SIGNATURE not in shown


@pytest.mark.parametrize(("environ", "_"), HALF)
def test_no_complaint_shows_a_secret(home: Path, environ: dict[str, str], _: str) -> None:
    assert KEY not in str(chosen(home, environ))
    with pytest.raises(BackendMisconfigured) as caught:
        chosen(home, {**environ, STRICT: "true"})
    assert KEY not in str(caught.value)


# The address

THINGS = f"{ENDPOINT}/things"


@pytest.mark.parametrize(
    ("one", "address"),
    [
        (blob(endpoint=ENDPOINT, container="things"), THINGS),
        (blob(endpoint=f"{ENDPOINT}/", container="things"), THINGS),
        (blob(endpoint="https://ACCT.blob.core.windows.net", container="things"), THINGS),
        (blob(connection_string=CONNECTION_STRING, container="things"), THINGS),
        (blob(connection_string=CONNECTION_STRING + ";", container="things"), THINGS),
        (blob(sas_url=SAS_URL), THINGS),
        (blob(sas_url=f"{THINGS}/?sig={SIGNATURE}"), THINGS),
        (
            blob(
                connection_string="DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;"
                f"AccountKey={KEY};BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;",
                container="things",
            ),
            "http://127.0.0.1:10000/devstoreaccount1/things",
        ),
        (
            blob(
                connection_string=f"BlobEndpoint={ENDPOINT}/;"
                f"SharedAccessSignature=sv=2021-08-06&sig={SIGNATURE}",
                container="things",
            ),
            THINGS,
        ),
        pytest.param(
            blob(connection_string=f"AccountName=acct;AccountKey={KEY}", container="things"),
            THINGS,
            id="the public cloud goes without saying",
        ),
    ],
)
def test_the_address_is_that_of_the_container(one: BlobSettings, address: str) -> None:
    assert container_address(one) == address


@pytest.mark.parametrize(
    "one",
    [
        blob(connection_string=CONNECTION_STRING, container="things"),
        blob(
            connection_string=f"AccountKey={KEY};AccountName=acct;EndpointSuffix=x",
            container="things",
        ),
        blob(
            connection_string=f"BlobEndpoint={ENDPOINT};SharedAccessSignature=sig={SIGNATURE}",
            container="things",
        ),
        blob(connection_string=KEY, container="things"),
        blob(sas_url=SAS_URL),
        blob(sas_url=f"{THINGS}/?{SIGNATURE}#{KEY}"),
        pytest.param(
            blob(endpoint=f"{ENDPOINT}/?sv=2021-08-06&sig={SIGNATURE}", container="things"),
            id="an endpoint with a signature, as the portal offers it",
        ),
        pytest.param(
            blob(
                connection_string=f"BlobEndpoint={ENDPOINT}/?sig={SIGNATURE}", container="things"
            ),
            id="a connection string whose endpoint has a signature",
        ),
    ],
)
def test_the_address_holds_no_secret(one: BlobSettings) -> None:
    address = container_address(one)
    for secret in (KEY, SIGNATURE):
        assert secret.lower() not in address.lower()


# The fingerprint


def test_each_container_has_its_own_fingerprint() -> None:
    containers = [
        blob(endpoint=endpoint, container=container)
        for endpoint in (ENDPOINT, "https://other.blob.core.windows.net", "http://127.0.0.1:10000")
        for container in ("things", "thing", "s", "others")
    ]
    for one, other in itertools.combinations(containers, 2):
        assert fingerprint(one) != fingerprint(other)


def test_two_containers_of_one_account_differ_in_every_way_of_reaching_them() -> None:
    string = [blob(connection_string=CONNECTION_STRING, container=name) for name in ("a", "b")]
    sas = [blob(sas_url=f"{ENDPOINT}/{name}?sig={SIGNATURE}") for name in ("a", "b")]
    assert len({fingerprint(one) for one in string}) == 2
    assert len({fingerprint(one) for one in sas}) == 2


def test_a_fingerprint_is_the_same_whatever_the_credentials() -> None:
    rotated = CONNECTION_STRING.replace(KEY, "bmV3")
    same = [
        blob(endpoint=ENDPOINT, container="things"),
        blob(endpoint=f"{ENDPOINT}/", container="things"),
        blob(connection_string=CONNECTION_STRING, container="things"),
        blob(connection_string=rotated, container="things"),
        blob(sas_url=SAS_URL),
        blob(sas_url=SAS_URL.replace(SIGNATURE, "new")),
    ]
    assert len({fingerprint(one) for one in same}) == 1


def test_a_fingerprint_never_changes_because_caches_are_found_by_it() -> None:
    assert fingerprint(blob(endpoint=ENDPOINT, container="things")) == "87b5ac09ec361175"


# A bucket


def test_a_bucket_and_an_access_key_are_enough(home: Path) -> None:
    choice = chosen(home, BUCKET)
    assert isinstance(choice.storage, S3Storage)
    assert choice.complaint is None
    assert place_of(choice.storage) == "https://s3.us-east-1.amazonaws.com/box"
    assert choice.storage.cache.parent == home / "cache" / "s3"
    assert has_container(settings_of(home, BUCKET))


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({SECRET: ""}, SECRET),
        ({ACCESS: "", SECRET: ""}, f"{ACCESS} and {SECRET}"),
        ({B: "", "MEMPLANE_S3_ENDPOINT": "https://s3.example.com"}, B),
        ({E: ENDPOINT, C: "things"}, "both name a container"),
        ({SAS: SAS_URL}, "both name a container"),
    ],
)
def test_half_a_bucket_stays_local_and_says_why(
    home: Path, changes: dict[str, str], missing: str
) -> None:
    choice = chosen(home, {**BUCKET, **changes})
    assert choice.storage == LocalStorage(home / "data")
    assert choice.complaint is not None
    assert missing in choice.complaint
    assert not has_container(settings_of(home, {**BUCKET, **changes}))
    with pytest.raises(BackendMisconfigured, match=missing):
        chosen(home, {**BUCKET, **changes, STRICT: "true"})


def test_keys_for_amazon_are_taken_from_its_own_variables_but_name_no_bucket(home: Path) -> None:
    amazon = {
        "AWS_ACCESS_KEY_ID": "AKIAOTHER",
        "AWS_SECRET_ACCESS_KEY": "other",
        "AWS_SESSION_TOKEN": "token",
        "AWS_REGION": "eu-west-1",
    }
    assert chosen(home, amazon).reason == "no container is configured"
    s3 = settings_of(home, {B: "box", **amazon}).s3
    assert (s3.access_key, s3.secret_key.reveal(), s3.region) == (
        "AKIAOTHER",
        "other",
        "eu-west-1",
    )
    assert s3.session_token.reveal() == "token"
    own = settings_of(home, {**BUCKET, **amazon}).s3
    assert (own.access_key, own.secret_key.reveal()) == ("AKIAEXAMPLE", "s3cr3t")
    assert own.session_token.reveal() == "", "a token of other keys was sent with ours"
    half = chosen(home, {B: "box", ACCESS: "AKIAEXAMPLE", **amazon})
    assert half.complaint is not None
    assert SECRET in half.complaint, "another key's secret was taken for ours"


def test_two_buckets_never_share_a_cache() -> None:
    buckets = [
        S3Settings(bucket="box"),
        S3Settings(bucket="Box"),
        S3Settings(bucket="box", prefix="ada"),
        S3Settings(bucket="box", region="eu-west-1"),
        S3Settings(bucket="box", endpoint="https://s3.example.com"),
    ]
    assert len({fingerprint(bucket) for bucket in buckets}) == len(buckets)
