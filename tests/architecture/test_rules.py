"""The rules of the house that no linter knows. Each is shown able to fail."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

import pytest

import memplane
from memplane import errors
from memplane.cli import get_exit_code
from memplane.server.errors import STATUS_OF, status_of

SOURCE: Final = Path(errors.__file__).parent
Check = Callable[[str], list[str]]


def modules() -> dict[str, str]:
    """Return the source of every module, by its path below the package."""
    return {
        path.relative_to(SOURCE).as_posix(): path.read_text("utf-8")
        for path in sorted(SOURCE.rglob("*.py"))
    }


def violations(check: Check, allowed: Collection[tuple[str, str]] = ()) -> list[str]:
    """Run a check over the whole package; `allowed` holds (path, finding) pairs."""
    return [
        f"{path}: {finding}"
        for path, source in modules().items()
        for finding in check(source)
        if (path, finding) not in allowed
    ]


def test_there_is_something_to_check() -> None:
    found = modules()
    assert {"__init__.py", "errors.py", "cli/__init__.py", "storage/keys.py"} <= found.keys()
    assert all(found.values())


# The tree of errors


def tree_in(docstring: str) -> dict[str, str | None]:
    """Read the tree that is drawn in a docstring: each name with the one it hangs from."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in docstring.splitlines():
        drawn = re.fullmatch(r"((?:[│ ] {3})*)([├└]── )?([A-Z]\w+)(\s{2,}.+)?", line)
        if drawn is None:
            continue
        depth = len(drawn[1]) // 4 + bool(drawn[2])
        del path[depth:]
        parents[drawn[3]] = path[-1] if path else None
        path.append(drawn[3])
    return parents


def classes_in(source: str) -> dict[str, str | None]:
    """Read each class with the one it descends from; what is not ours is None."""
    parents = {
        node.name: ast.unparse(node.bases[0]) if node.bases else None
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    }
    return {name: parent if parent in parents else None for name, parent in parents.items()}


def tree_mistakes(source: str) -> list[str]:
    drawn = tree_in(ast.get_docstring(ast.parse(source)) or "")
    actual = classes_in(source)
    return [
        f"{name}: drawn below {drawn.get(name, 'nothing, not at all')}, "
        f"is below {actual.get(name, 'nothing, not at all')}"
        for name in sorted(drawn.keys() | actual.keys())
        if drawn.get(name, "-") != actual.get(name, "-")
    ]


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    assert tree_mistakes(modules()["errors.py"]) == []


def test_the_drawing_and_the_module_hold_the_same_classes() -> None:
    assert set(tree_in(errors.__doc__ or "")) == set(error_classes())
    assert len(error_classes()) > 10


TREE = '''"""Errors.

Base
├── First     one
│   └── Deep  below it
└── Last      two

Words after it.
"""
class Base(Exception): ...
class First(Base): ...
class Deep(First): ...
class Last(Base): ...
'''


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("class Last(Base)", "class Lost(Base)", {"Last", "Lost"}),
        ("class Deep(First)", "class Deep(Last)", {"Deep"}),
        ("class Deep(First)", "class Deep(Base)", {"Deep"}),
        ("class Deep(First)", "class Deep(Exception)", {"Deep"}),
        ("│   └── Deep  below it\n", "", {"Deep"}),
        ("└── Last ", "├── More      three\n└── Last ", {"More"}),
    ],
)
def test_a_wrong_tree_is_noticed(before: str, after: str, named: set[str]) -> None:
    assert tree_mistakes(TREE) == []
    assert before in TREE
    wrong = tree_mistakes(TREE.replace(before, after))
    assert {line.partition(":")[0] for line in wrong} == named


INTERNAL_ERRORS: Final = {
    # The answer 404 on its way through the adapter, which turns it into None or False.
    ("storage/azure_errors.py", "BlobNotFound"),
}


