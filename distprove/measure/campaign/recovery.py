"""How long a job waits for a worker whose process was killed.

    python -m distprove.measure.campaign.recovery --kills 20

A job from Python with one worker process; after each wait of some seconds a proof kills that process. Told are the
seconds from each kill to the moment at which the worker was ready again, those (median and worst) to the one at which
the driver knew of the death, the CPU seconds of the whole job, and the machine's load: a machine whose cores are busy
takes that many times longer.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from cluster.driver import drive
from cluster.opening import open_client
from cluster.record.journal import read_journal
from cluster.record.run import Run
from distprove.measure.campaign import TOY, load_toy
from distprove.measure.campaign.faults import recoveries
from distprove.settings import ExecutorSettings

BETWEEN = 8
"""Partitions from one that kills to the next: a worker that dies again and again with no good proof is given up."""


def measure(kills: int, apart: float, ray: bool, actor: bool, toy_name: str = TOY) -> dict[str, Any]:
    """Kill a worker so often, or the `actor` that it is in, so many seconds after it was ready."""
    toy = load_toy(toy_name)
    names = [f"p{BETWEEN * (index + 1)}" for index in range(kills)]
    settings = ExecutorSettings(local=not ray, isolate=None if ray else True, threads=1, backend=toy.TOY_BACKEND)
    with tempfile.TemporaryDirectory(prefix="recovery-") as name:
        folder = Path(name)
        (folder / "faults").mkdir()
        slow = dict.fromkeys(names, apart)
        killed: dict[str, Any] = {"kill_actor" if actor else "kill_prover": dict.fromkeys(names, 1)}
        faults = toy.Faults(folder / "faults", **killed, slow=slow)
        system = toy.ToySystem(BETWEEN * (kills + 1), faults)
        with open_client(settings) as client, Run.create(folder / "run", system, system.plan()) as run:
            began = time.monotonic()
            drive(system, client, run, settings)
            wall = time.monotonic() - began
        seconds = sorted(recoveries(folder).get("prover", []))
        noticed = sorted(until_known(folder))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    tenth = len(seconds) // 10
    return {
        "kills": len(seconds),
        "median": statistics.median(seconds),
        "quantiles": [seconds[tenth], seconds[-1 - tenth]],
        "worst": seconds[-1],
        "seconds": seconds,
        "noticed": [statistics.median(noticed), noticed[-1]],
        "wall": round(wall, 2),
        "cpu": round(sum(each.ru_utime + each.ru_stime for each in used), 2),
        "load": os.getloadavg()[0],
    }


def until_known(folder: Path) -> list[float]:
    """Seconds from each kill until the driver knew of the death."""
    killed = sorted(path.stat().st_mtime for path in (folder / "faults").glob("kill_*"))
    deaths = [event["time"] for event in read_journal(folder / "run") if event["event"] == "death"]
    return [round(death - max(kill for kill in killed if kill <= death), 3) for death in deaths]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--apart", type=float, default=2.0, help="seconds of a proof that ends with a kill")
    parser.add_argument("--ray", action="store_true", help="over a Ray that is started for it")
    parser.add_argument("--actor", action="store_true", help="kill the actor that the worker is in, too; over Ray")
    parser.add_argument("--toy", default=TOY, help="module of the toy proof system")
    given = parser.parse_args()
    print(json.dumps(measure(given.kills, given.apart, given.ray or given.actor, given.actor, given.toy)))


if __name__ == "__main__":
    main()
