"""The providers that an operator configured."""

from __future__ import annotations

import json
import os
import traceback
from pathlib import Path
from typing import Any

import pytest

from memplane.errors import SettingsError
from memplane.proxy.provider import AuthScheme, Provider
from memplane.proxy.provider_config import find_config_warnings, read_providers
from memplane.secret import Secret


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "providers.json"


def write(path: Path, body: object) -> Path:
    path.write_text(json.dumps(body))
    return path


def read(path: Path, providers: dict[str, Any], **environ: str) -> dict[str, Provider]:
    return dict(read_providers(write(path, {"providers": providers}), environ))


def read2(path: Path, entry: dict[str, Any]) -> Provider:
    body = {"version": 2, "providers": {"openai": entry}}
    return read_providers(write(path, body), {})["openai"]


def test_without_anything_there_are_none(path: Path) -> None:
    assert read_providers(None, {}) == {}
    assert read_providers(path, {}) == {}
    assert read(path, {}) == {}


def test_the_environment_names_providers() -> None:
    environ = {
        "OPENAI_API_KEY": " o\n",
        "ANTHROPIC_API_KEY": "a",
        "OPENROUTER_API_KEY": "r",
        "XAI_API_KEY": "x",
        "GEMINI_API_KEY": "g",
        "OTHER_API_KEY": "n",
    }
    gemini = "https://generativelanguage.googleapis.com/v1beta/openai"
    assert dict(read_providers(None, environ)) == {
        "openai": Provider("openai", "https://api.openai.com/v1", Secret("o")),
        "anthropic": Provider(
            "anthropic",
            "https://api.anthropic.com/v1",
            Secret("a"),
            AuthScheme.X_API_KEY,
            "anthropic",
        ),
        "openrouter": Provider("openrouter", "https://openrouter.ai/api/v1", Secret("r")),
        "xai": Provider("xai", "https://api.x.ai/v1", Secret("x")),
        "gemini": Provider("gemini", gemini, Secret("g")),
        "google": Provider("google", gemini, Secret("g")),
    }


def test_the_environment_names_addresses() -> None:
    environ = {
        "OPENAI_API_KEY": "o",
        "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1/",
        "ANTHROPIC_API_KEY": "a",
        # Anthropic's own tools write it without a version.
        "ANTHROPIC_BASE_URL": "https://api.anthropic.com",
        "XAI_BASE_URL": "http://10.0.0.1/x",
    }
    found = read_providers(None, environ)
    assert found["openai"].base_url == "http://127.0.0.1:8000/v1"
    assert found["anthropic"].base_url == "https://api.anthropic.com/v1"
    # An address without a key is a server of one's own.
    assert found["xai"] == Provider("xai", "http://10.0.0.1/x", None, AuthScheme.NONE)
    assert found["xai"].usable


def test_a_file_of_the_first_version(path: Path) -> None:
    entries: dict[str, Any] = {
        " OpenAI ": {"base_url": "http://127.0.0.1:1/v1/", "api_key": "k"},
        "anthropic": {"api_key": "a"},
        "mine": {
            "base_url": "http://mine:80",
            "api_key": "m",
            "auth": "X-API-Key",
            "api_format": "Anthropic",
            "something": ["new"],
        },
        "claudes": {"base_url": "http://mine", "api_key": "c", "api_format": "anthropic"},
        "ollama": {"auth": "none"},
        "bare": {"base_url": "http://bare/v1", "auth": "none"},
    }
    assert read(path, entries) == {
        "openai": Provider("openai", "http://127.0.0.1:1/v1", Secret("k")),
        "anthropic": Provider(
            "anthropic",
            "https://api.anthropic.com/v1",
            Secret("a"),
            AuthScheme.X_API_KEY,
            "anthropic",
        ),
        "mine": Provider("mine", "http://mine:80", Secret("m"), AuthScheme.X_API_KEY, "anthropic"),
        "claudes": Provider(
            "claudes", "http://mine", Secret("c"), AuthScheme.X_API_KEY, "anthropic"
        ),
        "ollama": Provider("ollama", "http://ollama:11434/v1", None, AuthScheme.NONE),
        "bare": Provider("bare", "http://bare/v1", None, AuthScheme.NONE),
    }


