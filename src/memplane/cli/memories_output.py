"""What `memplane memories` prints for people; what an agent said is made harmless first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from memplane.cli.output import colour_text, escape_text, print_rows
from memplane.cli.terminal_text import (
    count_columns,
    draw_bar,
    format_age,
    format_confidence,
    wrap_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from memplane.observations.api_types import (
        ActionView,
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

_GENERAL_SERVICE: Final = "general"
_HIGH_CONFIDENCE: Final = 0.7
_MIN_PROMPT_CONFIDENCE: Final = 0.3
_CATEGORY_COLUMNS: Final = 11
_AGE_COLUMNS: Final = 9
_TEXT_INDENT_COLUMNS: Final = 6 + 2 + _CATEGORY_COLUMNS + 2 + 10 + 2 + _AGE_COLUMNS + 2
_NARROW_INDENT_COLUMNS: Final = 8
"""Where texts stand: behind all else, or below it where there is no room for them."""
_NARROW_TERMINAL_COLUMNS: Final = 80
_MIN_TEXT_COLUMNS: Final = 24
_COMMAND_CHARS: Final = 60


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
        print(*[""] * (number > 0), colour_text(escape_text(heading), "bold"), sep="\n")
        for one in found:
            _print_line(one, now)


def _about(service: str | None) -> str:
    """Name what a memory is about; a service may be called general, too."""
    if service is None:
        return _GENERAL_SERVICE
    return f"{_GENERAL_SERVICE} (service)" if service == _GENERAL_SERVICE else service


def _print_line(one: MemoryView, now: datetime) -> None:
    value = one.effective_confidence
    sure = f"{format_confidence(value):<4} {colour_text(draw_bar(value), _colour(value))}"
    age = colour_text(
        f"{format_age(_parse_timestamp(one.updated_at), now):>{_AGE_COLUMNS}}", "dim"
    )
    narrow = _is_narrow()
    end = f"\n{' ' * _NARROW_INDENT_COLUMNS}" if narrow else "  "
    print(f"{one.id:>6}  {one.category:<{_CATEGORY_COLUMNS}}  {sure}  {age}", end=end)
    _print_text(one, indent=_NARROW_INDENT_COLUMNS if narrow else _TEXT_INDENT_COLUMNS)


def _print_text(one: MemoryView, *, indent: int) -> None:
    """Print the text in what is left of the line, and below that; marks come after it."""
    width = _width(indent)
    lines = wrap_text(_line(one.observation), width) if width else [_line(one.observation)]
    fits = not width or count_columns(lines[-1]) + 2 + count_columns(_marks(one)) <= width
    shown = [line if one.active else colour_text(line, "dim") for line in lines]
    if marks := _marks(one):
        below = [colour_text(line, "yellow") for line in wrap_text(marks, width)] if width else []
        beside = f"{shown[-1]}  {colour_text(marks, 'yellow')}"
        shown = [*shown[:-1], beside] if fits else [*shown, *below]
    print(f"\n{' ' * indent}".join(shown))


def _marks(one: MemoryView) -> str:
    """Say whose a memory is, and what else is not usual about it."""
    marks = [f"user {escape_text(one.user)}"] if one.user else []
    marks += [f"view {escape_text(one.view)}"] if one.view else []
    if one.superseded_by is not None:
        marks.append(f"superseded by {one.superseded_by}")
    elif one.state != "active":
        marks.append(f"{one.state} ({escape_text(one.reason)})" if one.reason else one.state)
    marks += [name for name in ("contested", "pinned", "unsupported") if getattr(one, name)]
    marks += [escape_text(flag) for flag in one.flags]
    return f"[{', '.join(marks)}]" if marks else ""


def _colour(value: float) -> str:
    if value >= _HIGH_CONFIDENCE:
        return "green"
    return "yellow" if value >= _MIN_PROMPT_CONFIDENCE else "red"


def print_memory(one: MemoryView) -> None:
    """Print all that is known of a memory."""
    now = _now()
    effective = format_confidence(one.effective_confidence)
    faded = (
        f", of {format_confidence(one.confidence)}"
        if one.confidence != one.effective_confidence
        else ""
    )
    rows = [
        ("memory", f"{one.id}, version {one.version}"),
        ("agent", one.agent),
        ("about", f"{_about(one.service)}, {one.category}"),
        ("says", _line(one.observation)),
        ("confidence", f"{effective}{faded}  {draw_bar(one.effective_confidence)}"),
        ("state", one.state + (f": {one.reason}" if one.reason else "")),
        ("marks", ", ".join(filter(None, [*_signs(one), *one.flags]))),
        ("learned", f"{_format_when(one.created_at, now)}, {_from(one)}"),
        ("supported", _format_when(one.last_supported_at, now)),
        ("goes inactive", _format_when(one.goes_inactive_at, now)),
        ("true until", _format_when(one.valid_to, now)),
        ("superseded by", str(one.superseded_by or "")),
        ("expires", _format_when(one.expires_at, now)),
        ("retired", _format_when(one.retired_at, now)),
    ]
    _print_rows([(name, escape_text(value)) for name, value in rows if value])


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
            (name, f"\n{' ' * indent}".join(wrap_text(value, width) if width else [value]))
            for name, value in rows
        ]
    )


def print_history(events: Sequence[EventView]) -> None:
    """Print what happened to a memory, the oldest first."""
    for one in events:
        moved = "" if one.after is None else format_confidence(one.after)
        if one.delta:
            moved = f"{one.delta:+.2f} → {moved}"
        who = f"{one.actor_kind} {one.actor}".strip()
        session = f"session {one.session_id}" if one.session_id is not None else ""
        other = f"with {one.other}" if one.other is not None else ""
        undone = "(undone)" if one.undone else ""
        said = f"“{_line(one.observation)}”" if one.observation else ""
        told = "  ".join(filter(None, (who, session, other, one.reason, said, undone)))
        print(f"{colour_text(one.at, 'dim')}  {one.kind:<14}  {moved:>13}  {escape_text(told)}")


def print_remaining_copies(agent: str, turns: Sequence[str], logs: Mapping[int, str]) -> None:
    """Print where the words of a memory that was purged still stand, and how they go."""
    if not turns and not logs:
        return
    print("\nIts words are gone from memory. What it was learned from still has them:")
    for turn in turns:
        print(f"  memplane forget --agent {agent} --entry-id {escape_text(turn)} --purge")
    for session, path in logs.items():
        print(f"  session {session}: remove its log, {escape_text(path)}")


def print_also_undone(others: Sequence[int]) -> None:
    """Print the memories that were undone with one, as they had been changed with it."""
    if others:
        named = ", ".join(map(str, others))
        print(f"undone with it, as they were changed together: {named}", file=sys.stderr)


def print_change(act: ActionView) -> None:
    """Print which change is taken back."""
    event = act.event
    which = f"memory {event.memory_id} of {act.agent} was {event.kind.replace('_', ' ')}"
    by = f" by {event.actor}" if event.actor else ""
    print(escape_text(f"undone: {which} at {event.at}{by}"), file=sys.stderr)


def print_evidence(evidence: Sequence[EvidenceView]) -> None:
    """Print what speaks for a memory and against it."""
    for one in evidence:
        sign = colour_text("+", "green") if one.polarity == "supports" else colour_text("-", "red")
        where = [one.source_class.value]
        where += [f"session {one.session_id}"] if one.session_id is not None else []
        where += [f"line {one.raw_line}"] if one.raw_line is not None else []
        where += [one.message_uuid] if one.raw_line is None and one.message_uuid else []
        where += [f"turn {one.ledger_entry_id}"] if one.ledger_entry_id else []
        where += ["forgotten"] if one.void else []
        about = colour_text(f"{one.at}  {escape_text(', '.join(where))}", "dim")
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
        failed = colour_text("failed", "red") if one.is_error else one.status
        told = f"told {one.told}, learned {one.learned}"
        cost = f"  ${one.cost_usd:.4f}" if one.cost_usd is not None else ""
        age = colour_text(
            f"{format_age(_parse_timestamp(one.started_at), now):>{_AGE_COLUMNS}}", "dim"
        )
        command = _line(one.command)
        shown = command[:_COMMAND_CHARS] + ("…" if len(command) > _COMMAND_CHARS else "")
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
    print_rows([(name, escape_text(value)) for name, value in rows if value])


def print_outcome(outcome: BulkOutcome) -> None:
    """Print what became of several memories."""
    for one in outcome.results:
        if one.message:
            print(f"{one.id:>6}  {escape_text(one.message)}")
    if outcome.done:
        print(
            f"{len(outcome.results)} memories; take it back: "
            f"memplane memories undo --batch {outcome.batch}"
        )
    else:
        print("nothing was done, because not all of it can be", file=sys.stderr)


def print_rebuild(receipt: RebuildReceipt) -> None:
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
        about = (
            f"{_about(one.a.service)}, {one.a.category}, "
            f"{format_age(_parse_timestamp(one.opened_at), now)}"
        )
        print(f"{colour_text(escape_text(one.id), 'bold')}  {kind}: {escape_text(about)}{ended}")
        for letter, memory in (("a", one.a), ("b", one.b)):
            if memory is not None:
                sure = format_confidence(memory.effective_confidence)
                print(f"  {letter}  {memory.id:>5}  {sure:<4}  ", end="")
                _print_text(memory, indent=18)
        if one.signals:
            print(colour_text(f"     because of {escape_text(', '.join(one.signals))}", "dim"))
    if not conflicts:
        print("nothing waits for a decision", file=sys.stderr)


def print_rejects(rejects: Sequence[RejectView]) -> None:
    """Print what was said and is not remembered."""
    now = _now()
    for one in rejects:
        accepted = f", accepted as {one.accepted_as}" if one.accepted_as is not None else ""
        names = ":".join(filter(None, (one.category, one.service)))
        age = format_age(_parse_timestamp(one.at), now)
        reason = colour_text(one.reason, "yellow")
        print(f"{colour_text(escape_text(one.id), 'bold')}  {reason}  {age}{accepted}")
        print(f"  [MEMORY:{_line(names)}] {_line(one.observation)}")
        if one.hint:
            print(colour_text(f"  {_line(one.hint)}", "dim"))
    if not rejects:
        print("nothing was rejected", file=sys.stderr)


def print_prompt(prompt: PromptView) -> None:
    """Print the block and nothing else; what is not in it is said beside."""
    for line in prompt.block.split("\n") if prompt.block else ():
        print(colour_text(line, "bold") if line.startswith("#") else line)
    told = f"{len(prompt.included)} of {prompt.candidates} memories"
    print(f"{told}, {prompt.tokens:,} of {prompt.budget:,} tokens", file=sys.stderr)
    reasons: dict[str, list[str]] = {}
    for one in prompt.dropped:
        reasons.setdefault(one.reason, []).append(str(one.id))
    for reason, ids in reasons.items():
        print(f"left out ({reason}): {', '.join(ids)}", file=sys.stderr)


def print_import(receipt: ImportReceipt) -> None:
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
    return escape_text(" ".join((text or "").split()))


def _width(indent: int) -> int:
    """Return how many columns are left behind others; 0 where nobody looks, and no line breaks."""
    import shutil

    if not sys.stdout.isatty():
        return 0
    return max(_MIN_TEXT_COLUMNS, shutil.get_terminal_size().columns - indent)


def _is_narrow() -> bool:
    return 0 < _width(0) < _NARROW_TERMINAL_COLUMNS


def _now() -> datetime:
    from memplane.kit.clock import system_clock

    return system_clock()


def _parse_timestamp(stamped: str) -> datetime:
    from memplane.kit.clock import parse_timestamp

    return parse_timestamp(stamped)


def _format_when(stamped: str | None, now: datetime) -> str:
    return (
        f"{stamped[:16].replace('T', ' ')} UTC ({format_age(_parse_timestamp(stamped), now)})"
        if stamped
        else ""
    )
