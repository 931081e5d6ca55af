"""The way into jobs of OpenVM's proofs. Their proof system is called SWIRL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.entry import Entry, Exported
from distprove.stark.openvm.options import SwirlOptions

if TYPE_CHECKING:
    from distprove.proof import Proof, Verifier


def verifier(own_key: dict[str, Any], vk: Path | None) -> Verifier:
    from distprove.stark.openvm.job_verifier import SwirlVerifier, key_in

    own = SwirlVerifier(key_in(own_key))
    return own if vk is None else own.under(vk)


def export(proof: Proof, run: Path, folder: Path) -> Exported:
    from distprove.stark.openvm.job_verifier import export

    return export(proof, folder)


ENTRY = Entry(
    title="SWIRL",
    help="Prove traces of OpenVM 2 in its own bytes: a partition for each file, such as a program's segments.",
    options=SwirlOptions,
    system="distprove.stark.openvm.system:SwirlSystem",
    verifier=verifier,
    remakes_key=False,
    export=export,
)
