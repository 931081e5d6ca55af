"""The one way to log: lines of text that are safe to show, or JSON, one line an event, for whatever collects them.
DISTPROVE_LOG_FORMAT=json asks for that, in every process.

    {"time": "2026-01-31T12:00:00.000Z", "level", "logger", "event", "job", "partition", "worker", "gpu", ...}

A field that an event has not is left out. An exception is told by its type and place, without its text, which may quote
a witness.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import traceback
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from distprove.formats.visible import bounded, visible

VARIABLE = "DISTPROVE_LOG_FORMAT"
MAX_TEXT = 2000
"""Characters of one field."""
FRAMES = 5


def logger(name: str) -> logging.Logger:
    """The logger of that name."""
    return logging.getLogger(name)


def wants_json() -> bool:
    """Whether logs are to be JSON."""
    return os.environ.get(VARIABLE, "").lower() == "json"


def set_up_logging() -> None:
    """Have this process log to standard error, in the form that is asked for. Does nothing where it logs already."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonLines() if wants_json() else VisibleLines("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    if wants_json():
        sys.excepthook = lambda kind, error, trace: _log_uncaught(kind, error, trace)
        threading.excepthook = lambda told: _log_uncaught(told.exc_type, told.exc_value, told.exc_traceback)


def _log_uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if error is not None and issubclass(kind, Exception):
        logger("distprove").error("uncaught", exc_info=(kind, error, trace))


def log_event(log: logging.Logger, event: str, level: str = "INFO", **fields: Any) -> None:
    """Log an event with its fields; those that are None or empty are left out."""
    log.log(
        logging.getLevelName(level),
        "%s",
        event,
        extra={"fields": {name: value for name, value in fields.items() if value}},
    )


class VisibleLines(logging.Formatter):
    """Formats a record as text in which nothing acts on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        fields = (f" {name}={bounded(str(value), MAX_TEXT)}" for name, value in getattr(record, "fields", {}).items())
        return visible(super().format(record) + "".join(fields), keep="\n")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            "process": record.process,
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            frames = traceback.extract_tb(record.exc_info[2])[-FRAMES:]
            line["error"] = record.exc_info[0].__name__
            line["at"] = ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
        told = {name: bounded(value, MAX_TEXT) if isinstance(value, str) else value for name, value in line.items()}
        return json.dumps(told, default=str)
