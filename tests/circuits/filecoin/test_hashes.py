"""Filecoin's hashes: digests against hashlib and neptune's published ones, sizes against the published counts."""

from __future__ import annotations

import hashlib
from random import Random

import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.filecoin.hashing import AT_ONCE, hash_poseidon, hash_sha256, poseidon_hashes
from distprove.circuits.filecoin.poseidon import filecoin_poseidon, hash_elements
from distprove.circuits.filecoin.sha256 import sha256
from distprove.circuits.matrices import Shape
from distprove.circuits.poseidon_params import neptune_parameters
from kernels.cuda.backend import CudaBackend
from kernels.cuda.field import field_source
from kernels.interface.backend import Backend
from kernels.maths.curves import BLS12_381
from kernels.maths.encoding import unpack
from tests.circuits.filecoin.conftest import satisfies
from tests.support.emulated_device import EmulatedDevice

FIELD = BLS12_381.fr


@pytest.mark.parametrize(
    ("arity", "digest"),
    [
        (4, 0x58A54B10A9E5848A00DB3C6579229399FB6B4605BF1327EC019814FF6662075D),
        (8, 0x2394611DA3A5DE5512010042116770774B682E9D9CC4AED92A9934F56D38A5E6),
        (11, 0x0C0FC1B2E5227F286CA537E232EBE87A09F3DCD8CCB08FC1CEE3BBC32B693163),
    ],
)
def test_digests_are_neptunes(arity: int, digest: int) -> None:
    # neptune's own test of its Merkle hash, whose inputs are 0, 1, 2, ...
    assert filecoin_poseidon(FIELD, range(arity)) == digest


def test_many_hashes_are_those_of_each() -> None:
    random = Random(4)
    nodes = [[random.randrange(FIELD.modulus) for _ in range(8)] for _ in range(AT_ONCE + 2)]
    hashes = poseidon_hashes(nodes)
    assert len(set(hashes)) == len(nodes)
    for number in (0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1):
        assert hashes[number] == hash_poseidon(nodes[number])
    assert poseidon_hashes(nodes[:2]) == hashes[:2]


def test_other_arities_are_refused() -> None:
    with pytest.raises(ValueError, match="3, 5, 9 or 12"):
        neptune_parameters(FIELD, 4)


@pytest.mark.parametrize(
    ("arity", "constraints", "nnz"),
    [
        (2, 311, (2119, 313, 386)),
        (4, 377, None),
        (8, 505, (3598, 513, 624)),
        (11, 598, (4462, 609, 738)),
    ],
)
def test_poseidon_circuit(arity: int, constraints: int, nnz: tuple[int, int, int] | None, backend: Backend) -> None:
    b = CircuitBuilder(BLS12_381)
    inputs = [b.private_input(f"x{k}", 2) for k in range(arity)]
    digest = hash_elements(b, inputs)
    shape = b.shape()
    assert (shape.constraints, shape.auxiliary) == (2 * constraints, 2 * (constraints + arity))
    assert nnz is None or shape.nnz == tuple(2 * n for n in nnz)
    b.output("digest", digest)
    rows = [[Random(k).randrange(FIELD.modulus) for k in range(n, n + arity)] for n in range(2)]
    circuit = b.build()
    witness = circuit.witness({f"x{k}": [row[k] for row in rows] for k in range(arity)}, backend)
    assert satisfies(circuit, witness, backend)
    assert unpack(witness[1:3]) == [filecoin_poseidon(FIELD, row) for row in rows]


def test_groups_of_a_gpus_threads_make_neptunes_digests() -> None:
    device = EmulatedDevice()
    b = CircuitBuilder(BLS12_381)
    b.output("digest", hash_elements(b, [b.private_input(f"x{k}", 1) for k in range(8)]))
    made = b.build().witness({f"x{k}": [k] for k in range(8)}, CudaBackend(device))
    assert unpack(made[1:2]) == [0x2394611DA3A5DE5512010042116770774B682E9D9CC4AED92A9934F56D38A5E6]
    assert device.kernel(field_source("synthesis", FIELD), "synthesis_products_grouped").launches > 0


def sha_circuit(bits: int, lanes: int, known: str = "") -> CircuitBuilder:
    """The digest of `bits` private bits, then bits that the circuit knows."""
    b = CircuitBuilder(BLS12_381)
    message = [b.private_input(f"bit{k}", lanes) for k in range(bits)]
    digest = sha256(b, [*message, *(bit == "1" for bit in known)])
    for number, bit in enumerate(digest):
        b.output(f"digest{number}", bit)
    return b


@pytest.mark.parametrize(("bits", "known"), [(8, ""), (440, "10100101"), (448, "1" * 200), (1024, "")])
def test_sha256_is_hashlibs(bits: int, known: str, backend: Backend) -> None:
    messages = [f"{Random(7 * k + bits).getrandbits(bits):0{bits}b}" for k in range(3)]
    circuit = sha_circuit(bits, 3, known).build()
    witness = circuit.witness({f"bit{k}": [int(m[k]) for m in messages] for k in range(bits)}, backend)
    assert satisfies(circuit, witness, backend)
    found = unpack(witness[1 : 1 + 3 * 256])
    for lane, message in enumerate(messages):
        whole = message + known
        digest = hashlib.sha256(int(whole, 2).to_bytes(len(whole) // 8, "big")).digest()
        assert int("".join(map(str, found[lane::3])), 2).to_bytes(32, "big") == digest


def test_sha256_counts_are_bellpersons() -> None:
    def shape(bits: int) -> Shape:
        b = CircuitBuilder(BLS12_381)
        message = b.private_input("message", bits)
        b.assert_boolean(message, "bits")
        sha256(b, [message[k] for k in range(bits)])
        return b.shape()

    # 25,840 for a block with the known initial state. Two nodes from bits: 45,387, of which one packs the digest.
    assert shape(512).constraints == 45_387 - 1
    assert shape(440).constraints - 440 < 25_840


def test_every_wire_of_a_block_is_constrained(backend: Backend) -> None:
    circuit = sha_circuit(16, 1).build()
    witness = circuit.witness({f"bit{k}": k & 1 for k in range(16)}, backend)
    assert satisfies(circuit, witness, backend)
    for wire in Random(3).sample(range(1 + 256 + 16, circuit.n_wires), 60):
        changed = witness.copy()
        changed[wire, 0] ^= 1
        assert not satisfies(circuit, changed, backend), f"wire {wire} is free"


def test_nodes_of_tree_d_are_truncated_digests() -> None:
    # comm_d of 2 KiB of zeros, as every node of Filecoin knows it.
    node = 0
    for _ in range(6):
        node = hash_sha256([node, node])
    assert node.to_bytes(32, "little").hex() == "fc7e928296e516faade986b28f92d44a4f24b935485223376a799027bc18f833"
