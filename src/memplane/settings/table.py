"""The table of settings: what there is, what it is for, and its default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from memplane.secret import Secret
from memplane.settings.value_parsers import (
    parse_agents,
    parse_assertion_algorithm,
    parse_boolean,
    parse_contested,
    parse_count,
    parse_document_size,
    parse_file_mode,
    parse_folder,
    parse_injection,
    parse_integer,
    parse_key_prefix,
    parse_list,
    parse_listen_address,
    parse_log_level,
    parse_optional_path,
    parse_port,
    parse_positive,
    parse_recall_blocks,
    parse_segment_size,
    parse_service_url,
    parse_sync_policy,
    parse_thumbprint,
    parse_vector_source,
    parse_zone,
)

_PATH_FROM_HOME: Final = Path("<follows from the home>")


@dataclass(frozen=True, slots=True)
class SettingOption:
    """What is known of one setting besides its value.

    `fallback` is a variable that other programs have, too: it counts when neither this setting
    nor one that it goes `before` is set, and one that cannot be read is not meant for us.
    """

    read: Callable[[str], object]
    about: str
    aliases: tuple[str, ...] = ()
    shown_default: str = ""
    fallback: str = ""
    before: tuple[str, ...] = ()


_T = TypeVar("_T")


def _option(
    default: _T,
    read: Callable[[str], _T],
    about: str,
    *,
    aliases: tuple[str, ...] = (),
    shown_default: str = "",
    fallback: str = "",
    before: tuple[str, ...] = (),
) -> _T:
    option = SettingOption(read, about, aliases, shown_default, fallback, before)
    return field(default=default, metadata={"option": option})


@dataclass(frozen=True, slots=True)
class BlobSettings:
    """The container that state moves through."""

    endpoint: str = _option(
        "",
        str,
        "Address of the storage account, such as `https://ACCOUNT.blob.core.windows.net`.",
        aliases=("ENTRACLAW_BLOB_ENDPOINT",),
    )
    container: str = _option(
        "", str, "Name of the container.", aliases=("ENTRACLAW_BLOB_CONTAINER",)
    )
    connection_string: Secret = _option(
        Secret(""),
        Secret,
        "Connection string of the account, instead of an endpoint. "
        "The container is created when it is absent.",
    )
    sas_url: Secret = _option(
        Secret(""), Secret, "Address of the container with a shared access signature."
    )
    ca_file: Path | None = _option(
        None,
        parse_optional_path,
        "Certificates to trust for the endpoint. For emulators and tests.",
    )
    token: Secret = _option(
        Secret(""), Secret, "A bearer token for the endpoint. For emulators and tests."
    )


@dataclass(frozen=True, slots=True)
class S3Settings:
    """The bucket of an S3-compatible service that state moves through."""

    bucket: str = _option(
        "", str, "Name of the bucket. memplane does not create it. See [S3](../s3.md)."
    )
    endpoint: str = _option(
        "",
        str,
        "Address of the service, such as `https://s3.example.com`. Without one it is Amazon's in "
        "that region.",
    )
    region: str = _option(
        "us-east-1", str, "Region that requests are signed for.", fallback="AWS_REGION"
    )
    access_key: str = _option("", str, "Id of the access key.", fallback="AWS_ACCESS_KEY_ID")
    secret_key: Secret = _option(
        Secret(""),
        Secret,
        "The secret that belongs to the access key.",
        fallback="AWS_SECRET_ACCESS_KEY",
        before=("s3.access_key",),
    )
    session_token: Secret = _option(
        Secret(""),
        Secret,
        "The session token of temporary keys.",
        fallback="AWS_SESSION_TOKEN",
        before=("s3.access_key",),
    )
    prefix: str = _option(
        "", str, "What all names in the bucket begin with, when others use the bucket too."
    )
    path_style: bool = _option(
        default=True,
        read=parse_boolean,
        about="Whether the bucket is in the path of an address; otherwise it is in the host name.",
    )
    ca_file: Path | None = _option(
        None,
        parse_optional_path,
        "Certificates to trust for the endpoint, when it has one of its own making.",
    )


@dataclass(frozen=True, slots=True)
class AzureSettings:
    """The agent's own identity in Azure, and the services that give it tokens."""

    tenant_id: str = _option(
        "", str, "Id of the tenant that the agent belongs to.", aliases=("MEMPLANE_TENANT_ID",)
    )
    blueprint_app_id: str = _option(
        "",
        str,
        "Application id of the Blueprint, which holds the certificates of all machines.",
        aliases=("MEMPLANE_BLUEPRINT_APP_ID",),
    )
    blueprint_cert_thumbprint: str = _option(
        "",
        parse_thumbprint,
        "SHA-256 of this machine's certificate, in hexadecimal or base64url. Needed only where "
        "the key store has a private key without its certificate.",
        aliases=("MEMPLANE_BLUEPRINT_CERT_THUMBPRINT",),
    )
    agent_id: str = _option(
        "", str, "Application id of the Agent Identity.", aliases=("MEMPLANE_AGENT_ID",)
    )
    agent_user_id: str = _option(
        "", str, "Object id of the Agent User.", aliases=("MEMPLANE_AGENT_USER_ID",)
    )
    agent_user_upn: str = _option(
        "",
        str,
        "Name of the Agent User, when its object id is not known.",
        aliases=("MEMPLANE_AGENT_USER_UPN",),
    )
    assertion_algorithm: str = _option(
        "PS256", parse_assertion_algorithm, "How this machine signs: `PS256` or `RS256`."
    )
    authority: str = _option(
        "https://login.microsoftonline.com",
        parse_service_url,
        "Where tokens come from. Other clouds have addresses of their own.",
    )
    graph: str = _option(
        "https://graph.microsoft.com", parse_service_url, "Address of Microsoft Graph."
    )
    management: str = _option(
        "https://management.azure.com", parse_service_url, "Address of Azure Resource Manager."
    )


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The door that listens."""

    host: str = _option(
        "127.0.0.1",
        str,
        "Address to listen on. Beyond loopback it must be a trusted network, since this is HTTP "
        "without encryption.",
    )
    trusted_network: bool = _option(
        default=False,
        read=parse_boolean,
        about="Say that whoever reaches `http.host` may read what passes, as inside a pod.",
    )
    port: int = _option(6367, parse_port, "Port to listen on. 0 takes any free one.")
    listen: str = _option(
        "",
        parse_listen_address,
        "Both in one, as pods write it, such as `:8080`; it goes before `http.host` and "
        "`http.port`. `LISTEN_ADDR` counts where none of the three is set.",
        aliases=("MEMPLANE_PROXY_LISTEN",),
        fallback="LISTEN_ADDR",
        before=("http.host", "http.port"),
    )
    allowed_hosts: tuple[str, ...] = _option(
        (), parse_list, "Host headers to accept besides loopback's, each with its port."
    )
    requests_per_second: int = _option(
        1000,
        parse_count,
        "Requests that one token may make in a second, and twice as many at once. 0 is no limit.",
    )
    concurrent_requests: int = _option(
        2000, parse_positive, "Requests that are answered at the same time."
    )


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """The record of what happened."""

    dir: Path = _option(
        _PATH_FROM_HOME,
        parse_folder,
        "Where ledgers lie, one folder for each agent. In a pod its `.claw-session-history`.",
        aliases=("MEMPLANE_SESSION_HISTORY_DIR", "CLAW_SESSION_HISTORY_DIR"),
        shown_default="`<home>/ledger`",
    )
    max_bytes: int = _option(
        268435456,
        parse_segment_size,
        "Size at which a segment is sealed and the next begins; 0 or less is the default.",
        aliases=("MEMPLANE_SESSION_HISTORY_MAX_BYTES", "CLLAMA_SESSION_HISTORY_MAX_BYTES"),
    )
    fsync: str = _option(
        "group",
        parse_sync_policy,
        "When entries are made durable: `group`, before each is acknowledged; `interval`, every "
        "100 ms; `never`, when the system likes.",
    )
    mode: int = _option(
        0o600,
        parse_file_mode,
        "Permissions of ledger files, in octal, for set-ups where several users share them.",
        shown_default="`600`",
    )
    queue_bytes: int = _option(
        67108864,
        parse_positive,
        "Bytes that may wait for the disk before further turns are refused.",
    )
    verbatim: bool = _option(
        default=False,
        read=parse_boolean,
        about="Write entries as they come, with the secrets in them. `memplane status` says so.",
    )


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What recall answers with; the parts are scaled when fewer bytes are asked for."""

    match_bytes: int = _option(3072, parse_count, "Bytes for turns that match the question.")
    salient_bytes: int = _option(
        2048, parse_count, "Bytes for what was said with weight, however long ago."
    )
    recent_bytes: int = _option(2048, parse_count, "Bytes for the last turns, beside a match.")
    timeline_bytes: int = _option(1024, parse_count, "Bytes for the timeline, beside a match.")
    readers: int = _option(
        2,
        parse_count,
        "Processes that may answer questions beside the one that listens, where there is more "
        "than one core. The first is started with the first question, a further one when "
        "questions have waited for half a second on end, at most as many as there are cores; "
        "each has some 50 MiB. 0 answers all in the one.",
    )
    trusted_sources: tuple[str, ...] = _option(
        (),
        parse_list,
        "Sources that are recalled like the user's own words, such as `web:docs.example` or "
        "`import:mail`, or a whole kind, such as `file`. Of all others at most a fifth of a "
        "recall is told, as quotations.",
    )


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """What a recall answers."""

    blocks: str = _option(
        "",
        parse_recall_blocks,
        "`answers`: what matches, what was said with weight, and the last turns; `all`: a "
        "timeline and a count of routine turns, too. By default `all` where memory fills itself "
        "from another recorder's history, as in a pod, and `answers` elsewhere.",
    )


