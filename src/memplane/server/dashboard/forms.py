"""What a form of a page sends."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

MAX_FORM_BYTES: Final = 256 * 1024
_MAX_FIELDS: Final = 2000
_FORM_TYPE: Final = "application/x-www-form-urlencoded"


class Form(msgspec.Struct, frozen=True):
    """Fields by name; one that is not there is empty."""

    fields: dict[str, list[str]]

    def one(self, name: str, otherwise: str = "") -> str:
        """Return a field."""
        return self.fields.get(name, [otherwise])[0]

    def all(self, name: str) -> list[str]:
        """Return every value of a field."""
        return self.fields.get(name, [])

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return every value of a field that is a number."""
        return tuple(int(one) for one in self.all(name) if one.isascii() and one.isdecimal())

    def has(self, name: str) -> bool:
        """Say whether a box is ticked."""
        return name in self.fields


async def read_form(request: Request) -> Form:
    """Read the body as a form; anything else ends the request with 415 or 400."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if body and kind != _FORM_TYPE:
        raise HTTPException(415, "send a form")
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise HTTPException(400, "the form cannot be read") from error
    return Form(fields)
