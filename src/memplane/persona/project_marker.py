"""The marker in the folder: whose it is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from memplane.errors import BackendUnavailable
from memplane.kit.durable_files import read_file, replace_file, translate_os_errors
from memplane.kit.ids import RESERVED_PREFIX
from memplane.persona.safe_open import open_root

MARKER_FILE: Final = f"{RESERVED_PREFIX}-persona.json"


class ProjectMarker(msgspec.Struct, frozen=True, omit_defaults=True):
    """Says whose folder this is: so another one, or an empty mount point, is not taken for it.

    `prefix` is where its documents lie in the container, if that is not the one in the settings.
    """

    project: str
    device: str
    prefix: str = ""


def read_marker(root: Path) -> ProjectMarker | None:
    """Return the folder's marker; None when it has none.

    Raises:
        BackendUnavailable: It is damaged, which is not the same, or the folder is not there.
    """
    with translate_os_errors(MARKER_FILE), open_root(root) as folder:
        try:
            data, _ = read_file(folder, MARKER_FILE)
        except FileNotFoundError:
            return None
    try:
        return msgspec.json.decode(data, type=ProjectMarker)
    except (ValueError, RecursionError) as error:
        raise BackendUnavailable(
            "the folder's marker is damaged. If this is the right folder, remove the marker and "
            "sync again",
            key=MARKER_FILE,
        ) from error


def write_marker(root: Path, marker: ProjectMarker) -> None:
    """Write the folder's marker, all of it or nothing."""
    with translate_os_errors(MARKER_FILE), open_root(root) as folder:
        replace_file(folder, MARKER_FILE, msgspec.json.encode(marker))
