"""What a path names, however it is spelled (pure).

A path goes on as it was sent. What it means is decided here: servers undo percent signs, and
many take two slashes for one, or leave out the last one and what follows a semicolon.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

_MAX_PERCENT_DECODINGS: Final = 8


def canonical_path(path: str) -> str:
    """Spell a path in the one way that leaves nothing to be read into it.

    What is encoded too many times over stays encoded: it names nothing that anybody serves.
    """
    for _ in range(_MAX_PERCENT_DECODINGS):
        decoded = unquote(path)
        if decoded == path:
            break
        path = decoded
    segments = (segment.partition(";")[0] for segment in path.split("/"))
    return "/" + "/".join(filter(None, segments))
