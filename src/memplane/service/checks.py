"""The checks of `memplane doctor`. Each says what it found and what to do about it."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import aiohttp
import apsw
import msgspec

from memplane.database.integrity_check import check_database
from memplane.errors import BackendMisconfigured, ConcurrencyError, MemplaneError
from memplane.home import Home
from memplane.integrations.clawdapus.pod.agent_contexts import list_agents, read_proxied_agent
from memplane.kit.clock import system_clock
from memplane.kit.durable_files import sync_data
from memplane.kit.ids import new_id
from memplane.kit.retry_clock import RetryClock
from memplane.ledger.anchors import read_anchors
from memplane.ledger.chain_verification import verify_ledger
from memplane.ledger.folder import AgentFolder, list_ledger_agents
from memplane.persona.folder_scan import scan_folder
from memplane.persona.sync_status import list_sync_statuses
from memplane.proxy.provider_config import PROVIDERS_FILE, find_config_warnings, read_providers
from memplane.proxy.route_selection import parse_upstreams
from memplane.service.composition.persona import sync_folder
from memplane.service.composition.storage import (
    Choice,
    LocalStorage,
    S3Storage,
    Storage,
    choose_storage,
    open_bucket_store,
    open_store,
)
from memplane.settings import Settings, find_unknown_names, get_environment
from memplane.storage.keys import find_collisions
from memplane.storage.store import Absent, Anything, Matches, ObjectStore, Version

_HTMX: Final = "htmx.min.js"
_MIN_SQLITE_VERSION: Final = (3, 51, 3)
_MIN_FREE_BYTES: Final = 256 * 1024 * 1024
_SYNC_SAMPLES: Final = 15
_MIN_SYNC_S: Final = 0.00002
_MAX_CLOCK_SKEW: Final = timedelta(minutes=5)


class CheckVerdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class CheckFinding(msgspec.Struct, frozen=True):
    """What one check found."""

    name: str
    verdict: CheckVerdict
    found: str
    remedy: str = ""


async def run_checks(settings: Settings) -> list[CheckFinding]:
    """Run every check, one after the other."""
    findings = [
        *await asyncio.to_thread(_check_machine, settings),
        await _check_door(Home(settings.home)),
        _check_configuration(settings),
    ]
    try:
        choice = choose_storage(settings)
    except BackendMisconfigured:
        return findings
    return [*findings, *await _check_storage(choice)]


def _check_machine(settings: Settings) -> list[CheckFinding]:
    home = Home(settings.home)
    return [
        _check_home(home),
        _check_private_files(home),
        _check_sqlite(),
        _check_pages(resources.files("memplane.server.dashboard") / "static"),
        _check_database(home),
        _check_clock(settings.home),
        _check_disk(settings.home),
        _check_sync(settings.home),
        _check_ledgers("ledger", settings.ledger.dir, ""),
        _check_ledgers("received", home.received, " --received"),
        _check_ledgers("memory events", home.events, " --events"),
        _check_variables(settings.home),
        *_check_pod(settings),
        *_check_upstreams(settings),
    ]


def _check_home(home: Home) -> CheckFinding:
    try:
        home.create()
        with home.claim():
            pass
    except MemplaneError as error:
        return CheckFinding("home", CheckVerdict.FAILED, str(error), _home_remedy(home.path))
    return CheckFinding("home", CheckVerdict.OK, f"{home.path} is private and can be written to")


def _home_remedy(path: Path) -> str:
    if path.is_dir() and stat.S_IMODE(path.stat().st_mode) & 0o077:
        return f"chmod 700 {path}"
    return "choose another with MEMPLANE_HOME"


def _check_private_files(home: Home) -> CheckFinding:
    names = ("token", "tokens.json", "redaction.key", "config.toml", ".env", "providers.json")
    loose = [
        str(home.path / name)
        for name in names
        if (home.path / name).exists() and stat.S_IMODE((home.path / name).stat().st_mode) & 0o077
    ]
    if loose:
        return CheckFinding(
            "secrets",
            CheckVerdict.FAILED,
            f"others can read {', '.join(loose)}",
            f"chmod 600 {' '.join(loose)}, and replace the secrets in them",
        )
    return CheckFinding("secrets", CheckVerdict.OK, "no file with secrets can be read by others")


def _check_sqlite() -> CheckFinding:
    version = apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")) < _MIN_SQLITE_VERSION:
        wanted = ".".join(map(str, _MIN_SQLITE_VERSION))
        return CheckFinding(
            "sqlite",
            CheckVerdict.FAILED,
            f"SQLite {version} can corrupt a database that two connections write to",
            f"pip install -U apsw (SQLite {wanted} or newer)",
        )
    return CheckFinding("sqlite", CheckVerdict.OK, f"SQLite {version}")


def _check_pages(folder: Traversable) -> CheckFinding:
    """Look for what the dashboard's pages load and git does not keep."""
    file = folder / _HTMX
    if not (file.is_file() and file.read_bytes()):
        return CheckFinding(
            "pages",
            CheckVerdict.WARNING,
            f"{_HTMX} is missing: the dashboard works, but its pages do not update in place",
            "run `make assets` in the checkout, or install memplane from a complete wheel",
        )
    return CheckFinding("pages", CheckVerdict.OK, "the dashboard has all that its pages load")


