"""What every Plane must do. Subclass it and provide the fixtures `plane` and `home`."""

from __future__ import annotations

from pathlib import Path

from memplane.plane.contract import Plane
from memplane.version import VERSION


class PlaneConformance:
    """The contract as tests."""

    async def test_status_says_where_state_lives(self, plane: Plane, home: Path) -> None:
        status = await plane.status()
        assert status.version == VERSION
        assert status.home == str(home)
        assert status.storage.kind == "local"
        assert status.storage.where == str(home / "data")
        assert status.storage.reason
        assert status.jobs == 0
