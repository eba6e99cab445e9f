"""`claw-pod.yml`: services of Docker Compose, and what `x-claw` adds to them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import msgspec

from memplane.auth.agent_id import AGENT_ID_RULE, is_agent_id
from memplane.errors import PodError
from memplane.kit.bounded_yaml import read_yaml

POD_FILE: Final = "claw-pod.yml"
DEFAULT_TIMEOUT_MS: Final = 300
MAX_REPLICAS: Final = 100
_EXTENSION: Final = "x-claw"
_WITHOUT_PROXY: Final = (
    "x-claw.memory require x-claw.cllama on the consuming service; "
    "native projection for non-cllama services is not implemented"
)

YamlMapping = Mapping[str, object]


class MemorySubscription(msgspec.Struct, frozen=True):
    """Which service is an agent's memory, and how long it may take."""

    service: str
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    explicit: bool = False


class ClawSettings(msgspec.Struct, frozen=True):
    """What `x-claw` says about a service."""

    agent_file: str = ""
    type: str = ""
    cllama: tuple[str, ...] = ()
    proxy_environment: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    models: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    count: int = 1
    memory: MemorySubscription | None = None


class PodService(msgspec.Struct, frozen=True):
    """One service: what Docker Compose is told of it, and what `x-claw` says."""

    name: str
    compose: YamlMapping
    claw: ClawSettings | None = None

    @property
    def count(self) -> int:
        """How many of it there are."""
        return self.claw.count if self.claw else 1

    @property
    def is_agent(self) -> bool:
        """Whether it asks its model through the proxy."""
        return self.claw is not None and bool(self.claw.cllama)

    @property
    def environment(self) -> Mapping[str, str | None]:
        """The variables it is given; None is taken from whoever starts it."""
        return read_environment(self.compose.get("environment"), f'service "{self.name}"')

    def names(self) -> tuple[str, ...]:
        """Name each of it, as they run."""
        if self.count == 1:
            return (self.name,)
        return tuple(f"{self.name}-{number}" for number in range(self.count))


class Pod(msgspec.Struct, frozen=True):
    """A pod, with defaults handed down and services in the order of their names."""

    name: str
    services: tuple[PodService, ...]
    compose: YamlMapping
    warnings: tuple[str, ...] = ()

    def service(self, name: str) -> PodService | None:
        """Return the service of that name."""
        return next((service for service in self.services if service.name == name), None)


class _PodDefaults(msgspec.Struct, frozen=True):
    memory: YamlMapping | None
    cllama: tuple[str, ...]
    proxy_environment: Mapping[str, str]
    models: Mapping[str, str]


def read_pod(data: bytes, *, fallback_name: str) -> Pod:
    """Read a pod's file; a pod without a name is called `fallback_name`.

    Raises:
        PodError: It breaks a rule; the message says where, and in the contract's words.
    """
    root = _tree(read_yaml(data, POD_FILE), f"parse {POD_FILE}: the file")
    extension = _tree(root.get(_EXTENSION), f"parse {POD_FILE}: {_EXTENSION}")
    name = _text(extension.get("pod"), f"{_EXTENSION}.pod") or fallback_name
    defaults = _defaults(extension)
    warnings: list[str] = []
    services = tuple(
        _service(service_name, body, defaults, warnings)
        for service_name, body in sorted(_tree(root.get("services"), "services").items())
    )
    if defaults.memory is not None:
        _memory(defaults.memory, f"{_EXTENSION}.memory-defaults")
    _check_names(services)
    rest = {key: value for key, value in root.items() if key not in {_EXTENSION, "services"}}
    return Pod(name, services, rest, tuple(warnings))


def read_environment(value: object, where: str) -> dict[str, str | None]:
    """Read `environment` as a mapping or as a list of `NAME=value`."""
    if isinstance(value, list):
        pairs = (str(pair).partition("=") for pair in cast("list[object]", value))
        return {name: text if equals else None for name, equals, text in pairs}
    tree = _tree(value, f"{where}: environment")
    return {name: None if pair is None else _scalar(pair) for name, pair in tree.items()}


