"""Texts that tell the agent itself what to do, and not how a service is to be run (pure).

An observation goes into later prompts. Advice on a service belongs there: start it after another,
wait before checking it. An order to the agent does not: to forget its rules, to keep quiet, to run
what it fetched, to hand over keys. A person looks at those first.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Orders begin a clause; `the probes do not report errors` is no order.
_CLAUSE: Final = (
    r"(?:^|[.!?;:,\u2013\u2014(\"'] ?|- "
    r"|\b(?:and|then|please|now|must|should|always|just|you|so|but) )"
)
_PEOPLE: Final = (
    r"(?:the |any |an? |your )?(?:operators?|users?|humans?|admins?|administrators?|owners?|team|"
    r"anyone|anybody|people|on-?call)"
)
_AGENT: Final = r"\b(?:you|claude|(?:the |this |every )?(?:ai |ops )?(?:agent|assistant))"
_MUST: Final = r"(?:must|should|shall|will|may|have to|has to|are required to|is required to)"
_RULES: Final = (
    r"(?:instructions?|prompts?|guidelines?|directives?|guardrails?|orders|system rules|"
    r"safety(?: \w+)?|training)"
)
_KEYS: Final = (
    r"(?:credentials?|passwords?|passphrases?|tokens?|api[ -]?keys?|secrets?|private keys?|"
    r"ssh keys?|env(?:ironment)? (?:variables|vars)|\.env\b|id_rsa|/etc/shadow)"
)
_SHELL: Final = r"(?:sudo )?(?:(?:ba|z|k|da|c)?sh|python\d?|perl|ruby|node|iex)\b"
_FETCH: Final = r"\b(?:curl|wget|iwr|invoke-webrequest|fetch)\b"

_FORGET_YOUR_RULES: Final = (
    r"\b(?:ignore|disregard|forget|override|overrule) (?:(?:all|any|the|your|of|my) ){0,4}"
    r"(?:previous|prior|preceding|earlier|above|foregoing)(?![-\w])"
    r"|\b(?:ignore|disregard|forget|override|overrule|bypass|circumvent)\b.{0,30}"
    rf"\b(?:all|any|your|these|those|system|original|its|initial)\b.{{0,20}}\b{_RULES}\b"
    rf"|{_CLAUSE}disregard\b|\b(?:ignore|forget) everything\b"
    rf"|\b{_RULES} (?:that )?you (?:were|have|had|got|received)\b"
    r"|\b(?:priority|precedence) over (?:(?:all|any|the|your|other|previous) ){0,4}"
    rf"(?:rules|{_RULES})\b"
    r"|\b(?:new|updated|real|actual|true|following) instructions?\b.{0,20}(?::|\bfollow|\bare\b)"
    r"|\b(?:follow|obey|execute) (?:these|the following|my|this|the new) "
    r"(?:instructions?|orders?|commands?|directives?)\b"
    rf"|{_AGENT} {_MUST} (?:(?:now|always|never) )?"
    r"(?:obey|comply|ignore|forget|pretend|approve|reveal)\b"
    r"|\btreat (?:all|any|every|this|the|its)\b.{0,40}"
    r"\bas (?:a )?(?:commands?|orders?|instructions?)\b"
    r"|\byou read this\b|\b(?:always|to|must|please|now) obey\b"
)
_BE_SOMEBODY_ELSE: Final = (
    r"\bas an ai\b|\byou are (?:now|no longer|hereby)\b"
    r"|\byou are an? (?:\w+ )?(?:ai|assistant|agent|model)\b"
    r"|\bfrom now on,? (?:you|always|never|act|answer|respond|reply|treat|every)\b"
    rf"|{_CLAUSE}(?:act|behave|respond|answer) as (?:if you|though you|an? |the |root)"
    r"|\bpretend (?:to be|that you|you)\b|\brole-?play\b|\bjailbreak"
    r"|\b(?:developer|dan|god) mode\b"
    r"|\byour (?:new|real|actual|true|only) (?:role|task|goal|job|purpose|objective|mission)\b"
)
_WORDS_OF_PROMPTS: Final = (
    r"\bsystem[ -]prompt\b|#{2,6} ?(?:system|instructions?|assistant)\b"
    r"|<\|?/?(?:im_start|im_end|system|assistant|user|human|instructions?)\|?>"
    r"|\[/?(?:inst|system|sys)\]|<</?sys>>|^(?:system|assistant|human)(?: message)? ?:"
)
_KEEP_QUIET: Final = (
    rf"{_CLAUSE}(?:do not|don't|never|refrain from|avoid) (?:ever )?(?:\w+,? or )?"
    r"(?:report|tell|mention|disclose|inform|reveal)(?:ing)?\b"
    rf"|{_AGENT} {_MUST} (?:not|never) (?:ever )?"
    r"(?:report|tell|mention|alert|notify|escalate|warn)\b"
    rf"|{_CLAUSE}(?:do not|don't|never) (?:ever )?(?:alert|notify|escalate|page|warn|flag)"
    rf"(?: (?:this|it|that|them))?(?: to| with)? ?{_PEOPLE}\b"
    rf"|{_CLAUSE}stop (?:reporting|alerting|mentioning|telling|escalating)\b"
    rf"|{_CLAUSE}(?:reply|respond|answer) (?:(?:only|always|just|exactly) )?with\b"
    rf"|\b(?:say|claim|state|tell (?:them|everyone|{_PEOPLE})) (?:that )?"
    r"(?:everything|all|nothing|it|this) (?:\w+ )?(?:is|are|was|were)\b"
    rf"|\b(?:hide|conceal|withhold|keep)\b.{{0,40}}\bfrom {_PEOPLE}\b"
    r"|\bkeep (?:this|it|that) (?:a )?(?:secret|quiet|hidden|confidential|private|between us)\b"
    rf"|{_CLAUSE}(?:report|mark|declare|describe|record) (?:everything|all|it|this|every|any)\b"
    r".{0,40}\bas (?:healthy|resolved|ok|okay|fine|green|fixed|safe|successful)\b"
    r"|\bwithout (?:asking|telling|informing|notifying|consulting) "
    rf"(?:for|first|me|{_PEOPLE}|permission)\b"
)
_RUN_WHAT_YOU_FETCH: Final = (
    rf"{_FETCH}[^|]{{0,200}}\| ?{_SHELL}"
    rf"|{_FETCH}.{{0,200}}(?:&&|;) ?(?:sudo )?(?:chmod|(?:ba|z)?sh|python\d?|\./|source)\b"
    rf"|\b(?:{_SHELL}|eval|source) ?(?:-c |-e )?[\"']?(?:<\(|\$\(|`) ?{_FETCH}"
    rf"|\bbase64 (?:-d|--decode)\b.{{0,80}}\| ?{_SHELL}"
    r"|\b(?:download|fetch|pull|get|curl|wget)\b.{0,80}(?:\band|\bthen|,) "
    r"(?:run|execute|eval|source) (?:it|them|this|that|the (?:script|file|payload|binary))\b"
    r"|\b(?:run|execute|eval|source|install)\b.{0,60}https?://"
    r"|/dev/tcp/|\bnc -e\b|\brm -rf (?:--no-preserve-root )?/(?:\s|$)"
)
_HAND_IT_OVER: Final = (
    r"\b(?:grant|give|allow|assign) "
    r"(?:yourself|itself|me|us|claude|(?:the|this) (?:agent|session))\b"
    r"|\byou (?:have|are|now have|have been) (?:now )?(?:(?:full|been|root|admin) )?"
    r"(?:permission|authority|authori[sz]ed|permitted|pre-?approved|granted|access)\b"
    r"|\byou (?:no longer|do not|don't) need (?:any |an )?(?:approval|permission|confirmation)\b"
    rf"|{_CLAUSE}(?:request|obtain|demand|ask for) (?:full |temporary )?"
    r"(?:root|admin|sudo|elevated)\b"
    r"|\bdangerously-?skip-?permissions\b|\bbypass ?permissions\b"
    r"|\b(?:skip|disable|bypass|turn off|ignore) (?:(?:all|any|the|your) ){0,3}"
    r"(?:permission|approval|safety|confirmation) (?:checks?|prompts?|rules?|requests?|mode)\b"
    rf"|\b(?:ask|request|prompt|get)\b.{{0,20}}\b{_PEOPLE}\b.{{0,30}}"
    rf"\b(?:{_KEYS}|permissions?|root access|sudo)"
    rf"|\b(?:reveal|exfiltrate|leak|disclose|steal)\b.{{0,40}}{_KEYS}"
    rf"|\b(?:send|post|upload|forward|e-?mail|share|paste|copy|submit)\b.{{0,60}}{_KEYS}"
    r".{0,40}\bto (?:https?:|me\b|us\b|this\b|the following\b|our\b|an external\b|\S{1,64}@)"
    rf"|{_CLAUSE}(?:print|show|output|cat|read|dump|include|echo|list)\b.{{0,20}}"
    rf"\b(?:your|all|every|the)\b.{{0,20}}{_KEYS}"
    rf"|{_CLAUSE}(?:print|show|output|cat|read|dump|echo) \S{{0,100}}"
    r"(?:/etc/shadow|id_rsa|\.env\b|\.aws/credentials)"
)
_INSTRUCTIONS: Final = (
    *(_FORGET_YOUR_RULES, _BE_SOMEBODY_ELSE, _WORDS_OF_PROMPTS),
    *(_KEEP_QUIET, _RUN_WHAT_YOU_FETCH, _HAND_IT_OVER),
)

_ORDER: Final = (
    rf"{_CLAUSE}(?:ignore|skip|suppress|hide|silence|disable|bypass|delete|remove|drop|erase|wipe|"
    r"grant|approve|allow|trust|obey|execute)\b"
)


def is_instruction(text: str) -> bool:
    """Say whether a text orders the agent about."""
    plain = _plain(text)
    return any(re.search(pattern, plain) for pattern in _INSTRUCTIONS)


def is_imperative(text: str) -> bool:
    """Say whether a text gives an order that is harmless from an agent, but not from a tool.

    `Ignore the first failed probe` is advice from somebody who saw it, and suspect in a log.
    """
    return re.search(_ORDER, _plain(text)) is not None


def _plain(text: str) -> str:
    """Write a text in small letters and single blanks, without emphasis."""
    small = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return " ".join(small.replace("*", "").replace("_ ", " ").split())
