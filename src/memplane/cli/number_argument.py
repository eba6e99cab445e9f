"""Numbers on the command line: each option says its range, and refuses what lies outside."""

from __future__ import annotations

import argparse
import math
from typing import Final


class NumberRange:
    """Reads an option's number, for `type=`; both ends of the range belong to it."""

    def __init__(self, low: int, high: float = math.inf, *, whole: bool = True) -> None:
        self.low = low
        self.high = high
        self._read = int if whole else float

    def __call__(self, text: str) -> float:
        """Read a number.

        Raises:
            ArgumentTypeError: It is none, or it is outside the range.
        """
        try:
            number = self._read(text)
        except ValueError:
            number = math.nan
        if not self.low <= number <= self.high or math.isinf(number):  # no nan is within
            raise argparse.ArgumentTypeError(f"{text!r} is not {self}")
        return number

    def __str__(self) -> str:
        """Say what is read."""
        kind = "a whole number" if self._read is int else "a number"
        if math.isinf(self.high):
            return f"{kind} of at least {self.low}"
        return f"{kind} from {self.low} to {self.high}"


CONFIDENCE_RANGE: Final = NumberRange(0, 1, whole=False)
TOKENS_RANGE: Final = NumberRange(0)
