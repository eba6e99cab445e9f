"""The commands for pods are tested with the same pod and the same service as what they call."""

from __future__ import annotations

from tests.operate.conftest import pod, service

__all__ = ["pod", "service"]
