"""The version of this package; the only place that says it."""

from typing import Final

VERSION: Final = "0.1.0"
