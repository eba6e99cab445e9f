"""What `memplane memories` prints for people; what an agent said is made harmless first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from memplane.cli.layout import ago, bar, cells, decimal, wrapped
from memplane.cli.show import coloured, harmless, print_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from memplane.observations.contract import (
        BulkOutcome,
        ConflictView,
        EventView,
        EvidenceView,
        ImportReceipt,
        MemoryPage,
        MemoryView,
        PromptView,
        RebuildReceipt,
        RejectView,
        SessionView,
        Stats,
    )

_GENERAL: Final = "general"
_SURE: Final = 0.7
_TOLD: Final = 0.3
_CATEGORY: Final = 11
_AGE: Final = 9
_BESIDE: Final = 6 + 2 + _CATEGORY + 2 + 10 + 2 + _AGE + 2
_BELOW: Final = 8
"""Where texts stand: behind all else, or below it where there is no room for them."""
_NARROW: Final = 80
_NARROWEST: Final = 24
_SHORT: Final = 60


def print_page(page: MemoryPage, *, every_agent: bool) -> None:
    """Print memories below what they are about."""
    print_memories(page.memories, every_agent=every_agent)
    shown = len(page.memories)
    if not page.total:
        print("there are no such memories", file=sys.stderr)
        return
    counted = f"{shown}" if shown == page.total else f"{shown} of {page.total}"
    noun = "memory" if page.total == 1 else "memories"
    further = f"; to go on: --cursor {page.next_cursor}" if page.next_cursor else ""
    print(f"{counted} {noun}{further}", file=sys.stderr)


def print_memories(memories: Iterable[MemoryView], *, every_agent: bool = False) -> None:
    """Print memories in groups, in the order in which these come; the general ones last."""
    groups: dict[tuple[bool, str], list[MemoryView]] = {}
    for one in memories:
        agent = f"{one.agent} · " if every_agent else ""
        groups.setdefault((one.service is None, agent + _about(one.service)), []).append(one)
    now = _now()
    ordered = sorted(groups.items(), key=lambda group: group[0][0])
    for number, ((_, heading), found) in enumerate(ordered):
        print(*[""] * (number > 0), coloured(harmless(heading), "bold"), sep="\n")
        for one in found:
            _print_line(one, now)


def _about(service: str | None) -> str:
    """Name what a memory is about; a service may be called general, too."""
    if service is None:
        return _GENERAL
    return f"{_GENERAL} (service)" if service == _GENERAL else service


def _print_line(one: MemoryView, now: datetime) -> None:
    value = one.effective_confidence
    sure = f"{decimal(value):<4} {coloured(bar(value), _colour(value))}"
    age = coloured(f"{ago(_moment(one.updated_at), now):>{_AGE}}", "dim")
    narrow = _is_narrow()
    end = f"\n{' ' * _BELOW}" if narrow else "  "
    print(f"{one.id:>6}  {one.category:<{_CATEGORY}}  {sure}  {age}", end=end)
    _print_text(one, indent=_BELOW if narrow else _BESIDE)


def _print_text(one: MemoryView, *, indent: int) -> None:
    """Print the text in what is left of the line, and below that; marks come after it."""
    width = _width(indent)
    lines = wrapped(_line(one.observation), width) if width else [_line(one.observation)]
    fits = not width or cells(lines[-1]) + 2 + cells(_marks(one)) <= width
    shown = [line if one.active else coloured(line, "dim") for line in lines]
    if marks := _marks(one):
        below = [coloured(line, "yellow") for line in wrapped(marks, width)] if width else []
        beside = f"{shown[-1]}  {coloured(marks, 'yellow')}"
        shown = [*shown[:-1], beside] if fits else [*shown, *below]
    print(f"\n{' ' * indent}".join(shown))


def _marks(one: MemoryView) -> str:
    """Say what is not usual about a memory."""
    marks: list[str] = []
    if one.superseded_by is not None:
        marks.append(f"superseded by {one.superseded_by}")
    elif one.state != "active":
        marks.append(f"{one.state} ({harmless(one.reason)})" if one.reason else one.state)
    marks += [name for name in ("contested", "pinned", "unsupported") if getattr(one, name)]
    marks += [harmless(flag) for flag in one.flags]
    return f"[{', '.join(marks)}]" if marks else ""


def _colour(value: float) -> str:
    if value >= _SURE:
        return "green"
    return "yellow" if value >= _TOLD else "red"


def print_memory(one: MemoryView) -> None:
    """Print all that is known of a memory."""
    now = _now()
    effective = decimal(one.effective_confidence)
    faded = f", of {decimal(one.confidence)}" if one.confidence != one.effective_confidence else ""
    rows = [
        ("memory", f"{one.id}, version {one.version}"),
        ("agent", one.agent),
        ("about", f"{_about(one.service)}, {one.category}"),
        ("says", _line(one.observation)),
        ("confidence", f"{effective}{faded}  {bar(one.effective_confidence)}"),
        ("state", one.state + (f": {one.reason}" if one.reason else "")),
        ("marks", ", ".join(filter(None, [*_signs(one), *one.flags]))),
        ("learned", f"{_when(one.created_at, now)}, {_from(one)}"),
        ("supported", _when(one.last_supported_at, now)),
        ("goes inactive", _when(one.goes_inactive_at, now)),
        ("true until", _when(one.valid_to, now)),
        ("superseded by", str(one.superseded_by or "")),
        ("expires", _when(one.expires_at, now)),
        ("retired", _when(one.retired_at, now)),
    ]
    _print_rows([(name, harmless(value)) for name, value in rows if value])


def _signs(one: MemoryView) -> list[str]:
    return [name for name in ("contested", "pinned", "unsupported") if getattr(one, name)]


def _from(one: MemoryView) -> str:
    session = f" in session {one.session_id}" if one.session_id is not None else ""
    return f"from {one.origin}{session}, tier {one.tier}"


def _print_rows(rows: list[tuple[str, str]]) -> None:
    """Print names and values; a value that is too wide goes on below itself."""
    indent = 4 + max(len(name) for name, _ in rows)
    width = _width(indent)
    print_rows(
        [
            (name, f"\n{' ' * indent}".join(wrapped(value, width) if width else [value]))
            for name, value in rows
        ]
    )


def print_history(events: Sequence[EventView]) -> None:
    """Print what happened to a memory, the oldest first."""
    for one in events:
        moved = "" if one.after is None else decimal(one.after)
        if one.delta:
            moved = f"{one.delta:+.2f} → {moved}"
        who = f"{one.actor_kind} {one.actor}".strip()
        session = f"session {one.session_id}" if one.session_id is not None else ""
        other = f"with {one.other}" if one.other is not None else ""
        undone = "(undone)" if one.undone else ""
        said = f"“{_line(one.observation)}”" if one.observation else ""
        told = "  ".join(filter(None, (who, session, other, one.reason, said, undone)))
        print(f"{coloured(one.at, 'dim')}  {one.kind:<14}  {moved:>13}  {harmless(told)}")


def print_still_said(agent: str, turns: Sequence[str], logs: Mapping[int, str]) -> None:
    """Print where the words of a memory that was purged still stand, and how they go."""
    if not turns and not logs:
        return
    print("\nIts words are gone from memory. What it was learned from still has them:")
    for turn in turns:
        print(f"  memplane forget --agent {agent} --entry-id {harmless(turn)} --purge")
    for session, path in logs.items():
        print(f"  session {session}: remove its log, {harmless(path)}")


def print_undone_with(others: Sequence[int]) -> None:
    """Print the memories that were undone with one, as they had been changed with it."""
    if others:
        named = ", ".join(map(str, others))
        print(f"undone with it, as they were changed together: {named}", file=sys.stderr)


def print_evidence(evidence: Sequence[EvidenceView]) -> None:
    """Print what speaks for a memory and against it."""
    for one in evidence:
        sign = coloured("+", "green") if one.polarity == "supports" else coloured("-", "red")
        where = [one.source_class.value]
        where += [f"session {one.session_id}"] if one.session_id is not None else []
        where += [f"line {one.raw_line}"] if one.raw_line is not None else []
        where += [one.message_uuid] if one.raw_line is None and one.message_uuid else []
        where += [f"turn {one.ledger_entry_id}"] if one.ledger_entry_id else []
        where += ["forgotten"] if one.void else []
        about = coloured(f"{one.at}  {harmless(', '.join(where))}", "dim")
        print(f"{sign} {about}")
        if one.other is not None:
            print(f"  memory {one.other}: {_line(one.other_says)}".rstrip(": "))
        elif one.quote:
            print(f"  {_line(one.quote)}")
    if not evidence:
        print("nothing speaks for it, and nothing against it", file=sys.stderr)


def print_sessions(sessions: Sequence[SessionView]) -> None:
    """Print the last runs, the newest first."""
    now = _now()
    for one in sessions:
        failed = coloured("failed", "red") if one.is_error else one.status
        told = f"told {one.told}, learned {one.learned}"
        cost = f"  ${one.cost_usd:.4f}" if one.cost_usd is not None else ""
        age = coloured(f"{ago(_moment(one.started_at), now):>{_AGE}}", "dim")
        command = _line(one.command)
        shown = command[:_SHORT] + ("…" if len(command) > _SHORT else "")
        print(f"{one.id:>6}  {age}  tier {one.tier}  {failed}  {told}{cost}  {shown}")
    if not sessions:
        print("no agent has run yet", file=sys.stderr)


def print_stats(stats: Stats) -> None:
    """Print how much there is of everything."""
    counts = {
        "state": stats.by_state,
        "category": stats.by_category,
        "tier": stats.by_tier,
        "origin": stats.by_origin,
    }
    rows = [
        (name, ", ".join(f"{one} {count}" for one, count in counted.items()))
        for name, counted in counts.items()
    ]
    rows += [
        ("may be told", str(stats.injectable)),
        ("contested", f"{stats.contested} (open conflicts: {stats.conflicts})"),
        ("waiting", f"{stats.quarantined} in quarantine, {stats.rejects} rejects"),
        ("fading", f"{stats.stale} go inactive within a week"),
    ]
    print_rows([(name, harmless(value)) for name, value in rows if value])


def print_outcome(outcome: BulkOutcome) -> None:
    """Print what became of several memories."""
    for one in outcome.results:
        if one.message:
            print(f"{one.id:>6}  {harmless(one.message)}")
    if outcome.done:
        print(
            f"{len(outcome.results)} memories; take it back: "
            f"memplane memories undo --batch {outcome.batch}"
        )
    else:
        print("nothing was done, because not all of it can be", file=sys.stderr)


def print_rebuilt(receipt: RebuildReceipt) -> None:
    """Print whether memories are what their events say."""
    made = f"{receipt.memories} memories, made again from {receipt.events} events"
    if receipt.same:
        print(f"{made}, are as they were")
    else:
        differing = ", ".join(map(str, receipt.differing))
        print(f"{made}; these were not as they should be, and are now: {differing}")


def print_conflicts(conflicts: Sequence[ConflictView]) -> None:
    """Print memories that do not go together."""
    now = _now()
    for one in conflicts:
        kind = one.kind.replace("_", " ")
        ended = f"  {one.resolution}" if one.status == "resolved" else ""
        about = f"{_about(one.a.service)}, {one.a.category}, {ago(_moment(one.opened_at), now)}"
        print(f"{coloured(harmless(one.id), 'bold')}  {kind}: {harmless(about)}{ended}")
        for letter, memory in (("a", one.a), ("b", one.b)):
            if memory is not None:
                sure = decimal(memory.effective_confidence)
                print(f"  {letter}  {memory.id:>5}  {sure:<4}  ", end="")
                _print_text(memory, indent=18)
        if one.signals:
            print(coloured(f"     because of {harmless(', '.join(one.signals))}", "dim"))
    if not conflicts:
        print("nothing waits for a decision", file=sys.stderr)


def print_rejects(rejects: Sequence[RejectView]) -> None:
    """Print what was said and is not remembered."""
    now = _now()
    for one in rejects:
        accepted = f", accepted as {one.accepted_as}" if one.accepted_as is not None else ""
        names = ":".join(filter(None, (one.category, one.service)))
        age = ago(_moment(one.at), now)
        reason = coloured(one.reason, "yellow")
        print(f"{coloured(harmless(one.id), 'bold')}  {reason}  {age}{accepted}")
        print(f"  [MEMORY:{_line(names)}] {_line(one.observation)}")
        if one.hint:
            print(coloured(f"  {_line(one.hint)}", "dim"))
    if not rejects:
        print("nothing was rejected", file=sys.stderr)


def print_prompt(prompt: PromptView) -> None:
    """Print the block and nothing else; what is not in it is said beside."""
    for line in prompt.block.split("\n") if prompt.block else ():
        print(coloured(line, "bold") if line.startswith("#") else line)
    told = f"{len(prompt.included)} of {prompt.candidates} memories"
    print(f"{told}, {prompt.tokens:,} of {prompt.budget:,} tokens", file=sys.stderr)
    reasons: dict[str, list[str]] = {}
    for one in prompt.dropped:
        reasons.setdefault(one.reason, []).append(str(one.id))
    for reason, ids in reasons.items():
        print(f"left out ({reason}): {', '.join(ids)}", file=sys.stderr)


def print_imported(receipt: ImportReceipt) -> None:
    """Print what became of memories from elsewhere."""
    held = f", {receipt.quarantined} of them held back" if receipt.quarantined else ""
    print(
        f"{receipt.added} added{held}; {receipt.known} known already; "
        f"{len(receipt.rejects)} rejected"
    )
    for one in receipt.rejects:
        print(f"  {one.reason}: {_line(one.observation)}")


def _line(text: str | None) -> str:
    """Put a text of somebody else's into one line that does nothing to a terminal."""
    return harmless(" ".join((text or "").split()))


def _width(indent: int) -> int:
    """Return how many columns are left behind others; 0 where nobody looks, and no line breaks."""
    import shutil

    if not sys.stdout.isatty():
        return 0
    return max(_NARROWEST, shutil.get_terminal_size().columns - indent)


def _is_narrow() -> bool:
    return 0 < _width(0) < _NARROW


def _now() -> datetime:
    from memplane.clock import system_clock

    return system_clock()


def _moment(stamped: str) -> datetime:
    from memplane.clock import moment

    return moment(stamped)


def _when(stamped: str | None, now: datetime) -> str:
    return (
        f"{stamped[:16].replace('T', ' ')} UTC ({ago(_moment(stamped), now)})" if stamped else ""
    )
