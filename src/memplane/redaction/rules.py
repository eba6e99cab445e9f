"""Secrets that show by their form: one table, a line for each (pure).

`L` in a pattern is a left edge: no letter or digit before, though an underscore or an escaped
line break may be. `GAP` is what stands between a name and its value. Patterns never cross a NUL,
which stands for a marker. A pattern's group is what is replaced; without one it is the whole hit.
"""

from __future__ import annotations

from typing import Final

import msgspec

from memplane.redaction.checks import CHECKS
from memplane.redaction.pattern import Pattern, pattern

_LEFT: Final = r"(?:\b|_|\\[nrt])"
_GAP: Final = r"""["'\\]*[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}["'\\]*"""
_PEM: Final = r"[A-Z0-9 ]{0,24}PRIVATE KEY(?: BLOCK)?-----"


class Rule(msgspec.Struct, frozen=True):
    """A form of secret.

    Args:
        kind: What its marker says.
        keywords: Literals in lower case, at least one of which is in every hit, in any case;
            none when the pattern is cheap enough to run always.
        pattern: What it looks like.
        check: A further condition on what the group holds, by name.
    """

    kind: str
    keywords: tuple[str, ...]
    pattern: str
    check: str = "always"

    def compiled(self) -> Pattern:
        """Return the pattern, compiled when it is first needed."""
        return pattern(self.pattern)

    def accepts(self, secret: bytes) -> bool:
        """Say whether the further condition holds."""
        return CHECKS[self.check](secret)


def _rule(kind: str, keywords: str, form: str, check: str = "always") -> Rule:
    written = form.replace("L(", _LEFT + "(").replace("GAP", _GAP).replace("PEM", _PEM)
    return Rule(kind, tuple(keywords.split()), written, check)


