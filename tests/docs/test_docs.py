"""The documentation is true: names resolve, links lead somewhere, generated pages are current."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

from memplane.cli import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def dotted_names(text: str) -> set[str]:
    return set(re.findall(r"`(memplane(?:\.\w+)+)`", text))


def links(text: str) -> set[str]:
    found = re.findall(r"\]\(([^)#\s]+)", text)
    return {link for link in found if not link.startswith(("http:", "https:", "mailto:"))}


def commands(text: str) -> set[str]:
    return set(re.findall(r"`memplane ([a-z]+)", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_name_command_and_link_exists(page: Path) -> None:
    text = page.read_text()
    for name in dotted_names(text):
        resolve_name(name)
    for link in links(text):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"
    planned = {"run", "persona", "claude"} if page.name in {"design.md", "glossary.md"} else set()
    assert commands(text) <= set(COMMANDS) | {"worker"} | planned, page.name


def test_the_checks_of_this_file_can_fail() -> None:
    assert dotted_names("see `memplane.storage.nothing`") == {"memplane.storage.nothing"}
    with pytest.raises(AttributeError):
        resolve_name("memplane.storage.nothing")
    assert links("[a](gone.md)") == {"gone.md"}
    assert commands("`memplane frobnicate`") == {"frobnicate"}


def test_the_settings_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    page = ROOT / "docs" / "reference" / "settings.md"
    assert page.read_text() == generate.settings_page(), "run `make docs`"


def test_the_readme_begins_with_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    begins = text.partition("## What there is")[0]
    shown = re.findall(r"^make \w+", begins, re.MULTILINE)
    assert shown == ["make up", "make test"]


def test_no_page_names_a_place_to_download_from() -> None:
    tracked = [*PAGES, *ROOT.glob("requirements/*.txt"), ROOT / "package-lock.json"]
    for page in tracked:
        text = page.read_text()
        assert '"resolved"' not in text, page.name
        assert "index-url" not in text, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_to_copy_say_which_agent(page: Path) -> None:
    """Whoever begins with a block of them has set no MEMPLANE_AGENT."""
    for block in re.findall(r"(?s)```sh\n(.*?)```", page.read_text()):
        if "MEMPLANE_AGENT" not in block:
            asking = re.findall(r"(?m)^memplane (?:run|recall|memories list).*", block)
            assert [one for one in asking if "--agent" not in one] == []