def test_a_provider_without_a_key_is_not_usable(path: Path) -> None:
    found = read(
        path, {"a": {"base_url": "http://a"}, "b": {"base_url": "http://b", "auth": "none"}}
    )
    assert not found["a"].usable
    assert found["b"].usable


def test_the_file_beats_the_environment(path: Path) -> None:
    found = read(
        path,
        {"openai": {"api_key": "file"}, "xai": {"base_url": "http://10.0.0.1/v1"}, "gemini": {}},
        OPENAI_API_KEY="environment",
        OPENAI_BASE_URL="http://127.0.0.1:1/v1",
        XAI_API_KEY="environment",
        GEMINI_API_KEY="environment",
        GEMINI_BASE_URL="http://127.0.0.1:2/v1",
        ANTHROPIC_API_KEY="environment",
    )
    assert found["openai"] == Provider("openai", "https://api.openai.com/v1", Secret("file"))
    # A key of the environment does not go to an address that it was not meant for.
    assert found["xai"] == Provider("xai", "http://10.0.0.1/v1", None)
    assert found["gemini"] == Provider("gemini", "http://127.0.0.1:2/v1", Secret("environment"))
    assert found["anthropic"].key == Secret("environment")


def key(name: str, state: str = "ready") -> dict[str, str]:
    return {"id": name, "label": "l", "secret": f"secret-{name}", "source": "seed", "state": state}


@pytest.mark.parametrize(
    ("active", "keys", "chosen"),
    [
        ("b", [key("a"), key("b")], "secret-b"),
        ("", [key("a"), key("b")], "secret-a"),
        ("gone", [key("a"), key("b")], "secret-a"),
        ("b", [key("a"), key("b", "disabled")], "secret-a"),
        ("b", [key("a", "dead"), key("b", "disabled"), key("c")], "secret-c"),
        ("a", [key("a", "cooldown"), key("b")], "secret-b"),
        ("b", [key("a", "cooldown"), key("b", "cooldown")], "secret-b"),
        ("a", [key("a", "something new"), key("b", "")], "secret-b"),
        ("a", [{"id": "a", "secret": " "}, key("b")], "secret-b"),
        ("a", [key("a", "disabled"), key("b", "dead")], None),
        ("", [], None),
    ],
)
def test_the_active_key_is_taken_unless_it_is_disabled(
    path: Path, active: str, keys: list[dict[str, str]], chosen: str | None
) -> None:
    found = read2(path, {"active_key_id": active, "keys": keys})
    assert found.key == (Secret(chosen) if chosen else None)
    assert found.usable == bool(chosen)


def test_disabled_keys_are_not_replaced_by_the_environment(path: Path) -> None:
    body = {"version": 2, "providers": {"openai": {"keys": [key("a", "disabled")]}}}
    found = read_providers(write(path, body), {"OPENAI_API_KEY": "environment"})
    assert found["openai"].key is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"hunter2"',
        '{"providers": ["hunter2"]}',
        '{"providers": {"openai": "hunter2"}}',
        '{"providers": {"openai": {"api_key": ["hunter2"]}}}',
        '{"providers": {"openai": {"api_key": "hunter2"}',
        '{"version": 2, "providers": {"openai": {"keys": {"hunter2": 1}}}}',
        '{"version": 3, "providers": {"openai": {"api_key": "hunter2"}}}',
        '{"providers": {"": {"api_key": "hunter2"}}}',
        '{"providers": {"a/b": {"api_key": "hunter2", "base_url": "http://a"}}}',
        '{"providers": {"unknown": {"api_key": "hunter2"}}}',
        '{"providers": {"openai": {"api_key": "hunter2", "auth": "hunter2"}}}',
        '{"providers": {"openai": {"api_key": "hunter2", "api_format": "hunter2"}}}',
        '{"providers": {"openai": {"api_key": "hunter2 x"}}}',
        '{"providers": {"openai": {"api_key": "hunter2\\r\\nX: y"}}}',
        '{"providers": {"openai": {"api_key": "hünter2hunter2"}}}',
        '{"providers": {"openai": {"api_key": "k", "base_url": "http://u:hunter2@h"}}}',
        '{"providers": {"openai": {"api_key": "k", "base_url": "http://169.254.169.254"}}}',
        '{"providers": {"openai": {"api_key": "k", "base_url": "http://2852039166"}}}',
        '{"providers": {"openai": {"api_key": "k", "base_url": "file:///x"}}}',
        '{"a":' * 100_000,
    ],
)
def test_a_broken_file_is_refused_without_its_secrets(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"providers\.json") as caught:
        read_providers(path, {})
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_bytes_that_are_no_text_are_refused(path: Path) -> None:
    path.write_bytes(b'{"providers": {"openai": {"api_key": "\xff\xfe"}}}')
    with pytest.raises(SettingsError, match=r"providers\.json is invalid"):
        read_providers(path, {})


