"""What a request of cuzk's is as a job of the service: its vanilla proofs in a file, and the keys of a job file."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.service.cuzk.messages import value_of
from cluster.service.views import KeyRequest, Priority
from distprove.errors import InputError, UsageError
from distprove.filecoin.entry import ENTRY
from distprove.filecoin.sectors import POST_PROOFS, SEAL_PROOFS, SIZES, UPDATE_PROOFS, Draw
from kernels.host.units import count_of

KINDS = {
    "POREP_SEAL_COMMIT": ("c1", "porep"),
    "SNAP_DEALS_UPDATE": ("update", "snap-deals"),
    "WINDOW_POST_PARTITION": ("window_post", "window-post"),
    "WINNING_POST": ("winning_post", "winning-post"),
}
"""The setting of a kind's vanilla proofs, and its circuit without the sector's size."""
_PRIORITIES = {
    "LOW": Priority.LOW,
    "NORMAL": Priority.NORMAL,
    "HIGH": Priority.HIGH,
    "CRITICAL": Priority.URGENT,
}
_REGISTERED: dict[str, Mapping[str, Any]] = {
    "c1": SEAL_PROOFS,
    "update": UPDATE_PROOFS,
    "window_post": POST_PROOFS,
    "winning_post": POST_PROOFS,
}
"""The registered types of proofs of each kind, in the order of their numbers."""


@dataclass(frozen=True, repr=False)
class Asked:
    """A request that was checked."""

    kind: str
    circuit: str
    """The name of the circuit that its key is of, `porep-32GiB`."""
    vanilla: bytes
    """The content of the file of vanilla proofs."""
    settings: dict[str, Any]
    """The keys of the job file but for the proving key and that file."""
    priority: Priority

    @property
    def file(self) -> str:
        """The setting that names the vanilla proofs."""
        return KINDS[self.kind][0]

    @property
    def name(self) -> str:
        """A name for the file, another one for other vanilla proofs."""
        return hashlib.blake2b(self.vanilla, digest_size=12).hexdigest()


def read_request(request: Any) -> Asked:
    """Check a SubmitProofRequest. Raises UsageError, InputError."""
    kind = value_of("ProofKind", request.proof_kind)
    if kind not in KINDS:
        raise UsageError("the request names no kind of proof that is known")
    setting, circuit = KINDS[kind]
    registered = list(_REGISTERED[setting].values())
    if request.registered_proof >= len(registered):
        raise UsageError(f"no registered proof of this kind has the number {request.registered_proof}")
    proof = registered[request.registered_proof]
    if request.sector_size and request.sector_size != SIZES[proof.size]:
        raise UsageError(f"sector_size is {request.sector_size}, and {proof.name} is of sectors of {SIZES[proof.size]}")
    if proof.name in SEAL_PROOFS and SEAL_PROOFS[proof.name].draw is Draw.NON_INTERACTIVE and setting == "c1":
        raise UsageError(
            "a non-interactive PoRep ends in an aggregate: submit it to the service itself, with `aggregate`"
        )
    settings: dict[str, Any] = {"proof_type": proof.name}
    if setting == "c1":
        if not request.vanilla_proof:
            raise InputError("no vanilla_proof")
        vanilla = bytes(request.vanilla_proof)
        settings |= {"prover_id": f"f0{request.miner_id}", "sector": request.sector_number}
    else:
        if not request.vanilla_proofs:
            raise InputError("no vanilla_proofs")
        vanilla = json.dumps([base64.b64encode(each).decode() for each in request.vanilla_proofs]).encode()
    if setting.endswith("post"):
        if len(request.randomness) != 32:
            raise InputError("randomness has 32 bytes")
        settings["randomness"] = bytes(request.randomness).hex()
        most = 1 if POST_PROOFS[proof.name].winning else POST_PROOFS[proof.name].shape[0]
        if len(request.vanilla_proofs) > most:
            raise UsageError(
                f"{count_of(len(request.vanilla_proofs), 'vanilla proof')}, and a partition of {proof.name} has "
                f"{count_of(most, 'sector')}"
            )
        if request.partition_index and not POST_PROOFS[proof.name].own_indices:
            raise UsageError(
                f"{proof.name} has challenges that depend on all partitions: only the first is proven alone"
            )
    if setting == "update":
        for name in ("comm_r_old", "comm_r_new", "comm_d_new"):
            value = bytes(getattr(request, name))
            if len(value) != 32:
                raise InputError(f"{name} has 32 bytes")
            settings[name] = value.hex()
    asked = value_of("Priority", request.priority)
    priority = _PRIORITIES.get(asked) or Priority(ENTRY.deadlines.get(setting, Priority.NORMAL))
    return Asked(kind, f"{circuit}-{proof.size}", vanilla, settings, priority)


_IDS = {"porep": "porep", "snap-deals": "snap", "window-post": "wpost", "winning-post": "winning"}
"""cuzk's words for circuits; a size follows, as in porep-32g."""


def circuit_id(circuit: str) -> str:
    """What cuzk calls a circuit: porep-32g for filecoin/porep-32GiB; the name itself for one that it does not know."""
    kind, _, size = circuit.removeprefix("filecoin/").rpartition("-")
    return f"{_IDS[kind]}-{size.removesuffix('iB').lower()}" if kind in _IDS and size in SIZES else circuit


def key_request(folder: Path, id: str) -> KeyRequest:
    """The key of a circuit by cuzk's word for it, or ours (porep-32GiB). Raises UsageError for another word, InputError
    where the folder has no key for it."""
    names = [f"{circuit}-{size}" for circuit in _IDS for size in SIZES]
    circuit = next((name for name in names if id in (name, circuit_id(name))), None)
    if circuit is None:
        raise UsageError(f"there is no circuit {id[:100]!r}: circuits are {', '.join(map(circuit_id, names))}")
    return KeyRequest("filecoin", key_in(folder, circuit), f"filecoin/{circuit}")


def key_in(folder: Path, circuit: str) -> dict[str, str]:
    """The setting of a circuit's proving key in a folder: CIRCUIT.zkey, or CIRCUIT.params. Raises InputError."""
    for setting in ("zkey", "params"):
        path = folder / f"{circuit}.{setting}"
        if path.is_file():
            return {setting: str(path)}
    raise InputError(f"no key for {circuit}: {folder} has neither {circuit}.zkey nor {circuit}.params")
