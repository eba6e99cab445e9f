"""Texts that only say how things stand just now, from which nothing can be learned (pure).

What is refused here is lost to the agent, so a text with a cause, a condition or advice in it is
never a status, nor is one with words that readings do not have: when in doubt, it is none.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from memplane.search.sentence_splitter import has_digit, word_set

_MAX_UNKNOWN_WORDS: Final = 2
"""Words before the state or the number of a reading, so that what it is of may have a name."""

_NUMBER: Final = r"\d[\d.,]{0,15}"
_WORD: Final = r"[^\s,;()\[\]\"`|=]+"
_EDGES: Final = ".:!?'*_-\u2013\u2014\u2026"
_CLAUSES: Final = r"[;,](?!\d)|[.!?:](?:\s|$)"

_STATES: Final = word_set(
    """
    healthy unhealthy running up down online offline operational ok okay fine good great green
    stable nominal normally operating active inactive reachable unreachable responsive unresponsive
    responding accessible available ready idle stopped degraded connected disconnected synced clean
    quiet clear mounted valid passing passed complete completed succeeded successful successfully
    finished installed alive pong restarting
    """
)
_DEEDS: Final = word_set("restarted rebooted upgraded updated redeployed recreated")
# What a reading is of, and what it is told with.
_THINGS: Final = word_set(
    """
    service services container containers pod pods node nodes host hosts server servers system
    systems cluster vm vms instance instances replica replicas drive drives disk disks volume
    volumes filesystem pool pools array memory ram swap cpu load average usage utilisation
    utilization space storage uptime latency lag ping response time temperature queue depth backlog
    jobs job task tasks unit units process processes connection connections client clients session
    sessions user users request requests error errors warning warnings alert alerts issue issues
    problem problems failure failures anomaly anomalies change changes update updates upgrade
    package packages image images backup backups snapshot snapshots scrub sync replication endpoint
    endpoints url site sites page domain domains dns certificate certificates cert certs probe
    probes check checks health status state version release build http https code smart api web ui
    database db stack app apps application applications monitor monitors target targets restart
    restarts port ports exit indexer indexers feed feeds interface interfaces link links
    route routes everything nothing something one two three four five six seven eight nine
    ten dozen zero percent gb gib mb mib tb tib kb kib ms s sec secs second seconds min mins
    minute minutes hour hours day days week weeks month months c f rpm mbit mbps gbit am pm utc gmt
    """
)
_FILLERS: Final = word_set(
    """
    a an the this that these it its i we they all both is are was were be been being has have had
    of out in on at to from by as with without and or no not none still now currently presently
    again today yesterday tonight just already about around approximately roughly over under more
    less than free used left total remaining total full empty last latest newest next first since
    for past previous recent recently looks look looking seems appears shows showing show reports
    reporting reported returned returns returning got responded responds answered answers found
    detected observed pending failed checked verified confirmed seen serving served remains remain
    stays stayed here there so far level levels rate count number size value values reading
    readings ago return accepting firing below critical
    """
)
_VERBS: Final = word_set("is are was were be been has have had at looks seems appears remains")
_UNREMARKABLE: Final = _STATES | _DEEDS | _THINGS | _FILLERS

# What says that there is nothing to say, in words that otherwise tell something.
_QUIET: Final = (
    r"\b(?:no|nothing) (?:\w+ )?(?:needs|needed|requires|required|necessary)(?: any| further)?"
    r"(?: attention| action| intervention)?\b"
    r"|\bnothing (?:to report|unusual|new|changed|wrong|out of the ordinary)\b"
    r"|\bno (?:(?:new|known|open|active|further|critical|other) ){0,3}(?:issues?|problems?|"
    r"errors?|warnings?|alerts?|failures?|changes?|anomal(?:y|ies)|incidents?|updates?)\b"
    r"|\bno failed (?:\w+ )?(?:units?|jobs?|checks?|backups?|services?|containers?|probes?)\b"
    r"|\b(?:everything|all) (?:is |are |looks |seems |appears |back to |)normal\b|\bup to date\b"
    r"|\ball (?:systems )?(?:good|well|clear|quiet|green|nominal|normal|healthy|ok)\b"
)
# What looks like a condition or a habit, and is none.
_ASIDES: Final = (
    r"\b(?:every|each) (?:one|service|container|pod|node|host|server|check|endpoint|site|disk)\b"
    r"|\bfor (?:(?:scheduled|planned|routine|emergency) )?(?:maintenance|repairs?|upgrades?)\b"
    r"|\bas expected\b|\bat (?:this|the) (?:time|moment)\b|(?<=valid )(?:until|for) (?=\d)"
    r"|\b(?:within|in) (?:the )?(?:normal|expected) (?:range|limits)\b"
    r"|\b(?:for|since) (?:now|today|yesterday|(?:the )?(?:last|past)\b|over|more|about|(?=\d))"
)
_READINGS: Final = (
    rf"\bhttp(?:/\d(?:\.\d)?)? ?{_NUMBER}|\b2\d\d ok\b"
    r"|\b(?:returns?|got) 2\d\d\b|\breturned \d\d\d\b"
    r"|\bv?\d{1,6}\.\d{1,6}\b"
    rf"|{_NUMBER} ?(?:%|percent\b|\u00b0)"
    rf"|\b{_NUMBER} ?(?:/|of|out of) ?(?:the )?{_NUMBER}"
    rf"|\b{_NUMBER} (?:\w+ )?(?:services?|containers?|pods?|nodes?|hosts?|servers?|vms?|replicas?|"
    r"units?|errors?|warnings?|alerts?|issues?|failures?|updates?|restarts?|sessions?|users?|"
    r"connections?|clients?|streams?|drives?|disks?|images?|sites?|domains?|jobs?|snapshots?)\b"
    rf"|\b(?:latency|lag|ping|response time|responded in|uptime|load average|load|depth|"
    rf"temperature|count)\D{{0,12}}{_NUMBER}"
    rf"|\b{_NUMBER} ?[kmgt]i?b (?:of|free|used|left|available)\b"
    rf"|\b(?:space|usage|used|free|size)\D{{0,12}}{_NUMBER} ?[kmgt]i?b\b|\b\w+ ago\b"
    r"|\b\d{4}-\d\d-\d\d|\b\d{1,2}:\d\d\b"
)

# A cause, a condition, a habit, a limit or advice: somebody could act on it next time.
_INFORMATIVE_WORDS: Final = word_set(
    """
    because cause causes caused due when whenever if unless until till after afterwards before
    during while once upon otherwise else thus therefore hence although though but however despite
    even except besides whereas regardless
    must should shall need needs needed require requires required depend depends dependent
    prerequisite only always never usually often sometimes occasionally typically generally mostly
    rarely tends tend may might can cannot can't could will won't would doesn't don't didn't isn't
    aren't instead rather avoid avoids
    use uses using wait waits waiting retry retries restart reload start starts stop stops set
    increase decrease raise lower bump pin disable disables enable enables prune rotate
    renew vacuum ignore skip run runs reboot delete remove flush add give keep keeps let make makes
    take takes lasts fails fail crashes hangs breaks leaks loses drops blocks resets
    expires floods spikes grows slows throttles corrupts freezes stalls times kills evicts triggers
    forces recovers resolves fixes helps works survives restores repairs follows precedes assumes
    expects listens binds mounts reads writes caches ignores allows accepts refuses rejects
    misreports lies workaround fix quirk bug known harmless safe unsafe false spurious misleading
    wrong wrongly falsely slow slower fast faster longer shorter sooner later earlier too enough
    every each twice thrice attempt attempts order via through against between behind per
    curl grep systemctl kubectl journalctl compose command commands peaks typical usual
    window baseline default interval timeout limit within expected normal
    """
)
_SCHEDULES: Final = word_set(
    """
    hourly daily nightly weekly monthly quarterly yearly annually mondays tuesdays wednesdays
    thursdays fridays saturdays sundays monday tuesday wednesday thursday friday saturday sunday
    weekend weekends night nights
    """
)
_INFORMATIVE_PHRASES: Final = (
    r"\bfor (?!\d)|\bon (?:re)?start|\bon (?:boot|reboot|shutdown|upgrade|first|failure)\b"
    r"|\bdo(?:es)? not\b|\bdid not\b|\bso that\b|\bin order\b|\bas long as\b|\bas soon as\b"
    r"|\bhas to\b|\bhave to\b|\bat least\b|\bat most\b|\bup to\b|\bwarm-?s? ?up\b|\bclean up\b"
    r"|\bspins? (?:up|down)\b|\b(?:come|back|bring|goe|shut|fill)s? (?:up|down|out)\b"
    r"|\b(?:up|ready|healthy|online|available) in (?:about )?\d"
    r"|[a-z] updates (?!available|pending|installed|applied|found)[a-z]"
    r"|\brunning on (?:an?|the)\b|\bwith an?\b|\b(?:alert|page|warn) on\b|\bpast the\b"
    r"|\bat night\b|\bthe weekend\b"
    # Things run normally now; what stays somewhere normally does so as a habit.
    r"|\b(?:sits?|stays?|hovers?|idles?|averages?|is|are) (?:\S+ ){0,6}\S*\d\S*(?: \S+){0,4}"
    r" normally\b"
    r"|^normally\b"
    r"|\bon (?:\w+ )?(?:mon|tues|wednes|thurs|fri|satur|sun)days\b"
)


def is_status_noise(text: str) -> bool:
    """Say whether a text is only a state, a version, a count, a share or a time."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
    if plain.isupper():
        plain = plain.lower()  # shouted, so that capitals tell no names
    rest, quiet = re.subn(_QUIET, " ", plain, flags=re.IGNORECASE)
    rest = re.sub(_ASIDES, " ", rest, flags=re.IGNORECASE)
    small = rest.lower()
    words = _words(small)
    if _is_informative(small, words):
        return False
    is_told = quiet or not (_STATES | _DEEDS).isdisjoint(words)
    if not is_told and not re.search(_READINGS, plain.lower()):
        return False
    return all(_is_reading(_words(clause)) for clause in re.split(_CLAUSES, rest))


