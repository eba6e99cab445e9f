"""Made-up secrets of many kinds, put together at run time: none stands in the repository."""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

LETTERS = string.ascii_letters
ALNUM = LETTERS + string.digits
URLSAFE = ALNUM + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits


@dataclass(frozen=True)
class Made:
    """A text, and the part of it that is secret."""

    text: str
    secret: str


def seeded(number: int) -> random.Random:
    return random.Random(number)  # noqa: S311 - nothing here is kept secret


def some(rng: random.Random, alphabet: str, length: int) -> str:
    return "".join(rng.choices(alphabet, k=length))


def prefixed(*parts: str, alphabet: str = ALNUM, length: int) -> Callable[[random.Random], Made]:
    """Make a secret of a prefix in parts and as many characters of an alphabet."""

    def make(rng: random.Random) -> Made:
        secret = (
            "".join(parts) + some(rng, alphabet, length - 1) + some(rng, alphabet.strip("_-"), 1)
        )
        return Made(secret, secret)

    return make


def within(
    before: str, alphabet: str, length: int, after: str = ""
) -> Callable[[random.Random], Made]:
    """Make a secret that only shows by what stands around it."""

    def make(rng: random.Random) -> Made:
        secret = some(rng, alphabet, length)
        return Made(before + secret + after, secret)

    return make


def jwt(rng: random.Random) -> Made:
    parts = [json.dumps({"alg": "HS256", "k": rng.random()}), json.dumps({"sub": rng.random()})]
    encoded = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts]
    secret = ".".join((*encoded, some(rng, URLSAFE, 43)))
    return Made(secret, secret)


