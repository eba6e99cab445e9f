"""How numbers, durations, sizes and times are read, however they are written."""

from __future__ import annotations

import pytest

from memplane.observations.normalisation import statement


def read(text: str) -> list[str]:
    return [str(token.quantity) for token in statement(text).tokens if token.quantity]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(
            (text, ["duration:60"])
            for text in ("60s", "60 s", "60 sec", "60 seconds", "60-second", "1 minute", "1m")
        ),
        *(
            (text, ["duration:60"])
            for text in ("a minute", "one minute", "sixty seconds", "~60s", "60,000 ms", "60000ms")
        ),
        *((text, ["duration:90"]) for text in ("90s", "1m30s", "1.5 min", "1 min 30 sec")),
        *((text, ["duration:90"]) for text in ("1 minute and 30 seconds", "1,5 minutes")),
        *((text, ["duration:1800"]) for text in ("half an hour", "30 min")),
        ("an hour", ["duration:3600"]),
        ("a couple of minutes", ["duration:120"]),
        ("twenty-five minutes", ["duration:1500"]),
        ("2 weeks", ["duration:1209600"]),
        ("250ms", ["duration:1/4"]),
        *(
            (text, ["duration:60..90"])
            for text in ("60-90s", "60\u201390 s", "60 to 90 seconds", "60s-90s", "1m-1.5m")
        ),
        ("between 60 and 90 seconds", ["duration:60..90"]),
        ("30 seconds and 2 minutes", ["duration:30", "duration:120"]),
        ("60 seconds or 3 tries", ["duration:60", "count:3"]),
        *(
            (text, ["every:604800"])
            for text in ("weekly", "every week", "each week", "once a week", "every 7 days")
        ),
        ("per week", ["every:604800"]),
        ("every other week", ["every:1209600"]),
        ("twice a day", ["every:43200"]),
        ("3 times a day", ["every:28800"]),
        ("monthly", ["every:2592000"]),
        ("every Sunday", ["every:604800", "day:6"]),
        ("on Sundays", ["every:604800", "day:6"]),
        *((text, ["clock:180"]) for text in ("3am", "03:00", "3:00 am", "3 AM")),
        ("12am", ["clock:0"]),
        ("midnight", ["clock:0"]),
        ("12:30pm", ["clock:750"]),
        *((text, ["percent:80"]) for text in ("80%", "80 %", "80 percent")),
        *((text, ["size:2147483648"]) for text in ("2GB", "2 GiB", "2048MB", "2G")),
        ("512M", ["size:536870912"]),
        ("5m", ["duration:300"]),
        ("twice", ["times:2"]),
        ("retry once", ["times:1"]),
        ("3x", ["times:3"]),
        ("1,000 rows", ["count:1000"]),
        ("three replicas", ["count:3"]),
        ("one node", ["count:1"]),
        ("85\u00b0C", ["degrees:85"]),
    ],
)
def test_a_quantity_is_read_however_it_is_written(text: str, expected: list[str]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("a second restart", "the second one works", "once it is up", "every service"),
        *("10.8.1", "10.0.0.1", "2026-03-01", "port 9090", "node 3", "HTTP 502", "returns 502"),
        *("PostgreSQL 16", "eth0", "5xx", "v2", "exit code 1", "25:99", "one", "per host"),
    ],
)
def test_what_only_looks_like_one_is_none(text: str) -> None:
    assert read(text) == []
