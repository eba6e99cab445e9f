"""`memplane pod`: compile a pod's file, and show or check descriptors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.integrations.clawdapus.pod.compile_plan import CompilePlan
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    compiling = actions.add_parser(
        "compile", help="write the agents' folders and compose.generated.yml"
    )
    compiling.add_argument(
        "-f", "--file", default="claw-pod.yml", metavar="F", help="the pod's file; claw-pod.yml"
    )
    describing = actions.add_parser("describe", help="print memplane's own descriptor")
    describing.add_argument("--check", metavar="F", help="check this descriptor instead")
    for one in (compiling, describing):
        one.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Compile, describe or check."""
    del settings
    if arguments.action == "compile":
        return await _compile(Path(arguments.file), as_json=arguments.json)
    if arguments.check:
        return _check(Path(arguments.check), as_json=arguments.json)
    return _describe()


async def _compile(file: Path, *, as_json: bool) -> int:
    import asyncio

    from memplane.cli import EXIT_OK
    from memplane.integrations.clawdapus.pod.compiler import compile_pod
    from memplane.integrations.clawdapus.pod.descriptor_discovery import inspect_docker_image
    from memplane.settings import get_environment

    plan = await asyncio.to_thread(
        compile_pod, file, environ=get_environment(), image_files=inspect_docker_image
    )
    _print_result(plan, file, as_json=as_json)
    return EXIT_OK


def _print_result(plan: CompilePlan, file: Path, *, as_json: bool) -> None:
    from memplane.cli.output import print_json

    folder = file.absolute().parent
    if as_json:
        print_json(
            {
                "pod": plan.pod,
                "folder": str(folder),
                "agents": plan.agents,
                "files": [one.path for one in plan.files],
                "warnings": plan.warnings,
            }
        )
        return
    for warning in plan.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for one in plan.agents:
        print(f"{one.id}: {f'memory in {one.memory}' if one.memory else 'no memory'}")
    print(f"compiled {plan.pod}: {len(plan.agents)} agent(s), {len(plan.files)} files in {folder}")


def _describe() -> int:
    from memplane.cli import EXIT_OK
    from memplane.integrations.clawdapus.pod.descriptor import own_descriptor, write_descriptor

    print(write_descriptor(own_descriptor()).decode(), end="")
    return EXIT_OK


def _check(file: Path, *, as_json: bool) -> int:
    from memplane.cli import EXIT_OK
    from memplane.cli.output import print_json
    from memplane.errors import PodError
    from memplane.integrations.clawdapus.pod.descriptor import (
        MAX_DESCRIPTOR_BYTES,
        OPERATION_NAMES,
        read_descriptor,
    )
    from memplane.kit.bounded_read import read_bounded

    data = read_bounded(file, MAX_DESCRIPTOR_BYTES)
    if data is None:
        raise PodError(f"there is no descriptor at {file}")
    descriptor = read_descriptor(data)
    if as_json:
        print_json(descriptor)
        return EXIT_OK
    offered = [name for name in OPERATION_NAMES if getattr(descriptor.memory, name, None)]
    about = f"offers {', '.join(offered)}" if offered else "offers no memory"
    print(f"{file} is a descriptor of version {descriptor.version}; it {about}")
    return EXIT_OK
