"""What a session of the GPU tests ran: a pytest plugin that watches kernels and outcomes and writes them down."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from distprove.host.machine import inspect_machine
from distprove.measure.results import SCHEMA
from kernels.source import KernelSource, flatten


class Record:
    """Writes outcomes of tests and launched kernels to a file. Made before any device is opened; needs CuPy."""

    def __init__(self, path: Path) -> None:
        from kernels.cuda.launch import CudaDevice, CudaKernel

        self._path = path
        self._outcomes: dict[str, str] = {}
        self._launched: dict[KernelSource, set[str]] = defaultdict(set)
        self._compiled: dict[KernelSource, set[str]] = defaultdict(set)
        give, launch = CudaDevice.kernel, CudaKernel.launch
        places: dict[int, tuple[KernelSource, str]] = {}
        kept: list[Any] = []  # keeps the ids above from being used again

        def kernel(device: Any, source: KernelSource, name: str) -> Any:
            found = give(device, source, name)
            if id(found) not in places:
                kept.append(found)
                places[id(found)] = source, name
                self._compiled[source] |= set(device.compiler.compile(source).kernels)
            return found

        def launched(kernel: Any, *args: Any, **options: Any) -> None:
            source, name = places[id(kernel)]
            self._launched[source].add(name)
            launch(kernel, *args, **options)

        CudaDevice.kernel, CudaKernel.launch = kernel, launched  # type: ignore[method-assign]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        document = {
            "schema": SCHEMA,
            "bench": "gpu-tests",
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
            "machine": inspect_machine().to_dict(),
            "sources": self._sources(),
            "counts": dict(Counter(self._outcomes.values())),
            "outcomes": self._outcomes,
        }
        self._path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def _sources(self) -> dict[str, Any]:
        """By source file, flattened with its headers; sources that were generated count as one, without a digest."""
        files: dict[str, Any] = {}
        for source, names in sorted(self._compiled.items(), key=lambda item: item[0].title):
            digest = None if source.text else hashlib.sha256(flatten(source).encode()).hexdigest()
            title = "generated row programs" if source.text else source.name
            entry = files.setdefault(title, {"sha256": digest, "launched": set(), "others": set()})
            entry["launched"] |= self._launched[source]
            entry["others"] |= names
        for entry in files.values():
            entry["others"] = sorted(entry["others"] - entry["launched"])
            entry["launched"] = sorted(entry["launched"])
        return files
