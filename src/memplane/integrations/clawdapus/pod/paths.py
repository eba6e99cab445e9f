"""Where a compile leaves its files, below the pod's folder, and how large one may be (pure).

They are here because a running memplane needs no more than this of the compiler and of YAML.
"""

from __future__ import annotations

from typing import Final

CONTEXT_FOLDER: Final = ".claw-runtime/context"
COMPOSE_FILE: Final = "compose.generated.yml"
POD_MANIFEST_FILE: Final = ".claw-runtime/pod-manifest.json"
MAX_POD_FILE_BYTES: Final = 1 << 20
