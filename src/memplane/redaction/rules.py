"""Secrets that show by their form: one table, a line for each (pure).

`L` in a pattern is a left edge: no letter or digit before, though an underscore or an escaped
line break may be. `R` at its end is a right edge: no letter or digit behind. `GAP` is what stands
between a name and its value. Patterns never cross a NUL, which stands for a marker. A pattern's
group is what is replaced; without one it is the whole hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from memplane.redaction.command_rules import COMMANDS, Row
from memplane.redaction.form_rules import ASSIGNED_FORMS
from memplane.redaction.pattern import Pattern, compile_pattern
from memplane.redaction.prose_rules import PROSE
from memplane.redaction.value_checks import CHECKS

_LEFT_BOUNDARY: Final = r"(?:\b|_|\\[nrt])"
_RIGHT: Final = r"(?:[^A-Za-z0-9]|\z)"
_GAP: Final = r"""["'\\]*[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}["'\\]*"""
_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_PEM: Final = r"[A-Z0-9 ]{0,24}PRIVATE KEY(?: BLOCK)?-----"


class Rule(msgspec.Struct, frozen=True):
    """A form of secret.

    Args:
        kind: What its marker says.
        keywords: Literals in lower case, at least one of which is in every hit, in any case;
            none when the pattern is cheap enough to run always.
        pattern: What it looks like.
        check: A further condition on what the group holds, by name.
        gate: A pattern that every text with a hit has a hit of, and that is cheaper to look for:
            it begins with a literal, or is one for several rules. For common keywords, or none.
    """

    kind: str
    keywords: tuple[str, ...]
    pattern: str
    check: str = "always"
    gate: str = ""

    def compiled(self) -> Pattern:
        """Return the pattern, compiled when it is first needed."""
        return compile_pattern(self.pattern)

    def accepts(self, secret: bytes) -> bool:
        """Say whether the further condition holds."""
        return CHECKS[self.check](secret)


def _rule(kind: str, keywords: str, form: str, check: str = "always", *, gate: str = "") -> Rule:
    source = form.replace("L(", _LEFT_BOUNDARY + "(").replace("GAP", _GAP).replace("PEM", _PEM)
    if source.endswith(")R"):
        source = source[:-1] + _RIGHT
    return Rule(kind, tuple(keywords.split()), source, check, gate)


def _together(rows: Sequence[Row]) -> tuple[Rule, ...]:
    """Make rules with common keywords: one look for any of them comes before a look for each."""
    gate = "|".join(f"(?:{form})" for _, _, form, _ in rows)
    return tuple(Rule(*row, gate) for row in rows)


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
    _rule("tavily-key", "tvly-", r"L(tvly-[A-Za-z0-9_-]{20,})", "mixed"),
    _rule("langsmith-key", "lsv2_", r"L(lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10,})"),
    _rule("pinecone-key", "pcsk_", r"L(pcsk_[A-Za-z0-9_]{40,})"),
    _rule("jina-key", "jina_", r"L(jina_[A-Za-z0-9_-]{40,})"),
    # clouds
    _rule("aws-key-id", "akia asia abia acca", r"L((?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16})R"),
    _rule(
        "aws-secret-key",
        "secretaccesskey secret_access_key secret-access-key aws_secret",
        r"(?i)secret[_-]?(?:access[_-]?)?key(?:GAP|\s+)([A-Za-z0-9/+]{40})"
        r"(?:[^A-Za-z0-9/+=]|\z)",
    ),
    _rule(
        "bedrock-key", "absk bedrock-api-key-", r"L((?:ABSK|bedrock-api-key-)[A-Za-z0-9+/=]{60,})"
    ),
    _rule("google-key", "aiza", r"L(AIza[A-Za-z0-9_-]{35,})"),
    _rule("google-token", "ya29.", r"L(ya29\.[A-Za-z0-9_.-]{20,})"),
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
        r"(?:[^A-Za-z0-9]|\A)([A-Za-z0-9_.~-]{3}[0-9]Q~[A-Za-z0-9_.~-]{30,})",
    ),
    _rule(
        "azure-function-key",
        "code=",
        r"(?i)[?&]code=([A-Za-z0-9_/+-]{40,}(?:={1,2}"
        r"|%3D%3D))",
    ),
    # Microsoft's keys of a common form hold the name of their service near the end.
    _rule(
        "azure-key",
        "azdo azse azfu azca azml azba azev azwb azeg azcs azmt azrs azas azia azis aiot",
        r"L([A-Za-z0-9]+(?:AZDO|Az[A-Z][a-z]|AIoT)[A-Za-z0-9+/]{4,10}={0,2})",
        "long-random",
        gate=r"A(?:ZDO|z(?:Se|Fu|Ca|Ml|Ba|Ev|Wb|Eg|Cs|Mt|Rs|As|Ia|Is)|IoT)[A-Za-z0-9+/]{4}",
    ),
    _rule(
        "azure-key",
        "+acr +amc +asb +aeh +acdb +abs",
        r"L([A-Za-z0-9]+\+A(?:CDb|CR|MC|Sb|Eh|BS)[A-Za-z0-9+/]{4,10}={0,2})",
        "long-random",
        gate=r"\+A(?:CDb|CR|MC|Sb|Eh|BS)[A-Za-z0-9+/]{4}",
    ),
    _rule("digitalocean-token", "_v1_", r"L(do[opr]_v1_[a-f0-9]{40,})"),
    _rule("heroku-key", "hrku-", r"L(HRKU-[A-Za-z0-9_-]{30,})"),
    _rule(
        "heroku-key",
        "heroku",
        r"(?i)heroku[a-z_-]{0,24}GAP([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})R",
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
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- gloas- glimt- glffct- glwt-",
        r"L(gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt|ffct"
        r"|wt)-[A-Za-z0-9_.-]{19,}[A-Za-z0-9_-])",
    ),
    _rule("gitlab-token", "gr1348941", r"L(GR1348941[A-Za-z0-9_-]{20,})"),
    _rule("gitlab-session", "_gitlab_session", r"_gitlab_session=([0-9a-zA-Z%-]{20,})"),
    _rule("npm-token", "npm_", r"L(npm_[A-Za-z0-9]{30,})"),
    _rule("pypi-token", "pypi-", r"L(pypi-[A-Za-z0-9_-]{16,})", "mixed"),
    _rule("rubygems-key", "rubygems_", r"L(rubygems_[a-f0-9]{40,})"),
    _rule("docker-token", "dckr_", r"L(dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,})"),
    _rule("terraform-token", ".atlasv1.", r"L([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,})"),
    _rule("vault-token", "hvs. hvb. hvr.", r"L(hv[sbr]\.[A-Za-z0-9_-]{20,})"),
    _rule("vault-token", "vault", r"L(s\.[A-Za-z0-9]{24})R", "mixed"),
    _rule("doppler-token", "dp.", r"L(dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{30,})"),
    _rule("pulumi-token", "pul-", r"L(pul-[a-f0-9]{40})R"),
    _rule("artifactory-token", "akcp", r"L(AKCp[A-Za-z0-9]{10,})"),
    _rule("artifactory-token", "cmvmdgtu", r"L(cmVmdGtu[A-Za-z0-9]{40,})"),
    _rule("sonar-token", "sqp_ squ_ sqa_", r"L(sq[pua]_[a-f0-9]{40})R"),
    _rule("circleci-token", "ccipat_ ccipr", r"L(CCIP(?:AT|RJ)_[A-Za-z0-9]{20,}_[a-f0-9]{40})"),
    _rule("buildkite-token", "bkua_", r"L(bkua_[a-f0-9]{40})R"),
    _rule("crates-token", "cio", r"L(cio[A-Za-z0-9]{32})R", "random", gate=r"cio[A-Za-z0-9]{32}"),
    _rule("nuget-key", "oy2", r"L(oy2[a-z0-9]{43})R", gate=r"oy2[a-z0-9]{43}"),
    _rule("clojars-token", "clojars_", r"L(CLOJARS_[a-z0-9]{60})"),
    _rule("scalingo-token", "tk-us-", r"L(tk-us-[A-Za-z0-9_-]{40,})"),
    _rule("prefect-key", "pnu_ pnb_", r"L(pn[ub]_[A-Za-z0-9]{36})R"),
    _rule("readme-key", "rdme_", r"L(rdme_[a-z0-9]{60,})"),
    _rule("octopus-key", "api-", r"L(API-[A-Z0-9]{25,32})R", "random", gate=r"API-[A-Z0-9]{25}"),
    _rule("onepassword-token", "ops_eyj", r"L(ops_eyJ[A-Za-z0-9_=-]{100,})"),
    _rule(
        "onepassword-key",
        "a3-",
        r"L(A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})"
        r"(?:-[A-Z0-9]{5}){3})R",
    ),
    _rule("kubernetes-token", "--token kubeadm", r"--token[= ]([a-z0-9]{6}\.[a-z0-9]{16})R"),
    _rule("alibaba-key", "ltai", r"L(LTAI[A-Za-z0-9]{12,26})R", "random"),
    _rule("yandex-key", "aqvn y0_", r"L((?:AQVN|y0_)[A-Za-z0-9_-]{33,})", "random"),
    _rule("render-key", "rnd_", r"L(rnd_[A-Za-z0-9]{28,})R", "random"),
    _rule(
        "vercel-token", "vercel_blob_rw_", r"L(vercel_blob_rw_[A-Za-z0-9]{10,}_[A-Za-z0-9]{20,})"
    ),
    _rule(
        "vercel-token", "vcp_ vck_ vca_ vci_ vcr_", r"L(vc[pkaicr]_[A-Za-z0-9]{24,})R", "random"
    ),
    _rule(
        "netlify-token", "nfp_ nfo_ nfc_ nfu_ nfb_", r"L(nf[pocub]_[A-Za-z0-9]{36,})R", "random"
    ),
    _rule("neon-key", "napi_", r"L(napi_[a-z0-9]{60,})R", "random"),
    _rule("cloudflare-token", "cfut_ cfat_ cfk_", r"L(cf(?:ut|at|k)_[A-Za-z0-9]{40,})"),
    _rule("fly-token", "flyv1", r"(?i)\bFlyV1[ \t]+([A-Za-z0-9+/=_,-]{40,})"),
    _rule("elevenlabs-key", "sk_", r"L(sk_[a-f0-9]{48})R", gate=r"sk_[a-f0-9]{48}"),
    _rule(
        "fireworks-key", "fw_", r"L(fw_[A-Za-z0-9]{20,})R", "random", gate=r"fw_[A-Za-z0-9]{20}"
    ),
    _rule("wandb-key", "wandb_v1_", r"L(wandb_v1_[A-Za-z0-9_]{60,})"),
    _rule(
        "voyage-key", "pa-", r"L(pa-[A-Za-z0-9_-]{43})R", "random", gate=r"pa-[A-Za-z0-9_-]{43}"
    ),
    _rule("firecrawl-key", "fc-", r"L(fc-[a-f0-9]{32})R", gate=r"fc-[a-f0-9]{32}"),
    _rule("tailscale-key", "tskey-", r"L(tskey-[a-z]+-[A-Za-z0-9-]{10,})"),
    _rule("databricks-token", "dapi", r"L(dapi[a-f0-9]{32}(?:-[0-9])?)R"),
    # messages and mail
    _rule(
        "slack-token",
        "xox xapp-",
        r"(?i)L((?:xox[a-z](?:\.xox[a-z])?|xapp)-(?:[A-Za-z0-9_+/-]|%[0-9A-F]{2}){10,}=*)",
    ),
    _rule(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{30,})",
    ),
    _rule(
        "discord-webhook",
        "/webhooks/",
        r"discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]+/([A-Za-z0-9_-]{40,})",
    ),
    _rule(
        "discord-token",
        "",
        r"L([MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})",
        "mixed",
        gate=r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}",
    ),
    _rule("telegram-token", ":aa", r"\b(?:bot)?([0-9]{8,10}:AA[A-Za-z0-9_-]{32,})"),
    _rule("twilio-key", "", r"L(SK[0-9a-f]{32})R", gate="SK[0-9a-f]{32}"),
    _rule("sendgrid-key", "sg.", r"L(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})"),
    _rule("mailgun-key", "key-", r"L(key-[0-9a-f]{32})R"),
    _rule("mailchimp-key", "-us", r"L([0-9a-f]{32}-us[0-9]{1,2})R"),
    _rule(
        "brevo-key",
        "xkeysib- xsmtpsib-",
        r"L((?:xkeysib|xsmtpsib)-[a-f0-9]{40,}-[A-Za-z0-9]{10,})",
    ),
    _rule(
        "resend-key",
        "re_",
        r"L(re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,})R",
        "random",
        gate=r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20}",
    ),
    _rule("hubspot-token", "pat-", rf"L(pat-[a-z]{{2}}[0-9]-{_UUID})"),
    _rule(
        "facebook-token",
        "eaa",
        r"L(EAA[A-Za-z][A-Za-z0-9]{100,})",
        gate=r"EAA[A-Za-z][A-Za-z0-9]{100}",
    ),
    _rule(
        "twitter-token",
        "aaaaaaaaaaaaaaaaaaaaa",
        r"(?:[^A-Za-z0-9]|\A)(A{21,22}[A-Za-z0-9%]{60,})",
        "random",
    ),
    _rule(
        "teams-webhook",
        "/incomingwebhook/",
        r"/IncomingWebhook/([0-9a-f]{32}/[0-9a-f-]{36})",
    ),
    # payment and shops
    _rule(
        "stripe-key",
        "sk_live_ rk_live_ sk_test_ rk_test_",
        r"L([rs]k_(?:live|test)_[A-Za-z0-9_]{8,})",
    ),
    _rule("stripe-webhook-secret", "whsec_", r"L(whsec_[A-Za-z0-9+/=]{20,})"),
    _rule("shopify-token", "shp", r"L(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32,})"),
    _rule("flutterwave-key", "flwseck", r"L(FLWSECK(?:_TEST)?-[A-Za-z0-9-]{30,}-X)R"),
    _rule(
        "braintree-token",
        "access_token$",
        r"(access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32})",
    ),
    _rule("plaid-token", "access-", rf"L(access-(?:sandbox|development|production)-{_UUID})"),
    _rule("easypost-key", "ezak ezak eztk", r"L(EZ[AT]K[A-Za-z0-9]{54})R"),
    _rule("lob-key", "live_ test_", r"L((?:live|test)_[a-f0-9]{35})R", gate=r"_[a-f0-9]{35}"),
    _rule("square-token", "sq0", r"L(sq0[a-z]{3}-[A-Za-z0-9_-]{20,})"),
    _rule("square-token", "eaaa", r"L(EAAA[A-Za-z0-9_-]{60})(?:[^A-Za-z0-9_/+=-]|\z)"),
    # work and watching
    _rule(
        "newrelic-key",
        "nrak- nrii- nrjs- nral- nrra- nrsp-",
        r"L(NR(?:AK|II|JS|AL|RA|SP)-[A-Za-z0-9_-]{19,})",
    ),
    _rule("newrelic-key", "nral", r"L((?:[a-z]{2}[0-9]{2}xx)?[0-9a-f]{30,36}NRAL)R"),
    _rule("grafana-token", "glsa_ glc_", r"L(gl(?:sa|c)_[A-Za-z0-9+/=_]{30,})"),
    _rule("grafana-token", "eyjrijoi", r"L(eyJrIjoi[A-Za-z0-9+/]{40,}={0,2})"),
    _rule("dynatrace-token", "dt0", r"L(dt0[a-z][0-9]{2}\.[A-Z0-9]{8,24}\.[A-Z0-9]{64})"),
    _rule("posthog-key", "phx_", r"L(phx_[A-Za-z0-9]{40,})R"),
    _rule("segment-token", "sgp_", r"L(sgp_[A-Za-z0-9]{64})R"),
    _rule(
        "launchdarkly-key",
        "sdk- api-",
        rf"L((?:sdk|api)-{_UUID})",
        gate=r"-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    ),
    _rule("elastic-key", "essu_", r"L(essu_[A-Za-z0-9+/=]{40,})"),
    _rule("mapbox-token", "sk.eyj", r"L(sk\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{16,})"),
    _rule("sentry-token", "sntrys_ sntryu_", r"L(sntry[su]_[A-Za-z0-9+/=_-]{30,})"),
    _rule("postman-key", "pmak-", r"L(PMAK-[a-f0-9]{24}-[a-f0-9]{34,})"),
    _rule("linear-key", "lin_api_ lin_oauth_", r"L(lin_(?:api|oauth)_[A-Za-z0-9]{30,})"),
    _rule("notion-token", "ntn_", r"L(ntn_[A-Za-z0-9]{40,})"),
    _rule("notion-token", "secret_", r"L(secret_[A-Za-z0-9]{43})R", "mixed"),
    _rule("atlassian-token", "atatt3 atctt3", r"L(AT[AC]TT3[A-Za-z0-9_=-]{20,})"),
    _rule("atlassian-token", "atbb", r"L(ATBB[A-Za-z0-9]{32})R"),
    _rule(
        "trello-token",
        "atta",
        r"L(ATTA[a-f0-9]{64}[A-F0-9]{8})R",
        gate=r"ATTA[a-f0-9]{64}[A-F0-9]{8}",
    ),
    _rule("airtable-token", "pat", r"L(pat[A-Za-z0-9]{14}\.[a-f0-9]{64})", gate=r"\.[a-f0-9]{64}"),
    _rule(
        "asana-token",
        "1/ 2/",
        r"L([12]/[0-9]{12,18}(?:/[0-9]{12,18})?:[0-9a-f]{32})R",
        gate=r":[0-9a-f]{32}",
    ),
    _rule(
        "clickup-token",
        "pk_",
        r"L(pk_[0-9]{6,10}_[A-Z0-9]{32})R",
        gate=r"pk_[0-9]{6,10}_[A-Z0-9]{32}",
    ),
    _rule("typeform-token", "tfp_", r"L(tfp_[A-Za-z0-9_.-]{40,})"),
    _rule("contentful-token", "cfpat-", r"L(CFPAT-[A-Za-z0-9_-]{40,})"),
    _rule("dropbox-token", "sl.", r"L(sl\.[A-Za-z0-9_.-]{100,})", gate=r"sl\.[A-Za-z0-9_.-]{100}"),
    _rule("frameio-token", "fio-u-", r"L(fio-u-[A-Za-z0-9_-]{60,})"),
    _rule("maxmind-key", "_mmk", r"L([A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)R"),
    _rule("figma-token", "figd_ figu_", r"L(fig[du]_[A-Za-z0-9_-]{30,})"),
    # A vendor's name, what the key is for, and a long random rest.
    _rule(
        "vendor-key",
        "_live_ _test_ _prod_ _pat_ _tkn_ _key_ _api_ _token_ _secret_ _sk_ _oauth_",
        r"L([a-z][a-z0-9]{1,15}_(?:live|test|prod|pat|tkn|key|api|token|secret|sk|oauth)_"
        r"[A-Za-z0-9_-]{24,})",
        "random",
        gate=r"_(?:live|test|prod|pat|tkn|key|api|token|secret|sk|oauth)_[A-Za-z0-9_-]{24}",
    ),
    # forms of no one vendor
    _rule("age-key", "age-secret-key-1", r"(?i)L(AGE-SECRET-KEY-1[0-9A-Z]{50,})"),
    _rule(
        "jwt",
        "eyj",
        r"L(eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{2,}"
        r"(?:\.[A-Za-z0-9_-]*){0,2}\.[A-Za-z0-9_-]{4,})",
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
        r"(?i)authorizationGAP(?:basic|token|bot|key|apikey|api-key|negotiate|splunk|ssws"
        r"|hmac)[ \t]+"
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
        "cookie",
        "curl document.cookie",
        r"(?i)(?:\bcurl\b[^\r\n\x00]*?[ \t](?:-b|--cookie)[ =]?"
        r"|document\.cookie\s{0,3}=\s{0,3})[\"']"
        r"([A-Za-z0-9_.%-]{1,64}=[^\r\n\"'\x00]{8,})",
    ),
    _rule("url-password", "x-oauth-basic", r"://([A-Za-z0-9_]{20,}):x-oauth-basic@"),
    _rule(
        "cloudant-key",
        "cloudant",
        r"(?i)cloudant[a-z0-9_-]{0,24}GAP([a-z]{24}|[0-9a-f]{64})R",
    ),
    _rule(
        "private-key",
        "---- begin ssh2",
        r"(---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----[^-\x00]*(?:---- END[ A-Z0-9]* ----)?)",
    ),
    _rule(
        "url-password",
        "://",
        r"[A-Za-z][A-Za-z0-9+.-]*://[^\s:/@?#\"'<>\x00]*:"
        r"([^\s@/\"'<>\x00]+)@[A-Za-z0-9\[_%$({-]",
        "no-hole",
    ),
    _rule(
        "connection-password",
        "password pwd",
        r"(?i)(?:;\s{0,3}(?:password|pwd)\s{0,2}=\s{0,2}([^;\s\"'\x00]{3,})"
        r"|(?:password|pwd)\s{0,2}=\s{0,2}"
        r"([^;\s\"'\x00]{3,});[ \t]{0,2}[A-Za-z][A-Za-z ]{1,24}=)",
        "no-hole",
    ),
    _rule(
        "xml-password",
        "</",
        r"(?i)<(?:[a-z0-9]{1,20}:)?(?:[a-z_-]{0,24})(?:password|passwd|secret|api[_-]?key"
        r"|token)>"
        r"\s{0,3}([^<>\s\x00]{4,})\s{0,3}</",
        "no-hole",
    ),
    _rule("okta-token", "ssws", r"\bSSWS[ \t]+([A-Za-z0-9_-]{20,})"),
    _rule(
        "private-key",
        "putty-user-key-file-",
        r"PuTTY-User-Key-File-[23]:[^\x00]*?Private-Lines:[ \t]*[0-9]+(?:\s|\\[nr])+"
        r"((?:[A-Za-z0-9+/=]{16,76}(?:\s|\\[nr])+)*(?:[A-Za-z0-9+/=]{4,76}(?:\s|\\[nr]|\z))?"
        r"(?:Private-(?:MAC|Hash):[ \t]*[0-9a-f]+)?)",
        "long-key",
    ),
    _rule(
        "private-key",
        "client-key-data",
        r"client-key-data[\"'\\]*\s{0,3}:\s{0,3}(?:[|>][+-]?(?:\s|\\n){1,24})?[\"'\\]*"
        r"([A-Za-z0-9+/]{16,}={0,2})",
    ),
    _rule(
        "signature",
        "signature= security-token=",
        r"(?i)(?:[?&]|amp;|\b(?:x-amz-|x-goog-))(?:signature|security-token)="
        r"([A-Za-z0-9%+/_~-]{32,}={0,2})",
    ),
    _rule("totp-secret", "otpauth://", r"otpauth://[^\s\"'\x00]*?[?&]secret=([A-Za-z2-7]{16,})"),
    _rule(
        "softlayer-key",
        "api.softlayer.com",
        r"api\.softlayer\.com/[a-z]+/v3(?:\.1)?/([a-z0-9]{64})",
    ),
    _rule("wifi-password", "wifi:", r"WIFI:[^\s\x00]*?;P:([^;\s\x00]{4,});"),
    *_together(COMMANDS),
    *_together(ASSIGNED_FORMS),
    *_together(PROSE),
    _rule("memplane-token", "mpt_", r"L(mpt_[A-Za-z0-9_-]{43})"),
    _rule("agent-token", "", r":([0-9a-f]{48})R"),
)
