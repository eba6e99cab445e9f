"""`memplane settings show`, `version` and `help`: what is set, and what this is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memplane.settings import list_settings
from memplane.version import VERSION
from tests.support.in_process import memplane_here as memplane

SECRET = "correct-horse-battery-staple"


def test_what_is_set_is_shown_with_its_place_and_no_secret(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('[http]\nport = 7001\n[proxy]\nupstream_openai = "http://u"')
    (home / ".env").write_text("MEMPLANE_AGENT=ada\n")
    env = {"MEMPLANE_ADMIN_TOKEN": SECRET, "MEMPLANE_OPS_THRESHOLD": "31", "LISTEN_ADDR": ":7002"}
    shown = memplane(home, "--set", "http.port=7000", "settings", "show", env=env).stdout
    # What every test sets is none of this one's.
    assert [line for line in shown.splitlines() if not line.startswith("vectors.")] == [
        f"home = {home}  # MEMPLANE_HOME in the environment",
        f"agent = ada  # MEMPLANE_AGENT in {home}/.env",
        "admin_token = …  # MEMPLANE_ADMIN_TOKEN in the environment",
        "http.port = 7000  # --set http.port",
        f"proxy.upstream_openai = http://u  # proxy.upstream_openai in {home}/config.toml",
        "ops.threshold = 31  # MEMPLANE_OPS_THRESHOLD in the environment",
    ]
    everything = json.loads(memplane(home, "settings", "show", "--json", env=env).stdout)
    assert list(everything) == [one.name for one in list_settings()]
    assert everything["http.port"] == {
        "value": "7001",
        "source": f"http.port in {home}/config.toml",
    }
    assert everything["http.host"]["source"] == "default"
    assert SECRET not in str(everything)


def test_what_other_programs_set_is_named_too(home: Path) -> None:
    shown = memplane(home, "settings", "show", "http", env={"LISTEN_ADDR": "127.0.0.1:7002"})
    assert "http.port = 7002  # follows from other settings\n" in shown.stdout
    assert "http.listen = 127.0.0.1:7002  # LISTEN_ADDR\n" in shown.stdout


def test_a_secret_within_an_address_is_not_shown(home: Path) -> None:
    address = f"https://user:{SECRET}@proxy.example/v1"
    shown = memplane(home, "settings", "show", "proxy.upstream_openai", env={
        "MEMPLANE_PROXY_UPSTREAM_OPENAI": address
    })  # fmt: skip
    assert "proxy.example" in shown.stdout
    assert SECRET not in shown.stdout


@pytest.mark.parametrize("words", [("--all",), ("http.port",), ("http",)])
def test_defaults_are_shown_when_they_are_asked_for(home: Path, words: tuple[str, ...]) -> None:
    line = "http.port = 6367  # default\n"
    assert line in memplane(home, "settings", "show", *words).stdout
    plain = memplane(home, "settings", "show")
    assert line not in plain.stdout
    assert "others have their defaults" in plain.stderr
    assert not home.exists()


def test_a_name_that_is_no_setting_is_refused(home: Path) -> None:
    ran = memplane(home, "settings", "show", "http.prot")
    assert ran.returncode == 2
    assert "Did you mean http.port?" in ran.stderr


def test_help_and_version_are_commands_as_well(home: Path) -> None:
    assert memplane(home, "version").stdout.startswith(f"memplane {VERSION} (Python 3.")
    assert json.loads(memplane(home, "version", "--json").stdout)["memplane"] == VERSION
    assert memplane(home, "help").stdout == memplane(home, "--help").stdout
    assert memplane(home, "help", "stop").stdout == memplane(home, "stop", "--help").stdout
    assert memplane(home, "help", "nothing").returncode == 2