def errors_elsewhere(source: str) -> list[str]:
    """Find classes that descend from one of our errors."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).rpartition(".")[2] in error_classes() for base in node.bases)
    ]


def test_every_error_has_its_place_in_the_tree() -> None:
    known = {("errors.py", name) for name in error_classes()}
    assert violations(errors_elsewhere, known | INTERNAL_ERRORS) == []


@pytest.mark.parametrize("base", ["StorageError", "errors.AuthError", "MemplaneError"])
def test_an_error_outside_the_tree_is_noticed(base: str) -> None:
    assert errors_elsewhere(f"def f():\n    class Sudden({base}): ...") == ["Sudden"]
    assert errors_elsewhere("class Other(ValueError): ...") == []


# What an error means outside


def error_classes() -> dict[str, type[errors.MemplaneError]]:
    return {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.MemplaneError)
    }


def without_status(
    kinds: Iterable[type[errors.MemplaneError]], table: Mapping[type[errors.MemplaneError], int]
) -> list[str]:
    return [
        kind.__name__ for kind in kinds if kind is not errors.MemplaneError and kind not in table
    ]


def test_every_error_has_a_status() -> None:
    assert without_status(error_classes().values(), STATUS_OF) == []
    assert set(STATUS_OF) <= set(error_classes().values())


def test_an_error_without_a_status_is_noticed() -> None:
    table = {kind: status for kind, status in STATUS_OF.items() if kind is not errors.TooLarge}
    assert without_status(error_classes().values(), table) == ["TooLarge"]


@pytest.mark.parametrize("kind", STATUS_OF.keys())
def test_a_status_is_one_of_a_failure(kind: type[errors.MemplaneError]) -> None:
    assert 400 <= status_of(kind("failed")) <= 599
    assert status_of(kind("failed")) == STATUS_OF[kind]


def test_an_error_below_another_has_its_status() -> None:
    class Narrower(errors.TooLarge):
        """Not in the table."""

    assert status_of(Narrower("much too large")) == STATUS_OF[errors.TooLarge]


@pytest.mark.parametrize("kind", error_classes().values())
def test_every_error_has_an_exit_code(kind: type[errors.MemplaneError]) -> None:
    code = get_exit_code(kind("failed"))
    assert type(code) is int
    assert 1 <= code <= 3


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.MemplaneError, 1),
        (errors.HomeError, 1),
        (errors.ConcurrencyError, 1),
        (errors.SettingsError, 2),
        (errors.BackendMisconfigured, 2),
        (errors.BackendUnavailable, 3),
        (errors.OwnerUnavailable, 3),
        (errors.AuthError, 3),
        (errors.TokenExpiredError, 3),
    ],
)
def test_exit_codes_are_those_of_the_help(kind: type[errors.MemplaneError], code: int) -> None:
    assert get_exit_code(kind("failed")) == code


# The public names


def public_name_mistakes(source: str) -> list[str]:
    """Compare the names for type checkers, the table that loads them, and `__all__`."""
    tree = ast.parse(source)
    typed: dict[str, str] = {}
    table: dict[str, str] = {}
    public: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for one in node.body:
                assert isinstance(one, ast.ImportFrom)
                typed |= {alias.asname or "": one.module or "" for alias in one.names}
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_HOME_OF":
            table = ast.literal_eval(ast.unparse(node.value) if node.value else "{}")
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            public = ast.literal_eval(node.value)
    mistakes = [f"{name} is typed but not loaded alike" for name in typed.items() - table.items()]
    mistakes += [f"{name} is loaded but not typed alike" for name in table.items() - typed.items()]
    mistakes += [f"{name} is only in one" for name in {*table, "__version__"} ^ set(public)]
    mistakes += ["__all__ names something twice"] if len(set(public)) != len(public) else []
    return sorted(mistakes)


def test_public_names_agree() -> None:
    assert public_name_mistakes(modules()["__init__.py"]) == []
    assert set(memplane.__all__) == {*memplane._HOME_OF, "__version__"}


PUBLIC = """
if TYPE_CHECKING:
    from memplane.a import A as A
    from memplane.b import B as B
