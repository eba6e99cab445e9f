"""Broken variants of the production steps; the simulator must find out each of them."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from memplane.persona import steps


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake somebody could make: what the source says, and what it would say instead."""

    name: str
    says: str
    instead: str

    def build(self) -> ModuleType:
        """Make the broken module. The original is as it was."""
        source = inspect.getsource(steps)
        assert source.count(self.says) == 1, (
            f"{self.name}: the source no longer says {self.says!r}"
        )
        module = ModuleType(f"memplane.persona.steps_{self.name.replace(' ', '_')}")
        sys.modules[module.__name__] = module  # dataclasses look their module up
        exec(source.replace(self.says, self.instead), module.__dict__)  # noqa: S102 - ours
        return module


MUTANTS: Final = (
    Mutant(
        "no put intent",
        "state = replace(state, pending=(*state.pending, intent))",
        "pass",
    ),
    Mutant(
        "intent overwritten",
        "pending=(*state.pending, intent)",
        "pending=(intent,)",
    ),
    Mutant(
        "puts on their way not fenced off",
        "any(\n        attempt.expected == remote.etag for attempt in state.pending\n    )",
        "False",
    ),
    Mutant(
        "landed puts not looked for",
        "    if not landed:\n        return state\n",
        "    return state\n",
    ),
    Mutant(
        "the first landed put instead of the last",
        "last = max(landed",
        "last = min(landed",
    ),
    Mutant(
        "no apply intent",
        "state = replace(result.state, apply=apply)",
        "state = result.state",
    ),
    Mutant(
        "apply judged by content",
        "return not await ports.is_staged(apply.name)",
        "return await ports.read_local() == apply.text",
    ),
    Mutant(
        "apply believed to have happened",
        "return not await ports.is_staged(apply.name)",
        "return True",
    ),
    Mutant(
        "apply believed not to have happened",
        "return not await ports.is_staged(apply.name)",
        "return False",
    ),
    Mutant(
        "evidence dropped before the note",
        "    await ports.keep(state)\n    await ports.clear(apply)\n    return state\n",
        "    await ports.clear(apply)\n    await ports.keep(state)\n    return state\n",
    ),
    Mutant(
        "a delete believed to have happened",
        "return await ports.is_discarded(apply.name)",
        "return True",
    ),
    Mutant(
        "base recorded before the file is written",
        "base = _base_of(remote) if combined.text == local else MergeBase(local)",
        "base = _base_of(remote)",
    ),
    Mutant(
        "base taken now",
        "base = _base_of(remote) if combined.text == local else MergeBase(local)",
        "base = MergeBase(await ports.read_local())",
    ),
    Mutant(
        "file overwritten without compare",
        "swapped = await ports.swap(name, local)",
        "swapped = await ports.swap(name, await ports.read_local())",
    ),
    Mutant(
        "no If-Match",
        "etag = await ports.put(combined.text, expected, lineage, combined.changed)",
        "now = await ports.read_remote()\n"
        "        etag = await ports.put(\n"
        "            combined.text, now.etag if now else None, lineage, combined.changed\n"
        "        )",
    ),
    Mutant(
        "absence means deleted",
        "    result, combined = await _combine(ports, result, local, remote)\n",
        "    if remote is None and result.state.base is not None and local is not None:\n"
        "        await ports.discard(await ports.new_name(), local)\n"
        "        return result, False\n"
        "    result, combined = await _combine(ports, result, local, remote)\n",
    ),
    Mutant(
        "base forgotten on absence",
        "        return result, False  # absence is no evidence: what is remembered stays\n",
        "        await ports.keep(DocumentState())\n        return result, False\n",
    ),
    Mutant(
        "union after a lost memory",
        "state = replace(state, base=MergeBase(adopted), adopted=None)",
        "state = replace(state, adopted=None)",
    ),
    Mutant(
        "nothing set aside after a lost memory",
        '    if adopted != remote.text:\n        await ports.set_aside(adopted, "adopted")\n',
        "",
    ),
    Mutant(
        "two-way union",
        "combined = ports.combine(state.base, local, remote)",
        "combined = ports.combine(None, local, remote)",
    ),
    Mutant(
        "the local text wins",
        "combined = ports.combine(state.base, local, remote)",
        "combined = MergedDocument(local)",
    ),
    Mutant(
        "the last intent lost in a race",
        "        return replace(result, state=state), None\n",
        "        return result, None\n",
    ),
)
