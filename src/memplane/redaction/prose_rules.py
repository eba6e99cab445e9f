"""Passwords that a sentence tells: "my password is …", "use … as the password" (pure).

Each row has a kind, the literals that announce it, a pattern and a check, as in `rules`.
The patterns ask for a digit, a symbol or capitals in the value, so that sentences about
passwords, which are common, cost nothing beyond one pass.
"""

from __future__ import annotations

from typing import Final

from memplane.redaction.command_rules import Row

KIND: Final = "disclosed"
_SAFE: Final = r"[^\s=\"'\x60,;<>()\[\]{}\\|\x00]"
_LAST: Final = r"[^\s=\"'\x60,;<>()\[\]{}\\|.:!?\x00]"
_SIGN: Final = r"[0-9!@#$%^&*+~]"
_VALUE: Final = (
    rf"\\?[\"'\x60]?({_SAFE}*{_SIGN}{_SAFE}*{_LAST}={{0,2}}|{_SAFE}*[0-9@#$%^&*+~]={{0,2}}"
    r"|(?-i:[A-Za-z]*[a-z][A-Z][a-z]*[A-Z][A-Za-z]*))"
)
_NAME: Final = (
    r"(?:pass ?(?:word|phrase|code|key)s?|passwd|pwd|pw|pass|pin(?:[ -]?code)?|secret(?: key)?"
    r"|(?:api|access|auth|bearer|refresh|bot|session|secret|signing|encryption|decryption|wpa"
    r"|wi-?fi|private|master|licen[cs]e|github|gitlab|client|shared|webhook|security)"
    r"[ -](?:key|token|secret|code|pass)|token|credentials?|apikey)"
)
_OF: Final = r"(?:[ \t]+(?:for|to|of|on|in|at|from)[ \t]+(?:[\w.@'/&-]+[ \t]+){0,4}?[\w.@'/&-]+)?"
_ASIDE: Final = r"(?:[ \t]*\([^()\r\n\x00]+\))?"
_IS: Final = (
    r"(?:is|was|are|be|been|being|equals|remains|became|reads|says)[ \t]+"
    r"(?:(?:now|still|set|changed|reset|updated|to|always|currently|just|simply|again|called|the"
    r"|following|this|be|likely|probably)[ \t]+){0,3}:?[ \t]*"
)
_LINK: Final = (
    rf"(?:(?:'s|\xe2\x80\x99s)?[ \t]+(?:(?:will|should|would|could|may|might|must"
    rf"|used[ \t]+to|has|had|have"
    rf"|turned[ \t]+out[ \t]+to|which|that|you[ \t]+(?:want|need|asked[ \t]+for)|we[ \t]+use"
    rf"|i[ \t]+use)[ \t]+){{0,2}}{_IS}|,[ \t]+which[ \t]+{_IS}|'s[ \t]+|\xe2\x80\x99s[ \t]+)"
)
_MARK: Final = r"(?:[ \t]*(?::|=|->|=>)[ \t]*\r?\n?|[ \t]+(?:-|\xe2\x80\x93|\xe2\x80\x94)[ \t]+)"
_WORDS: Final = (
    *("password", "passwd", "passphrase", "passcode", "passkey", "pass phrase", "pass word"),
    *("pwd", "pw ", "pw:", "pass is", "pass:", "pass -", "secret", "token", "credential"),
    *("api key", "api-key", "apikey", "access key", "signing key", "encryption key"),
    *("wi-fi key", "wifi key", "wpa key", "license key", "private key", "master key"),
    "decryption key",
)
_PINS: Final = ("pin is", "pin code", "pin:", "pincode", "passcode", "pass is")

PROSE: Final[tuple[Row, ...]] = (
    # my password is …, the password for the router was changed to …, API key: …
    (
        KIND,
        (*_WORDS, *_PINS),
        rf"(?i)\b{_NAME}{_OF}{_ASIDE}(?:{_LINK}|{_MARK}){_VALUE}",
        "stated",
    ),
    # with the password …, token …, password …
    (
        KIND,
        _WORDS,
        rf"(?i)\b{_NAME}s?(?:,)?(?:[ \t]+(?:to|with|by))?[ \t]+{_VALUE}",
        "disclosed",
    ),
    # set the password to …, I changed my password from … to …
    (
        KIND,
        (*_WORDS, "key to"),
        rf"(?i)\b(?:{_NAME}|key){_OF}[ \t]+(?:to|with|from)[ \t]+{_VALUE}",
        "disclosed",
    ),
    # use … as the password, type … when asked for the password
    (
        KIND,
        _WORDS,
        (
            rf"(?i)\b(?:use|using|type|enter|try|with|takes?|choose|put|give)[ \t]+"
            rf"(?:the[ \t]+)?{_VALUE}"
            rf"[\"'\x60]?[ \t]+(?:as|for|at|when|whenever|if|in|into)\b[^.\r\n\x00]*?\b{_NAME}"
        ),
        "disclosed",
    ),
    # … is my password, … (password)
    (
        KIND,
        _WORDS,
        (
            rf"(?i)(?:[\s\"'\x60\x00]|\\n|\A){_VALUE}[\"'\x60]?[ \t]+(?:(?:is|was|are)[ \t]+"
            rf"(?:still[ \t]+|now[ \t]+)?"
            rf"(?:my|our|the|his|her|their|your|its|a|[\w-]+'s)[ \t]+"
            rf"(?:[\w'-]+[ \t]+){{0,3}}?{_NAME}"
            rf"|\({_NAME}\))"
        ),
        "disclosed",
    ),
    # when asked for the password, enter …
    (
        KIND,
        _WORDS,
        (
            rf"(?i)\b(?:ask(?:s|ed)?|prompt(?:s|ed)?)[ \t]+(?:you[ \t]+)?for[ \t]+"
            rf"(?:[\w'-]+[ \t]+){{0,2}}?{_NAME},?"
            rf"[ \t]+(?:enter|type|use|give|say|put)[ \t]+(?:in[ \t]+)?{_VALUE}"
        ),
        "disclosed",
    ),
    # credentials: bob / …, log in with bob and …
    (
        KIND,
        ("credential", "creds", "login", "log in", "sign in", "password", "user/pass"),
        (
            r"(?i)\b(?:credentials?|creds|log-?ins?|log[ \t]in|sign[ \t]in|sign-in|user"
            r"(?:name)?(?:/|[ \t]and[ \t])pass(?:word)?)"
            r"(?:[ \t]+(?:for|to|on|of)[ \t]+(?:[\w.-]+[ \t]+){0,3}?[\w.-]+|[ \t]+details)?"
            r"(?:[ \t]+(?:is|are|was|were|with|as|using)[ \t]+|[ \t]*[:=][ \t]*)(?:(?:user"
            r"|username|login)[ \t]+)?"
            rf"[\"'\x60]?[\w.@+-]+[\"'\x60]?(?:[ \t]*[/:,|][ \t]*|[ \t]+(?:and[ \t]+)?){_VALUE}"
        ),
        "disclosed",
    ),
    # bob / … are the credentials
    (
        KIND,
        ("credential", "creds", "login"),
        (
            rf"(?i)\b[\w.@+-]+[ \t]*[/:][ \t]*{_VALUE}[ \t]+(?:is|are)[ \t]+(?:the|my|our"
            rf"|your)[ \t]+"
            r"(?:[\w-]+[ \t]+){0,2}?(?:credentials?|creds|login)"
        ),
        "disclosed",
    ),
)
