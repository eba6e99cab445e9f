"""How the text of a setting is read. A reader raises ValueError with what it expected."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_TRUE_WORDS: Final = frozenset({"true", "1", "yes", "on"})
_FALSE_WORDS: Final = frozenset({"false", "0", "no", "off", ""})
_MAX_DOCUMENT_BYTES: Final = 5 * 1024 * 1024


def parse_boolean(text: str) -> bool:
    """Read a switch: `true 1 yes on`, `false 0 no off` or empty, in any case."""
    word = text.strip().lower()
    if word in _TRUE_WORDS:
        return True
    if word in _FALSE_WORDS:
        return False
    raise ValueError("expected true, 1, yes, on, false, 0, no or off")


def parse_integer(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("expected a whole number") from None


def parse_count(text: str) -> int:
    """Read a whole number that is not negative."""
    number = parse_integer(text)
    if number < 0:
        raise ValueError("expected 0 or more")
    return number


def parse_positive(text: str) -> int:
    """Read a whole number above zero."""
    number = parse_integer(text)
    if number < 1:
        raise ValueError("expected 1 or more")
    return number


def parse_port(text: str) -> int:
    """Read a port number; 0 asks for any free one."""
    number = parse_integer(text)
    if not 0 <= number <= 65535:  # noqa: PLR2004 - the range of a port
        raise ValueError("expected a port from 0 to 65535")
    return number


def parse_log_level(text: str) -> str:
    """Read how much is logged."""
    word = text.strip().lower()
    if word not in {"debug", "info", "warning", "error", "critical"}:
        raise ValueError("expected debug, info, warning, error or critical")
    return word


def parse_segment_size(text: str) -> int:
    """Read a size in bytes; what is not a positive number is the default."""
    try:
        size = int(text)
    except ValueError:
        size = 0
    return size if size > 0 else 268435456


def parse_document_size(text: str) -> int:
    """Read how large a document may be."""
    size = parse_positive(text)
    if size > _MAX_DOCUMENT_BYTES:
        raise ValueError(f"expected at most {_MAX_DOCUMENT_BYTES}")
    return size


def parse_key_prefix(text: str) -> str:
    """Read the beginning of keys, without the slash that follows it."""
    prefix = text.strip().strip("/")
    if not prefix or any(part in {"", ".", ".."} for part in prefix.split("/")):
        raise ValueError("expected names with slashes between them, such as claude_memory")
    return prefix


def parse_sync_policy(text: str) -> str:
    """Read when entries are made durable; `always` is another word for `group`."""
    word = text.strip().lower().replace("always", "group")
    if word not in {"group", "interval", "never"}:
        raise ValueError("expected group, interval or never")
    return word


def parse_vector_source(text: str) -> str:
    """Read where embeddings come from; empty is nowhere, as `none` is."""
    word = text.strip().lower()
    if word == "none":
        return ""
    if word not in {"", "builtin", "folder", "endpoint"}:
        raise ValueError("expected builtin, folder, endpoint or none")
    return word


def parse_recall_blocks(text: str) -> str:
    """Read which blocks a recall has; empty leaves it to where memory is used."""
    word = text.strip().lower()
    if word not in {"", "answers", "all"}:
        raise ValueError("expected answers, all or nothing")
    return word


def parse_injection(text: str) -> str:
    """Read where memory stands in a prompt; empty leaves it to the kind of agent."""
    word = text.strip().lower()
    if word not in {"", "sticky", "clawdapus"}:
        raise ValueError("expected sticky, clawdapus or nothing")
    return word


def parse_listen_address(text: str) -> str:
    """Read where to listen, as `host:port` or `:port` for every address."""
    host, colon, number = text.strip().rpartition(":")
    if not text.strip():
        return ""
    if not colon or any(one.isspace() for one in host):
        raise ValueError("expected host:port, or :port")
    parse_port(number)
    return text.strip()


def parse_contested(text: str) -> str:
    """Read what prompts are told of memories that contradict each other."""
    word = text.strip().lower()
    if word not in {"mark", "omit", "stronger"}:
        raise ValueError("expected mark, omit or stronger")
    return word


def parse_file_mode(text: str) -> int:
    """Read permissions in octal, such as 600 or 0660; the owner must be able to read and write."""
    try:
        mode = int(text, 8)
    except ValueError:
        raise ValueError("expected permissions in octal, such as 0660") from None
    if mode & 0o600 != 0o600 or mode & ~0o666:  # noqa: PLR2004 - the bits themselves
        raise ValueError("expected permissions from 0600 to 0666, with no execute bits")
    return mode


def parse_list(text: str) -> tuple[str, ...]:
    """Read a list separated by commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def parse_agents(text: str) -> tuple[str, ...]:
    """Read agents' names separated by commas; `true` is every agent, `false` none."""
    word = text.strip().lower()
    if word in _TRUE_WORDS:
        return ("*",)
    return () if word in _FALSE_WORDS else parse_list(text)


def parse_folder(text: str) -> Path:
    """Read a path; `~` is the user's folder."""
    if not text:
        raise ValueError("expected a path")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError("expected the folder of a user who exists") from None


def parse_optional_path(text: str) -> Path | None:
    """Read a path that may be left out."""
    return parse_folder(text) if text else None


def parse_zone(text: str) -> str:
    """Read the name of an IANA time zone; empty is the system's."""
    if text:
        from zoneinfo import ZoneInfo  # noqa: PLC0415 - rarely needed, and not free

        try:
            ZoneInfo(text)
        except (KeyError, ValueError, OSError):
            raise ValueError("expected an IANA time zone such as Europe/Berlin") from None
    return text


def parse_service_url(text: str) -> str:
    """Read the address of a service that tokens are sent to: https only, without a path."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - rarely needed, and not free

    parts = urlsplit(text.strip().rstrip("/"))
    if parts.scheme != "https" or not parts.hostname or parts.path or parts.query:
        raise ValueError("expected an address such as https://login.microsoftonline.com")
    return f"https://{parts.netloc}"


def parse_assertion_algorithm(text: str) -> str:
    """Read how assertions are signed."""
    word = text.strip().upper()
    if word not in {"PS256", "RS256"}:
        raise ValueError("expected PS256 or RS256")
    return word


def parse_thumbprint(text: str) -> str:
    """Read a SHA-256 digest in hexadecimal or base64url; the result is unpadded base64url."""
    from base64 import urlsafe_b64decode, urlsafe_b64encode  # noqa: PLC0415 - rarely needed

    value = text.strip().replace(":", "")
    if not value:
        return ""
    try:
        if len(value) == 64:  # noqa: PLR2004 - hexadecimal digits of a SHA-256
            digest = bytes.fromhex(value)
        else:
            digest = urlsafe_b64decode(value.rstrip("=") + "=")
    except ValueError:
        digest = b""
    if len(digest) != 32:  # noqa: PLR2004 - bytes of a SHA-256
        raise ValueError("expected a SHA-256 in hexadecimal (64) or base64url (43 characters)")
    return urlsafe_b64encode(digest).decode().rstrip("=")