_HOME_OF: Final = {"A": "memplane.a", "B": "memplane.b"}
__all__ = ["A", "B", "__version__"]
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    from memplane.b import B as B\n", ""),
        ("import B as B", "import B"),
        ("memplane.b import", "memplane.c import"),
        (', "B": "memplane.b"', ""),
        ('"A", "B",', '"A",'),
        ('"A", "B",', '"A", "B", "C",'),
        ('"A", "B",', '"A", "B", "A",'),
        (', "__version__"', ""),
    ],
)
def test_public_names_that_disagree_are_noticed(before: str, after: str) -> None:
    assert public_name_mistakes(PUBLIC) == []
    assert before in PUBLIC
    assert public_name_mistakes(PUBLIC.replace(before, after))


@pytest.mark.parametrize("name", memplane.__all__)
def test_every_public_name_is_what_its_module_calls_so(name: str) -> None:
    found = getattr(memplane, name)
    if name != "__version__":
        assert found is getattr(importlib.import_module(memplane._HOME_OF[name]), name)


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    name = "Nonsense"
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        getattr(memplane, name)


# Importing is cheap

HEAVY: Final = ("asyncio", "aiohttp", "azure", "starlette", "uvicorn", "msgspec", "apsw")


def heavy_imports(statement: str) -> list[str]:
    """Run a statement in a fresh Python and return which heavy packages it brought in."""
    program = f"import sys, json\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(ran.stdout)}
    return [name for name in HEAVY if name in loaded]


@pytest.mark.parametrize(
    "statement",
    [
        "import memplane",
        "import memplane.cli",
        "import memplane.errors",
        "import memplane.settings",
        "import memplane; memplane.Settings",
        "import memplane; memplane.__version__",
    ],
)
def test_importing_is_cheap(statement: str) -> None:
    assert heavy_imports(statement) == []


@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_import_is_noticed(name: str) -> None:
    heavy = "azure.core" if name == "azure" else name
    assert name in heavy_imports(f"import memplane, {heavy}")


ASKING = """
import io, memplane.cli
out, sys.stdout = sys.stdout, io.StringIO()
assert memplane.cli.main([{flag!r}]) == 0
sys.stdout = out
"""


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_asking_for_help_is_cheap(flag: str) -> None:
    assert heavy_imports(ASKING.format(flag=flag)) == []


# What no code of ours does


def dangerous_calls(source: str) -> list[str]:
    """Find ways to run what somebody else wrote: eval, exec, pickle, yaml.load."""
    modules_never = {"pickle", "cPickle", "dill", "shelve", "marshal"}
    names_never = {"eval", "exec", "builtins.eval", "builtins.exec"}
    yaml_never = {"load", "load_all", "full_load", "unsafe_load", "unsafe_load_all"}
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names):
                found += [a.name for a in names if a.name.partition(".")[0] in modules_never]
            case ast.ImportFrom(module=str(module), names=names):
                if module.partition(".")[0] in modules_never:
                    found.append(module)
                if module == "yaml":
                    found += [f"yaml.{a.name}" for a in names if a.name in yaml_never]
            case ast.Call(func=func) if ast.unparse(func) in names_never:
                found.append(ast.unparse(func))
            case ast.Attribute(value=ast.Name("yaml"), attr=name) if name in yaml_never:
                found.append(f"yaml.{name}")
            case _:
                pass
    return found


def test_nothing_runs_what_somebody_else_wrote() -> None:
    assert violations(dangerous_calls) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import pickle", "pickle"),
        ("import json, pickle as p", "pickle"),
        ("from pickle import loads", "pickle"),
        ("def f():\n    import shelve", "shelve"),
        ("yaml.load(text, Loader=yaml.SafeLoader)", "yaml.load"),
        ("read = yaml.unsafe_load", "yaml.unsafe_load"),
        ("from yaml import load", "yaml.load"),
        ("eval('1')", "eval"),
        ("async def f():\n    return exec(code)", "exec"),
        ("builtins.eval(x)", "builtins.eval"),
    ],
)
def test_running_what_somebody_else_wrote_is_noticed(source: str, found: str) -> None:
    assert dangerous_calls(source) == [found]


