"""proof.msgpack: one encoding per content, every change rejected, every file handled."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distprove.errors import FormatError, InvalidProof
from distprove.formats import canonical
from distprove.proof import LONG, Proof, encode_partition, encode_public, fingerprint, job_digest, partition_digest
from distprove.stark.key_front import MAX_BYTES as MAX_KEY_BYTES
from distprove.stark.keyfile import read_key
from distprove.system import SHORT, PartitionProof

KEY = {"alpha": b"\x01" * 32, "ic": [b"\x02", b"\x03"]}


class Judge:
    """A verifier of proofs whose data says "good"."""

    def __init__(self, key: bytes = b"k" * 32) -> None:
        self.key = key

    def key_digest(self) -> bytes:
        return self.key

    def verify(self, proof: PartitionProof) -> bool:
        if "malformed" in proof.data:
            raise InvalidProof("a point off the curve")
        return bool(proof.data == {"says": "good"})

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        return all(self.verify(proof) for proof in proofs)


def bound(index: int, name: str, public: tuple[int, ...], data: dict[str, Any] | None = None) -> PartitionProof:
    digest = partition_digest(b"k" * 32, index, name, public)
    return PartitionProof(name, digest, public, data or {"says": "good"})


def make(*partitions: PartitionProof) -> Proof:
    return Proof("toy", b"k" * 32, KEY, partitions)


@pytest.fixture
def proof() -> Proof:
    return make(bound(0, "a", (0, 1, 2**255)), bound(1, "b", ()), bound(2, "c", (7,)))


def test_round_trip(proof: Proof, tmp_path: Path) -> None:
    proof.write(tmp_path / "proof.msgpack")
    again = Proof.read(tmp_path / "proof.msgpack")
    assert again == proof
    assert again.to_bytes() == proof.to_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["proof.msgpack"]
    again.verify(Judge(), expected_job=proof.job_digest)


class WholeJudge(Judge):
    """A verifier of one proof of all partitions that says "good", and names them."""

    def verify_whole(self, partitions: Sequence[PartitionProof], whole: dict[str, Any], output: bytes | None) -> None:
        if whole != {"says": "good", "of": [p.name for p in partitions]}:
            raise InvalidProof("another proof")

    def explain_whole(self, partitions: Sequence[PartitionProof]) -> dict[str, Any]:
        return {}


def test_one_proof_of_all_partitions(proof: Proof, tmp_path: Path) -> None:
    """A file of another version, with the digests of the same job; the partitions are not verified one by one."""
    listed = [replace(p, data={"stands": p.name}) for p in proof.partitions]
    whole = {"says": "good", "of": ["a", "b", "c"]}
    one = Proof.bind("toy", b"k" * 32, KEY, listed, whole)
    assert one.job_digest == proof.job_digest
    content = one.to_bytes()
    decoded = canonical.decode(content, "proof")
    assert canonical.encode(decoded) == content
    assert decoded["version"] == 2
    one.write(tmp_path / "proof.msgpack")
    again = Proof.read(tmp_path / "proof.msgpack")
    assert again == one
    again.verify(WholeJudge(), expected_job=proof.job_digest)
    with pytest.raises(FormatError, match="no one proof of all its partitions"):
        again.verify(Judge())
    with pytest.raises(InvalidProof, match="another proof"):
        Proof.bind("toy", b"k" * 32, KEY, listed, {"says": "good", "of": ["a", "c", "b"]}).verify(WholeJudge())
    with pytest.raises(InvalidProof, match="an output lies beside"):
        replace(again, output=b"more").verify(WholeJudge())
    with pytest.raises(InvalidProof, match="does not match its binding"):
        Proof.from_bytes(canonical.encode({**decoded, "whole": {**whole, "says": "better"}}))
    for changed in ({**decoded, "version": 1}, {k: v for k, v in decoded.items() if k != "whole"}):
        with pytest.raises(FormatError):
            Proof.from_bytes(canonical.encode(changed))


@pytest.mark.parametrize("size", [1, LONG + 1])
def test_a_binding_is_the_same_whether_it_is_hashed_on_the_way_or_before(size: int) -> None:
    """Beside the copy for long data, and on the same thread for short ones."""
    data = {"bytes": bytes(size)}
    before, way = (make(bound(0, "a", (7,), data), bound(1, "b", (), {"says": "good"})) for _ in range(2))
    listed = [before.job_digest, KEY, [each.data for each in before.partitions]]
    assert before.binding == canonical.digest("distprove/binding/1", *listed)
    content = way.to_bytes()
    assert way.binding == before.binding
    assert content == before.to_bytes()
    assert Proof.from_bytes(content).binding == before.binding


@pytest.mark.parametrize("read", [Proof.read, Proof.read_from, lambda path: Proof.read_from(path.parent), read_key])
def test_a_large_file_of_zeros_is_refused_before_it_is_read(read: Callable[[Path], object], tmp_path: Path) -> None:
    with open(tmp_path / "proof.msgpack", "wb") as file:
        file.truncate(MAX_KEY_BYTES)
    tracemalloc.start()
    with pytest.raises(FormatError, match=r"proof\.msgpack: not a \w+\.msgpack: it begins with other bytes"):
        read(tmp_path / "proof.msgpack")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_what_was_written_is_compared_and_not_hashed_again(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    content = proof.to_bytes()
    other = replace(proof, partitions=proof.partitions[::-1])
    assert Proof.from_bytes(content, written=other) == proof, "checked as if nothing were known"
    changed = canonical.decode(content, "proof")
    for field in ("binding", "job"):
        with pytest.raises(InvalidProof):
            Proof.from_bytes(canonical.encode({**changed, field: bytes(32)}), written=proof)
    changed["partitions"][0]["digest"] = bytes(32)
    with pytest.raises(InvalidProof, match="not what its digest says"):
        Proof.from_bytes(canonical.encode(changed), written=proof)
    monkeypatch.setattr(canonical, "digest", None)
    assert Proof.from_bytes(content, written=proof) is proof


def test_anyone_can_compute_the_job_digest(proof: Proof) -> None:
    assert proof.job_digest == job_digest(
        "toy", b"k" * 32, [("a", (0, 1, 2**255), None), ("b", (), None), ("c", (7,), None)]
    )


def edit(proof: Proof, change: Callable[[dict[str, Any]], None]) -> bytes:
    content = msgpack.unpackb(proof.to_bytes())
    change(content)
    return canonical.encode(content)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["partitions"].pop(),
        lambda c: c["partitions"].pop(0),
        lambda c: c["partitions"].append(c["partitions"][0]),
        lambda c: c["partitions"].append({**c["partitions"][0], "name": "d"}),
        lambda c: c["partitions"].reverse(),
        lambda c: c["partitions"][0].update(name="z"),
        lambda c: c["partitions"][0].update(digest=bytes(32)),
        lambda c: c["partitions"][2].update(public=[b"\x08"]),
        lambda c: c["partitions"][2].update(public=[]),
        lambda c: c["partitions"][2].update(public=[b"\x07", b"\x00"]),
        lambda c: c["partitions"][2].update(data={"says": "good", "more": 1}),
        lambda c: c.update(system="other"),
        lambda c: c.update(key=bytes(32)),
        lambda c: c.update(job=bytes(32)),
        lambda c: c.update(binding=bytes(32)),
        lambda c: c["verification_key"].update(alpha=bytes(32)),
    ],
)
def test_every_change_is_rejected(change: Callable[[dict[str, Any]], None], proof: Proof) -> None:
    with pytest.raises(InvalidProof):
        Proof.from_bytes(edit(proof, change))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(version=2),
        lambda c: c.update(version=True),
        lambda c: c.update(format="x"),
        lambda c: c.update(extra=1),
        lambda c: c.pop("binding"),
        lambda c: c.update(partitions=[]),
        lambda c: c["partitions"][2].update(public=[b"\x00\x07"]),
        lambda c: c["partitions"][2].update(public=[b""]),
        lambda c: c["partitions"][2].update(public=[b"\x01" * 65]),
        lambda c: c["partitions"][2].update(public=[7]),
        lambda c: c["partitions"][0].update(name="../../etc/passwd"),
        lambda c: c["partitions"][0].update(digest=b"short"),
        lambda c: c["partitions"].append("text"),
    ],
)
def test_other_layouts_are_refused(change: Callable[[dict[str, Any]], None], proof: Proof) -> None:
    with pytest.raises(FormatError):
        Proof.from_bytes(edit(proof, change))


def test_recomputed_digests_make_another_job(proof: Proof) -> None:
    """What hashes cannot prevent is told apart by the job digest that the reader expects."""
    shorter = make(*proof.partitions[:2])
    Proof.from_bytes(shorter.to_bytes()).verify(Judge())
    with pytest.raises(InvalidProof, match="is of job"):
        shorter.verify(Judge(), expected_job=proof.job_digest)
    swapped = make(bound(0, "b", ()), bound(1, "a", (0, 1, 2**255)), proof.partitions[2])
    with pytest.raises(InvalidProof, match="is of job"):
        swapped.verify(Judge(), expected_job=proof.job_digest)


def test_bad_partitions_are_named(proof: Proof) -> None:
    bad = make(proof.partitions[0], bound(1, "b", (), {"says": "bad"}), bound(2, "c", (7,), {"malformed": True}))
    with pytest.raises(InvalidProof, match="does not verify: b, c"):
        bad.verify(Judge())


def test_a_file_of_nothing_but_false_proofs_is_not_searched_to_its_end() -> None:
    """1024 false Groth16 proofs took fifteen times as long as as many that hold: each was found by itself."""
    asked: list[str] = []

    class Counting(Judge):
        def verify(self, proof: PartitionProof) -> bool:
            asked.append(proof.name)
            return super().verify(proof)

    false = [bound(i, f"p{i}", (), {"says": "bad"}) for i in range(1000)]
    with pytest.raises(InvalidProof, match=r"does not verify: p0, p1, p2, p3, p4, p5, p6, p7 \.\.\."):
        make(*false).verify(Counting())
    assert len(asked) < 100
    asked.clear()
    good = [bound(i, f"p{i}", ()) for i in range(999)]
    with pytest.raises(InvalidProof, match=r"does not verify: p999$"):
        make(*good, false[999]).verify(Counting())


def test_a_batch_that_fails_though_each_holds_alone_counts_as_all_bad(proof: Proof) -> None:
    class Doubts(Judge):
        def verify_batch(self, proofs: list[PartitionProof]) -> bool:
            return False

    with pytest.raises(InvalidProof, match="does not verify: a, b, c"):
        proof.verify(Doubts())


def test_another_key_is_named(proof: Proof) -> None:
    with pytest.raises(InvalidProof, match=r"is for key 6b6b6b6b6b6b6b6b\.\.\., not for 0000"):
        proof.verify(Judge(bytes(32)))


def test_every_flipped_byte_is_rejected(proof: Proof) -> None:
    data = proof.to_bytes()
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises((FormatError, InvalidProof)):
            Proof.from_bytes(bytes(changed))


@given(st.integers(0, 2**512 - 1), st.integers(0, 2**512 - 1))
def test_public_values_have_one_encoding(a: int, b: int) -> None:
    assert int.from_bytes(encode_public(a), "big") == a
    assert (encode_public(a) == encode_public(b)) == (a == b)


@pytest.mark.parametrize("value", [-1, 2**512])
def test_public_values_out_of_range(value: int) -> None:
    with pytest.raises(ValueError, match="public value"):
        encode_public(value)


# -- the encoding below ----------------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=40) | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=8), inner, max_size=20),
    max_leaves=30,
)


@given(values)
def test_canonical_round_trip(value: Any) -> None:
    data = canonical.encode(value)
    again = canonical.decode(data, "test")
    assert again == value
    assert canonical.encode(again) == data


@pytest.mark.parametrize("count", [0, 1, 255, 256, 65535, 65536, 1 << 20])
def test_a_byte_string_follows_its_header(count: int) -> None:
    assert canonical.bytes_header(count) + bytes(count) == canonical.encode(bytes(count))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_crash(data: bytes) -> None:
    try:
        value = canonical.decode(data, "test")
    except FormatError:
        return
    assert canonical.encode(value) == data


@given(values, st.data())
def test_truncation_is_refused(value: Any, data: st.DataObject) -> None:
    encoded = canonical.encode(value)
    with pytest.raises(FormatError):
        canonical.decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))], "test")


@pytest.mark.parametrize(
    "data",
    [
        b"\x82\xa1a\x01\xa1a\x02",  # a key twice
        b"\x82\xa1b\x01\xa1a\x02",  # keys out of order
        b"\xcc\x01",  # one in two bytes
        b"\xcd\x00\xff",  # a short number in a longer form
        b"\xd0\xff",  # minus one in two bytes
        b"\xd1\xff\x80",  # minus 128 in three
        b"\xd0\x05",  # a number that is not negative as one that may be
        b"\xd9\x01a",  # a short string in the long form
        b"\xc5\x00\x01a",  # short bytes in the long form
        b"\xdc\x00\x01\xc0",  # a short list in the long form
        b"\xde\x00\x01\xa1a\xc0",  # a short map in the long form
        b"\xc4\x00\x00",  # bytes after the end
        b"\x81\x01\x01",  # a key that is a number
        b"\xcb" + bytes(8),  # a float
        b"\xd4\x01\x00",  # an extension
        b"\xc1",
        b"\xa1\xff",  # not UTF-8
        b"\x91" * 40 + b"\xc0",  # too deep
    ],
)
def test_other_encodings_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        canonical.decode(data, "test")


@pytest.mark.parametrize(
    "header", [b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"]
)
def test_lying_headers_allocate_nothing(header: bytes) -> None:
    data = header * 1000
    tracemalloc.start()
    with pytest.raises(FormatError):
        canonical.decode(data, "test")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("small", [b"\x80", b"\x90", b"\x81\xa1a\x80"])
def test_small_values_that_cost_many_times_the_file_are_refused(small: bytes) -> None:
    """An empty map is a byte in the file and some eighty as an object."""
    with pytest.raises(FormatError, match=r"more small values than a file of \d+ bytes may hold"):
        canonical.decode(b"\xdd" + (260_000).to_bytes(4, "big") + small * 260_000, "test")


def test_many_partitions_with_small_public_values_fit_in_a_file() -> None:
    """A job of 100,000 partitions with ten public values of 0 or 1 each could be proven and not be bound."""
    many = [[b"\x01"] * 100] * 6000
    assert canonical.decode(canonical.encode(many), "test") == many


@pytest.mark.parametrize(
    "value",
    [
        [[{} for _ in range(3000)], [{"a": [i]} for i in range(3000)], list(range(3000))],
        [-32] * 9000,
        [b"a"] * 9000,
    ],
)
def test_no_value_costs_more_than_is_counted(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers from -32 on are a byte in the file, and objects of 32 that Python makes anew for each."""
    data = canonical.encode(value)
    allowed = 1 << 12
    while True:
        monkeypatch.setattr(canonical, "FREE_COST", allowed)
        try:
            tracemalloc.start()
            canonical.decode(data, "test")
            break
        except FormatError:
            allowed += allowed // 8
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert peak < canonical.COST_PER_BYTE * len(data) + allowed


