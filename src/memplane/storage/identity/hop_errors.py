"""What a refusal of the token endpoint means, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from memplane.errors import HopError
from memplane.storage.identity.agent_user import Hop

_AADSTS: Final = re.compile(r"AADSTS\d+")
_MAX_DESCRIPTION_CHARACTERS: Final = 300
_CERTIFICATE_REMEDY: Final = (
    "the Blueprint does not know this machine's certificate, or it has expired. Run `memplane "
    "cloud setup` to add it, or `memplane cloud rotate` for a new one"
)
_REMEDIES: Final[Mapping[str, str]] = {
    "AADSTS700027": _CERTIFICATE_REMEDY,
    "AADSTS7000222": _CERTIFICATE_REMEDY,
    "AADSTS700024": "the assertion is not valid now: set the clock of this machine",
    "AADSTS700016": "no such application in this tenant: check MEMPLANE_BLUEPRINT_APP_ID, "
    "MEMPLANE_AGENT_ID and MEMPLANE_TENANT_ID",
    "AADSTS90002": "no such tenant: check MEMPLANE_TENANT_ID",
    "AADSTS50034": "no such user: check MEMPLANE_AGENT_USER_ID or MEMPLANE_AGENT_USER_UPN",
    "AADSTS65001": "no consent for this resource yet: run `memplane cloud provision`. A new "
    "consent takes 30 to 120 seconds to arrive",
    "AADSTS700211": "the token of the hop before does not fit: it was asked for with the wrong "
    "scope, or not for this Agent Identity. Check MEMPLANE_AGENT_ID",
}


def to_hop_error(hop: Hop, reply: Mapping[str, object]) -> HopError:
    """Make the error for a reply that is no token."""
    said = str(reply.get("error_description") or "")
    code = str(reply.get("error") or "")
    found = _AADSTS.search(said)
    if found:
        code = found[0]
    remedy = _REMEDIES.get(code)
    if remedy is None and hop is Hop.BLUEPRINT and reply.get("error") == "invalid_client":
        remedy = _CERTIFICATE_REMEDY  # the later hops have no certificate
    first_line = said.splitlines()[0][:_MAX_DESCRIPTION_CHARACTERS].strip() if said else ""
    return HopError(hop, code or "no_token", "; ".join(filter(None, (remedy, first_line))))


def to_certificate_error(problem: ValueError) -> HopError:
    """Make the error for a certificate that cannot sign; nothing was asked."""
    return HopError(Hop.BLUEPRINT, "bad_certificate", str(problem))