@pytest.mark.parametrize(
    "source", ["yaml.safe_load(t)", "create_subprocess_exec(p)", "literal_eval(t)", "x.exec(q)"]
)
def test_harmless_relatives_are_not(source: str) -> None:
    assert dangerous_calls(source) == []


# Secrets are compared in constant time

SECRET_WORDS: Final = frozenset({"token", "secret", "digest", "password", "reveal", "hmac"})


def compared_secrets(source: str) -> list[str]:
    """Find `==` and `!=` on something that is named like a secret."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        and any(isinstance(operator, (ast.Eq, ast.NotEq)) for operator in node.ops)
        and any(
            _sounds_secret(side)
            for side in (node.left, *node.comparators)
            if not isinstance(side, ast.Constant)  # `kind == "token"` compares a word
        )
    ]


def _sounds_secret(node: ast.expr) -> bool:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name) | ast.Constant(str(name)):
            return not SECRET_WORDS.isdisjoint(re.split(r"[\W_]+", name.lower()))
        case ast.Call(func=ast.Attribute(value=hashed, attr="digest" | "hexdigest")):
            # A checksum of content is no secret; a hash of a secret is, and so is an HMAC.
            inside = (
                one for one in ast.walk(hashed) if isinstance(one, (ast.Name, ast.Attribute))
            )
            return any(map(_sounds_secret, inside))
        case ast.Call(func=inner) | ast.Await(inner) | ast.Starred(inner):
            return _sounds_secret(inner)
        case ast.NamedExpr(target=target, value=inner):
            return _sounds_secret(target) or _sounds_secret(inner)
        case ast.Subscript(value=inner, slice=index):
            return _sounds_secret(inner) or _sounds_secret(index)
        case _:
            return False


def test_secrets_are_compared_in_constant_time_only() -> None:
    assert violations(compared_secrets) == []


@pytest.mark.parametrize(
    "source",
    [
        "token == given",
        "given != self._token",
        "if header == expected_token: ...",
        "secret.reveal() == 'a'",
        "hashlib.sha256(token.encode()).digest() == wanted",
        "hashlib.sha256(given).digest() == self._token_digest",
        "hmac.new(key, text).hexdigest() != wanted",
        "x = given == client_secret",
        "headers['x-token'] == given",
        "(secret := found) == given",
        "all(a == await source.token() for a in b)",
        "1 == 1 == digest",
    ],
)
def test_an_open_comparison_of_a_secret_is_noticed(source: str) -> None:
    assert compared_secrets(source)


@pytest.mark.parametrize(
    "source",
    [
        "hmac.compare_digest(token, given)",
        "token is None",
        "kind == 'token'",
        "len(token) == 3",
        "max_tokens == 5",
        "hashlib.sha256(data).hexdigest() != manifest.sha256",
        "tokens != []",
    ],
)
def test_other_comparisons_are_not(source: str) -> None:
    assert compared_secrets(source) == []


# One event loop is started, in one place


def loops_started(source: str) -> list[str]:
    """Find `asyncio.run` under any of its names."""
    tree = ast.parse(source)
    known = {"asyncio"}
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                known |= {a.asname for a in names if a.name == "asyncio" and a.asname}
            case ast.ImportFrom(module="asyncio" | "asyncio.runners", names=names):
                found += [f"asyncio.{a.name}" for a in names if a.name in {"run", "Runner"}]
            case _:
                pass
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(name), attr="run" | "Runner" as attr):
                found += [f"asyncio.{attr}"] if name in known else []
            case _:
                pass
    return found


def test_only_the_command_line_starts_an_event_loop() -> None:
    assert violations(loops_started) == ["cli/__init__.py: asyncio.Runner"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("asyncio.run(f())", "asyncio.run"),
        ("import asyncio as aio\naio.run(f())", "asyncio.run"),
        ("from asyncio import run as go\ngo(f())", "asyncio.run"),
        ("with asyncio.Runner() as runner: ...", "asyncio.Runner"),
        ("start = asyncio.run", "asyncio.run"),
    ],
)
def test_another_event_loop_is_noticed(source: str, found: str) -> None:
    assert loops_started(source) == [found]
    assert (
        loops_started("subprocess.run(a)\nself.run(b)\nasyncio.run_coroutine_threadsafe(c)") == []
    )


# Names that say nothing

NAMELESS: Final = frozenset(
    {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"}
)


def nameless(paths: Iterable[str]) -> list[str]:
    """Find modules and packages whose name says nothing."""
    return [
        path
        for path in paths
        if any(
            not NAMELESS.isdisjoint(part.lower().split("_"))
            for part in PurePosixPath(path).with_suffix("").parts
        )
    ]


def test_every_module_has_a_name_that_says_something() -> None:
    assert nameless(modules()) == []


@pytest.mark.parametrize(
    "path",
    ["utils.py", "objects/helpers.py", "manager/__init__.py", "sync_manager.py", "Utils.py"],
)
def test_a_name_that_says_nothing_is_noticed(path: str) -> None:
    assert nameless([path, "storage/keys.py"]) == [path]


# No error is swallowed

BLIND: Final = frozenset({"Exception", "BaseException"})

CARRIED_ON: Final = {
    # Whoever asked gets 500, and the log has the rest.
    ("server/dispatcher.py", "__call__: except Exception"),
    # The writer's thread tells those who wait, and goes on for every other agent.
    ("ledger/writer.py", "_report_failures: except Exception"),
    # Those who wait for a batch are told; the next one is tried all the same.
    ("episodes/retain_queue.py", "run: except Exception"),
    ("episodes/retain_queue.py", "_read: except Exception"),
    # The work stays where it is kept, status says so, and it is tried again.
    ("episodes/background_indexer.py", "run: except Exception"),
    # The turns are kept, the log says what is wrong, and they are looked at again.
    ("observations/turn_ingest.py", "run: except Exception"),
    # Models are other people's code: status says what went wrong, and it is tried again.
    ("episodes/background_indexer.py", "run_embedding: except Exception"),
    # A question that cannot be compared by meaning is answered by its words.
    ("episodes/episode_embeddings.py", "question: except Exception"),
    # The thread of a pool hands whatever happened to the future that somebody waits for.
    ("kit/background_loop.py", "work: except BaseException"),
    # What goes wrong with one document is told to the one who waits for it, and stops no other.
    ("persona/group_commit.py", "_run_steps: except BaseException"),
    # Nothing that memory does may fail a turn; telemetry says that it failed.
    ("proxy/recall_client.py", "told: except Exception"),
    ("proxy/turn.py", "_inject_memories: except Exception"),
    # What one prompt was told is given up, the log says why, and that of all others is written.
    ("proxy/sticky_injections.py", "run: except Exception"),
    # A session of the client goes on whatever happens in a hook; the hooks' log says what did.
    ("cli/claude_hook.py", "run_claude_hook: except Exception"),
    # A client gets an error without its words, the log has them, and its other requests go on.
    ("server/mcp/server.py", "answer_request: except Exception"),
    # The process is leaving: each thing gets its chance, and what went wrong is printed.
    ("kit/atexit_hooks.py", "_close_all: except Exception"),
    # The helper of the suite gathers errors of threads and raises the first one afterwards.
    ("testing/backend_conformance.py", "guarded: except BaseException"),
}


def swallowed(source: str) -> list[str]:
    """Find handlers for everything that do not raise at their own level."""
    return list(_swallowed(ast.parse(source), "module"))


def _swallowed(node: ast.AST, where: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield from _swallowed(child, name)
                continue
            case ast.ExceptHandler(type=None, body=body) if not _raises(body):
                yield f"{where}: except"
            case ast.ExceptHandler(type=ast.expr() as kind, body=body) if not _raises(body):
                yield from (f"{where}: except {name}" for name in _blind_names(kind))
            case ast.Call(func=func, args=args) if ast.unparse(func).endswith("suppress"):
                for arg in args:
                    yield from (f"{where}: suppress {name}" for name in _blind_names(arg))
            case _:
                pass
        yield from _swallowed(child, where)


def _raises(body: list[ast.stmt]) -> bool:
    return any(isinstance(statement, ast.Raise) for statement in body)


def _blind_names(kind: ast.expr) -> list[str]:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    names = [ast.unparse(one).removeprefix("builtins.") for one in kinds]
    return [name for name in names if name in BLIND]


def test_no_error_is_swallowed() -> None:
    assert violations(swallowed, CARRIED_ON) == []


@pytest.mark.parametrize(
    ("handler", "found"),
    [
        ("except Exception:\n    log.warning('failed')", "f: except Exception"),
        ("except BaseException as error:\n    keep(error)", "f: except BaseException"),
        ("except:\n    pass", "f: except"),
        ("except (OSError, Exception):\n    return None", "f: except Exception"),
        ("except builtins.Exception:\n    pass", "f: except Exception"),
        ("except Exception:\n    if a:\n        raise", "f: except Exception"),
        ("except Exception:\n    def g():\n        raise", "f: except Exception"),
        ("except* Exception:\n    pass", "f: except Exception"),
    ],
)
def test_a_swallowed_error_is_noticed(handler: str, found: str) -> None:
    attempt = f"try:\n    g()\n{handler}"
    source = "class A:\n  async def f():\n" + "\n".join(
        f"    {line}" for line in attempt.splitlines()
    )
    assert swallowed(source) == [found]


def test_a_suppressed_error_is_noticed() -> None:
    assert swallowed("with contextlib.suppress(OSError, Exception): ...") == [
        "module: suppress Exception"
    ]


@pytest.mark.parametrize(
    "handler",
    [
        "except BaseException:\n    close()\n    raise",
        "except Exception as error:\n    raise Ours() from error",
        "except OSError:\n    pass",
        "except ExceptionGroup:\n    pass",
        "except (OSError, ValueError):\n    pass",
    ],
)
def test_an_error_that_goes_on_or_is_named_is_not(handler: str) -> None:
    assert swallowed(f"try:\n    f()\n{handler}") == []


def unneeded(check: Check, allowed: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Find exceptions to a rule that nothing needs any more."""
    sources = modules()
    return {one for one in allowed if one[1] not in check(sources.get(one[0], ""))}