@given(
    st.binary(max_size=40),
    st.sampled_from([b"", b"\x81", b"\x82\xa1a", b"\x92", b"\xcc", b"\xd0", b"\xd1\xff", b"\xd9"]),
)
def test_it_accepts_what_it_would_write(noise: bytes, start: bytes) -> None:
    """The pass over the bytes and the encoder agree on what is canonical."""
    data = start + noise
    try:
        expected = canonical.encode(msgpack.unpackb(data, raw=False, strict_map_key=True)) == data
    except (ValueError, TypeError, msgpack.exceptions.UnpackException):
        expected = False
    try:
        canonical.decode(data, "test")
    except FormatError:
        assert not expected
    else:
        assert expected


def test_nested_headers_cannot_promise_more_than_the_file_holds() -> None:
    # Each level's promise fits the file by itself; together they do not.
    data = b"".join(b"\xdc" + (5000).to_bytes(2, "big") for _ in range(10)) + bytes(6000)
    with pytest.raises(FormatError, match="exceeds"):
        canonical.decode(data, "test")


@pytest.mark.parametrize("value", [1.5, {1: 2}, 2**64, object(), -(2**63) - 1])
def test_what_has_no_encoding(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical.encode(value)


def test_equal_proofs_with_replaced_names_differ(proof: Proof) -> None:
    renamed = make(replace(proof.partitions[0], name="z"), *proof.partitions[1:])
    with pytest.raises(InvalidProof, match="moved, renamed"):
        Proof.from_bytes(renamed.to_bytes())


@pytest.mark.parametrize("count", [1, 15, 16, 300, 1 << 16])
def test_a_proof_is_the_canonical_encoding_of_its_map(count: int) -> None:
    """Though it is put together from partitions that are encoded already, in headers of each length."""
    made = make(*(bound(index, str(index), (index,), {"big": bytes(index % 300)}) for index in range(count)))
    data = [p.data for p in made.partitions]
    assert made.binding == canonical.digest("distprove/binding/1", made.job_digest, KEY, data)
    partitions = [
        {"name": p.name, "digest": p.digest, "public": [encode_public(v) for v in p.public], "data": p.data}
        for p in made.partitions
    ]
    top = {"format": "distprove.proof", "version": 1, "system": "toy", "key": b"k" * 32, "verification_key": KEY}
    whole = canonical.encode({**top, "job": made.job_digest, "partitions": partitions, "binding": made.binding})
    assert made.to_bytes() == whole
    assert encode_partition(made.partitions[0]) == canonical.encode(partitions[0])
    assert made.to_bytes() == whole, "also where they were kept"


def test_what_is_encoded_is_kept_for_a_job_and_does_not_travel() -> None:
    proof = bound(0, "a", (1,), {"big": bytes(10_000)})
    before = fingerprint(proof)
    assert proof.encode() is proof.encoded
    other = proof.named_by(b"d" * 32)
    assert other == replace(proof, digest=b"d" * 32)
    assert other.encoded is proof.encoded
    assert len(pickle.dumps(proof)) < 11_000
    again = pickle.loads(pickle.dumps(proof))
    assert again == proof
    assert fingerprint(again) == before
    assert fingerprint(replace(proof, data={"big": bytes(9_999) + b"1"})) != before
    assert fingerprint(replace(proof, public=(2,))) != before
    read = bound(0, "a", (1,))
    assert read.encode() == canonical.encode(read.data)
    assert "_encoded" not in vars(read)
    long = bound(0, "a", (1,), {"big": bytes(SHORT)})
    assert long.encoded == canonical.encode(long.data)
    assert "_encoded" not in vars(long), "the pages of memory for it cost more than to make it again"
