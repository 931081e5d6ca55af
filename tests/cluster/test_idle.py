"""Provers that prepare what later proofs need while they have nothing to prove, and hang at that."""

from __future__ import annotations

import time
from typing import Any

from distprove.settings import ExecutorSettings
from tests.support.toy_system import TOY_BACKEND, ToyProver, ToySynthesiser, ToySystem


class HangingProver(ToyProver):
    def prepare_more(self) -> bool:
        if self.begun >= 2 and self.system.faults.strikes("outside", "prepare"):
            time.sleep(1000)
        return self.begun < 3


class SlowSynthesiser(ToySynthesiser):
    def synthesise(self, partition: Any) -> Any:
        time.sleep(0.1)
        return super().synthesise(partition)


class HangingSystem(ToySystem):
    def synthesiser(self, shared: Any, threads: int) -> SlowSynthesiser:
        return SlowSynthesiser(self.faults, self.witness_bytes)

    def prover(self, shared: Any, backend: Any) -> HangingProver:
        return HangingProver(self, shared["key"].tobytes(), False)


def test_a_prover_that_hangs_while_it_prepares_is_ended(faults: Any, run_toy: Any) -> None:
    """An order waited for it, and nothing told that it had begun."""
    system = HangingSystem(5, faults(outside={"prepare": 1}))
    settings = ExecutorSettings(
        local=True,
        isolate=True,
        threads=2,
        backend=TOY_BACKEND,
        hang_timeout=2.0,
        in_flight=1,
        synthesisers=1,
        gpu_workers=1,
        max_retries=9,
    )
    run_toy(system, settings).verify(system)