def test_every_exception_to_a_rule_is_still_needed() -> None:
    assert unneeded(swallowed, CARRIED_ON) == set()
    assert unneeded(errors_elsewhere, INTERNAL_ERRORS) == set()


def test_an_exception_that_is_not_needed_is_noticed() -> None:
    stale = {("errors.py", "f: except"), ("gone.py", "f: except")}
    assert unneeded(swallowed, stale) == stale


# Every package says what it is


def silent_packages(sources: Mapping[str, str]) -> list[str]:
    """Find folders of modules whose `__init__.py` is missing or has no docstring."""
    folders = {folder.as_posix() for path in sources for folder in PurePosixPath(path).parents}
    inits = {folder: sources.get(f"{folder}/__init__.py".removeprefix("./")) for folder in folders}
    return sorted(
        folder
        for folder, source in inits.items()
        if source is None or not (ast.get_docstring(ast.parse(source)) or "").strip()
    )


def test_every_package_says_what_it_is() -> None:
    assert silent_packages(modules()) == []


SAYS: Final = '"""What it is."""'


@pytest.mark.parametrize(
    ("sources", "silent"),
    [
        (MappingProxyType({"__init__.py": SAYS, "a/b.py": ""}), ["a"]),
        (MappingProxyType({"__init__.py": SAYS, "a/__init__.py": "x = 1"}), ["a"]),
        (MappingProxyType({"__init__.py": SAYS, "a/__init__.py": "# words\n"}), ["a"]),
        (MappingProxyType({"__init__.py": "", "a/__init__.py": SAYS}), ["."]),
        (MappingProxyType({"__init__.py": SAYS, "a/b/__init__.py": SAYS}), ["a"]),
        (MappingProxyType({"__init__.py": SAYS, "a/__init__.py": SAYS, "a/b.py": ""}), []),
    ],
)
def test_a_silent_package_is_noticed(sources: Mapping[str, str], silent: list[str]) -> None:
    assert silent_packages(sources) == silent


