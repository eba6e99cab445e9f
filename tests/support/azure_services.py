"""A stand-in for Resource Manager, Microsoft Graph and the `az` program, for one tenant."""

from __future__ import annotations

import base64
import json
import re
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tests.support.azurite import Azurite, Certificate
from tests.support.entra import STORAGE, Entra, running_app

STORAGE_APP = "e406a681-f3d4-42a8-90b6-c2b029497af1"
CONTRIBUTOR = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
_ACCOUNT = (
    r"/subscriptions/[^/]+/resourcegroups/([^/]+)"
    r"/providers/microsoft\.storage/storageaccounts/([^/]+)"
)

Handle = Callable[[re.Match[str], dict[str, Any]], web.Response]


class Fault(Exception):
    """An error as both services answer it."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(code)
        self.answer = web.json_response(
            {"error": {"code": code, "message": message or code}}, status=status
        )


@dataclass(slots=True)
class Account:
    name: str
    group: str
    properties: dict[str, Any]
    undo: dict[str, Any] = field(default_factory=dict[str, Any])
    containers: set[str] = field(default_factory=set[str])
    polls: int = 1
    """How often it is asked for before it is ready."""


@dataclass(slots=True)
class AzureServices:
    """One subscription and one directory. `on_container` makes a container in the emulator."""

    entra: Entra
    blob_endpoint: str = "https://blob.example"
    on_container: Callable[[str], None] = lambda _name: None
    management: str = ""
    graph: str = ""
    groups: dict[str, str] = field(default_factory=dict[str, str])
    accounts: dict[str, Account] = field(default_factory=dict[str, Account])
    roles: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    grants: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    has_storage_principal: bool = True
    agent_principal: str = field(default_factory=lambda: str(uuid.uuid4()))
    storage_principal: str = field(default_factory=lambda: str(uuid.uuid4()))
    application: str = field(default_factory=lambda: str(uuid.uuid4()))
    az_tokens: dict[str, str] = field(default_factory=dict[str, str])
    faults: list[tuple[str, Fault | None]] = field(default_factory=list[tuple[str, Fault | None]])
    """What to answer next instead, for a method and a part of the path; None lets one pass."""
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    other_resources: list[str] = field(default_factory=list[str])
    az_may_register: bool = True

    def fail(self, what: str, status: int, code: str, *, times: int = 1) -> None:
        self.faults += [(what, Fault(status, code)) for _ in range(times)]

    @property
    def changes(self) -> list[str]:
        """What was asked to be changed."""
        return [f"{method} {path}" for method, path in self.asked if method != "GET"]

    # The one route

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = unquote(request.path)
        self.asked.append((request.method, path))
        body: dict[str, Any] = await request.json() if request.can_read_body else {}
        try:
            self._check_token(request)
            for number, (what, fault) in enumerate(self.faults):
                method, _, part = what.partition(" ")
                if method == request.method and part in path:
                    del self.faults[number]
                    if fault is None:
                        break
                    raise fault
            for method, pattern, handler in self._handlers():
                found = re.fullmatch(pattern, path, re.IGNORECASE)
                if method == request.method and found:
                    return handler(found, {**body, "?": dict(request.query)})
        except Fault as fault:
            return fault.answer
        raise AssertionError(f"{request.method} {path} is not documented")

    def _check_token(self, request: web.Request) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        known = {**self.az_tokens, **self.entra.signed_in}
        is_graph = request.path.startswith("/v1.0/")
        if known.get(token) != (self.graph if is_graph else self.management):
            raise Fault(401, "InvalidAuthenticationToken")
        if (
            "/applications" in request.path
            and token in self.az_tokens
            and not self.az_may_register
        ):
            raise Fault(403, "Authorization_RequestDenied")
        if not is_graph:
            assert request.query.get("api-version"), request.path

    def _handlers(self) -> list[tuple[str, str, Handle]]:
        group = r"/subscriptions/[^/]+/resourcegroups/([^/]+)"
        blobs = _ACCOUNT + r"/blobservices/default"
        container = blobs + r"/containers/([^/]+)"
        role = container + r"/providers/microsoft\.authorization/roleassignments/([^/]+)"
        return [
            ("GET", r"/subscriptions", self._list_subscriptions),
            ("GET", group, self._get_group),
            ("PUT", group, self._put_group),
            ("DELETE", group, self._delete_group),
            ("GET", group + "/resources", self._list_resources),
            (
                "GET",
                r"/subscriptions/[^/]+/providers/microsoft\.storage/storageaccounts",
                self._list_accounts,
            ),
            ("GET", _ACCOUNT, self._get_account),
            ("PUT", _ACCOUNT, self._put_account),
            ("PATCH", _ACCOUNT, self._patch_account),
            ("DELETE", _ACCOUNT, self._delete_account),
            ("GET", blobs, self._get_undo),
            ("PUT", blobs, self._put_undo),
            ("GET", blobs + "/containers", self._list_containers),
            ("GET", container, self._get_container),
            ("PUT", container, self._put_container),
            ("DELETE", container, self._delete_container),
            ("GET", role, self._get_role),
            ("PUT", role, self._put_role),
            ("DELETE", role, self._delete_role),
            ("GET", r"/v1\.0/users/(.+)", self._get_user),
            ("GET", r"/v1\.0/serviceprincipals\(appid='([^']+)'\)", self._get_principal),
            ("POST", r"/v1\.0/serviceprincipals", self._post_principal),
            ("GET", r"/v1\.0/oauth2permissiongrants", self._list_grants),
            ("POST", r"/v1\.0/oauth2permissiongrants", self._post_grant),
            ("PATCH", r"/v1\.0/oauth2permissiongrants/(.+)", self._patch_grant),
            ("GET", r"/v1\.0/applications\(appid='([^']+)'\)", self._get_application),
            ("PATCH", r"/v1\.0/applications/(.+)", self._patch_application),
        ]

    # Resource Manager

    def _list_subscriptions(self, _: re.Match[str], body: dict[str, Any]) -> web.Response:
        item = {
            "subscriptionId": SUBSCRIPTION,
            "tenantId": self.entra.tenant,
            "displayName": "Lab",
            "state": "Enabled",
        }
        return web.json_response({"value": [item]})

    def _get_group(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        if path[1] not in self.groups:
            raise Fault(404, "ResourceGroupNotFound")
        return web.json_response({"name": path[1]})

    def _put_group(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        self.groups[path[1]] = body["location"]
        return web.json_response({"name": path[1]}, status=201)

    def _delete_group(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        del self.groups[path[1]]
        return web.Response(status=202)

    def _list_resources(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        ids = [self._id(one) for one in self.accounts.values() if one.group == path[1]]
        return web.json_response({"value": [{"id": one} for one in ids + self.other_resources]})

    def _id(self, account: Account) -> str:
        return (
            f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{account.group}"
            f"/providers/Microsoft.Storage/storageAccounts/{account.name}"
        )

    def _describe(self, account: Account) -> dict[str, Any]:
        endpoints = {"blob": f"{self.blob_endpoint}/"}
        state = "Succeeded" if account.polls <= 0 else "Creating"
        account.polls -= 1
        properties = {
            **account.properties,
            "primaryEndpoints": endpoints,
            "provisioningState": state,
        }
        return {"id": self._id(account), "name": account.name, "properties": properties}

    def _list_accounts(self, _: re.Match[str], body: dict[str, Any]) -> web.Response:
        """Two pages, of which the first has somebody else's account."""
        if "page" not in body["?"]:
            link = f"{self.management}/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Storage"
            link += "/storageAccounts?api-version=2023-05-01&page=2"
            return web.json_response({"value": [{"name": "others"}], "nextLink": link})
        return web.json_response({"value": [self._describe(a) for a in self.accounts.values()]})

    def _account(self, path: re.Match[str]) -> Account:
        if path[2] not in self.accounts:
            raise Fault(404, "ResourceNotFound")
        return self.accounts[path[2]]

    def _get_account(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        return web.json_response(self._describe(self._account(path)))

    def _put_account(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        assert re.fullmatch(r"[a-z0-9]{3,24}", path[2])
        assert body["kind"] == "StorageV2"
        assert body["sku"] == {"name": "Standard_LRS"}
        assert path[1] in self.groups
        self.accounts[path[2]] = Account(path[2], path[1], body["properties"])
        return web.Response(status=202)

    def _patch_account(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        account = self._account(path)
        account.properties |= body["properties"]
        return web.json_response(self._describe(account))

    def _delete_account(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        self.accounts.pop(path[2], None)
        return web.Response(status=200)

    def _get_undo(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        return web.json_response({"properties": self._account(path).undo})

    def _put_undo(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        self._account(path).undo = body["properties"]
        return web.json_response({})

    def _list_containers(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        names = sorted(self._account(path).containers)
        return web.json_response({"value": [{"name": name} for name in names]})

    def _get_container(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        if path[3] not in self._account(path).containers:
            raise Fault(404, "ContainerNotFound")
        return web.json_response({"name": path[3]})

    def _put_container(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        assert body["properties"] == {"publicAccess": "None"}
        self._account(path).containers.add(path[3])
        self.on_container(path[3])
        return web.json_response({"name": path[3]}, status=201)

    def _delete_container(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        self._account(path).containers.discard(path[3])
        return web.Response(status=200)

    def _get_role(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        if path[0].lower() not in self.roles:
            raise Fault(404, "RoleAssignmentNotFound")
        return web.json_response({})

    def _put_role(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        uuid.UUID(path[4])
        properties = body["properties"]
        assert properties["principalId"] == self.entra.user
        assert properties["principalType"] == "User"
        assert properties["roleDefinitionId"].endswith(f"/roleDefinitions/{CONTRIBUTOR}")
        self.roles[path[0].lower()] = properties
        return web.json_response({}, status=201)

    def _delete_role(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        self.roles.pop(path[0].lower(), None)
        return web.json_response({})

    # Graph

    def _get_user(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        if path[1] not in {self.entra.user, self.entra.upn}:
            raise Fault(404, "Request_ResourceNotFound")
        return web.json_response({"id": self.entra.user})

    def _get_principal(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        known = {self.entra.agent: self.agent_principal}
        if self.has_storage_principal:
            known[STORAGE_APP] = self.storage_principal
        if path[1] not in known:
            raise Fault(404, "Request_ResourceNotFound")
        return web.json_response({"id": known[path[1]]})

    def _post_principal(self, _: re.Match[str], body: dict[str, Any]) -> web.Response:
        assert body["appId"] == STORAGE_APP
        self.has_storage_principal = True
        return web.json_response({"id": self.storage_principal}, status=201)

    def _list_grants(self, _: re.Match[str], body: dict[str, Any]) -> web.Response:
        wanted = f"clientId eq '{self.agent_principal}' and principalId eq '{self.entra.user}'"
        assert body["?"]["$filter"] == wanted
        return web.json_response({"value": self.grants})

    def _post_grant(self, _: re.Match[str], body: dict[str, Any]) -> web.Response:
        assert body["clientId"] == self.agent_principal
        assert body["principalId"] == self.entra.user
        assert body["resourceId"] == self.storage_principal
        assert (body["consentType"], body["scope"]) == ("Principal", "user_impersonation")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", body["startTime"])
        del body["?"]
        self.grants.append({"id": str(uuid.uuid4()), **body})
        self.entra.consents.add(STORAGE)
        return web.json_response({}, status=201)

    def _patch_grant(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        (grant,) = [one for one in self.grants if one["id"] == path[1]]
        grant["scope"] = body["scope"]
        self.entra.consents.add(STORAGE)
        return web.Response(status=204)

    def _get_application(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        if path[1] != self.entra.blueprint:
            raise Fault(404, "Request_ResourceNotFound")
        selected = "keyCredentials" in body["?"].get("$select", "")
        shown = [one if selected else {**one, "key": None} for one in self.entra.key_credentials]
        return web.json_response({"id": self.application, "keyCredentials": shown})

    def _patch_application(self, path: re.Match[str], body: dict[str, Any]) -> web.Response:
        assert path[1] == self.application
        credentials = body["keyCredentials"]
        for one in credentials:
            assert (one["type"], one["usage"]) == ("AsymmetricX509Cert", "Verify")
            assert base64.b64decode(one["key"])
        self.entra.key_credentials = [{"keyId": str(uuid.uuid4()), **one} for one in credentials]
        return web.Response(status=204)

    # The `az` program

    def write_az(self, folder: Path, *, logged_in: bool = True) -> Path:
        """Put an `az` into a folder that answers as if somebody were logged in, or nobody."""
        tokens = {resource: f"az-{uuid.uuid4()}" for resource in (self.graph, self.management)}
        self.az_tokens |= {token: resource for resource, token in tokens.items()}
        show = {"id": SUBSCRIPTION, "tenantId": self.entra.tenant, "name": "Lab"}
        answers: dict[str, Any] = {"account show": show}
        answers |= {
            f"account get-access-token --resource {resource}": {"accessToken": token}
            for resource, token in tokens.items()
        }
        known = json.dumps(answers if logged_in else {})
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "az"
        program.write_text(
            f"#!{sys.executable}\n"
            "import json, sys\n"
            f"known = json.loads({known!r})\n"
            f"with open({str(folder / 'az.log')!r}, 'a') as log:\n"
            "    log.write(' '.join(sys.argv[1:]) + '\\n')\n"
            "answer = known.get(' '.join(sys.argv[1:]).partition(' --output')[0])\n"
            "if answer is None:\n"
            "    sys.exit('Please run az login to setup account.')\n"
            "print(json.dumps(answer))\n"
        )
        program.chmod(0o755)
        return program


@contextmanager
def running_azure(
    certificate: Certificate,
    azurite: Azurite | None = None,
    on_container: Callable[[str], None] = lambda _name: None,
) -> Iterator[AzureServices]:
    """Run a whole tenant: tokens, Resource Manager and Graph behind one address."""
    entra = Entra(consents=set())
    services = AzureServices(entra, on_container=on_container)
    if azurite is not None:
        services.blob_endpoint = azurite.endpoint

    async def dispatch(request: web.Request) -> web.StreamResponse:
        return await services.handle(request)

    handler: Callable[[web.Request], Awaitable[web.StreamResponse]] = dispatch
    everything = [web.route("*", "/{path:.*}", handler)]
    with (
        running_app([*entra.routes(), *everything], certificate) as management,
        running_app(everything, certificate) as graph,
    ):
        entra.authority = services.management = management
        services.graph = graph
        yield services
