"""The checks of `memplane doctor` for an agent's identity in Azure."""

from __future__ import annotations

import asyncio
import ssl
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

import aiohttp

from memplane.errors import BackendMisconfigured, BackendUnavailable, HopError, MemplaneError
from memplane.kit.clock import system_clock
from memplane.secret import Secret
from memplane.service.checks import CheckFinding, CheckVerdict
from memplane.service.composition.identity import (
    find_identity,
    open_exchange,
    open_keys,
    read_own_certificate,
)
from memplane.settings import Settings
from memplane.storage.identity.agent_user import AgentUser, Hop, Resource

if TYPE_CHECKING:
    from memplane.storage.identity.token_chain import TokenExchange

_MAX_SKEW: Final = timedelta(minutes=5)
_EXPIRES_SOON: Final = timedelta(days=30)
_TIMEOUT_S: Final = 15
_NO_CONSENT: Final = "AADSTS65001"


async def run_identity_checks(settings: Settings) -> list[CheckFinding]:
    """Try the key, the clock and each hop; nothing is checked where no agent is configured."""
    if settings.keep_memory_local:
        return []
    try:
        identity = find_identity(settings)
        if identity is None:
            return []
        exchange = open_exchange(identity)
    except BackendMisconfigured as error:
        remedy = "run `memplane cloud setup`"
        return [CheckFinding("identity", CheckVerdict.FAILED, str(error), remedy)]
    return [
        await asyncio.to_thread(_check_keys, identity),
        await asyncio.to_thread(_check_certificate, identity),
        await _check_clock(identity),
        *await asyncio.to_thread(_check_hops, exchange),
    ]


def _check_keys(identity: AgentUser) -> CheckFinding:
    from memplane.storage.identity.key_store import (  # noqa: PLC0415 - of an extra
        is_round_trip_possible,
    )

    try:
        keys = open_keys(identity)
        works = is_round_trip_possible(keys, Secret("doctor"))
    except MemplaneError as error:
        return CheckFinding("key store", CheckVerdict.FAILED, str(error), "unlock the key store")
    if not works:
        return CheckFinding(
            "key store",
            CheckVerdict.FAILED,
            f"{keys.where} does not give back what it was given",
            "look at the settings of the key store",
        )
    return CheckFinding("key store", CheckVerdict.OK, f"the key is in {keys.where}")


def _check_certificate(identity: AgentUser) -> CheckFinding:
    """Look at how long this machine's certificate is valid."""
    from memplane.storage.identity.certificate import (  # noqa: PLC0415 - of an extra
        UnusableCertificate,
        describe_validity,
    )

    try:
        validity = describe_validity(read_own_certificate(identity))
    except (UnusableCertificate, MemplaneError) as error:
        remedy = "run `memplane cloud setup`"
        return CheckFinding("certificate", CheckVerdict.FAILED, str(error), remedy)
    if validity is None:
        return CheckFinding("certificate", CheckVerdict.OK, "only its thumbprint is known here")
    begin, end = validity
    now = system_clock()
    shown = f"valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"
    remedy = "run `memplane cloud rotate`"
    if not begin <= now <= end:
        return CheckFinding("certificate", CheckVerdict.FAILED, shown, remedy)
    if end - now < _EXPIRES_SOON:
        return CheckFinding("certificate", CheckVerdict.WARNING, shown, remedy)
    return CheckFinding("certificate", CheckVerdict.OK, shown)


async def _check_clock(identity: AgentUser) -> CheckFinding:
    """Compare this machine's clock with that of the token endpoint."""
    name = "identity clock"
    try:
        theirs = await _ask_time(identity)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError) as error:
        reason = f"{identity.authority} told no time ({type(error).__name__})"
        return CheckFinding(name, CheckVerdict.FAILED, reason, "check the network")
    skew = abs(theirs - system_clock())
    if skew > _MAX_SKEW:
        return CheckFinding(
            name,
            CheckVerdict.FAILED,
            f"it differs from that of {identity.authority} by {skew.total_seconds():.0f} s",
            "set the clock, or let it follow a time server; statements signed here are refused",
        )
    return CheckFinding(name, CheckVerdict.OK, f"as that of {identity.authority}")


async def _ask_time(identity: AgentUser) -> datetime:
    trusted = (
        ssl.create_default_context(cafile=str(identity.ca_file)) if identity.ca_file else True
    )
    address = f"{identity.authority}/{identity.tenant_id}/v2.0/.well-known/openid-configuration"
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(address, ssl=trusted, allow_redirects=False) as reply,
    ):
        return parsedate_to_datetime(reply.headers["Date"])


def _check_hops(exchange: TokenExchange) -> list[CheckFinding]:
    """Ask for each token anew; what follows a failure is not tried."""
    findings: list[CheckFinding] = []
    try:
        blueprint = exchange.blueprint_token()
        findings.append(_describe_success(Hop.BLUEPRINT))
        identity = exchange.identity_token(blueprint)
        findings.append(_describe_success(Hop.AGENT_IDENTITY))
        exchange.user_token(blueprint, identity, Resource.STORAGE)
        findings.append(_describe_success(Hop.AGENT_USER))
    except HopError as error:
        findings.append(
            CheckFinding(error.hop, CheckVerdict.FAILED, error.code, error.description)
        )
        if error.code == _NO_CONSENT:
            remedy = "run `memplane cloud provision`; a new consent takes up to two minutes"
            findings.append(CheckFinding("consent", CheckVerdict.FAILED, "missing", remedy))
        return findings
    except BackendUnavailable as error:
        return [*findings, CheckFinding("hops", CheckVerdict.FAILED, str(error), "try again")]
    return [*findings, CheckFinding("consent", CheckVerdict.OK, "given for storage")]


def _describe_success(hop: Hop) -> CheckFinding:
    return CheckFinding(hop, CheckVerdict.OK, "a token came")
