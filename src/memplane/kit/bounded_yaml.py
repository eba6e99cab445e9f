"""YAML that others wrote, within bounds. Pure.

Numbers and switches are read as YAML 1.2 reads them: `yes` is a word, and `8080:22` is a pair of
ports and no number to the base of sixty.
"""

from __future__ import annotations

import re
from typing import Final, cast

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from memplane.errors import PodError

MAX_YAML_BYTES: Final = 1 << 20
MAX_YAML_DEPTH: Final = 32
MAX_YAML_ALIASES: Final = 100
MAX_YAML_NODES: Final = 50_000

_LINE_WIDTH: Final = 1 << 16
_CORE_TAG: Final = "tag:yaml.org,2002:"
_KNOWN_TAGS: Final = {_CORE_TAG + name for name in ("str", "seq", "map")}


def read_yaml(data: bytes, description: str, *, times: int = 1) -> object:
    """Read one document; `description` names it in errors, and it may be so many times as large.

    Raises:
        PodError: It is no YAML, or more than anybody would write by hand.
    """
    if len(data) > MAX_YAML_BYTES * times:
        raise PodError(f"parse {description}: it is larger than {MAX_YAML_BYTES * times} bytes")
    try:
        text = data.decode("utf-8-sig")
        _YamlSizeCheck(description, MAX_YAML_NODES * times).count_nodes(_Loader(text))
        return cast("object", _Loader(text).get_single_data())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PodError(f"parse {description}: {' '.join(str(error).split())}") from error


def write_yaml(value: object) -> bytes:
    """Write a value so that readers of YAML 1.1 and of 1.2 read the same."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 16
    )
    return text.encode()


_Resolvers = dict[str, list[tuple[str, re.Pattern[str]]]]
_NUMBER: Final = "-+.0123456789"
_PLAIN_SCALAR_RULES: Final = (
    ("bool", "tTfF", r"true|True|TRUE|false|False|FALSE"),
    ("int", _NUMBER, r"[-+]?(?:0|[1-9]\d{0,17}|0o?[0-7]{1,18}|0x[0-9a-fA-F]{1,15})"),
    ("float", _NUMBER, r"[-+]?(?:\.\d{1,40}|\d{1,40}\.\d{0,40})(?:[eE][-+]?\d{1,3})?"),
    ("float", _NUMBER, r"[-+]?\d{1,40}[eE][-+]?\d{1,3}"),
    ("null", "~nN", r"~|null|Null|NULL"),
    ("merge", "<", r"<<"),
)


def _resolvers() -> _Resolvers:
    """Say which plain words are no texts, by their first letter."""
    resolvers: _Resolvers = {"": [(_CORE_TAG + "null", re.compile(""))]}
    for name, letters, words in _PLAIN_SCALAR_RULES:
        pattern = re.compile(rf"(?:{words})\Z", re.ASCII)
        for letter in letters:
            resolvers.setdefault(letter, []).append((_CORE_TAG + name, pattern))
    return resolvers


class _Loader(yaml.CSafeLoader):
    """The C loader for plain values, with fewer words that mean something else."""

    yaml_implicit_resolvers = _resolvers()


def _merge_resolvers(ours: _Resolvers, theirs: _Resolvers) -> _Resolvers:
    return {
        letter: [*ours.get(letter, []), *theirs.get(letter, [])] for letter in {*ours, *theirs}
    }


class _Dumper(yaml.CSafeDumper):
    """Quotes a text that looks like something else to a reader of either version.

    What is shared is written each time it occurs: the bound on nodes keeps that small.
    """

    yaml_implicit_resolvers = _merge_resolvers(
        _Loader.yaml_implicit_resolvers, yaml.CSafeDumper.yaml_implicit_resolvers
    )

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


class _OpenCollection(msgspec.Struct):
    """A list or mapping that has begun."""

    anchor: str | None
    before: int
    keys: set[str] | None
    is_at_key: bool = True

    def add_node(self, scalar: str | None) -> str | None:
        """Note one more node; return the key when the mapping has it already."""
        if self.keys is None:
            return None
        is_key, self.is_at_key = self.is_at_key, not self.is_at_key
        if not is_key or scalar is None or scalar == "<<":
            return None
        if scalar in self.keys:
            return scalar
        self.keys.add(scalar)
        return None


class _YamlSizeCheck(msgspec.Struct):
    """Counts what a document would become, before anything is built from it."""

    description: str
    max_bytes: int
    nodes: int = 0
    aliases: int = 0
    sizes: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    open_collections: list[_OpenCollection] = msgspec.field(default_factory=list[_OpenCollection])

    def count_nodes(self, loader: _Loader) -> None:
        while (event := loader.get_event()) is not None:
            self._see(event)

    def _see(self, event: Event) -> None:
        match event:
            case AliasEvent():
                self._alias(cast("str", event.anchor))
            case ScalarEvent():
                self._node(event, event.value)
                self._note(event.anchor, 1)
            case CollectionStartEvent():
                self._begin(event)
            case MappingEndEvent() | SequenceEndEvent():
                closed = self.open_collections.pop()
                self._note(closed.anchor, self.nodes - closed.before)
            case _:
                pass
        if self.nodes > self.max_bytes:
            raise PodError(f"parse {self.description}: it has more than {self.max_bytes} values")

    def _alias(self, anchor: str) -> None:
        self.aliases += 1
        if self.aliases > MAX_YAML_ALIASES:
            raise PodError(
                f"parse {self.description}: it has more than {MAX_YAML_ALIASES} aliases"
            )
        if anchor not in self.sizes:
            raise PodError(f"parse {self.description}: the alias {anchor!r} means nothing here")
        self.nodes += self.sizes[anchor]
        self._arrive(None)

    def _begin(self, event: CollectionStartEvent) -> None:
        before = self.nodes
        self._node(event, None)
        keys: set[str] | None = set() if isinstance(event, MappingStartEvent) else None
        self.open_collections.append(_OpenCollection(event.anchor, before, keys))
        if len(self.open_collections) > MAX_YAML_DEPTH:
            raise PodError(
                f"parse {self.description}: it is nested more than {MAX_YAML_DEPTH} deep"
            )

    def _node(self, event: NodeEvent, scalar: str | None) -> None:
        tag = cast("str | None", getattr(event, "tag", None))
        if tag not in {None, "", "!"} and tag not in _KNOWN_TAGS:
            raise PodError(f"parse {self.description}: the tag {tag!r} is not supported")
        self.nodes += 1
        self._arrive(scalar)

    def _arrive(self, scalar: str | None) -> None:
        repeated_key = (
            self.open_collections[-1].add_node(scalar) if self.open_collections else None
        )
        if repeated_key is not None:
            raise PodError(f"parse {self.description}: the key {repeated_key!r} is there twice")

    def _note(self, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self.sizes[anchor] = size