@dataclass(frozen=True, slots=True)
class UsersSettings:
    """The end users of agents, each of whom has memories of their own."""

    ignore: tuple[str, ...] = _option(
        (),
        parse_agents,
        "Agents whose end users share one memory, or `true` for all of them.",
    )
    claude_account: tuple[str, ...] = _option(
        (),
        parse_agents,
        "Agents for which the account of a Claude Code client is an end user although they hold "
        "no token, or `true` for all of them. Hooks, MCP and commands name no account.",
    )


@dataclass(frozen=True, slots=True)
class VectorSettings:
    """Embeddings, by which recall finds what a text means beside its words."""

    source: str = _option(
        "builtin",
        parse_vector_source,
        "Where they come from: `builtin`, the model that comes with memplane and runs with "
        "`memplane[semantic]`; `folder`, a model in a folder, with `memplane[models]`; "
        "`endpoint`, an OpenAI-compatible address; `none`.",
    )
    folder: Path | None = _option(
        None,
        parse_optional_path,
        "The folder, with `tokenizer.json` and `model.safetensors` or `model.onnx`.",
    )
    url: str = _option("", str, "The address, to which `/embeddings` is added.")
    model: str = _option("", str, "The model to ask for at that address.")
    key: Secret = _option(Secret(""), Secret, "The key for that address.")


