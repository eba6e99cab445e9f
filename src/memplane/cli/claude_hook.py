"""`memplane claude hook EVENT`: what Claude Code runs at each event of a session.

Whatever happens, it ends with 0 and prints nothing but what the client reads: another exit code
would be shown to the user, or to the model.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memplane.service.claude_hooks import HookContext
    from memplane.settings import Settings

_MAX_INPUT_BYTES: Final = 64 * 1024 * 1024


def run_claude_hook(words: Sequence[str], flags: Mapping[str, str]) -> int:
    """Run the hook; what fails is in the log of the hooks."""
    try:
        _run(words, flags)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - a session goes on whatever happens here
        _log_failure(words, flags, error)
    return 0


def _run(words: Sequence[str], flags: Mapping[str, str]) -> None:
    import time

    from memplane.integrations.claude_code.hook_payload import find_event, read_payload
    from memplane.kit.clock import system_clock
    from memplane.service.claude_hooks import run_hook
    from memplane.service.hook_log import append_hook_log
    from memplane.settings import load_settings_from_environment

    began = time.perf_counter()
    event = find_event(words[0] if words else "")
    settings = load_settings_from_environment(flags)
    notes: list[str] = []
    context = _make_context(settings, notes, wake="--no-wake" not in words)
    payload = read_payload(sys.stdin.buffer.read(_MAX_INPUT_BYTES))
    output = run_hook(event, payload, context)
    if output:
        sys.stdout.write(output + "\n")
        sys.stdout.flush()
    took = f"{1000 * (time.perf_counter() - began):.0f} ms"
    append_hook_log(context.home, event, "; ".join([*notes, took]), now=system_clock())


def _make_context(settings: Settings, notes: list[str], *, wake: bool) -> HookContext:
    from pathlib import Path

    from memplane.kit.clock import system_clock
    from memplane.service.claude_hooks import HookContext
    from memplane.settings import get_environment

    environ = get_environment()

    def today() -> str:
        from zoneinfo import ZoneInfo

        zone = ZoneInfo(settings.timezone) if settings.timezone else None
        return f"{system_clock().astimezone(zone):%Y-%m-%d}"

    return HookContext(
        settings=settings,
        environ=environ,
        user=Path(environ.get("HOME") or "~").expanduser(),
        today=today,
        clock=system_clock,
        note=notes.append,
        wake=wake,
    )


def _log_failure(words: Sequence[str], flags: Mapping[str, str], error: BaseException) -> None:
    """Say in the log what went wrong; settings that cannot be read do not move the home."""
    from contextlib import suppress
    from pathlib import Path

    from memplane.home import Home
    from memplane.integrations.claude_code.hook_payload import find_event
    from memplane.kit.clock import system_clock
    from memplane.service.hook_log import append_hook_log
    from memplane.settings import get_environment

    with suppress(RuntimeError):  # there is no home to write into
        home = Path(flags.get("home") or get_environment().get("MEMPLANE_HOME") or "~/.memplane")
        text = f"failed: {type(error).__name__}: {error}"
        event = find_event(words[0]) if words else "-"
        append_hook_log(Home(home.expanduser()), event, text, now=system_clock())
