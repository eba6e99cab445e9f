"""Two small conversations in the shape of the benchmark, with words that only one of them has."""

from __future__ import annotations

from typing import Any


def turn(dialogue: str, speaker: str, text: str, **more: str) -> dict[str, Any]:
    return {"dia_id": dialogue, "speaker": speaker, "text": text, **more}


def asked(question: str, *evidence: str, category: int = 4) -> dict[str, Any]:
    return {"question": question, "evidence": list(evidence), "category": category}


def harbour() -> dict[str, Any]:
    return {
        "sample_id": "harbour",
        "conversation": {
            "speaker_a": "Brindle",
            "speaker_b": "Tovik",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                turn("D1:1", "Brindle", "My sailboat finally has a turquoise hull."),
                turn("D1:2", "Tovik", "Lovely. I planted rhubarb behind the lighthouse."),
                turn("D1:3", "Brindle", "Look.", blip_caption="a photo of a pelican on a pier"),
            ],
            "session_2_date_time": "12:09 am on 13 September, 2023",
            "session_2": [
                turn("D2:1", "Tovik", "The ferry to Ostrava was cancelled by fog."),
                turn("D2:2", "Brindle", "Then I will repair the anchor winch instead."),
            ],
            "session_3_date_time": "9:00 am on 1 October, 2023",
        },
        "qa": [
            asked("Which colour is the hull of the sailboat?", "D1:1"),
            asked("Where was the rhubarb planted?", "D1:2"),
            asked("Which pelican and which winch were there?", "D1:3; D2:2", category=1),
            asked("When was the ferry cancelled by fog?", "D2:1", "D9:9", category=2),
            asked("Who stole the lighthouse?", "D1:2", category=5),
            asked("What became of the trumpet?", "D7:1"),
        ],
    }


def orchard() -> dict[str, Any]:
    """Tell of other things; only the rhubarb is known here too."""
    return {
        "sample_id": "orchard",
        "conversation": {
            "session_1_date_time": "10:37 am on 27 June, 2023",
            "session_1": [
                turn("D1:1", "Quilla", "Our beehives survived winter thanks to heather."),
                turn("D1:2", "Marrow", "We baked rhubarb crumble with cardamom."),
            ],
        },
        "qa": [
            asked("Thanks to what did the beehives survive winter?", "D1:1", category=3),
            asked("Who baked crumble with cardamom?", "D1:2"),
        ],
    }
