"""The redactors of an installation, which know every secret this process knows."""

from __future__ import annotations

import secrets
from contextlib import suppress

from memplane.errors import HomeError
from memplane.home import Home
from memplane.redaction.known import known_secrets
from memplane.redaction.redactor import Redactor
from memplane.secret import Secret
from memplane.settings import Settings, environment


def open_redactor(settings: Settings) -> Redactor:
    """Make the redactor of an installation, which knows every secret this process knows."""
    home = Home(settings.home)
    home.create()
    return Redactor(key=home.redaction_key(), known=_known_secrets(settings))


def log_redactor(settings: Settings) -> Redactor:
    """Make the redactor for what is logged, without touching the home, which may be unusable."""
    return Redactor(key=secrets.token_bytes(), known=_known_secrets(settings))


def _known_secrets(settings: Settings) -> list[Secret]:
    home, blob = Home(settings.home), settings.blob
    known = [blob.connection_string, blob.sas_url, blob.token, settings.admin_token]
    known += [settings.service_token, settings.fill.token, settings.vectors.key]
    with suppress(HomeError):
        known.append(home.existing_token())
    return [one for one in (*known, *known_secrets(environment())) if one]
