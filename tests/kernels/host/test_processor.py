"""The processor as Linux describes it."""

from __future__ import annotations

import platform
from pathlib import Path

from kernels.host.processor import processor_facts

X86 = "processor\t: 0\nmodel name\t: Some CPU: 3 GHz\nflags\t\t: fpu bmi2 adx\n\nprocessor\t: 1\nmodel name\t: Other\n"


def test_the_first_processor_counts(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(X86)
    facts = processor_facts(tmp_path / "cpuinfo")
    assert (facts.model, facts.flags) == ("Some CPU: 3 GHz", {"fpu", "bmi2", "adx"})


def test_arm_names_no_model(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nFeatures\t: fp asimd sve\n")
    facts = processor_facts(tmp_path / "cpuinfo")
    assert facts.model == (platform.processor() or platform.machine())
    assert facts.flags == {"fp", "asimd", "sve"}


def test_without_the_file_there_is_a_name(tmp_path: Path) -> None:
    facts = processor_facts(tmp_path / "none")
    assert facts.model
    assert not facts.flags