def _check_database(home: Home) -> CheckFinding:
    try:
        schema = check_database(home.database)
    except MemplaneError as error:
        return CheckFinding(
            "database",
            CheckVerdict.FAILED,
            str(error),
            f"move {home.database} away, and start again: it is made anew from the ledgers",
        )
    found = f"{home.database} can be read" if schema else "there is none yet"
    return CheckFinding("database", CheckVerdict.OK, found)


def _check_clock(home: Path) -> CheckFinding:
    """Compare the clock with the newest thing in the home: time does not run backwards."""
    try:
        written = [entry.stat().st_mtime for entry in os.scandir(home)]
    except OSError as error:
        return CheckFinding(
            "clock", CheckVerdict.WARNING, f"nothing to compare with: {error.strerror}"
        )
    now = system_clock()
    newest = datetime.fromtimestamp(max(written, default=0.0), now.tzinfo)
    if newest > now + _MAX_CLOCK_SKEW:
        return CheckFinding(
            "clock",
            CheckVerdict.FAILED,
            f"it shows {now:%Y-%m-%d %H:%M}, but files were written at {newest:%Y-%m-%d %H:%M}",
            "set the clock, or let it follow a time server",
        )
    return CheckFinding("clock", CheckVerdict.OK, f"{now:%Y-%m-%d %H:%M} UTC")


def _check_disk(home: Path) -> CheckFinding:
    try:
        free = shutil.disk_usage(home).free
    except OSError as error:
        return CheckFinding("disk", CheckVerdict.WARNING, f"cannot be measured: {error.strerror}")
    shown = f"{free / 2**30:.1f} GiB free"
    if free < _MIN_FREE_BYTES:
        return CheckFinding(
            "disk", CheckVerdict.FAILED, shown, "free some space, or move MEMPLANE_HOME"
        )
    return CheckFinding("disk", CheckVerdict.OK, shown)


