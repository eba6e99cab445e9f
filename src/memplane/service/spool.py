"""Jobs that short-lived processes leave for the worker: durable, and one file each."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from memplane.kit.durable_files import open_folder, replace_file, translate_os_errors
from memplane.kit.ids import new_id

_log = logging.getLogger(__name__)


class SpooledJob(msgspec.Struct, frozen=True):
    """One thing to do: its kind, and what it needs to know."""

    kind: str
    details: Mapping[str, str]
    path: Path


def enqueue_job(spool: Path, kind: str, details: Mapping[str, str], *, now: datetime) -> None:
    """Leave a job. It is durable when this returns."""
    name = f"{int(now.timestamp() * 1_000_000):020d}-{new_id()}.job"
    body = json.dumps({"kind": kind, "details": dict(details)}).encode()
    with translate_os_errors(name):
        folder = open_folder(spool, (), create=True)
        try:
            replace_file(folder, name, body)
        finally:
            os.close(folder)


def list_jobs(spool: Path) -> list[SpooledJob]:
    """Return the jobs there are, oldest first; a file that is not a job is put aside."""
    jobs: list[SpooledJob] = []
    for path in sorted(spool.glob("*.job")):
        try:
            body = cast("dict[str, Any]", json.loads(path.read_bytes()))
            jobs.append(SpooledJob(str(body["kind"]), dict(body["details"]), path))
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            path.rename(path.with_suffix(".damaged"))
            _log.warning("%s is not a job; it is put aside as .damaged", path)
    return jobs


def remove_job(job: SpooledJob) -> None:
    """Let go of a job that was done."""
    job.path.unlink(missing_ok=True)
