"""Draw what memplane prints in a terminal, from real runs in a home of its own, as SVG.

`python docs/terminal_pictures.py` writes docs/screenshots/claude-*.svg anew. The home is shown as
/home/ada, and the program as it is installed there.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent / "screenshots"
PROGRAM = Path(sys.executable).with_name("memplane")
LINE_HEIGHT, CHARACTER_WIDTH, MARGIN = 19, 8.2, 16
COLOURS = {"+": "#7ee787", "-": "#ffa198", "@": "#79c0ff", "$": "#e6edf3"}
SESSION = "7f3a2b1c-0d4e-4f5a-8b6c-1d2e3f4a5b6c"
TALK = (
    ("user", "The login fails for names with a dash. Please don't touch the tests.", 30),
    ("assistant", "The pattern was too narrow. Names with a dash log in now.", 41),
    ("user", "And the logout?", 43),
    ("assistant", "The logout works. The cookie still needs a test.", 52),
)


def draw(name: str, lines: list[str], *, is_diff: bool = False) -> None:
    """Write lines of a terminal as a picture."""
    width = max(map(len, lines)) * CHARACTER_WIDTH + 2 * MARGIN
    height = len(lines) * LINE_HEIGHT + 2 * MARGIN
    rows: list[str] = []
    for number, line in enumerate(lines):
        place = f'x="{MARGIN}" y="{MARGIN + 14 + number * LINE_HEIGHT}"'
        is_coloured = is_diff or line.startswith("$")
        colour = COLOURS.get(line[:1] if is_coloured else "", "#b1bac4")
        text = html.escape(line)
        rows.append(f'<text {place} fill="{colour}" xml:space="preserve">{text}</text>')
    (FOLDER / f"{name}.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="13.5">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n{chr(10).join(rows)}\n</svg>\n'
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        user = Path(root).resolve() / "ada"
        project = user / "shop"
        project.mkdir(parents=True)

        def run(*words: str) -> list[str]:
            ran = subprocess.run(  # noqa: S603 - our own program
                [PROGRAM, *words],
                cwd=project,
                env={"PATH": "/usr/bin:/bin", "HOME": str(user), "MEMPLANE_TIMEZONE": "UTC"},
                capture_output=True,
                text=True,
                check=False,
            )
            shown = ran.stdout.replace(str(PROGRAM), "/home/ada/.local/bin/memplane")
            return [
                f"$ memplane {' '.join(words)}",
                *shown.replace(str(user), "/home/ada").splitlines(),
            ]

        installed = run("claude", "install", "--yes")
        server = next(at for at, line in enumerate(installed) if ".claude.json" in line)
        end = next(at for at, line in enumerate(installed) if at > server and not line)
        draw(
            "claude-install",
            [installed[0], "…", *installed[server:end], "…", *installed[-2:]],
            is_diff=True,
        )
        draw("claude-status", run("claude", "status"))
        slug = "".join(c if c.isalnum() else "-" for c in str(project))
        transcript = user / ".claude" / "projects" / slug / f"{SESSION}.jsonl"
        transcript.parent.mkdir(parents=True)
        transcript.write_text("\n".join(map(transcript_line, TALK)) + "\n")
        draw("claude-digest", run("digest", "--session", SESSION))


def transcript_line(said: tuple[str, str, int]) -> str:
    role, text, minute = said
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    time = f"2026-03-01T09:{minute}:00.000Z"
    return json.dumps({"type": role, "uuid": str(minute), "timestamp": time, "message": message})


if __name__ == "__main__":
    main()