def _check_sync(home: Path) -> CheckFinding:
    """Time a few syncs: one that takes no time reached no disk."""
    try:
        with tempfile.TemporaryFile(dir=home) as file:
            taken = sorted(_sync_once(file.fileno()) for _ in range(_SYNC_SAMPLES))
    except OSError as error:
        return CheckFinding("sync", CheckVerdict.WARNING, f"cannot be tried: {error.strerror}")
    middle = taken[_SYNC_SAMPLES // 2]
    shown = f"a sync takes {middle * 1000:.2f} ms"
    if middle < _MIN_SYNC_S:
        return CheckFinding(
            "sync",
            CheckVerdict.WARNING,
            f"{shown}, which no disk can do: a power loss may take what was acknowledged",
            "put MEMPLANE_HOME on a real disk, unless you can afford that",
        )
    return CheckFinding("sync", CheckVerdict.OK, shown)


def _sync_once(descriptor: int) -> float:
    started = time.perf_counter()
    os.write(descriptor, bytes(4096))
    sync_data(descriptor)
    return time.perf_counter() - started


def _check_ledgers(name: str, root: Path, flag: str) -> CheckFinding:
    try:
        anchors = read_anchors(root)
        agents = sorted({*list_ledger_agents(root), *anchors})
        # Only the ids of turns that were recorded here are hashes of their lines.
        check = partial(verify_ledger, opaque_ids=bool(flag))
        reports = [check(AgentFolder(root, one), anchors.get(one)) for one in agents]
    except (OSError, MemplaneError) as error:
        return CheckFinding(name, CheckVerdict.FAILED, str(error), f"look at {root}")
    wrong = [f"{one.agent} ({len(one.findings)})" for one in reports if one.findings]
    if wrong:
        return CheckFinding(
            name,
            CheckVerdict.FAILED,
            f"not as it was recorded: {', '.join(wrong[:5])}",
            f"memplane history verify{flag} tells where; put the files back from a copy",
        )
    count = sum(one.entries + one.unchained for one in reports)
    return CheckFinding(
        name, CheckVerdict.OK, f"{count} entries, as recorded; agents: {len(reports)}"
    )


async def _check_door(home: Home) -> CheckFinding:
    """Ask the running owner as a page of another origin would."""
    owner = home.owner()
    if owner is None or not owner.address:
        return CheckFinding("door", CheckVerdict.OK, "nothing listens")
    probes = (({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403))
    timeout = aiohttp.ClientTimeout(total=10)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for headers, expected in probes:
                async with session.get(f"{owner.address}/health", headers=headers) as reply:
                    if reply.status != expected:
                        return CheckFinding(
                            "door",
                            CheckVerdict.FAILED,
                            f"{owner.address} answers {reply.status} to {headers}",
                            "is another program between memplane and its port?",
                        )
    except (aiohttp.ClientError, TimeoutError) as error:
        return CheckFinding(
            "door", CheckVerdict.FAILED, f"{owner.address}: {error}", "memplane up"
        )
    return CheckFinding(
        "door", CheckVerdict.OK, f"{owner.address} refuses other hosts and origins"
    )


def _check_variables(home: Path) -> CheckFinding:
    unknown = find_unknown_names(home)
    if unknown:
        return CheckFinding(
            "variables",
            CheckVerdict.WARNING,
            f"memplane does not know {', '.join(unknown)}",
            "look for a typing error; docs/reference/settings.md lists them all",
        )
    return CheckFinding("variables", CheckVerdict.OK, "every MEMPLANE_ variable is known")


def _check_pod(settings: Settings) -> list[CheckFinding]:
    """Look at what a compile left for the agents of a pod, where there is one."""
    root = settings.context_root
    if root is None:
        return []
    agents, wrong = list_agents(root), dict[str, str]()
    for agent in agents:
        try:
            found = read_proxied_agent(root, agent)
            manifest = found.context.memory
            complaint = found.broken or (manifest.warning if manifest else "") or ""
        except MemplaneError as error:
            complaint = str(error)
        if complaint:
            wrong[agent] = complaint
    if wrong:
        said = "; ".join(f"{agent}: {complaint}" for agent, complaint in wrong.items())
        return [CheckFinding("pod", CheckVerdict.WARNING, said, "compile the pod again")]
    return [
        CheckFinding(
            "pod", CheckVerdict.OK, f"{root} has {len(agents)} agents, and all can be read"
        )
    ]


def _check_upstreams(settings: Settings) -> list[CheckFinding]:
    """Look at where requests may go, and at the providers' keys."""
    chosen, port = settings.proxy, settings.http.port
    keys, environ = (chosen.auth_dir or settings.home) / PROVIDERS_FILE, get_environment()
    try:
        parse_upstreams(chosen.upstream_openai, chosen.upstream_anthropic, own_port=port)
        providers = read_providers(keys, environ, own_port=port)
        doubts = list(find_config_warnings(keys, environ, own_port=port))
    except MemplaneError as error:
        remedy = f"correct what is named there; the keys are in {keys}"
        return [CheckFinding("providers", CheckVerdict.FAILED, str(error), remedy)]
    usable = sorted(name for name, one in providers.items() if one.usable)
    found = (
        f"keys for {', '.join(usable)}" if usable else "no keys of our own; clients bring theirs"
    )
    if doubts:
        said = "; ".join((found, *doubts))
        return [
            CheckFinding(
                "providers", CheckVerdict.WARNING, said, f"look at {keys} and the environment"
            )
        ]
    return [CheckFinding("providers", CheckVerdict.OK, found)]


def run_document_checks(settings: Settings, root: Path) -> list[CheckFinding]:
    """Look at the folder of documents, and at those that are not published."""
    found = _check_documents(root)
    return [found, *_check_syncs(settings)]


def _check_documents(root: Path) -> CheckFinding:
    name = "memory directory"
    try:
        seen = scan_folder(root)
    except MemplaneError as error:
        return CheckFinding(
            name, CheckVerdict.FAILED, f"{root}: {error}", "put its permissions right"
        )
    if seen.missing:
        return CheckFinding(
            name, CheckVerdict.OK, f"{root} is not there yet; the first sync makes it"
        )
    if seen.refused:
        which = "; ".join(f"{key}: {why}" for key, why in sorted(seen.refused.items())[:5])
        return CheckFinding(
            name, CheckVerdict.WARNING, which, "memplane persona check tells what to do"
        )
    return CheckFinding(name, CheckVerdict.OK, f"{root} has {len(seen.documents)} documents")


def _check_syncs(settings: Settings) -> list[CheckFinding]:
    """Look at what earlier syncs of all folders left to do."""
    remedy = "memplane persona status tells why, and what to do"
    try:
        known = list_sync_statuses(sync_folder(settings))
    except MemplaneError as error:
        return [
            CheckFinding(
                "documents", CheckVerdict.FAILED, str(error), "move the file away, and sync"
            )
        ]
    held = [one.key for each in known for one in each.held]
    dead = [one.key for each in known for one in each.waiting if one.dead]
    if held:
        shown = f"not published: {', '.join(held[:5])}"
        return [CheckFinding("documents", CheckVerdict.WARNING, shown, remedy)]
    if dead:
        shown = f"the container will not take {', '.join(dead[:5])}"
        return [CheckFinding("documents", CheckVerdict.FAILED, shown, remedy)]
    count = sum(each.documents for each in known)
    return (
        [CheckFinding("documents", CheckVerdict.OK, f"{count} in step, none held")]
        if known
        else []
    )


def _check_configuration(settings: Settings) -> CheckFinding:
    remedy = "set the missing variable, or MEMPLANE_KEEP_MEMORY_LOCAL=true to stay local"
    try:
        choice = choose_storage(settings)
    except BackendMisconfigured as error:
        return CheckFinding("configuration", CheckVerdict.FAILED, str(error), remedy)
    if choice.complaint:
        return CheckFinding("configuration", CheckVerdict.FAILED, choice.complaint, remedy)
    return CheckFinding("configuration", CheckVerdict.OK, choice.reason)


async def _check_storage(choice: Choice) -> list[CheckFinding]:
    try:
        async with open_store(choice.storage, cached=False) as store:
            findings = [
                await _check(name, check, store, _storage_remedy(choice.storage))
                for name, check in _STORAGE_CHECKS
            ]
        if isinstance(choice.storage, S3Storage):
            findings.append(await _check_deletes(choice.storage))
    except MemplaneError as error:
        return [
            CheckFinding(
                "storage", CheckVerdict.FAILED, str(error), "correct the settings named there"
            )
        ]
    return findings


def _storage_remedy(storage: Storage) -> str:
    if isinstance(storage, LocalStorage):
        return f"see that {storage.root} can be read and written, and that its disk has room"
    return "check the address, the credentials and the network"


async def _check(
    name: str,
    check: Callable[[ObjectStore], Awaitable[CheckFinding]],
    store: ObjectStore,
    remedy: str,
) -> CheckFinding:
    try:
        return await check(store)
    except MemplaneError as error:
        return CheckFinding(name, CheckVerdict.FAILED, str(error), remedy)


async def _check_listing(store: ObjectStore) -> CheckFinding:
    found = await store.listing()
    rivals = find_collisions(one.key for one in found.entries)
    if found.refused or rivals:
        names = [*map(repr, found.refused), *(" and ".join(group) for group in rivals)]
        return CheckFinding(
            "names",
            CheckVerdict.WARNING,
            f"some names cannot be used on every machine: {', '.join(names[:5])}",
            "rename or remove them; memplane leaves them alone",
        )
    return CheckFinding(
        "names", CheckVerdict.OK, f"{len(found.entries)} objects, all with valid names"
    )


async def _check_conditions(store: ObjectStore) -> CheckFinding:
    """Try what everything rests on: a write happens only if its condition holds."""
    key = f"state/doctor-{new_id()}.txt"
    version = await store.write(key, b"doctor\n", expect=Absent())
    try:
        honoured = await _is_condition_honoured(
            store, key, Absent()
        ) and await _is_condition_honoured(store, key, Matches(Version('"0x0"')))
        back = await store.read(key)
    finally:
        await store.delete(key, expect=Anything())
    if not honoured or back is None or back.version != version:
        return CheckFinding(
            "conditional writes",
            CheckVerdict.FAILED,
            "the store ignored a condition, so two machines could lose each other's writes",
            "do not use this store; is a proxy or an emulator in between?",
        )
    return CheckFinding(
        "conditional writes", CheckVerdict.OK, "written, read back, conditions honoured"
    )


async def _is_condition_honoured(store: ObjectStore, key: str, expect: Absent | Matches) -> bool:
    try:
        await store.write(key, b"must not be written\n", expect=expect)
    except ConcurrencyError:
        return True
    return False


async def _check_deletes(storage: S3Storage) -> CheckFinding:
    """Try whether the service deletes on a condition; without that, deleting is overwriting."""
    async with open_bucket_store(storage, RetryClock()) as store:
        is_conditional = await store.has_conditional_delete()
    found = "the service honours them"
    if not is_conditional:
        found = (
            "the service has none, so what is deleted on a condition is overwritten, also on a "
            "condition, by a small object that stands for the deletion"
        )
    return CheckFinding("conditional deletes", CheckVerdict.OK, found)


_STORAGE_CHECKS: Final[
    tuple[tuple[str, Callable[[ObjectStore], Awaitable[CheckFinding]]], ...]
] = (
    ("names", _check_listing),
    ("conditional writes", _check_conditions),
)
