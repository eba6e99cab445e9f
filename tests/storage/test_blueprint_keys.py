"""The certificates on a Blueprint: one machine never locks out another."""

from __future__ import annotations

import base64
import hashlib
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memplane.errors import ProvisioningError
from memplane.storage.provisioning.azure_api import ApiReply, AzureApi
from memplane.storage.provisioning.graph import BlueprintKeys

LAPTOP, DESKTOP, SERVER = b"laptop", b"desktop", b"server"


class Graph:
    """A list of certificates."""

    graph = "https://graph"

    def __init__(self, *certificates: bytes) -> None:
        self.certificates = list(certificates)
        self.hidden = False

    async def get(self, service: str, path: str) -> ApiReply:
        assert "$select=id,keyCredentials" in path
        shown = [
            {"key": None if self.hidden else base64.b64encode(one).decode()}
            for one in self.certificates
        ]
        return ApiReply(200, {"id": "application", "keyCredentials": shown})

    async def call_when_known(
        self, method: str, service: str, path: str, body: dict[str, Any]
    ) -> ApiReply:
        assert (method, path) == ("PATCH", "/v1.0/applications/application")
        self.certificates = [base64.b64decode(one["key"]) for one in body["keyCredentials"]]
        return ApiReply(204, {})


def keys_of(graph: Graph) -> BlueprintKeys:
    return BlueprintKeys(cast("AzureApi", graph), "blueprint")


async def test_a_machine_is_added_once_beside_the_others() -> None:
    graph = Graph(LAPTOP)
    assert await keys_of(graph).add(DESKTOP, "desktop") is True
    assert await keys_of(graph).add(DESKTOP, "desktop") is False
    assert graph.certificates == [LAPTOP, DESKTOP]


async def test_only_the_machine_that_is_named_is_removed() -> None:
    graph = Graph(LAPTOP, DESKTOP)
    assert await keys_of(graph).remove(hashlib.sha256(LAPTOP).digest()) is True
    assert await keys_of(graph).remove(hashlib.sha256(LAPTOP).digest()) is False
    assert graph.certificates == [DESKTOP]


async def test_our_certificate_survives_another_machine_that_writes_after_us() -> None:
    """It read before we wrote, so its list lacks ours; we look again and add it."""
    graph = Graph(LAPTOP)
    written = SimpleNamespace(count=0)

    async def get(service: str, path: str) -> ApiReply:
        written.count += 1
        if written.count == 2:
            graph.certificates = [LAPTOP, SERVER]
        return await Graph.get(graph, service, path)

    graph.get = get  # type: ignore[method-assign] # the moment between our write and our look
    assert await keys_of(graph).add(DESKTOP, "desktop") is True
    assert sorted(graph.certificates) == sorted([LAPTOP, SERVER, DESKTOP])


async def test_a_list_without_the_keys_of_others_is_never_written() -> None:
    graph = Graph(LAPTOP)
    graph.hidden = True
    with pytest.raises(ProvisioningError, match="lock them out"):
        await keys_of(graph).add(DESKTOP, "desktop")
    assert graph.certificates == [LAPTOP]