# Names

NOUNS: Final = {
    "observations/matching.py": "a matching of statements",
    "exchange/content_encoding.py": "the header's name",
}
"""Modules whose names end like a participle and are none, and what they mean."""


def doing(paths: Iterable[str]) -> list[str]:
    """Find modules that are named by a gerund or a participle."""
    return [path for path in paths if re.search(r"(?:ing|ed)\.py$", path) and path not in NOUNS]


def test_modules_are_named_by_nouns() -> None:
    assert doing(modules()) == []
    assert set(NOUNS) <= set(modules())


def test_a_module_named_by_a_gerund_is_noticed() -> None:
    found = doing(["proxy/recalling.py", "proxy/told.py", "objects/shared.py", "storage/keys.py"])
    assert found == ["proxy/recalling.py", "objects/shared.py"]


VAGUE: Final = frozenset({"asked", "told", "said", "given", "found", "one", "here", "heard"})
"""Words that tell a value's part in a sentence and not what it is."""

NOT_YET_NAMED: Final = frozenset(
    {
        "cli",
        "database",
        "episodes",
        "evaluation",
        "integrations/claude_code",
        "observations",
        "persona",
        "proxy",
        "server",
        "service",
        "settings",
        "storage",
        "testing",
    }
)
"""Packages that still have such names. Take one out when it has none left."""

