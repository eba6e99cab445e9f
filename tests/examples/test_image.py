"""The image that a compiled pod names: what it is built from, and as whom it runs.

It is not built here; what can be read is.
"""

from __future__ import annotations

import re
from pathlib import Path

from memplane.integrations.clawdapus.pod.compose import PROXY_IMAGE
from memplane.settings.sources import find_unknown_variables

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "Dockerfile").read_text().replace("\\\n", "").splitlines()


def said(word: str) -> list[str]:
    return [one.removeprefix(word).strip() for one in LINES if one.startswith(f"{word} ")]


def test_what_is_copied_is_there_and_nothing_else_is_sent() -> None:
    copied = {name for one in said("COPY") for name in one.split()[:-1]}
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    assert {one.removeprefix("!") for one in sent if one.startswith("!")} == copied
    assert "*" in sent
    assert all((ROOT / name).exists() for name in copied)


def test_it_runs_for_a_user_of_its_own_with_settings_that_there_are() -> None:
    assert said("USER") == ["memplane"]
    assert said("VOLUME") == ["/data"]
    settings = dict(re.findall(r"(MEMPLANE_\w+)=(\S+)", said("ENV")[0]))
    assert find_unknown_variables(settings) == []
    assert settings["MEMPLANE_HOME"] == "/data"
    assert not re.search("(?i)(token|secret|password|key)=", "\n".join(LINES))


def test_the_example_says_how_to_build_it() -> None:
    assert f"-t {PROXY_IMAGE} " in (ROOT / "examples/rollcall/README.md").read_text()