def _words(text: str) -> list[str]:
    return list(filter(None, (word.strip(_EDGES) for word in re.findall(_WORD, text))))


def _is_informative(text: str, words: list[str]) -> bool:
    if not _INFORMATIVE_WORDS.isdisjoint(words) or re.search(_INFORMATIVE_PHRASES, text):
        return True
    # That something is done every night can be learned; that it was done last night cannot.
    return not _SCHEDULES.isdisjoint(words) and _STATES.isdisjoint(words)


def _is_reading(words: list[str]) -> bool:
    """Say whether a clause has nothing but what it is of, and how that stands."""
    said = [word.lower() for word in words]
    turn = next((at for at, word in enumerate(said) if _is_turn(word)), len(words))
    unknown_before = sum(map(_weight, words[:turn]))
    return unknown_before <= _MAX_UNKNOWN_WORDS and not any(map(_weight, words[turn:]))


def _is_turn(word: str) -> bool:
    return word in _STATES or word in _VERBS or has_digit(word)


def _weight(word: str) -> int:
    """Say how much a word speaks against a reading; names are written otherwise than words."""
    if not word.isalpha() or not word.islower() or word in _UNREMARKABLE or word in _SCHEDULES:
        return 0
    # It may be what something does, and not only what it is: `raises`, `saturates`.
    return 2 if word.endswith("s") else 1