def _service(name: str, body: object, defaults: _PodDefaults, warnings: list[str]) -> PodService:
    where = f'service "{name}"'
    tree = _tree(body, where)
    compose = {key: value for key, value in tree.items() if key != _EXTENSION}
    if tree.get(_EXTENSION) is None:
        return PodService(name, compose)
    claw = _tree(tree[_EXTENSION], f"{where}: {_EXTENSION}")
    cllama = _names(claw["cllama"], f"{where}: parse cllama") if "cllama" in claw else None
    proxies = defaults.cllama if cllama is None else cllama
    return PodService(
        name,
        compose,
        ClawSettings(
            agent_file=_text(claw.get("agent"), f"{where}: agent"),
            type=_text(claw.get("type"), f"{where}: type"),
            cllama=proxies,
            proxy_environment={
                **defaults.proxy_environment,
                **_texts(claw.get("cllama-env"), f"{where}: cllama-env"),
            },
            models=_models(claw, defaults, where),
            count=_count(claw.get("count"), where),
            memory=_subscription(claw, defaults, warnings, where, has_proxy=bool(proxies)),
        ),
    )


def _subscription(
    claw: YamlMapping, defaults: _PodDefaults, warnings: list[str], where: str, *, has_proxy: bool
) -> MemorySubscription | None:
    explicit = "memory" in claw
    wanted = claw["memory"] if explicit else defaults.memory
    if wanted is None:
        return None
    if not has_proxy and not explicit:
        warnings.append(f"{where}: memory-defaults skipped, because it has no x-claw.cllama")
        return None
    subscription = _memory(wanted, f"{where}: parse memory")
    if not has_proxy:
        raise PodError(f"{where}: {_WITHOUT_PROXY}")
    return subscription


def _memory(value: object, where: str) -> MemorySubscription:
    if not isinstance(value, Mapping):
        raise PodError(f"{where}: expected a mapping with service and timeout-ms")
    tree = cast("YamlMapping", value)
    service = tree.get("service")
    if not isinstance(service, str) or not service.strip():
        raise PodError(f"{where}: service is required")
    timeout = tree.get("timeout-ms")
    if timeout is None:
        return MemorySubscription(service.strip())
    if isinstance(timeout, bool) or not isinstance(timeout, int):
        raise PodError(f"{where}: timeout-ms must be an integer")
    if timeout <= 0:
        raise PodError(f"{where}: timeout-ms must be > 0")
    return MemorySubscription(service.strip(), timeout, explicit=True)


def _defaults(about: YamlMapping) -> _PodDefaults:
    memory: YamlMapping | None = None
    if "memory-defaults" in about:
        memory_defaults = about["memory-defaults"]
        if not isinstance(memory_defaults, Mapping):
            raise PodError(f"{_EXTENSION}.memory-defaults must be a mapping")
        memory = cast("YamlMapping", memory_defaults)
    proxy = _tree(about.get("cllama-defaults"), f"{_EXTENSION}.cllama-defaults")
    return _PodDefaults(
        memory=memory,
        cllama=_names(proxy.get("proxy"), f"{_EXTENSION}.cllama-defaults.proxy"),
        proxy_environment=_texts(proxy.get("env"), f"{_EXTENSION}.cllama-defaults.env"),
        models=_texts(about.get("models-defaults"), f"{_EXTENSION}.models-defaults"),
    )


def _models(claw: YamlMapping, defaults: _PodDefaults, where: str) -> dict[str, str]:
    if "models" not in claw:
        return dict(defaults.models)
    own = _texts(claw["models"], f"{where}: models")
    # An empty mapping switches the defaults off; any other adds to them.
    return {**defaults.models, **own} if own else {}


def _count(value: object, where: str) -> int:
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int):
        raise PodError(f"{where}: count must be an integer")
    if value > MAX_REPLICAS:
        raise PodError(f"{where}: count must be at most {MAX_REPLICAS}")
    return max(1, value)


def _check_names(services: tuple[PodService, ...]) -> None:
    seen: set[str] = set()
    for service in services:
        for name in service.names():
            if not is_agent_id(name):
                raise PodError(f'service "{name}" cannot be an agent: {AGENT_ID_RULE}')
            if name in seen:
                raise PodError(f'service "{service.name}": there are two that run as "{name}"')
            seen.add(name)


def _tree(value: object, where: str) -> YamlMapping:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise PodError(f"{where} must be a mapping")
    tree = cast("Mapping[object, object]", value)
    for key in tree:
        if not isinstance(key, str):
            raise PodError(f"{where}: the key {key!r} must be a text; put it in quotes")
    return cast("YamlMapping", tree)


def _text(value: object, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise PodError(f"{where} must be a text")
    return value.strip()


def _names(value: object, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    names = cast("list[object]", value) if isinstance(value, list) else [value]
    if not all(isinstance(item, str) and item.strip() for item in names):
        raise PodError(f"{where}: expected a name or a list of names")
    return tuple(cast("str", item).strip() for item in names)


def _texts(value: object, where: str) -> dict[str, str]:
    return {key: _scalar(item) for key, item in _tree(value, where).items() if item is not None}


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
