"""The marker in the folder: whose it is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from memplane.errors import BackendUnavailable
from memplane.objects.files import read_file, replace_file, translated
from memplane.objects.keys import RESERVED
from memplane.persona.opening import opened_root

MARKER: Final = f"{RESERVED}-persona.json"


class Marker(msgspec.Struct, frozen=True):
    """Says whose folder this is: so another one, or an empty mount point, is not taken for it."""

    project: str
    device: str


def read_marker(root: Path) -> Marker | None:
    """Return the folder's marker; None when it has none.

    Raises:
        BackendUnavailable: It is damaged, which is not the same, or the folder is not there.
    """
    with translated(MARKER), opened_root(root) as folder:
        try:
            data, _ = read_file(folder, MARKER)
        except FileNotFoundError:
            return None
    try:
        return msgspec.json.decode(data, type=Marker)
    except (ValueError, RecursionError) as error:
        raise BackendUnavailable(
            "the folder's marker is damaged. If this is the right folder, remove the marker and "
            "sync again",
            key=MARKER,
        ) from error


def write_marker(root: Path, marker: Marker) -> None:
    """Write the folder's marker, all of it or nothing."""
    with translated(MARKER), opened_root(root) as folder:
        replace_file(folder, MARKER, msgspec.json.encode(marker))
