"""`memplane queue`: what has not reached the container."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="show what waits, and what was rejected")
    listing.add_argument("--json", action="store_true", help="for machines")
    retry = actions.add_parser("retry", help="send it now")
    retry.add_argument("--background", action="store_true", help="leave it to the worker")
    drop = actions.add_parser("drop", help="let go of a rejected write")
    drop.add_argument("name", help="its name in `memplane queue list`")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """List, retry or drop."""
    from memplane.assemble import configured_container

    cache = configured_container(settings).cache
    match arguments.action:
        case "list":
            return _list(cache, as_json=arguments.json)
        case "retry":
            return await _retry(settings, cache, background=arguments.background)
        case _:
            return _drop(cache, arguments.name)


def _list(cache: Path, *, as_json: bool) -> int:
    from memplane.cli import OK
    from memplane.cli.show import print_json
    from memplane.objects.outbox import all_parcels

    rows = [
        {
            "state": state,
            "key": one.key,
            "what": "append" if one.appends else "write",
            "bytes": len(one.data),
            "name": one.path.name,
        }
        for state, folder in (("waiting", cache / "outbox"), ("rejected", cache / "rejected"))
        for one in all_parcels(folder)
    ]
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            print("{state:<8} {what:<6} {bytes:>8} bytes  {key}  {name}".format(**row))
        print(f"{len(rows)} in all")
    return OK


async def _retry(settings: Settings, cache: Path, *, background: bool) -> int:
    from memplane.assemble import choose_storage, open_store
    from memplane.cli import FAILED, OK
    from memplane.objects.cached import CachedStore
    from memplane.objects.outbox import count_waiting

    if background:
        from memplane.worker import leave_and_wake

        leave_and_wake(settings, "deliver", {})
        print("left to the worker; `memplane status` shows what still waits")
        return OK
    before = count_waiting(cache / "outbox")
    async with open_store(choose_storage(settings).storage) as store:
        if isinstance(store, CachedStore):
            await store.flush()
    left = count_waiting(cache / "outbox")
    held = " They belong to processes that still run" if left else ""
    print(f"sent {before - left} of {before}.{held}")
    return FAILED if left else OK


def _drop(cache: Path, name: str) -> int:
    from memplane.cli import FAILED, OK

    found = [path for path in (cache / "rejected").glob("*") if path.name == name]
    for path in found:
        path.unlink()
    print(f"dropped {name}" if found else f"nothing rejected is called {name}")
    return OK if found else FAILED
