"""A process that appends lines: `python appender.py KIND WHERE CACHE KEY NAME COUNT PATIENCE`.

It says each line on stdout once `append_text` has returned, so the parent knows what was promised.
At its end it has so many seconds of patience for what was batched.
"""

from __future__ import annotations

import sys
from pathlib import Path

from memplane import BlobBackend, CachedBlobBackend, LocalBackend
from memplane.kit import atexit_hooks
from memplane.secret import Secret
from memplane.settings import BlobSettings
from memplane.storage.backend import StoreBackend


def backend_of(kind: str, where: str, cache: str) -> StoreBackend:
    if kind == "local":
        return LocalBackend(where)
    connection, _, container = where.rpartition("|")
    blob = BlobSettings(connection_string=Secret(connection), container=container)
    return (CachedBlobBackend if kind == "cached" else BlobBackend)(blob, cache=Path(cache))


def main() -> None:
    kind, where, cache, key, name, count, patience = sys.argv[1:]
    atexit_hooks._EXIT_TIMEOUT_S = float(patience)  # type: ignore[misc]
    backend = backend_of(kind, where, cache)
    for number in range(int(count)):
        line = f"{name}-{number}"
        backend.append_text(key, line + "\n")
        print(line, flush=True)


if __name__ == "__main__":
    main()
