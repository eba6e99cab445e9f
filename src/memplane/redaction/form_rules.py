"""Secrets whose name stands in another place than before a colon or an equals sign (pure).

Each row has a kind, the literals that announce it, a pattern and a check, as in `rules`.
"""

from __future__ import annotations

from typing import Final

from memplane.redaction.command_rules import Row

_NAME: Final = (
    r"[A-Za-z0-9_.-]{0,40}?(?:pass(?:word|wd|phrase|code)?|pwd|pw|psk|secret|token|credentials?"
    r"|(?:api|access|secret|private|auth|signing|encryption|master)[_.-]?key|_key(?:_base)?)"
)
_QUOTED: Final = r"""\\{0,3}["']([^"'\\\r\n\x00]{4,}[^"'\\\r\n\x00]?)"""
_VALUE: Final = r"""(?:\\{0,3}["']([^"'\\\r\n<\x00]{6,})|([^\s"'\\,;<>&\x00]{6,}))"""

ASSIGNED_FORMS: Final[tuple[Row, ...]] = (
    (
        "secret",
        ("env ", "set -", "setenv", "#define"),
        rf"(?i)(?:\b|\\[nrt])(?:env|setenv|set[ \t]+-[a-z]+|#define)[ \t]+{_NAME}[ \t]+{_VALUE}",
        "given",
    ),
    (
        "secret",
        ("value",),
        (
            rf"""(?i)(?:["'\s{{,\x00]|\\[nt]|\A)(?:name"""
            rf"""|key)\\{{0,3}}["']?\s{{0,3}}[:=]\s{{0,3}}\\{{0,3}}["']?{_NAME}"""
            rf"""\\{{0,3}}["']?(?:\s|,"""
            rf"""|\\[nrt]){{1,24}}\\{{0,3}}["']?value\\{{0,3}}["']?\s{{0,3}}[:=]\s{{0,3}}{_VALUE}"""
        ),
        "given",
    ),
    (
        "secret",
        ("key=", "name="),
        (
            rf"(?i)<[a-z]+[^<>\x00]*?\s(?:key|name)=[\"']{_NAME}[\"']\s{{0,3}}>\s{{0,3}}"
            rf"([^<>\s\x00]{{6,}})\s{{0,3}}</"
        ),
        "given",
    ),
    (
        "secret",
        ("<key>",),
        rf"(?i)<key>{_NAME}</key>\s{{0,20}}<string>([^<>\s\x00]{{6,}})</string>",
        "given",
    ),
    (
        "secret",
        ("variable ",),
        (
            rf"""(?i)\bvariable[ \t]+\\?["']{_NAME}\\?["'][ \t]*\{{[^{{}}\x00]{{0,200}}?"""
            rf"""\bdefault\s{{0,12}}=\s{{0,3}}{_QUOTED}"""
        ),
        "given",
    ),
    (
        "password",
        ("identified", "password"),
        (
            r"""(?i)\b(?:identified(?:[ \t]+with[ \t]+[a-z0-9_]{1,40})?[ \t]+by"""
            r"""|password)[ \t]+\\?["']([^"'\\\r\n\x00]{4,})\\?["']"""
        ),
        "given",
    ),
    (
        "password",
        ("set password",),
        (
            r"""(?i)\bset[ \t]+password[ \t]+for[ \t]+[^=\r\n;\x00]{1,80}=[ \t]*"""
            r"""(?:password\()?\\?["']([^"'\r\n\x00]{4,})"""
        ),
        "given",
    ),
    (
        "password",
        (
            "auth(",
            "auth =",
            "auth=",
            "login(",
            "login (",
            "credential(",
            "credentials(",
            "authenticate(",
        ),
        (
            r"""(?i)(?:auth|login|credentials?)[a-z]{0,8}[ \t]{0,2}=?[ \t]{0,2}\([ \t]{0,2}"""
            r"""(?:[a-z_]+=)?["'][^"'\r\n\x00]{1,64}["'],[ \t]{0,2}(?:[a-z_]+=)?["']"""
            r"""([^"'\r\n\x00]{6,})["']"""
        ),
        "given",
    ),
    (
        "password",
        ("machine", "default"),
        (
            r"\b(?:machine\s+[^\s\x00]+|default)\s+(?:(?:login|account)\s+[^\s\x00]+\s+){0,3}"
            r"password\s+([^\s\"'\\\x00]{3,})"
        ),
        "argument",
    ),
    (
        "password",
        (":5432:", ":*:", ":5433:", ":6432:"),
        (
            r"(?:[\s\"'`\x00]|\\n|\A)[A-Za-z0-9.*_-]+:(?:[0-9]{2,5}"
            r"|\*):[A-Za-z0-9.*_-]+:[A-Za-z0-9.*_-]+:"
            r"([^\s\"'\\:\x00]{6,})"
        ),
        "argument",
    ),
    (
        "authorization",
        ('auth"', "auth'", 'auth\\"', "_auth", "identitytoken", "dockerconfigjson"),
        (
            r"""(?:\b_?auth|identitytoken"""
            r"""|dockerconfigjson)\\{0,3}["']?\s{0,3}[:=]\s{0,3}\\{0,3}["']?"""
            r"([A-Za-z0-9+/_-]{16,}={0,2})(?:[^A-Za-z0-9+/=_.-]|\z)"
        ),
        "random",
    ),
    (
        "npm-token",
        (":_auth", "_authtoken"),
        r"_auth(?:Token)?[ \t]{0,3}=[ \t]{0,3}[\"']?([A-Za-z0-9+/_=-]{12,})",
        "random",
    ),
    (
        "secret",
        ("auth=", "key="),
        r"(?i)[?&](?:auth|key)=([A-Za-z0-9_%.~+/-]{10,})",
        "random",
    ),
)
