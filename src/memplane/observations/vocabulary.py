"""The words that matter when two statements about a service are compared (pure).

Some tables hold words as they are written, in lower case; the others hold stems, as
`memplane.search.tokenizer` makes them, so that one entry stands for start, starts and started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _spread(table: Mapping[str, str]) -> dict[str, str]:
    """Turn `meaning: spellings` around."""
    return {word: meaning for meaning, words in table.items() for word in words.split()}


# As they are written.

FILLERS: Final = _listed(
    """
    a an the this that these those it its is are was were be been being am about approximately
    approx roughly around circa nearly please very just also really quite there so which
    """
)
"""Words without which a statement is still the same text."""

STOP_WORDS: Final = _listed(
    """
    i me my we us our you your he she they them their who whose what where why how
    do does did doing done have has had having will would get gets getting got
    across along among as at because between by during for from in inside into near of off on onto
    outside past per since than then through throughout to toward towards upon via with
    and but or nor yet else whether though although whereas
    here again ever still even already now any such once too one own same itself themselves due
    after before until
    """
)

NEGATIONS: Final = _listed(
    """
    not no never without none nothing neither unable avoid avoids avoiding hardly rarely seldom
    barely nicht kein keine keinen nie ohne niet geen inte pas jamais sans nunca sin non senza
    não не нет без
    """
)
NOT_DENIED: Final = _listed("only matter")
"""What takes the denial out of the word before it: not only, no matter."""

MODALS: Final = _spread(
    {"must": "must should shall ought mandatory", "can": "can may could might optionally"}
)
CHANCES: Final = _listed("take need fail caus occur happen get becom lead last hang lag drop be")
"""After can, these tell what may come about, and not what is allowed."""

CONDITIONS: Final = _spread(
    {
        "if": "if when whenever",
        "unless": "unless",
        "only": "only solely exclusively",
        "except": "except excluding besides",
        "sometimes": "sometimes occasionally occasional intermittently possibly perhaps often",
        "partly": "partly partially partial temporarily temporary briefly slightly mostly",
        "formerly": "formerly previously originally",
        "at_least": "least more over above minimum exceeding beyond greater",
        "at_most": "most less under below maximum max within fewer",
    }
)
"""Words that make a statement narrower, wherever they stand."""
BINDING: Final = _listed("only unless except")
"""Those of them that mean something else in front of another word."""

RELATIONS: Final = _spread(
    {
        "before": "before prior",
        "after": "after following since",
        "during": "during while",
        "with": "with using via through against",
        "without": "without",
        "until": "until till",
        "place": "on in at for inside behind",
        "from": "from",
        "to": "to into",
    }
)
"""Words that make a statement narrower by what follows them."""
DIRECTIONS: Final = _listed("before after depend need than from to")
"""Relations that become another statement when their two sides are exchanged."""

NAMED_BY: Final = _listed(
    """
    port ports node nodes worker step phase shard replica disk vlan pid issue version line code
    exit signal channel slot bay unit tier series error errno uid gid
    """
)
"""A number behind one of these tells which, not how many."""
ANSWERING: Final = _listed(
    "http status code return returns returned respond responds responded with error errors a"
)
ANSWERS: Final = _listed("error errors response responses page pages status code codes")

# Stems.

ALIKE: Final = _spread(
    {
        "start": "startup boot launch begin",
        "fix": "resolv solv cure repair heal",
        "fail": "broken break",
        "work": "succeed success function",
        "return": "respond respons answer",
        "depend": "reli",
        "need": "take requir",
        "run": "perform execut",
        "happen": "occur",
        "databas": "db",
        "configur": "config conf cfg",
        "certif": "cert",
        "directori": "dir folder",
        "repositori": "repo",
        "wait": "hold",
        "enough": "suffic suffici",
        "allow": "permit",
        "deni": "block refus reject",
        "stop": "halt shutdown",
        "delet": "remov",
        "hang": "freez stall stuck",
        "automat": "auto",
        "memori": "ram",
    }
)
"""Stems that are read as another one; the hash of a statement does without this."""

LIGHT_VERBS: Final = _listed("need run happen becom")
"""Stems that join no statements; they part them when the other side has another verb instead."""
WEIGHTLESS: Final = _listed(
    """
    attempt tri usual normal typic general regular current always immedi simpli actual reliabl
    consist proper known note servic
    """
)
"""Stems that neither join two statements nor part them."""

JOINED: Final = {
    ("start", "up"): "start",
    ("come", "up"): "start",
    ("came", "up"): "start",
    ("boot", "up"): "start",
    ("spin", "up"): "start",
    ("back", "up"): "backup",
    ("clean", "up"): "cleanup",
    ("set", "up"): "setup",
    ("shut", "down"): "stop",
    ("time", "out"): "timeout",
    ("turn", "on"): "enabl",
    ("switch", "on"): "enabl",
    ("turn", "off"): "disabl",
    ("switch", "off"): "disabl",
    ("log", "in"): "login",
}
"""Two words that are one verb."""

OPPOSED: Final = (
    ("must", "can"),
    ("must", "independ"),
    ("must", "option"),
    ("always", "never"),
    ("always", "sometimes"),
    ("first", "second"),
    ("at_least", "at_most"),
    ("up", "down"),
    ("increas", "decreas"),
    ("rais", "lower"),
    ("start", "stop"),
    ("manual", "automat"),
    ("slow", "fast"),
    ("slow", "quick"),
)
PRODUCTS: Final = _spread(
    {
        "postgresql": "postgresql postgres pg",
        "wireguard": "wireguard wg",
        "kubernetes": "kubernetes k8s",
        "homeassistant": "homeassistant hass",
        "mariadb": "mariadb",
        "mysql": "mysql",
        "sqlite": "sqlite",
        "redis": "redis",
        "valkey": "valkey",
        "mongodb": "mongodb mongo",
        "jellyfin": "jellyfin",
        "plex": "plex",
        "emby": "emby",
        "caddy": "caddy",
        "nginx": "nginx",
        "traefik": "traefik",
        "haproxy": "haproxy",
        "apache": "apache httpd",
        "prometheus": "prometheus",
        "grafana": "grafana",
        "loki": "loki",
        "alertmanager": "alertmanager",
        "docker": "docker",
        "podman": "podman",
        "nextcloud": "nextcloud",
        "immich": "immich",
        "gitea": "gitea",
        "forgejo": "forgejo",
        "gitlab": "gitlab",
        "vaultwarden": "vaultwarden",
        "pihole": "pihole",
        "adguard": "adguard",
        "unbound": "unbound",
        "tailscale": "tailscale",
        "headscale": "headscale",
        "openvpn": "openvpn",
        "mosquitto": "mosquitto",
        "zigbee": "zigbee zigbee2mqtt",
        "mqtt": "mqtt",
        "rabbitmq": "rabbitmq",
        "kafka": "kafka",
        "elasticsearch": "elasticsearch",
        "minio": "minio",
        "sonarr": "sonarr",
        "radarr": "radarr",
        "authelia": "authelia",
        "keycloak": "keycloak",
        "nfs": "nfs",
        "zfs": "zfs",
        "btrfs": "btrfs",
    }
)
PRODUCTS_OF_TWO: Final = {("home", "assistant"): "homeassistant", ("pi", "hole"): "pihole"}