def pem(rng: random.Random) -> Made:
    name = rng.choice(("RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""))
    edge = "-" * 5
    lines = [some(rng, ALNUM + "+/", 64) for _ in range(rng.randint(3, 25))]
    inside = "\n".join(lines)
    whole = f"{edge}BEGIN {name}PRIVATE KEY{edge}\n{inside}\n{edge}END {name}PRIVATE KEY{edge}"
    return Made(whole, inside)


def joined(*made: Callable[[random.Random], Made]) -> Callable[[random.Random], Made]:
    """Make one of several kinds."""

    def make(rng: random.Random) -> Made:
        return rng.choice(made)(rng)

    return make


def parts(*lengths: tuple[str, str, int]) -> Callable[[random.Random], Made]:
    """Make a secret of literals, each followed by characters of an alphabet."""

    def make(rng: random.Random) -> Made:
        secret = "".join(
            literal + some(rng, alphabet, count) for literal, alphabet, count in lengths
        )
        return Made(secret, secret)

    return make


def url_password(rng: random.Random) -> Made:
    scheme = rng.choice(
        ("postgres", "postgresql+asyncpg", "redis", "amqps", "https", "mongodb+srv")
    )
    secret = some(rng, ALNUM + "!$*._-", rng.randint(6, 24))
    return Made(f"{scheme}://service:{secret}@db.internal:5432/main", secret)


def basic(rng: random.Random) -> Made:
    secret = base64.b64encode(f"user:{some(rng, ALNUM, 18)}".encode()).decode()
    return Made(f"Authorization: Basic {secret}", secret)


STRUCTURED: Mapping[str, Callable[[random.Random], Made]] = {
    "openai": joined(
        prefixed("s", "k-", length=48),
        prefixed("sk-", "proj-", alphabet=URLSAFE, length=100),
        prefixed("sk-", "svcacct-", alphabet=URLSAFE, length=100),
    ),
    "anthropic": prefixed("sk-", "ant-api03-", alphabet=URLSAFE, length=93),
    "openrouter": prefixed("sk-", "or-v1-", alphabet=HEX, length=64),
    "deepseek": prefixed("sk", "-", alphabet=HEX, length=32),
    "xai": prefixed("xa", "i-", length=80),
    "groq": prefixed("gs", "k_", length=52),
    "perplexity": prefixed("pp", "lx-", length=48),
    "replicate": prefixed("r", "8_", length=37),
    "huggingface": prefixed("h", "f_", alphabet=LETTERS, length=34),
    "aws-id": joined(
        prefixed("AK", "IA", alphabet=UPPER, length=16),
        prefixed("AS", "IA", alphabet=UPPER, length=16),
    ),
    "aws-secret": within("aws_secret_access" + "_key = ", ALNUM + "/+", 40),
    "google": prefixed("AI", "za", alphabet=URLSAFE, length=35),
    "google-token": prefixed("ya", "29.", alphabet=URLSAFE, length=120),
    "azure-account": within(
        "DefaultEndpointsProtocol=https;AccountName=acc;Account" + "Key=",
        ALNUM + "+/",
        86,
        "==;EndpointSuffix=core.windows.net",
    ),
    "azure-bus": within(
        "Endpoint=sb://x.servicebus.windows.net/;SharedAccess" + "Key=", ALNUM + "+/", 43, "="
    ),
    "azure-sas": within(
        "https://acc.blob.core.windows.net/c/b?sv=2024-11-04&sp=r&s" + "ig=", ALNUM, 43, "%3D"
    ),
    "azure-client": parts(("", ALNUM, 3), ("8" + "Q~", ALNUM + "_-~.", 33), ("", ALNUM, 1)),
    "github": joined(
        *(prefixed(f"gh{kind}", "_", length=36) for kind in "pousr"),
        prefixed("github_", "pat_", alphabet=ALNUM + "_", length=82),
    ),
    "gitlab": prefixed("gl", "pat-", alphabet=URLSAFE, length=20),
    "slack": joined(
        *(
            prefixed("xo", f"x{kind}-", alphabet=string.digits + "-" + LETTERS, length=50)
            for kind in "abprs"
        )
    ),
    "slack-webhook": within(
        "https://hooks." + "slack.com/services/",
        ALNUM,
        44,
    ),
    "stripe": joined(
        prefixed("sk_", "live_", length=24),
        prefixed("rk_", "live_", length=24),
        prefixed("sk_", "test_", length=99),
    ),
    "npm": prefixed("np", "m_", length=36),
    "pypi": prefixed("py", "pi-AgEIcHlwaS5vcmc", alphabet=URLSAFE, length=120),
    "sendgrid": parts(("S" + "G.", URLSAFE, 22), (".", URLSAFE, 42), ("", ALNUM, 1)),
    "mailgun": prefixed("ke", "y-", alphabet=HEX, length=32),
    "telegram": parts(("", "123456789", 9), (":" + "AA", ALNUM, 33)),
    "discord": within("https://discord" + ".com/api/webhooks/1234567890/", ALNUM, 68),
    "digitalocean": prefixed("dop", "_v1_", alphabet=HEX, length=64),
    "shopify": prefixed("shp", "at_", alphabet=HEX, length=32),
    "databricks": prefixed("da", "pi", alphabet=HEX, length=32),
    "newrelic": prefixed("NR", "AK-", alphabet=UPPER, length=27),
    "grafana": parts(("gl" + "sa_", ALNUM, 32), ("_", HEX, 8)),
    "vault": prefixed("hv", "s.", length=90),
    "terraform": parts(("", ALNUM, 14), (".atlas" + "v1.", ALNUM, 67)),
    "doppler": prefixed("dp", ".pt.", length=43),
    "linear": prefixed("lin_", "api_", length=40),
    "notion": joined(prefixed("nt", "n_", length=46), prefixed("sec", "ret_", length=43)),
    "atlassian": prefixed("ATA", "TT3", alphabet=URLSAFE, length=180),
    "age": prefixed("AGE-SECRET", "-KEY-1", alphabet=UPPER, length=58),
    "jwt": jwt,
    "pem": pem,
    "url-password": url_password,
    "bearer": within("Authorization: Bea" + "rer ", ALNUM + "_.", 32),
    "basic": basic,
    "api-key-header": within("x-api" + "-key: ", ALNUM, 32),
    "cookie": within("Cookie: session=", ALNUM, 32),
    "agent-token": within("analyst:", HEX, 48),
}


def _assigned(rng: random.Random) -> str:
    alphabet = rng.choice((ALNUM, ALNUM, HEX, ALNUM + "!@#%^*_+~", URLSAFE))
    return (
        some(rng, LETTERS, 1)
        + some(rng, alphabet, rng.randint(9, 40))
        + some(rng, string.digits, 1)
    )


def _weak(rng: random.Random) -> str:
    word = rng.choice(("sunshine", "dragonfly", "letmein", "Blueberry", "qwertz", "football"))
    return word + rng.choice(("1", "42", "!", "2024", "#7"))


ASSIGNED: Mapping[str, Callable[[random.Random, str], str]] = {
    "python": lambda rng, value: (
        f'{rng.choice(("password", "api_key", "client_secret"))} = "{value}"'
    ),
    "kwarg": lambda rng, value: (
        f"connect(host='db', {rng.choice(('password', 'token'))}='{value}')"
    ),
    "typed": lambda rng, value: f'password: str = "{value}"',
    "env": lambda rng, value: (
        f"export {rng.choice(('DB_PASSWORD', 'GITHUB_TOKEN', 'COHERE_API_KEY'))}={value}"
    ),
    "dotenv": lambda rng, value: f"MISTRAL_API_KEY={value}\nDEBUG=1\n",
    "yaml": lambda rng, value: f"db:\n  user: app\n  password: {value}\n",
    "yaml-quoted": lambda rng, value: f'  api_key: "{value}"',
    "json": lambda rng, value: json.dumps({"user": "app", "password": value}),
    "json-in-log": lambda rng, value: "sent " + json.dumps(json.dumps({"client_secret": value})),
    "flag": lambda rng, value: f"tool login --user app --password {value}",
    "query": lambda rng, value: (
        f"https://api.example.com/v1?access_token={value.replace('#', '')}&page=2"
    ),
    "ado": lambda rng, value: f"Server=db;User Id=app;Password={value};Encrypt=true",
    "prose": lambda rng, value: f"the password: {value} and do not share it",
    "toml": lambda rng, value: f"refresh_token = '{value}'",
    "ini": lambda rng, value: f"[db]\npasswd={value}",
    "uuid": lambda rng, value: f"HEROKU_API_KEY={uuid.UUID(int=rng.getrandbits(128))}",
    "xml": lambda rng, value: f"<password>{value}</password>",
}


def assigned(rng: random.Random, form: str) -> Made:
    """Make a secret that only its name gives away."""
    weak = form in {"python", "yaml", "env", "json", "flag", "ado"} and rng.random() < 0.3
    secret = _weak(rng) if weak else _assigned(rng)
    text = ASSIGNED[form](rng, secret)
    if form == "uuid":
        secret = text.partition("=")[2]
    if form == "query":
        secret = secret.replace("#", "")
    return Made(text, secret)
