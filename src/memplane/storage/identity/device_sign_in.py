"""A person signs in with a code, by MSAL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

import msal  # pyright: ignore[reportMissingTypeStubs] - it has no types; see _PublicClient
import requests

from memplane.errors import AuthError, BackendUnavailable
from memplane.secret import Secret
from memplane.storage.identity.msal_http import MsalHttpClient, is_on_loopback


class _PublicClient(Protocol):
    """What is used of MSAL, which has no types."""

    def initiate_device_flow(self, scopes: list[str]) -> dict[str, object]: ...

    def acquire_token_by_device_flow(self, flow: dict[str, object]) -> dict[str, object]: ...


def sign_in(
    authority: str,
    client_id: str,
    scopes: list[str],
    *,
    show: Callable[[str], None],
    ca_file: Path | None,
) -> Secret:
    """Show a code, and wait until somebody has signed in with it. `authority` has the tenant.

    Raises:
        AuthError: Nobody did, or the sign-in was refused.
        BackendUnavailable: Nobody answered.
    """
    try:
        client = cast(
            "_PublicClient",
            msal.PublicClientApplication(
                client_id,
                authority=authority,
                instance_discovery=not is_on_loopback(authority),
                http_client=MsalHttpClient(ca_file),
            ),
        )
        flow = client.initiate_device_flow(scopes)
        if "message" in flow:
            show(str(flow["message"]))
            reply = client.acquire_token_by_device_flow(flow)
        else:
            reply = flow
    except (requests.RequestException, ValueError) as error:
        # Not the error itself: its text may hold what was sent.
        raise BackendUnavailable(
            f"no usable answer from {authority} ({type(error).__name__})"
        ) from None
    token = reply.get("access_token")
    if not isinstance(token, str):
        said = str(reply.get("error_description") or reply.get("error") or "no token came")
        raise AuthError(f"the sign-in did not succeed: {said.splitlines()[0]}")
    return Secret(token)
