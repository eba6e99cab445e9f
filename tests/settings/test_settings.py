"""Where a setting comes from, what is refused, and that no secret is ever shown."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, replace
from itertools import combinations
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memplane.errors import SettingsError
from memplane.secret import Secret
from memplane.settings import (
    Settings,
    default_data_dir,
    find_unknown_names,
    find_unknown_variables,
    list_settings,
    load_settings,
    load_settings_from_environment,
)
from memplane.settings.table import HttpSettings
from memplane.settings.value_parsers import parse_boolean, parse_listen_address

untimed = hypothesis_settings(deadline=None)

CANARY = "canary-in-a-coal-mine"
SECRETS = (
    *("admin_token", "blob.connection_string", "blob.sas_url", "blob.token"),
    *("fill.token", "s3.secret_key", "s3.session_token", "service_token", "vectors.key"),
)


def write(home: Path, name: str, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / name).write_text(text, "utf-8")


def loaded(
    home: Path, flags: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    return load_settings(flags or {}, {"MEMPLANE_HOME": str(home), **(environ or {})})


def message_of(call: Callable[[], object]) -> str:
    with pytest.raises(SettingsError) as caught:
        call()
    return str(caught.value)


def trace_of(call: Callable[[], object]) -> str:
    """Return all that a log would show of the error, its causes included."""
    with pytest.raises(SettingsError) as caught:
        call()
    return "".join(traceback.format_exception(caught.value))


# Precedence

SOURCES = ("flags", "environment", ".env", "config.toml")


def agent_from(home: Path, sources: tuple[str, ...]) -> str:
    """Load with each of the sources naming itself as the agent."""
    if ".env" in sources:
        write(home, ".env", "MEMPLANE_AGENT=.env\n")
    if "config.toml" in sources:
        write(home, "config.toml", 'agent = "config.toml"\n')
    flags = {"agent": "flags"} if "flags" in sources else {}
    environ = {"MEMPLANE_AGENT": "environment"} if "environment" in sources else {}
    return loaded(home, flags, environ).agent


@pytest.mark.parametrize(("stronger", "weaker"), list(combinations(SOURCES, 2)))
def test_the_stronger_of_two_sources_wins(home: Path, stronger: str, weaker: str) -> None:
    assert agent_from(home, (stronger, weaker)) == stronger


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_wins_over_the_default(home: Path, source: str) -> None:
    assert agent_from(home, (source,)) == source


def test_without_any_source_there_is_the_default(home: Path) -> None:
    assert not agent_from(home, ())
    assert loaded(home).http.port == 6367
    assert loaded(home).persona.sync is True


def test_precedence_is_decided_for_each_setting_by_itself(home: Path) -> None:
    write(home, ".env", "MEMPLANE_AGENT=file\nMEMPLANE_HTTP_PORT=1\n")
    write(home, "config.toml", 'agent = "toml"\n[http]\nport = 2\n[ops]\nmemory_budget = 3\n')
    settings = loaded(home, environ={"MEMPLANE_AGENT": "environment"})
    assert (settings.agent, settings.http.port, settings.ops.memory_budget) == (
        "environment",
        1,
        3,
    )


def test_an_empty_variable_counts_as_set(home: Path) -> None:
    write(home, ".env", "MEMPLANE_BLOB_CONTAINER=from-the-file\n")
    assert not loaded(home, environ={"MEMPLANE_BLOB_CONTAINER": ""}).blob.container


def test_settings_from_environment_reads_this_process(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMPLANE_HOME", str(home))
    monkeypatch.setenv("MEMPLANE_AGENT", "ada")
    monkeypatch.setenv("MEMPLANE_HTTP_PORT", "1")
    settings = load_settings_from_environment({"http.port": "2"})
    assert (settings.home, settings.agent, settings.http.port) == (home, "ada", 2)


def test_every_setting_can_be_set_by_its_variable(home: Path) -> None:
    for setting in list_settings():
        given = {setting.variable: "no text suits every kind of setting"}
        if setting.option.read in {str, Secret}:
            value = shown(loaded(home, environ=given), setting.name)
            assert value == setting.option.read(given[setting.variable])


def test_variables_are_named_after_their_settings() -> None:
    variables = {setting.name: setting.variable for setting in list_settings()}
    assert variables["agent"] == "MEMPLANE_AGENT"
    assert variables["http.port"] == "MEMPLANE_HTTP_PORT"
    assert variables["blob.connection_string"] == "MEMPLANE_BLOB_CONNECTION_STRING"
    assert variables["keep_memory_local"] == "MEMPLANE_KEEP_MEMORY_LOCAL"


# The .env file


@pytest.mark.parametrize("name", [".env", "config.toml"])
def test_files_in_the_current_directory_are_not_read(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    project = tmp_path / "someone-elses-project"
    content = "MEMPLANE_AGENT=intruder\n" if name == ".env" else 'agent = "intruder"\n'
    write(project, name, content)
    monkeypatch.chdir(project)
    assert not loaded(home).agent


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("MEMPLANE_AGENT=ada", "ada"),
        ("MEMPLANE_AGENT=a=b==", "a=b=="),
        ("MEMPLANE_AGENT = ada ", "ada"),
        ("  MEMPLANE_AGENT=ada", "ada"),
        ('MEMPLANE_AGENT="ada"', "ada"),
        ("MEMPLANE_AGENT='ada'", "ada"),
        ("MEMPLANE_AGENT='two words'", "two words"),
        ("MEMPLANE_AGENT=' kept '", " kept "),
        ("MEMPLANE_AGENT='it\"s'", 'it"s'),
        ("MEMPLANE_AGENT=''", ""),
        ("MEMPLANE_AGENT=\"'inner'\"", "'inner'"),
        ("MEMPLANE_AGENT='unbalanced", "'unbalanced"),
        ("MEMPLANE_AGENT='mixed\"", "'mixed\""),
        ("MEMPLANE_AGENT='", "'"),
        ("MEMPLANE_AGENT=", ""),
        ("MEMPLANE_AGENT=a#b", "a#b"),
        ("export MEMPLANE_AGENT=ada", "ada"),
        ("export   MEMPLANE_AGENT='ada'", "ada"),
        ("# MEMPLANE_AGENT=ada", ""),
        ("#MEMPLANE_AGENT=ada", ""),
        ("MEMPLANE_AGENT", ""),
        ("", ""),
        ("MEMPLANE_AGENT=é", "é"),
    ],
)
def test_a_line_of_dotenv_is_read(home: Path, line: str, value: str) -> None:
    write(home, ".env", f"# a comment\n\n{line}\n")
    assert loaded(home).agent == value


def test_dotenv_may_have_windows_line_ends(home: Path) -> None:
    home.mkdir()
    (home / ".env").write_bytes(b'MEMPLANE_AGENT="ada"\r\nMEMPLANE_HTTP_PORT=7\r\n')
    settings = loaded(home)
    assert (settings.agent, settings.http.port) == ("ada", 7)


def test_the_later_line_of_dotenv_wins(home: Path) -> None:
    write(home, ".env", "MEMPLANE_AGENT=first\nMEMPLANE_AGENT=second\n")
    assert loaded(home).agent == "second"


def test_dotenv_changes_nothing_in_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    write(home, ".env", "MEMPLANE_AGENT=ada\n")
    monkeypatch.setenv("MEMPLANE_HOME", str(home))
    before = dict(os.environ)
    assert load_settings_from_environment().agent == "ada"
    assert dict(os.environ) == before


# Booleans

TRUE = ("true", "1", "yes", "on")
FALSE = ("false", "0", "no", "off", "")


@st.composite
def spelled(draw: st.DrawFn, words: tuple[str, ...]) -> str:
    word = draw(st.sampled_from(words))
    cased = "".join(draw(st.sampled_from((letter.lower(), letter.upper()))) for letter in word)
    return draw(st.sampled_from(("", " "))) + cased


@untimed
@given(spelled(TRUE))
def test_true_is_read_in_any_case(text: str) -> None:
    assert parse_boolean(text) is True


@untimed
@given(spelled(FALSE))
def test_false_is_read_in_any_case(text: str) -> None:
    assert parse_boolean(text) is False


@untimed
@given(st.text().filter(lambda text: text.strip().lower() not in {*TRUE, *FALSE}))
def test_anything_else_is_not_a_boolean(text: str) -> None:
    with pytest.raises(ValueError, match="expected true"):
        parse_boolean(text)


@pytest.mark.parametrize("garbage", ["maybe", "2", "tru", "-", "y", "none"])
def test_a_boolean_that_is_none_names_the_variable(home: Path, garbage: str) -> None:
    message = message_of(lambda: loaded(home, environ={"MEMPLANE_STRICT_CLOUD": garbage}))
    assert "MEMPLANE_STRICT_CLOUD" in message
    assert repr(garbage) in message
    assert "expected true" in message


def test_a_wrong_value_in_dotenv_names_variable_and_file(home: Path) -> None:
    write(home, ".env", "MEMPLANE_PERSONA_SYNC=perhaps\n")
    message = message_of(lambda: loaded(home))
    assert "MEMPLANE_PERSONA_SYNC" in message
    assert str(home / ".env") in message


def test_a_wrong_value_in_toml_names_setting_and_file(home: Path) -> None:
    write(home, "config.toml", '[persona]\nsync = "perhaps"\n')
    message = message_of(lambda: loaded(home))
    assert "persona.sync" in message
    assert str(home / "config.toml") in message


def test_a_wrong_flag_is_named(home: Path) -> None:
    assert "--set http.port" in message_of(lambda: loaded(home, {"http.port": "many"}))


def test_a_wrong_alias_is_named_as_it_was_written(home: Path) -> None:
    environ = {"ENTRACLAW_KEEP_MEMORY_LOCAL": "perhaps"}
    assert "ENTRACLAW_KEEP_MEMORY_LOCAL" in message_of(lambda: loaded(home, environ=environ))


# Aliases


def shown(settings: Settings, name: str) -> object:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


ALIASES = [
    ("ENTRACLAW_BLOB_ENDPOINT", "blob.endpoint", "https://a", "https://b", "https://b"),
    ("ENTRACLAW_BLOB_CONTAINER", "blob.container", "a", "b", "b"),
    ("ENTRACLAW_KEEP_MEMORY_LOCAL", "keep_memory_local", "true", "false", False),
    ("ENTRACLAW_PERSONA_SYNC", "persona.sync", "off", "on", True),
    ("CLAUDEOPS_MEMORY_BUDGET", "ops.memory_budget", "1", "2", 2),
]


@pytest.mark.parametrize(("alias", "name", "value", "other", "_"), ALIASES)
def test_an_alias_works(home: Path, alias: str, name: str, value: str, other: str, _: str) -> None:
    by_flag = loaded(home, {name: value})
    by_alias = loaded(home, environ={alias: value})
    assert (
        shown(by_alias, name) == shown(by_flag, name) != shown(loaded(home, {name: other}), name)
    )


@pytest.mark.parametrize(("alias", "name", "value", "other", "expected"), ALIASES)
def test_an_alias_loses_against_the_name_of_memplane(
    home: Path, alias: str, name: str, value: str, other: str, expected: object
) -> None:
    ours = "MEMPLANE_" + name.upper().replace(".", "_")
    assert shown(loaded(home, environ={alias: value, ours: other}), name) == expected
    assert shown(loaded(home, environ={ours: other, alias: value}), name) == expected


@pytest.mark.parametrize(("alias", "name", "value", "other", "expected"), ALIASES)
def test_an_alias_works_in_dotenv_and_loses_there_too(
    home: Path, alias: str, name: str, value: str, other: str, expected: object
) -> None:
    ours = "MEMPLANE_" + name.upper().replace(".", "_")
    write(home, ".env", f"{alias}={value}\n")
    assert shown(loaded(home), name) != expected
    write(home, ".env", f"{alias}={value}\n{ours}={other}\n")
    assert shown(loaded(home), name) == expected


def test_no_two_settings_share_a_name() -> None:
    names = [
        name for setting in list_settings() for name in (setting.variable, *setting.option.aliases)
    ]
    assert len(names) == len(set(names))


# What is refused


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[htp]\nport = 1\n", "http.port"),
        ("[http]\nprot = 1\n", "http.port"),
        ("keep_memory_locale = true\n", "keep_memory_local"),
        ('[blob]\ncontaner = "a"\n', "blob.container"),
    ],
)
def test_an_unknown_name_in_toml_is_refused_with_a_suggestion(
    home: Path, written: str, meant: str
) -> None:
    write(home, "config.toml", written)
    message = message_of(lambda: loaded(home))
    assert str(home / "config.toml") in message
    assert f"Did you mean {meant}?" in message


def test_an_unknown_name_on_the_command_line_is_refused_with_a_suggestion(home: Path) -> None:
    message = message_of(lambda: loaded(home, {"http.prot": "1"}))
    assert "the command line sets http.prot" in message
    assert "Did you mean http.port?" in message


def test_a_name_like_no_other_is_refused_without_a_suggestion(home: Path) -> None:
    message = message_of(lambda: loaded(home, {"zzzzzzzz": "1"}))
    assert "zzzzzzzz" in message
    assert "Did you mean" not in message


@pytest.mark.parametrize("text", ["agent =\n", "= 1", "[http", "agent = 'a'\nagent = 'b'\n", "{"])
def test_invalid_toml_is_refused_and_the_file_named(home: Path, text: str) -> None:
    write(home, "config.toml", text)
    message = message_of(lambda: loaded(home))
    assert f"{home / 'config.toml'} is not valid TOML" in message


@pytest.mark.parametrize("written", ["agent = 1.5", "agent = 2024-01-01", "agent = 12:00:00"])
def test_a_type_that_no_setting_takes_is_refused(home: Path, written: str) -> None:
    write(home, "config.toml", written)
    assert "agent has a type that no setting takes" in message_of(lambda: loaded(home))


def test_toml_takes_native_types(home: Path) -> None:
    write(
        home,
        "config.toml",
        "strict_cloud = true\n[persona]\nsync = false\n[http]\nport = 7\n"
        'allowed_hosts = ["a:1", "b:2"]\n',
    )
    settings = loaded(home)
    assert (settings.strict_cloud, settings.persona.sync) == (True, False)
    assert (settings.http.port, settings.http.allowed_hosts) == (7, ("a:1", "b:2"))


@pytest.mark.parametrize("name", [".env", "config.toml"])
def test_a_file_that_cannot_be_read_is_named(home: Path, name: str) -> None:
    (home / name).mkdir(parents=True)
    assert f"{home / name} cannot be read" in message_of(lambda: loaded(home))


@pytest.mark.parametrize("name", [".env", "config.toml"])
def test_a_file_that_is_not_utf_8_is_named(home: Path, name: str) -> None:
    home.mkdir()
    (home / name).write_bytes(b"MEMPLANE_AGENT=\xff\n")
    assert f"{home / name} cannot be read" in message_of(lambda: loaded(home))


def test_a_home_that_is_a_file_is_refused(home: Path) -> None:
    home.write_text("not a folder")
    assert str(home) in message_of(lambda: loaded(home))


# Secrets


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_on_the_command_line_is_refused(home: Path, name: str) -> None:
    variable = "MEMPLANE_" + name.upper().replace(".", "_")
    assert f"Set {variable} instead" in message_of(lambda: loaded(home, {name: CANARY}))
    assert CANARY not in trace_of(lambda: loaded(home, {name: CANARY}))


def with_secrets(home: Path) -> Settings:
    variables = ["MEMPLANE_" + name.upper().replace(".", "_") for name in SECRETS]
    return loaded(home, environ=dict.fromkeys(variables, CANARY))


def test_secrets_are_the_settings_we_think(home: Path) -> None:
    assert {setting.name for setting in list_settings() if setting.secret} == set(SECRETS)
    settings = with_secrets(home)
    for name in SECRETS:
        secret = shown(settings, name)
        assert isinstance(secret, Secret)
        assert secret.reveal() == CANARY


SHOWING: list[Callable[[object], str]] = [
    repr,
    str,
    format,
    lambda value: f"{value}",
    lambda value: f"{value!r} {value!s} {value!a}",
    lambda value: "%s %r %a" % (value, value, value),  # noqa: UP031 - what careless code does
    "{}".format,
    lambda value: json.dumps([value], default=str),
    lambda value: json.dumps([value], default=repr),
    lambda value: str({"in": [value]}),
]


@pytest.mark.parametrize("show", SHOWING)
def test_no_way_of_showing_shows_a_secret(home: Path, show: Callable[[object], str]) -> None:
    settings = with_secrets(home)
    for value in (Secret(CANARY), settings, settings.blob):
        assert CANARY not in show(value)


@pytest.mark.parametrize("spec", ["", ">50", "^3", "<2"])
def test_a_secret_is_not_shown_by_a_format_specification(spec: str) -> None:
    assert CANARY not in format(Secret(CANARY), spec)


REFUSING: list[Callable[[object], object]] = [
    pickle.dumps,
    lambda value: pickle.dumps(value, protocol=0),
    json.dumps,
    msgspec.json.encode,
    copy.copy,
    copy.deepcopy,
]


@pytest.mark.parametrize("careless", REFUSING)
def test_a_secret_refuses_to_be_packed_up(careless: Callable[[object], object]) -> None:
    with pytest.raises(TypeError) as caught:
        careless(Secret(CANARY))
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_settings_with_secrets_are_not_pickled(home: Path, protocol: int) -> None:
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(with_secrets(home), protocol=protocol)


def test_logging_shows_no_secret(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    settings = with_secrets(home)
    logging.getLogger("careless").debug("%s %r", settings.blob.token, settings)
    logging.getLogger("careless").debug(settings.blob.sas_url)
    logging.getLogger("careless").debug("%(blob)s", {"blob": settings.blob})
    assert len(caplog.records) == 3
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    "trouble",
    [
        "strict_cloud = 'perhaps'\n",
        "unknown = 1\n",
        "[http]\nport = 1.5\n",
        "agent =\n",
        f"[blob]\nconection_string = '{CANARY}'\n",
        f"[blob.connection_string]\nkey = '{CANARY}'\n",
        f"[blob]\ntoken = '{CANARY}'\nsas_url = '{CANARY}\n",
    ],
)
def test_no_error_shows_a_secret(home: Path, trouble: str) -> None:
    write(home, ".env", f"MEMPLANE_BLOB_TOKEN={CANARY}\nMEMPLANE_BLOB_SAS_URL={CANARY}\n")
    write(home, "config.toml", trouble)
    environ = {"MEMPLANE_BLOB_CONNECTION_STRING": CANARY}
    assert CANARY not in trace_of(lambda: loaded(home, environ=environ))


def test_a_misspelt_secret_on_the_command_line_is_not_shown(home: Path) -> None:
    flags = {"blob.conection_string": CANARY}
    assert "Did you mean blob.connection_string?" in message_of(lambda: loaded(home, flags))
    assert CANARY not in trace_of(lambda: loaded(home, flags))


def test_secrets_compare_by_value_and_only_with_secrets() -> None:
    assert Secret(CANARY) == Secret(CANARY)
    assert hash(Secret(CANARY)) == hash(Secret(CANARY))
    assert Secret(CANARY) != Secret("another")
    assert Secret(CANARY) != CANARY


ANY_TEXT = st.text() | st.text(st.sampled_from("aé\ud800\udcff"))


@untimed
@given(ANY_TEXT, ANY_TEXT)
def test_any_two_secrets_can_be_compared(one: str, other: str) -> None:
    """Bytes in the environment that are not UTF-8 arrive as halves of surrogate pairs."""
    assert (Secret(one) == Secret(other)) is (one == other)


def test_a_secret_is_true_when_there_is_one() -> None:
    assert Secret("a")
    assert not Secret("")
    assert (str(Secret("")), repr(Secret(""))) == ("", "Secret('')")


def test_a_secret_has_nowhere_else_to_look() -> None:
    assert not hasattr(Secret(CANARY), "__dict__")


# The object itself


@pytest.mark.parametrize(
    ("part", "name"),
    [("", "agent"), ("blob", "endpoint"), ("http", "port"), ("persona", "sync")],
)
def test_settings_are_frozen(home: Path, part: str, name: str) -> None:
    settings = loaded(home)
    with pytest.raises(FrozenInstanceError):
        setattr(getattr(settings, part) if part else settings, name, "changed")


def test_a_changed_copy_leaves_the_original(home: Path) -> None:
    settings = loaded(home)
    assert replace(settings, agent="ada").agent == "ada"
    assert not settings.agent


# Folders


def test_folders_lie_in_the_home_by_default(home: Path) -> None:
    settings = loaded(home)
    assert settings.home == home
    assert (settings.data_dir, settings.cache_dir, settings.state_dir) == (
        home / "data",
        home / "cache",
        home / "state",
    )


def test_each_folder_can_be_elsewhere(home: Path) -> None:
    environ = {
        "MEMPLANE_DATA_DIR": "/d",
        "MEMPLANE_CACHE_DIR": "~/c",
        "MEMPLANE_STATE_DIR": "/s",
    }
    settings = loaded(home, environ=environ)
    assert settings.data_dir == Path("/d")
    assert settings.cache_dir == Path.home() / "c"
    assert settings.state_dir == Path("/s")


def test_the_current_folder_can_be_chosen(home: Path) -> None:
    environ = dict.fromkeys(("MEMPLANE_DATA_DIR", "MEMPLANE_CACHE_DIR", "MEMPLANE_STATE_DIR"), ".")
    settings = loaded(home, environ=environ)
    for chosen in (settings.data_dir, settings.cache_dir, settings.state_dir):
        assert chosen.absolute() == Path.cwd()


@pytest.mark.parametrize(
    "variable", ["MEMPLANE_DATA_DIR", "MEMPLANE_CACHE_DIR", "MEMPLANE_STATE_DIR"]
)
def test_an_empty_folder_is_refused(home: Path, variable: str) -> None:
    assert f"{variable} in the environment" in message_of(
        lambda: loaded(home, environ={variable: ""})
    )


def test_a_folder_of_a_user_who_does_not_exist_is_refused(home: Path) -> None:
    environ = {"MEMPLANE_DATA_DIR": "~nobody-of-that-name/data"}
    assert "MEMPLANE_DATA_DIR" in message_of(lambda: loaded(home, environ=environ))


def test_settings_made_by_hand_have_their_folders_too(home: Path) -> None:
    made = Settings(home=home, state_dir=Path("/s"))
    assert (made.data_dir, made.cache_dir) == (home / "data", home / "cache")
    assert made.state_dir == Path("/s")
    assert Settings().home == Path.home() / ".memplane"


def test_loading_creates_nothing(home: Path) -> None:
    loaded(home)
    assert not home.exists()


def test_the_data_lies_in_the_home() -> None:
    chosen = default_data_dir(PurePosixPath("/h"), windows=False, local_app_data="/ignored")
    assert chosen == PurePosixPath("/h/data")


def test_on_windows_the_data_lies_where_windows_keeps_what_belongs_to_one_machine() -> None:
    chosen = default_data_dir(
        PureWindowsPath(r"C:\Users\Ada\.memplane"),
        windows=True,
        local_app_data=r"C:\Users\Ada\AppData\Local",
    )
    assert chosen == PureWindowsPath(r"C:\Users\Ada\AppData\Local\memplane\data")
    assert str(chosen) == r"C:\Users\Ada\AppData\Local\memplane\data"


def test_on_a_windows_that_does_not_say_the_data_lies_in_the_home() -> None:
    home = PureWindowsPath(r"C:\Users\Ada\.memplane")
    assert default_data_dir(home, windows=True, local_app_data="") == home / "data"


# The home


def test_the_home_is_in_the_users_folder_by_default() -> None:
    assert load_settings({}, {}).home == Path.home() / ".memplane"


def test_the_home_comes_from_the_environment(home: Path) -> None:
    assert load_settings({}, {"MEMPLANE_HOME": str(home)}).home == home


def test_a_flag_for_the_home_wins_and_its_files_are_read(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(home, ".env", "MEMPLANE_AGENT=of-the-variable\n")
    write(other, ".env", "MEMPLANE_AGENT=of-the-flag\n")
    settings = loaded(home, {"home": str(other)})
    assert (settings.home, settings.agent) == (other, "of-the-flag")


def test_an_empty_home_is_refused() -> None:
    assert "MEMPLANE_HOME" in message_of(lambda: load_settings({}, {"MEMPLANE_HOME": ""}))


def test_the_home_is_absolute_and_knows_the_users_folder(tmp_path: Path) -> None:
    assert load_settings({}, {"MEMPLANE_HOME": "~/x"}).home == Path.home() / "x"
    assert load_settings({}, {"MEMPLANE_HOME": "x"}).home == Path.cwd() / "x"


def test_a_home_of_a_user_who_does_not_exist_is_refused() -> None:
    environ = {"MEMPLANE_HOME": "~nobody-of-that-name/home"}
    assert "MEMPLANE_HOME" in message_of(lambda: load_settings({}, environ))


def test_toml_in_the_default_home_cannot_move_it() -> None:
    write(Path.home() / ".memplane", "config.toml", 'home = "/elsewhere"\n')
    assert "Set MEMPLANE_HOME instead" in message_of(lambda: load_settings({}, {}))


def test_toml_in_a_chosen_home_cannot_move_it(home: Path) -> None:
    write(home, "config.toml", 'home = "/elsewhere"\n')
    assert "Set MEMPLANE_HOME instead" in message_of(lambda: loaded(home))


def test_dotenv_cannot_move_the_home_it_lies_in(home: Path) -> None:
    write(home, ".env", "MEMPLANE_HOME=/elsewhere\n")
    message = message_of(lambda: loaded(home))
    assert f"{home / '.env'} cannot move the home" in message


# Kinds of values


@pytest.mark.parametrize("text", ["0", "1", "6367", "65535", " 80 "])
def test_a_port_is_read(home: Path, text: str) -> None:
    assert loaded(home, environ={"MEMPLANE_HTTP_PORT": text}).http.port == int(text)


@pytest.mark.parametrize(
    "text", ["-1", "65536", "http", "", "1.5", "0x50", pytest.param("9" * 5000, id="long")]
)
def test_what_is_not_a_port_is_refused(home: Path, text: str) -> None:
    message = message_of(lambda: loaded(home, environ={"MEMPLANE_HTTP_PORT": text}))
    assert "MEMPLANE_HTTP_PORT" in message


@pytest.mark.parametrize(
    ("text", "hosts"),
    [("", ()), ("a:1", ("a:1",)), ("a:1,b:2", ("a:1", "b:2")), (" a:1 , ,b:2,", ("a:1", "b:2"))],
)
def test_a_list_is_separated_by_commas(home: Path, text: str, hosts: tuple[str, ...]) -> None:
    assert loaded(home, environ={"MEMPLANE_HTTP_ALLOWED_HOSTS": text}).http.allowed_hosts == hosts


def test_an_optional_path_may_be_left_out(home: Path) -> None:
    assert loaded(home).blob.ca_file is None
    assert loaded(home, environ={"MEMPLANE_BLOB_CA_FILE": ""}).blob.ca_file is None
    assert loaded(home, {"blob.ca_file": "~/ca.pem"}).blob.ca_file == Path.home() / "ca.pem"


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"])
def test_a_time_zone_is_kept_by_name(home: Path, name: str) -> None:
    assert loaded(home, environ={"MEMPLANE_TIMEZONE": name}).timezone == name


def test_the_system_decides_the_time_zone_by_default(home: Path) -> None:
    assert not loaded(home).timezone
    assert not loaded(home, environ={"MEMPLANE_TIMEZONE": ""}).timezone


@pytest.mark.parametrize(
    "name",
    [
        "Mars/Olympus",
        "../../etc/passwd",
        "/etc/localtime",
        "Europe",
        pytest.param("\0", id="nul"),
        pytest.param("x" * 5000, id="long"),
    ],
)
def test_an_unknown_time_zone_is_refused(home: Path, name: str) -> None:
    message = message_of(lambda: loaded(home, environ={"MEMPLANE_TIMEZONE": name}))
    assert "MEMPLANE_TIMEZONE" in message
    assert "Europe/Berlin" in message


# Typing errors in the environment


def test_variables_that_look_like_ours_and_are_not_are_named() -> None:
    environ = {
        "MEMPLANE_BLOB_CONTANER": "a",
        "MEMPLANE_AGENT": "a",
        "MEMPLANE_": "a",
        "MEMPLANE_HTTP_PORT": "1",
        "ENTRACLAW_WHATEVER": "1",
        "PATH": "/bin",
    }
    assert find_unknown_variables(environ) == ["MEMPLANE_", "MEMPLANE_BLOB_CONTANER"]


def test_every_variable_of_ours_is_known() -> None:
    assert not find_unknown_variables({setting.variable: "" for setting in list_settings()})


def test_unknown_names_in_the_environment_and_in_dotenv_are_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_unknown_names(home) == []
    monkeypatch.setenv("MEMPLANE_HTTP_PROT", "1")
    write(home, ".env", "MEMPLANE_BLOB_CONTANER=a\nMEMPLANE_AGENT=b\nPATH=/bin\n")
    assert find_unknown_names(home) == ["MEMPLANE_BLOB_CONTANER", "MEMPLANE_HTTP_PROT"]


def test_an_unknown_variable_does_not_keep_memplane_from_starting(home: Path) -> None:
    assert loaded(home, environ={"MEMPLANE_HTTP_PROT": "1"}).http.port == 6367


# The ledger's


def test_the_contracts_names_for_the_ledger_are_honoured(home: Path) -> None:
    environ = {
        "CLAW_SESSION_HISTORY_DIR": "/pod/history",
        "CLLAMA_SESSION_HISTORY_MAX_BYTES": "1000",
        "MEMPLANE_LEDGER_FSYNC": "always",
        "MEMPLANE_LEDGER_MODE": "0660",
    }
    settings = loaded(home, environ=environ)
    assert settings.ledger.dir == Path("/pod/history")
    assert settings.ledger.max_bytes == 1000
    assert settings.ledger.fsync == "group"
    assert settings.ledger.mode == 0o660
    assert loaded(home).ledger.dir == home / "ledger"
    ours = {**environ, "MEMPLANE_SESSION_HISTORY_DIR": "/ours"}
    assert loaded(home, environ=ours).ledger.dir == Path("/ours")
    assert find_unknown_variables(ours) == []


@pytest.mark.parametrize("size", ["0", "-5", "lots", ""])
def test_a_segment_size_that_is_none_is_the_default(size: str, home: Path) -> None:
    environ = {"MEMPLANE_LEDGER_MAX_BYTES": size}
    assert loaded(home, environ=environ).ledger.max_bytes == 268435456


@pytest.mark.parametrize("mode", ["0400", "0755", "rw", "1600", ""])
def test_permissions_that_cannot_work_are_refused(mode: str, home: Path) -> None:
    environ = {"MEMPLANE_LEDGER_MODE": mode}
    assert "MEMPLANE_LEDGER_MODE" in message_of(lambda: loaded(home, environ=environ))


@pytest.mark.parametrize(
    ("said", "host", "port"),
    [
        (":8080", "0.0.0.0", 8080),  # noqa: S104
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("[::1]:6367", "::1", 6367),
    ],
)
def test_where_to_listen_can_be_said_in_one_as_pods_do(said: str, host: str, port: int) -> None:
    http = Settings(http=HttpSettings(listen=said, host="10.0.0.1", port=1)).http
    assert (http.host, http.port) == (host, port)


def test_a_pod_says_where_to_listen_by_the_name_that_others_have_too(home: Path) -> None:
    http = loaded(home, environ={"LISTEN_ADDR": ":8080"}).http
    assert (http.host, http.port) == ("0.0.0.0", 8080)  # noqa: S104
    write(home, ".env", "LISTEN_ADDR=127.0.0.1:9\n")
    assert loaded(home).http.port == 9


@pytest.mark.parametrize(
    "ours",
    ["MEMPLANE_HTTP_LISTEN", "MEMPLANE_PROXY_LISTEN", "MEMPLANE_HTTP_PORT", "MEMPLANE_HTTP_HOST"],
)
def test_that_name_counts_only_where_ours_say_nothing(home: Path, ours: str) -> None:
    said = {"MEMPLANE_HTTP_PORT": "7", "MEMPLANE_HTTP_HOST": "127.0.0.2"}.get(ours, "127.0.0.2:7")
    http = loaded(home, environ={ours: said, "LISTEN_ADDR": ":8080"}).http
    assert http == loaded(home, environ={ours: said}).http
    assert loaded(home, {"http.port": "7"}, {"LISTEN_ADDR": ":8080"}).http.port == 7
    write(home, "config.toml", "[http]\nport = 7\n")
    assert loaded(home, environ={"LISTEN_ADDR": ":8080"}).http.port == 7


@pytest.mark.parametrize("said", ["", "8080", "unix:/run/other.sock"])
def test_that_name_is_left_to_other_programs_where_it_makes_no_sense(
    home: Path, said: str
) -> None:
    assert loaded(home, environ={"LISTEN_ADDR": said}).http == HttpSettings()


@pytest.mark.parametrize("said", ["8080", "a b:80", "host:", "host:99999", "host:http"])
def test_what_is_no_place_to_listen_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_listen_address(said)