KEPT_NAMES: Final = {
    # The verdict of a check: these are members of what commands print as JSON.
    ("ledger/chain_verification.py", "found"),
    ("ledger/file_verification.py", "found"),
    ("ledger/recovery.py", "found"),
    ("ledger/writer.py", "found"),
    ("integrations/clawdapus/memory_service/backfill.py", "said"),
    ("integrations/clawdapus/memory_service/forget.py", "told"),
    ("integrations/clawdapus/memory_service/forget_verification.py", "found"),
}


def vague_names(source: str) -> list[str]:
    """Find variables, parameters, attributes and functions that are named by a vague word."""
    names = set[str]()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case _:
                pass
    return sorted(name for name in names if name.lstrip("_") in VAGUE)


def in_package(path: str, packages: Collection[str]) -> bool:
    return any(path.startswith(f"{package}/") for package in packages)


def test_names_in_finished_packages_say_what_they_hold() -> None:
    vague = {
        (path, name)
        for path, source in modules().items()
        for name in vague_names(source)
        if not in_package(path, NOT_YET_NAMED)
    }
    assert vague == KEPT_NAMES


def test_the_list_of_unfinished_packages_shrinks() -> None:
    unfinished = {
        package
        for package in NOT_YET_NAMED
        for path, source in modules().items()
        if in_package(path, [package]) and vague_names(source)
    }
    assert unfinished == NOT_YET_NAMED


@pytest.mark.parametrize(
    "source",
    [
        "def f(told): ...",
        "for one in lines: print(one)",
        "names = [one for one in lines]",
        "self._asked = 1",
        "def _said(): ...",
        "if (found := read()): ...",
    ],
)
def test_a_vague_name_is_noticed(source: str) -> None:
    assert len(vague_names(source)) == 1
    assert vague_names("def read(turn):\n    line = turn.text\n    return line") == []


def repeated_classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Find names that several classes have, private or not, and the modules that have them."""
    places: dict[str, list[str]] = {}
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def test_every_class_has_a_name_of_its_own() -> None:
    assert repeated_classes(modules()) == {}


def test_a_class_with_the_name_of_another_is_noticed() -> None:
    sources = {"a.py": "class Turn: ...", "b.py": "class _Turn: ...", "c.py": "class Entry: ..."}
    assert repeated_classes(sources) == {"Turn": ["a.py", "b.py"]}
