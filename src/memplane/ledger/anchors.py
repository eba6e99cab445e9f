"""Anchors: how long each agent's chain was, told outside it.

A chain cannot see that its own end was removed. So after each sync of a chain its last sequence
number and hash are written here; an anchored record that is missing is a loss, not a torn end.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from memplane.kit.durable_files import append_to_file, hold_lock, open_folder, replace_file
from memplane.kit.private_files import make_private_folder
from memplane.ledger.chain import ChainEnd, LedgerPosition
from memplane.ledger.folder import STATE_FOLDER_NAME
from memplane.ledger.segments import FileModes

ANCHORS_FILE_NAME: Final = "anchors.jsonl"
_COMPACT_AT_BYTES: Final = 1 << 18


class _Anchor(msgspec.Struct, frozen=True):
    agent: str
    seq: int
    hash: str
    segment: int
    offset: int


def read_anchors(root: Path) -> dict[str, ChainEnd]:
    """Read the last anchor of each agent; a line that cannot be read is passed over."""
    try:
        lines = (root / STATE_FOLDER_NAME / ANCHORS_FILE_NAME).read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    anchors: dict[str, ChainEnd] = {}
    for line in lines:
        try:
            anchor = msgspec.json.decode(line, type=_Anchor)
            anchors[anchor.agent] = ChainEnd(
                anchor.seq,
                bytes.fromhex(anchor.hash),
                LedgerPosition(anchor.segment, anchor.offset),
            )
        except (msgspec.DecodeError, ValueError):
            continue
    return anchors


def write_anchors(
    root: Path, ends: Mapping[str, ChainEnd], *, modes: FileModes | None = None, anew: bool = False
) -> None:
    """Add anchors, durably; a long file is written anew with the last of each agent.

    Another process may have told a later end of the same chain already, and that stays. `anew`
    is for a chain that has lost what its anchor names.
    """
    make_private_folder(root / STATE_FOLDER_NAME)
    folder = open_folder(root / STATE_FOLDER_NAME, (), create=False)
    try:
        if modes is not None:
            _share(folder, modes)
        with hold_lock(folder, "anchors.lock"):
            known = read_anchors(root)
            news = {
                agent: end
                for agent, end in ends.items()
                if anew or agent not in known or end.seq > known[agent].seq
            }
            append_to_file(folder, ANCHORS_FILE_NAME, b"\n" + _encode_anchors(news))
            if (root / STATE_FOLDER_NAME / ANCHORS_FILE_NAME).stat().st_size > _COMPACT_AT_BYTES:
                replace_file(folder, ANCHORS_FILE_NAME, _encode_anchors({**known, **news}))
    finally:
        os.close(folder)


def _share(folder: int, modes: FileModes) -> None:
    """Give our files the permissions that the ledger's have, where they are ours to give."""
    with suppress(PermissionError):
        os.fchmod(folder, modes.folder)
    for name in (ANCHORS_FILE_NAME, "anchors.lock"):
        descriptor = os.open(
            name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, modes.file, dir_fd=folder
        )
        with suppress(PermissionError):
            os.fchmod(descriptor, modes.file)
        os.close(descriptor)


def _encode_anchors(ends: Mapping[str, ChainEnd]) -> bytes:
    return b"".join(
        msgspec.json.encode(
            _Anchor(agent, end.seq, end.hash.hex(), end.place.segment, end.place.offset)
        )
        + b"\n"
        for agent, end in ends.items()
    )