def test_what_is_no_small_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    large = tmp_path / "large"
    large.write_bytes(b" " * ((1 << 20) + 1))
    for path in (tmp_path, pipe, large):
        with pytest.raises(SettingsError, match="is no regular file"):
            read_providers(path, {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", "hunter2 x"),
        ("OPENAI_BASE_URL", "http://u:hunter2@h/v1"),
        ("GEMINI_BASE_URL", "http://169.254.169.254/hunter2"),
    ],
)
def test_a_broken_environment_is_refused_without_its_secrets(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name) as caught:
        read_providers(None, {name: value})
    assert "hunter2" not in str(caught.value)


def test_a_provider_shows_no_key(path: Path) -> None:
    found = read(path, {"openai": {"api_key": "hunter2"}})
    assert "hunter2" not in repr(found)
    assert "hunter2" not in str(found)


OWN = "http://127.0.0.1:6367/agent/me/v1"


@pytest.mark.parametrize(
    ("address", "port"),
    [
        (OWN, 6367),
        (OWN, 0),  # not known before it listens
        (OWN, 6368),  # another memplane of this machine: still an agent's address
        ("http://localhost:6367/v1", 6367),
        ("http://[::1]:6367", 6367),
        (f" {OWN} ", 6367),
    ],
)
def test_an_address_that_agents_are_given_is_no_providers(address: str, port: int) -> None:
    """Whoever exports it for an agent may start memplane in the same shell."""
    environ = {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "k"}
    found = read_providers(None, environ, own_port=port)
    assert found["openai"].base_url == "https://api.openai.com/v1"
    (doubt,) = find_config_warnings(None, environ, own_port=port)
    assert "OPENAI_BASE_URL is memplane itself" in doubt
    assert read_providers(None, {"OPENAI_BASE_URL": address}, own_port=port) == {}


@pytest.mark.parametrize(
    ("address", "port"),
    [
        ("http://127.0.0.1:11434/v1", 6367),
        ("http://10.0.0.1:6367/v1", 6367),
        ("http://example.com:6367/agent/me/v1", 6367),
        ("http://127.0.0.1/v1", 0),
    ],
)
def test_every_other_address_counts(address: str, port: int) -> None:
    environ = {"OPENAI_BASE_URL": address}
    assert read_providers(None, environ, own_port=port)["openai"].base_url == address
    assert list(find_config_warnings(None, environ, own_port=port)) == []


def test_a_file_cannot_name_memplane_itself(path: Path) -> None:
    write(path, {"providers": {"a": {"base_url": "http://localhost:6367/v1", "auth": "none"}}})
    with pytest.raises(SettingsError, match=r'provider "a": base_url is memplane itself'):
        read_providers(path, {}, own_port=6367)
    assert "a" in read_providers(path, {}, own_port=6368)


@pytest.mark.parametrize(
    ("body", "doubt"),
    [
        ({"openai": {"api_key": "hunter2"}}, 'no member "providers"'),
        ({"providers": {"a": {"baseurl": "x"}}}, "baseurl. Did you mean base_url?"),
        ({"providers": {"a": {"apikey": "hunter2"}}}, "apikey. Did you mean api_key?"),
    ],
)
def test_what_does_not_count_is_told(path: Path, body: object, doubt: str) -> None:
    (told,) = find_config_warnings(write(path, body), {})
    assert doubt in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"providers": {"a": {"base_url": "x", "cost_per_call": 1}}},
        {"version": 2, "providers": {"a": {"active_key_id": "1", "keys": []}}},
    ],
)
def test_what_others_write_there_is_no_mistake(path: Path, body: object) -> None:
    assert list(find_config_warnings(write(path, body), {})) == []
