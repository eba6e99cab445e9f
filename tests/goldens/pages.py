"""The dashboard's pages without what differs from run to run: numbers, dates, ids."""

from __future__ import annotations

import re

from tests.browser.homelab import AGENT, Homelab

_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_DAYS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_REPLACED = (
    (re.compile(r'(?<=name="csrf" value=")[^"]+'), "CSRF"),
    (re.compile(r'(?<="X-CSRF-Token": ")[^"]+'), "CSRF"),
    (re.compile(r"<time [^>]*>[^<]*</time>"), "TIME"),
    (re.compile(r"hist1_[0-9a-f]+"), "ENTRY"),
    (re.compile(r"/[^\s\"'<>]*/(?=(?:home|memory)\b)"), "/FOLDER/"),
    (re.compile(r"\b[0-9a-f]{8,64}\b"), "ID"),
    (re.compile(r"\b(?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{20,}\b"), "ID"),
    (re.compile(rf"\b(?:{_MONTHS})[a-z]*\b"), "MONTH"),
    (re.compile(rf"\b(?:{_DAYS})[a-z]*day\b|\b(?:{_DAYS})\b"), "DAY"),
    (re.compile(r"\b(?:a|an|#|\d+) (?:second|minute|hour|day|week|month|year)s?\b"), "PERIOD"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "#"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"\s*\n\s*"), "\n"),
)

_ORDERED_BY_SECOND = {"overview"}
"""Pages with lists by time: a turn's time is a second, and that of other things is exact."""


def page_paths(homelab: Homelab) -> dict[str, str]:
    """Name every page, with something to see in each."""
    memory = homelab.number("Takes about 60s")
    session = homelab.api.get(f"/memories/{homelab.number('DNS fails')}")["session_id"]
    learned = homelab.number("Reloading the configuration")
    turn = homelab.api.get(f"/memories/{learned}/evidence")["evidence"][0]["ledger_entry_id"]
    documents = homelab.documents
    return {
        "login": "/login",
        "overview": f"/?agent={AGENT}",
        "memories": f"/memories?agent={AGENT}",
        "memories-trash": f"/memories?agent={AGENT}&state=trash",
        "memories-none": f"/memories?agent={AGENT}&q=hippopotamus",
        "memory": f"/memories/{memory}",
        "memory-edit": f"/memories/{memory}/edit",
        "conflicts": f"/conflicts?agent={AGENT}",
        "preview": f"/preview?agent={AGENT}&budget=300",
        "lab": f"/lab?agent={AGENT}",
        "turns": f"/turns?agent={AGENT}",
        "turn": f"/turns/{AGENT}/{turn}",
        "session": f"/sessions/{session}?line=4",
        "persona": f"/persona?folder={documents.id}",
        "persona-document": f"/persona/document?folder={documents.id}&key=user_role.md",
        "audit": f"/audit?agent={AGENT}&who=operator",
        "import": "/memories/import",
    }


def normalise(name: str, page: str) -> str:
    """Put names in the place of what differs from run to run, one tag to a line."""
    text = page.replace("><", ">\n<")
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    lines = text.strip().splitlines()
    if name in _ORDERED_BY_SECOND:
        lines.sort()
    return "\n".join(lines) + "\n"