RULES: Final = (
    # keys of model vendors; the general `sk-` comes after the particular ones
    _rule("anthropic-key", "sk-ant-", r"L(sk-ant-[A-Za-z0-9_-]{10,})"),
    _rule("openrouter-key", "sk-or-", r"L(sk-or-[A-Za-z0-9_-]{16,})"),
    _rule(
        "openai-key",
        "sk-proj- sk-svcacct- sk-admin-",
        r"L(sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{10,})",
    ),
    _rule("openai-key", "t3blbkfj", r"L(sk-[A-Za-z0-9_-]*T3BlbkFJ[A-Za-z0-9_-]{10,})"),
    _rule("sk-key", "sk-", r"L(sk-[A-Za-z0-9_-]{6,})", "digit-or-long"),
    _rule("xai-key", "xai-", r"L(xai-[A-Za-z0-9]{30,})"),
    _rule("groq-key", "gsk_", r"L(gsk_[A-Za-z0-9]{30,})"),
    _rule("perplexity-key", "pplx-", r"L(pplx-[A-Za-z0-9]{30,})"),
    _rule("replicate-key", "r8_", r"L(r8_[A-Za-z0-9]{30,})"),
    _rule("huggingface-token", "hf_ api_org_", r"L((?:hf|api_org)_[A-Za-z0-9]{20,})", "mixed"),
    _rule("nvidia-key", "nvapi-", r"L(nvapi-[A-Za-z0-9_-]{40,})"),
    _rule("together-key", "tgp_v1_", r"L(tgp_v1_[A-Za-z0-9_-]{30,})"),
    _rule("cerebras-key", "csk-", r"L(csk-[a-z0-9]{40,})"),
    _rule("tavily-key", "tvly-", r"L(tvly-[A-Za-z0-9-]{20,})", "mixed"),
    _rule("langsmith-key", "lsv2_", r"L(lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10,})"),
    _rule("pinecone-key", "pcsk_", r"L(pcsk_[A-Za-z0-9_]{40,})"),
    _rule("jina-key", "jina_", r"L(jina_[A-Za-z0-9_-]{40,})"),
    # clouds
    _rule("aws-key-id", "akia asia", r"L((?:AKIA|ASIA)[0-9A-Z]{16})\b"),
    _rule(
        "aws-secret-key",
        "secretaccesskey secret_access_key secret-access-key aws_secret",
        r"(?i)secret[_-]?(?:access[_-]?)?key(?:GAP|\s+)([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|\z)",
    ),
    _rule(
        "bedrock-key", "absk bedrock-api-key-", r"L((?:ABSK|bedrock-api-key-)[A-Za-z0-9+/=]{60,})"
    ),
    _rule("google-key", "aiza", r"L(AIza[A-Za-z0-9_-]{35,})"),
    _rule("google-token", "ya29.", r"L(ya29\.[A-Za-z0-9_-]{20,})"),
    _rule("google-token", "1//0", r"L(1//0[A-Za-z0-9_-]{40,})"),
    _rule("google-client-secret", "gocspx-", r"L(GOCSPX-[A-Za-z0-9_-]{20,})"),
    _rule(
        "azure-account-key",
        "accountkey",
        r"(?i)accountkey\s{0,3}=\s{0,3}([A-Za-z0-9+/%]{20,}={0,2})",
    ),
    _rule(
        "azure-access-key",
        "sharedaccesskey",
        r"(?i)sharedaccesskey\s{0,3}=\s{0,3}([A-Za-z0-9+/%]{20,}={0,2})",
    ),
    _rule(
        "azure-sas", "sig=", r"(?i)(?:[?&;\s\"'=]|%26|amp;|\A)sig=([A-Za-z0-9%+/_-]{20,}={0,2})"
    ),
    _rule(
        "azure-client-secret",
        "q~",
        r"(?:[^A-Za-z0-9_.~-]|\A)([A-Za-z0-9_.~-]{3}[0-9]Q~[A-Za-z0-9_.~-]{30,})",
    ),
    _rule("azure-function-key", "code=", r"(?i)[?&]code=([A-Za-z0-9_/+-]{40,}(?:={1,2}|%3D%3D))"),
    _rule("azure-devops-token", "azdo", r"\b([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})\b"),
    _rule("digitalocean-token", "_v1_", r"L(do[opr]_v1_[a-f0-9]{40,})"),
    _rule("heroku-key", "hrku-", r"L(HRKU-[A-Za-z0-9_-]{30,})"),
    _rule(
        "heroku-key",
        "heroku",
        r"(?i)heroku[a-z_-]{0,24}GAP([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b",
    ),
    _rule("cloudflare-key", "v1.0-", r"L(v1\.0-[a-f0-9]{24}-[a-f0-9]{100,})"),
    _rule("flyio-token", "fm1r_ fm2_ fo1_", r"L((?:fm1r_|fm2_|fo1_)[A-Za-z0-9+/=_-]{40,})"),
    _rule("supabase-key", "sbp_ sb_secret_", r"L((?:sbp_|sb_secret_)[A-Za-z0-9_-]{20,})", "mixed"),
    _rule("planetscale-token", "pscale_", r"L(pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,})"),
    # source, packages, builds
    _rule("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"L(gh[pousr]_[A-Za-z0-9]{36,})"),
    _rule("github-token", "github_pat_", r"L(github_pat_[A-Za-z0-9_]{20,})"),
    _rule(
        "gitlab-token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent-",
        r"L(gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[A-Za-z0-9_.-]{19,}[A-Za-z0-9_-])",
    ),
    _rule("npm-token", "npm_", r"L(npm_[A-Za-z0-9]{30,})"),
    _rule("pypi-token", "pypi-", r"L(pypi-[A-Za-z0-9_-]{16,})", "mixed"),
    _rule("rubygems-key", "rubygems_", r"L(rubygems_[a-f0-9]{40,})"),
    _rule("docker-token", "dckr_", r"L(dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,})"),
    _rule("terraform-token", ".atlasv1.", r"L([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,})"),
    _rule("vault-token", "hvs. hvb. hvr.", r"L(hv[sbr]\.[A-Za-z0-9_-]{20,})"),
    _rule("vault-token", "vault", r"L(s\.[A-Za-z0-9]{24})\b", "mixed"),
    _rule("doppler-token", "dp.", r"L(dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{30,})"),
    _rule("pulumi-token", "pul-", r"L(pul-[a-f0-9]{40})\b"),
    _rule("tailscale-key", "tskey-", r"L(tskey-[a-z]+-[A-Za-z0-9-]{10,})"),
    _rule("databricks-token", "dapi", r"L(dapi[a-f0-9]{32}(?:-[0-9])?)\b"),
    # messages and mail
    _rule("slack-token", "xox xapp-", r"(?i)L((?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,})"),
    _rule(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{30,})",
    ),
    _rule(
        "discord-webhook",
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/[0-9]+/([A-Za-z0-9_-]{40,})",
    ),
    _rule(
        "discord-token",
        "discord",
        r"L([MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})",
    ),
    _rule("telegram-token", ":aa", r"\b(?:bot)?([0-9]{8,10}:AA[A-Za-z0-9_-]{32,})"),
    _rule("twilio-key", "twilio", r"\b(SK[0-9a-fA-F]{32})\b"),
    _rule("sendgrid-key", "sg.", r"L(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})"),
    _rule("mailgun-key", "key-", r"L(key-[0-9a-f]{32})\b"),
    _rule("mailchimp-key", "-us", r"L([0-9a-f]{32}-us[0-9]{1,2})\b"),
    _rule("brevo-key", "xkeysib-", r"L(xkeysib-[a-f0-9]{40,}-[A-Za-z0-9]{10,})"),
    # payment and shops
    _rule(
        "stripe-key",
        "sk_live_ rk_live_ sk_test_ rk_test_",
        r"L([rs]k_(?:live|test)_[A-Za-z0-9_]{8,})",
    ),
    _rule("stripe-webhook-secret", "whsec_", r"L(whsec_[A-Za-z0-9+/=]{20,})"),
    _rule("shopify-token", "shp", r"L(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32,})"),
    _rule("square-token", "sq0", r"L(sq0[a-z]{3}-[A-Za-z0-9_-]{20,})"),
    _rule("square-token", "eaaa", r"L(EAAA[A-Za-z0-9_-]{60})(?:[^A-Za-z0-9_/+=-]|\z)"),
    # work and watching
    _rule("newrelic-key", "nrak- nrii- nrjs- nral-", r"L(NR(?:AK|II|JS|AL)-[A-Za-z0-9_-]{19,})"),
    _rule("grafana-token", "glsa_ glc_", r"L(gl(?:sa|c)_[A-Za-z0-9+/=_]{30,})"),
    _rule("sentry-token", "sntrys_ sntryu_", r"L(sntry[su]_[A-Za-z0-9+/=_-]{30,})"),
    _rule("postman-key", "pmak-", r"L(PMAK-[a-f0-9]{24}-[a-f0-9]{34,})"),
    _rule("linear-key", "lin_api_ lin_oauth_", r"L(lin_(?:api|oauth)_[A-Za-z0-9]{30,})"),
    _rule("notion-token", "ntn_", r"L(ntn_[A-Za-z0-9]{40,})"),
    _rule("notion-token", "secret_", r"L(secret_[A-Za-z0-9]{43})\b", "mixed"),
    _rule("atlassian-token", "atatt3 atctt3", r"L(AT[AC]TT3[A-Za-z0-9_=-]{20,})"),
    _rule("figma-token", "figd_", r"L(figd_[A-Za-z0-9_-]{30,})"),
    # forms of no one vendor
    _rule("age-key", "age-secret-key-1", r"(?i)L(AGE-SECRET-KEY-1[0-9A-Z]{50,})"),
    _rule(
        "jwt",
        "eyj",
        r"L(eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{2,}(?:\.[A-Za-z0-9_-]*){0,2}\.[A-Za-z0-9_-]{4,})",
    ),
    _rule(
        "private-key", "-----begin", r"(-----BEGIN PEM(?:[^-\x00]|-{1,4}[^-\x00])*-----END PEM)"
    ),
    _rule(
        "private-key",
        "-----begin",
        r"(-----BEGIN PEM[\s\\nr]*[A-Za-z0-9+/=]{16}[A-Za-z0-9+/=\s\\]*)",
    ),
    _rule(
        "bearer",
        "bearer",
        r"(?i)\bbearer(?:[ \t]|%20|\+)+([A-Za-z0-9._~+/:-]{7,}[A-Za-z0-9_~+/-]={0,2})",
        "bearer",
    ),
    _rule(
        "authorization",
        "authorization",
        r"(?i)authorizationGAP(?:basic|token|bot|key|apikey|api-key|negotiate)[ \t]+"
        r"([^\s\"'\\,\x00]{6,})",
        "no-hole",
    ),
    _rule(
        "authorization",
        "authorization",
        r"(?i)authorizationGAP(?:digest|aws4-hmac-sha256|oauth)[ \t]+([^\r\n\x00]{6,})",
    ),
    _rule(
        "cookie",
        "cookie",
        r"(?i)(?:[^a-z-]|\A)cookie[\"'\\]*:[ \t]{0,4}[\"'\\]*"
        r"([A-Za-z0-9_.%-]{1,64}=[^\r\n\"'\x00]{4,})",
    ),
    _rule(
        "cookie",
        "set-cookie",
        r"(?i)set-cookie[\"'\\]*:[ \t]{0,4}[\"'\\]*[A-Za-z0-9_.%-]{1,64}=([^;\r\n\"'\x00]{4,})",
    ),
    _rule(
        "url-password",
        "://",
        r"[A-Za-z][A-Za-z0-9+.-]*://[^\s:/@?#\"'<>\x00]*:([^\s@/\"'<>\x00]+)@[A-Za-z0-9\[_%$({-]",
        "no-hole",
    ),
    _rule(
        "connection-password",
        "password pwd",
        r"(?i)(?:;\s{0,3}(?:password|pwd)\s{0,2}=\s{0,2}([^;\s\"'\x00]{3,})"
        r"|(?:password|pwd)\s{0,2}=\s{0,2}([^;\s\"'\x00]{3,});[ \t]{0,2}[A-Za-z][A-Za-z ]{1,24}=)",
        "no-hole",
    ),
    _rule(
        "xml-password",
        "</",
        r"(?i)<(?:[a-z0-9]{1,20}:)?(?:[a-z_-]{0,24})(?:password|passwd|secret|api[_-]?key|token)>"
        r"\s{0,3}([^<>\s\x00]{4,})\s{0,3}</",
        "no-hole",
    ),
    _rule(
        "curl-password",
        "curl",
        r"\bcurl\b[^\r\n\x00]*?\s(?:-u|--user)[ =]?[\"']?[^\s:\"'\x00]{1,64}:([^\s\"'\x00]{3,})",
        "no-hole",
    ),
    _rule("agent-token", "", r":([0-9a-f]{48})\b"),
)
