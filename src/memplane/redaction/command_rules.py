"""Passwords in command lines, by the option that takes them (pure).

Each row has a kind, the literals that announce it, a pattern and a check, as in `rules`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Row: TypeAlias = tuple[str, tuple[str, ...], str, str]

_KIND: Final = "command-password"
_LINE: Final = r"[^\r\n|\x00]*?"
_VALUE: Final = r"""(?:\\?["']([^"'\r\n\\\x00]{3,})|([^\s"'\\\x00]{3,}))"""


def _option(keywords: tuple[str, ...], programs: str, option: str) -> Row:
    """Make a row for an option of some programs; its value stands right behind it."""
    form = rf"(?:\b|_|\\[nrt])(?:{programs})\b{_LINE}[ \t](?:{option}){_VALUE}"
    return _KIND, keywords, form, "argument"


COMMANDS: Final = (
    _option(("mysql", "mariadb"), r"mysql[a-z]*|mariadb[a-z-]*", "-p"),
    _option(("mycli",), "mycli|pgcli|litecli", "-p[ =]?"),
    _option(
        ("docker login", "podman login", "buildah login", "skopeo login", "nerdctl login"),
        r"(?:docker|podman|buildah|skopeo|nerdctl) login",
        "-p[ =]?",
    ),
    _option(
        ("oras login", "registry login", "crane auth login", "regctl registry"),
        r"(?:oras|helm registry|oras registry|crane auth|regctl registry) login",
        "-p[ =]?",
    ),
    _option(("az login", "acr login"), "az (?:acr )?login", "-p[ =]"),
    _option(("sshpass",), "sshpass", "-p[ ]?"),
    _option(("redis-cli", "valkey-cli"), "redis-cli|valkey-cli", "(?:-a|--pass) "),
    _option(("mongo",), "mongo[a-z]*", "-p[ =]?"),
    _option(("ldap",), "ldap[a-z]+", "-w[ ]?"),
    _option(("sqlcmd", "bcp "), "sqlcmd|bcp", "-P[ ]?"),
    _option(("zip -p", "zip -er -p", "zip -e -p", "zip -r -p"), "unzip|zip|zipcloak", "-P "),
    _option(("7z ", "7za ", "rar "), "7za?|rar|unrar", "-p"),
    _option(("mosquitto_",), "mosquitto_[a-z]+", "-P "),
    _option(("snmp",), "snmp[a-z]+", "-c "),
    _option(("keytool", "jarsigner"), "keytool|jarsigner", "-(?:store|key|src|dest)[a-z]*pass "),
    _option(("xfreerdp", "mstsc"), "xfreerdp|mstsc", "/p:"),
    _option(("gpg",), "gpg2?", "--passphrase[ =]"),
    _option(
        ("smbclient", "mount.cifs", "rpcclient"),
        "smbclient|rpcclient|net",
        r"-U ?[\"']?[^\s%\"']{1,40}%",
    ),
    _option(("lftp",), "lftp", r"(?:-u|--user)[ =]?[\"']?[^\s,\"']{1,40},"),
    _option(("rclone",), "rclone", "pass "),
    _option(("ipmitool",), "ipmitool", "-P "),
    _option(("plink", "pscp", "psftp"), "plink|pscp|psftp", "-pw "),
    _option(("ftp ",), "ncftp[a-z]*", "-p "),
    _option(("gh secret",), "gh secret set", "(?:--body|-b)[ =]"),
    _option(
        ("http ", "https ", "xh "), "https?|xhs?", r"(?:-a|--auth)[ =]?[\"']?[^\s:\"']{1,60}:"
    ),
    _option(
        ("curl",),
        "curl",
        r"(?:-[a-zA-Z]{0,8}u|--user|--proxy-user)[ =]?\\?[\"']?[^\s:\"'\\]{1,60}:",
    ),
    (
        _KIND,
        ("htpasswd",),
        (
            rf"\bhtpasswd{_LINE}[ \t]-[A-Za-z]*b[A-Za-z]*(?:[ \t]+-[A-Za-z]+)*"
            rf"(?:[ \t]+[^\s\x00-][^\s\x00]*)"
            rf"{{1,2}}[ \t]+{_VALUE}"
        ),
        "argument",
    ),
    (
        _KIND,
        ("-passin", "-passout", "pass:"),
        rf"-pass(?:in|out|word)?[ =]+\\?[\"']?pass:{_VALUE}",
        "argument",
    ),
    (
        _KIND,
        ("sudo -s", "-stdin", "chpasswd", "sudo --stdin"),
        (
            r"""\b(?:echo|printf)[ \t]+(?:-[neE]+[ \t]+|\\?["']%s"""
            r"""(?:\\\\?n)?\\?["'][ \t]+)?\\?["']?"""
            r"""(?:[A-Za-z0-9_.-]{1,32}:)?([^\s"'\\|:\x00]{3,})\\?["']?[ \t]*\|[ \t]*"""
            r"[^\r\n|\x00]*?(?:sudo[ \t]+(?:-S|--stdin)|-stdin\b|chpasswd)"
        ),
        "argument",
    ),
    (
        _KIND,
        ("--from-literal",),
        rf"--from-literal[ =]+\\?[\"']?[A-Za-z0-9_.-]{{1,64}}={_VALUE}",
        "argument",
    ),
    (_KIND, ("/user:",), rf"(?i)/user:[^\s\x00]{{1,64}}[ \t]+{_VALUE}", "given"),
    (_KIND, ("net user",), rf"(?i)\bnet user [^\s/\x00]{{1,64}}[ \t]+{_VALUE}", "given"),
    (
        _KIND,
        ("vault login",),
        rf"\bvault login[ \t]+(?:-[a-z-]+(?:=[^\s\x00]+)?[ \t]+)*(?:token=)?{_VALUE}",
        "given",
    ),
    (
        _KIND,
        ("sqlplus", "sqlldr", "expdp", "impdp"),
        (
            r"\b(?:sqlplus|sqlldr|expdp|impdp)[ \t]+"
            r"(?:-[A-Za-z]+[ \t]+)*[A-Za-z0-9_$]+/\\?[\"']?([^\s@\"'\x00]{3,})"
        ),
        "argument",
    ),
    (
        _KIND,
        ("rabbitmqctl",),
        (
            rf"rabbitmqctl[ \t]+(?:add_user|change_password"
            rf"|authenticate_user)[ \t]+[^\s\x00]+[ \t]+{_VALUE}"
        ),
        "argument",
    ),
    (_KIND, ("--apikey", "--api-key"), rf"--api-?key[ =]+{_VALUE}", "given"),
    (
        _KIND,
        ("configure set",),
        rf"configure set [a-z_]*(?:secret|token|password)[a-z_]*[ \t]+{_VALUE}",
        "given",
    ),
)