@dataclass(frozen=True, slots=True)
class FillSettings:
    """Another recorder's history, from which memory fills itself at the start."""

    url: str = _option(
        "",
        str,
        "Address of the history, to which `/<agent>` is added.",
        aliases=("CLAW_HISTORY_URL",),
    )
    token: Secret = _option(
        Secret(""), Secret, "Token for that history.", aliases=("CLAW_HISTORY_TOKEN",)
    )
    agents: tuple[str, ...] = _option(
        (), parse_list, "The agents to ask for.", aliases=("CLAW_HISTORY_AGENT_IDS",)
    )


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """What memory and the proxy tell about themselves."""

    stdout: bool = _option(
        default=False,
        read=parse_boolean,
        about="Write each event to standard output too, as pods do.",
    )
    otlp_endpoint: str = _option(
        "",
        str,
        "An OpenTelemetry collector that is sent a trace of each turn, over HTTP. "
        "Needs `memplane[otel]`.",
        aliases=("OTEL_EXPORTER_OTLP_ENDPOINT",),
    )


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The proxy between agents and their providers."""

    upstream_openai: str = _option(
        "https://api.openai.com/v1",
        str,
        "Where requests in OpenAI's dialects go when they carry the client's own key.",
    )
    upstream_anthropic: str = _option(
        "https://api.anthropic.com/v1",
        str,
        "Where requests in Anthropic's dialect go when they carry the client's own key.",
    )
    auth_dir: Path | None = _option(
        None,
        parse_optional_path,
        "The folder of `providers.json`, with the providers' keys for agents that hold tokens "
        "of memplane's.",
        aliases=("MEMPLANE_AUTH_DIR", "CLAW_AUTH_DIR"),
        shown_default="the home",
    )
    state_dir: Path | None = _option(
        None,
        parse_optional_path,
        "Where it is kept how far turns were delivered to other memory services.",
        shown_default="`.memplane` among the ledgers",
    )
    allowed_private: tuple[str, ...] = _option(
        (),
        parse_list,
        "Hosts that may lead to a private address although their names look public. Addresses "
        "of metadata services and link-local ones are never asked, also when listed.",
    )
    injection: str = _option(
        "",
        parse_injection,
        "Where memory stands in a prompt: `sticky`, at the end of the user's message, and there "
        "again in later requests; `clawdapus`, in a message of its own beside the last one of "
        "the user's. Empty is `clawdapus` for a pod's agents and `sticky` for all others.",
    )
    recall_ms: int = _option(
        300, parse_positive, "Milliseconds that a turn waits for memory; then it goes on without."
    )
    auxiliary_phrases: tuple[str, ...] = _option(
        (),
        parse_list,
        "Words in the instructions of requests without tools that mark a client's own request, "
        "such as one for a title: it gets no memory and leaves none.",
    )
    ask_usage: bool = _option(
        default=False,
        read=parse_boolean,
        about="Ask OpenAI's streams for their usage, and take the extra chunk out again.",
    )
    time_line: bool = _option(
        default=False,
        read=parse_boolean,
        about="Tell a pod's agents the current time beside their memory.",
    )
    candidate_timeout_ms: int = _option(
        60000,
        parse_positive,
        "Milliseconds until the next provider is tried, where there is another.",
        aliases=(
            "MEMPLANE_UPSTREAM_CANDIDATE_TIMEOUT_MS",
            "CLLAMA_DISPATCH_CANDIDATE_TIMEOUT_MS",
        ),
    )
    first_byte_timeout_ms: int = _option(
        300000,
        parse_positive,
        "Milliseconds that a provider may take until its answer begins.",
        aliases=("MEMPLANE_STREAM_FIRST_BYTE_TIMEOUT_MS", "CLLAMA_STREAM_FIRST_BYTE_TIMEOUT_MS"),
    )
    idle_timeout_ms: int = _option(
        120000,
        parse_positive,
        "Milliseconds that a provider may be silent in the middle of an answer.",
        aliases=("MEMPLANE_STREAM_IDLE_TIMEOUT_MS", "CLLAMA_STREAM_IDLE_TIMEOUT_MS"),
    )
    drain_ms: int = _option(
        10000,
        parse_count,
        "Milliseconds that a stop waits for turns to reach another memory service.",
        aliases=("MEMPLANE_DRAIN_TIMEOUT_MS",),
    )


@dataclass(frozen=True, slots=True)
class PersonaSettings:
    """The folder of markdown that follows the agent."""

    sync: bool = _option(
        default=True,
        read=parse_boolean,
        about="`off` quiets the hooks and the sync.",
        aliases=("ENTRACLAW_PERSONA_SYNC",),
    )
    dir: Path | None = _option(
        None,
        parse_optional_path,
        "The folder of documents. Empty is the project's memory folder of Claude Code.",
    )
    prefix: str = _option(
        "claude_memory",
        parse_key_prefix,
        "Where the documents of the container's first project lie; others get their own prefix.",
    )
    project: str = _option(
        "", str, "Id of the project, for a folder without a marker and without a first commit."
    )
    max_bytes: int = _option(
        262144, parse_document_size, "How large a document may be; at most 5242880."
    )
    watch: bool = _option(
        default=False,
        read=parse_boolean,
        about="Let `memplane up` sync the folder when it changes.",
    )


@dataclass(frozen=True, slots=True)
class OpsSettings:
    """Operational memory."""

    memory_budget: int = _option(
        2000,
        parse_integer,
        "Tokens that memories may take in a prompt.",
        aliases=("CLAUDEOPS_MEMORY_BUDGET",),
    )
    contested: str = _option(
        "mark",
        parse_contested,
        "What prompts are told of memories that contradict each other: `mark`, both, marked as "
        "contested; `omit`, neither; `stronger`, the one that is believed more.",
    )
    services: tuple[str, ...] = _option(
        (), parse_list, "The services that there are; memories about others are marked as new."
    )
    strict_services: bool = _option(
        default=False,
        read=parse_boolean,
        about="Hold back what is said about a service that is not known.",
    )
    session_cap: int = _option(
        20, parse_count, "How many memories a session may record; the rest is refused."
    )
    category_aliases: tuple[str, ...] = _option(
        (), parse_list, "Other names of categories, such as `known-issue=behavior`."
    )
    initial: int = _option(70, parse_count, "What a new memory is worth, in hundredths.")
    reinforce: int = _option(10, parse_count, "What support adds.")
    contradict: int = _option(20, parse_count, "What a contradiction takes off.")
    grace_days: int = _option(
        30, parse_count, "Days after the last support in which nothing fades."
    )
    decay_rate: int = _option(10, parse_count, "What each period after that takes off.")
    decay_days: int = _option(7, parse_positive, "Days of such a period.")
    threshold: int = _option(30, parse_count, "A memory below it is inactive.")


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """What the hooks of Claude Code do."""

    recall: bool = _option(
        default=True,
        read=parse_boolean,
        about="Recall memories for each prompt, while `memplane up` runs.",
    )
    recall_ms: int = _option(
        300,
        parse_positive,
        "Milliseconds that a prompt waits for memories; then it goes on without.",
    )
    record: bool = _option(
        default=True,
        read=parse_boolean,
        about="Remember the turns of a session when it ends, from its transcript. A session that "
        "the proxy recorded is not recorded twice.",
    )
    start_ms: int = _option(
        8000,
        parse_positive,
        "Milliseconds that the start of a session waits for the container; then it goes on with "
        "what is on this machine.",
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an operator can choose."""

    home: Path = _option(
        Path("~/.memplane"),
        parse_folder,
        "Where memplane keeps its state. Not settable in a file.",
    )
    agent: str = _option("", str, "The agent that commands and hooks act for by default.")
    timezone: str = _option(
        "", parse_zone, "IANA time zone that decides what a day is.", shown_default="the system's"
    )
    keep_memory_local: bool = _option(
        default=False,
        read=parse_boolean,
        about="Keep state on this machine, whatever else is set.",
        aliases=("ENTRACLAW_KEEP_MEMORY_LOCAL",),
    )
    strict_cloud: bool = _option(
        default=False, read=parse_boolean, about="Refuse to start with half a cloud configuration."
    )
    data_dir: Path = _option(
        _PATH_FROM_HOME,
        parse_folder,
        "The local object store.",
        shown_default="`<home>/data`; on Windows `%LOCALAPPDATA%\\memplane\\data`",
    )
    cache_dir: Path = _option(
        _PATH_FROM_HOME,
        parse_folder,
        "The mirror of the container.",
        shown_default="`<home>/cache`",
    )
    state_dir: Path = _option(
        _PATH_FROM_HOME, parse_folder, "What sync remembers.", shown_default="`<home>/state`"
    )
    log_level: str = _option(
        "warning",
        parse_log_level,
        "What is logged: `debug`, `info`, `warning`, `error` and above.",
    )
    context_root: Path | None = _option(
        None,
        parse_optional_path,
        "Where a pod's compile step left one folder per agent, with the agents' tokens.",
        aliases=("CLAW_CONTEXT_ROOT",),
    )
    pod: str = _option(
        "", str, "Name of the pod that the agents belong to.", aliases=("CLAW_POD",)
    )
    admin_token: Secret = _option(
        Secret(""),
        Secret,
        "One more admin's token, besides the home's own.",
        aliases=("CLLAMA_UI_TOKEN",),
    )
    service_token: Secret = _option(
        Secret(""),
        Secret,
        "Token of those who use this as their memory service: it reads and writes the memory of "
        "every agent, and nothing else.",
    )
    blob: BlobSettings = field(default_factory=BlobSettings)
    s3: S3Settings = field(default_factory=S3Settings)
    azure: AzureSettings = field(default_factory=AzureSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    users: UsersSettings = field(default_factory=UsersSettings)
    vectors: VectorSettings = field(default_factory=VectorSettings)
    fill: FillSettings = field(default_factory=FillSettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    proxy: ProxySettings = field(default_factory=ProxySettings)
    persona: PersonaSettings = field(default_factory=PersonaSettings)
    ops: OpsSettings = field(default_factory=OpsSettings)
    claude: ClaudeSettings = field(default_factory=ClaudeSettings)

    def __post_init__(self) -> None:
        """Fill in the places that follow from the home."""
        home = self.home.expanduser().absolute()
        follow = {"home": home, "data_dir": home / "data"}
        follow |= {"cache_dir": home / "cache", "state_dir": home / "state"}
        for name, place in follow.items():
            if name == "home" or getattr(self, name) == _PATH_FROM_HOME:
                object.__setattr__(self, name, place)
        if self.http.listen:
            host, _, number = self.http.listen.rpartition(":")
            chosen = replace(self.http, host=host.strip("[]") or "0.0.0.0", port=int(number))  # noqa: S104
            object.__setattr__(self, "http", chosen)
        if self.ledger.dir == _PATH_FROM_HOME:
            object.__setattr__(self, "ledger", replace(self.ledger, dir=home / "ledger"))


@dataclass(frozen=True, slots=True)
class NamedSetting:
    """One setting with its name, for loading and for the reference page."""

    name: str
    default: object
    option: SettingOption

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return "MEMPLANE_" + self.name.replace(".", "_").upper()

    @property
    def secret(self) -> bool:
        """Whether its value must not be shown."""
        return isinstance(self.default, Secret)


def list_settings(kind: Any = Settings, prefix: str = "") -> Iterator[NamedSetting]:
    """Name every setting there is."""
    for one in fields(kind):
        if (option := one.metadata.get("option")) is not None:
            yield NamedSetting(prefix + one.name, one.default, option)
        else:
            yield from list_settings(one.default_factory, f"{prefix}{one.name}.")
