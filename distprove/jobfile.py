"""Writes a job as the text of a job file. `Job.from_toml` reads the same job back, wherever the file lies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from distprove.errors import UsageError
from distprove.job import Job
from distprove.options import settings_of
from distprove.settings import ExecutorSettings


def job_text(job: Job, comment: str = "") -> str:
    """The job file of `job`: TOML with absolute paths, without settings that have their default values.

    `comment` goes on top, one comment line for each of its lines. Raises UsageError for paths without a UTF-8 form.
    """
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    table: dict[str, Any] = {"system": job.system, "title": job.title or None, **_options(job)}
    lines += [f"{key} = {_value(value)}" for key, value in table.items() if value not in (None, [], {})]
    chosen = {f.name: getattr(job.executor, f.name) for f in fields(ExecutorSettings)}
    usual = ExecutorSettings()
    settings = {name: value for name, value in chosen.items() if value != getattr(usual, name)}
    if settings:
        lines += ["", "[executor]", *(f"{name} = {_value(value)}" for name, value in settings.items())]
    text = "\n".join(lines) + "\n"
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("a job file is UTF-8, and one of the job's paths is not") from None
    return text


def _options(job: Job) -> dict[str, Any]:
    """The job file's keys that belong to the job's proof system."""
    options = job.to_record()["options"]
    known = settings_of(type(job.options))
    given = {key: value for key, value in options.items() if key in known}
    if any(source.content is not None for source in job.sources):
        raise UsageError("inputs that were given as values are in no file, which a job file could name")
    lists = {key: value for key, value in given.items() if isinstance(value, list)}
    return {**given, **{key: [item.get("url") or item["path"] for item in files] for key, files in lists.items()}}


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_value(str(key))} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    # TOML writes strings, numbers and booleans as JSON does, except that DEL must be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
