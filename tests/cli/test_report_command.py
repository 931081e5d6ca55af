"""`distprove report` on a run that was really proven."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.cli.conftest import run, why_refused


def test_a_page_and_a_trace_of_a_real_run(proven: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(proven, copy)
    done = run("report", copy)
    assert done.exit_code == 0, done.output
    page = (copy / "report.html").read_text()
    assert "3 of 3" in page
    assert "prove: quotient_msm" in page
    assert "Devices: busy and idle" in page
    trace = json.loads((copy / "trace.json").read_text())
    assert {"prover-0", "synthesiser-0", "driver"} <= {
        e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"
    }
    elsewhere = run("report", copy, "--out", tmp_path / "p.html", "--trace", tmp_path / "t.json")
    assert elsewhere.exit_code == 0, elsewhere.output
    assert "3 of 3" in (tmp_path / "p.html").read_text()
    assert (tmp_path / "t.json").is_file()
    told = run("report", copy, "--metrics", tmp_path / "m.prom")
    assert told.exit_code == 0, told.output
    partitions = 'distprove_run_partitions_total{status="proved",system="groth16"} 3.0'
    assert partitions in (tmp_path / "m.prom").read_text()


def test_what_is_not_a_run_is_refused(proven: Path, tmp_path: Path) -> None:
    assert run("report", tmp_path).exit_code == 2
    copy = tmp_path / "run"
    shutil.copytree(proven, copy)
    (copy / "timeline.json").write_text("{}")
    assert "timeline" in why_refused(run("report", copy))
