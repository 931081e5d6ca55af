"""The job's challenge, which binds its partitions: one digest of all their commitments, before any other challenge.

    challenge = keccak256("distprove stark job 2", canonical encoding of
                          [key digest, number of partitions, [[name, heights, public values, main root, anchors], ...]])

The list has the job's order. Every partition draws the challenges of the global buses from this digest and absorbs it
first; the verifier computes it again from the proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distprove.errors import FormatError
from distprove.formats import canonical
from distprove.formats.shapes import Row, fits
from distprove.proof import check_fields
from distprove.stark.field import Ext
from distprove.stark.heights import ABSENT, LogHeights, decode_heights, encode_heights
from distprove.stark.transcript import make_transcript
from kernels.cpu.keccak import keccak256
from kernels.interface.tree_hash import TreeHash


@dataclass(frozen=True)
class Commitment:
    """The public commitment of a partition before the barrier."""

    name: str
    log_heights: LogHeights
    public: tuple[int, ...]
    main_root: bytes
    anchors: bytes
    """The values of the anchor (`distprove.stark.anchor`), 24 bytes for each height from the tallest down; empty
    without global buses."""

    def to_list(self) -> list[object]:
        return [self.name, list(encode_heights(self.log_heights)), list(self.public), self.main_root, self.anchors]

    def to_bytes(self) -> bytes:
        return canonical.encode({"commitment": self.to_list()})

    @classmethod
    def from_bytes(cls, data: bytes) -> Commitment:
        """Decode what `to_bytes` wrote. Raises FormatError."""
        record = canonical.decode(data, "commitment")
        check_fields(record, {"commitment": list}, "commitment")
        if not fits(record["commitment"], Row(str, [int], [int], bytes, bytes)):
            raise FormatError("not a partition's commitment")
        name, heights, public, root, anchors = record["commitment"]
        if (
            len(root) != 32
            or len(anchors) % 24
            or min((*heights, *public), default=0) < 0
            or max(heights, default=0) > ABSENT
        ):
            raise FormatError("not a partition's commitment")
        return cls(name, decode_heights(heights), tuple(public), root, anchors)


JOB = b"distprove stark job 2"


def job_challenge(key_digest: bytes, commitments: Sequence[Commitment], purpose: bytes = JOB) -> bytes:
    """The challenge of a job, 32 bytes, which every partition's transcript starts from. Each engine has a purpose of
    its own."""
    content = [key_digest, len(commitments), [c.to_list() for c in commitments]]
    return keccak256(purpose + canonical.encode(content))


def global_challenges(challenge: bytes, tree_hash: TreeHash = TreeHash.KECCAK) -> tuple[Ext, Ext]:
    """The challenges z and beta of the global buses, which are the same in every partition."""
    transcript = make_transcript(b"global buses", tree_hash)
    transcript.absorb(b"job", challenge)
    return transcript.extension(b"z"), transcript.extension(b"beta")
