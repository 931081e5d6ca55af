"""The verifier accepts what stark-backend's prover wrote, and refuses it after every change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from distprove.errors import InvalidProof
from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.key_hash import key_hash
from distprove.stark.openvm.proof import OpenVmProof
from distprove.stark.openvm.verifier import verify
from kernels.maths.babybear import P
from tests.support.openvm_golden import NAMES, key_of, proof_of

Change = Callable[[Any], Any]
Path = tuple[Any, ...]


@pytest.mark.parametrize("name", NAMES)
def test_accepts_golden_proofs(name: str) -> None:
    shape = verify(key_of(name), proof_of(name))
    assert [t.log_height for t in shape.traces] == sorted((t.log_height for t in shape.traces), reverse=True)
    assert {t.number for t in shape.traces} == {i for i, t in enumerate(proof_of(name).traces) if t is not None}


# -- every element of the structure, changed once ---------------------------------------------------------------------


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All arrays, integers and absent parts of a proof, with the path to each."""
    if is_dataclass(value):
        for field in fields(value):
            yield from leaves(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple):
        for i, each in enumerate(value):
            yield from leaves(each, (*path, i))
    else:
        yield path, value


def lists(value: Any, path: Path = ()) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """All lists of a proof that are not arrays."""
    if is_dataclass(value):
        for field in fields(value):
            yield from lists(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple):
        yield path, value
        for i, each in enumerate(value):
            yield from lists(each, (*path, i))


def changed(value: Any, path: Path, change: Change) -> Any:
    """A proof with one part changed."""
    if not path:
        return change(value)
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return replace(value, **{step: changed(getattr(value, step), rest, change)})
    return (*value[:step], changed(value[step], rest, change), *value[step + 1 :])


def at_place(place: int) -> Change:
    def change(array: Any) -> Any:
        flat = array.reshape(-1).copy()
        flat[place] = (int(flat[place]) + 1) % P
        return flat.reshape(array.shape)

    return change


def one_more(array: Any) -> Any:
    extra = array[-1:] if len(array) else np.zeros((1, *array.shape[1:]), dtype=np.uint32)
    return np.concatenate([array, extra])


def refuses(name: str, proof: OpenVmProof, what: object) -> None:
    try:
        verify(key_of(name), proof)
    except InvalidProof:
        return
    pytest.fail(f"{name}: accepted a change of {what}")


@pytest.mark.parametrize("name", ["stacked", "mixed"])
def test_refuses_every_changed_element(name: str) -> None:
    """The last element of every array, of the shorter proof the first as well, and every integer.

    Where all leaves of a codeword are alike, as after the last folds of short traces, other queries are as good, and so
    is another witness of their proof of work. These two proofs have no such codeword.
    """
    assert not any((word == word[:1]).all() for word in proof_of(name).whir.words)
    proof, count = proof_of(name), 0
    for path, value in leaves(proof):
        if isinstance(value, np.ndarray):
            for place in {0 if name != "mixed" else value.size - 1, value.size - 1} if value.size else ():
                refuses(name, changed(proof, path, at_place(place)), (path, place))
                count += 1
        elif value is not None:
            for step in (-1, 1):
                refuses(name, changed(proof, path, lambda number, step=step: (number + step) % P), (path, step))
            count += 1
    assert count > 50


@pytest.mark.parametrize("name", NAMES)
def test_refuses_every_changed_length(name: str) -> None:
    """Every array and every list without its last item, and with one more."""
    proof = proof_of(name)
    for path, value in leaves(proof):
        if isinstance(value, np.ndarray):
            refuses(name, changed(proof, path, one_more), path)
            if len(value):
                refuses(name, changed(proof, path, lambda array: array[:-1]), path)
    for path, value in lists(proof):
        if value:
            refuses(name, changed(proof, path, lambda items: (*items, items[-1])), path)
            refuses(name, changed(proof, path, lambda items: items[:-1]), path)


def test_refuses_traces_that_are_missing_or_added() -> None:
    proof = proof_of("mixed")
    absent = [i for i, trace in enumerate(proof.traces) if trace is None]
    present = [i for i, trace in enumerate(proof.traces) if trace is not None]
    assert absent
    for i in present:
        refuses("mixed", changed(proof, ("traces", i), lambda trace: None), i)
    for i in absent:
        refuses("mixed", changed(proof, ("traces", i), lambda trace: proof.traces[present[0]]), i)
    refuses("mixed", replace(proof, traces=tuple(None for _ in proof.traces)), "all traces")


def test_refuses_exchanged_parts() -> None:
    """Parts of the same shape in another order, as a prover would like to choose it."""
    proof, whir = proof_of("mixed"), proof_of("mixed").whir
    first, second, *others = whir.rows
    paths, more_paths, *other_paths = whir.row_paths
    refuses(
        "mixed",
        replace(
            proof,
            whir=replace(whir, rows=(second, first, *others), row_paths=(more_paths, paths, *other_paths)),
        ),
        "two commitments",
    )
    flipped = replace(
        whir, rows=tuple(rows[::-1] for rows in whir.rows), row_paths=tuple(p[::-1] for p in whir.row_paths)
    )
    refuses("mixed", replace(proof, whir=flipped), "the order of queries")
    for parts in (proof.constraints.numerators, proof.constraints.denominators):
        assert len(parts) > 1
    swapped = replace(proof.constraints, numerators=proof.constraints.numerators[::-1].copy())
    refuses("mixed", replace(proof, constraints=swapped), "the traces' shares")


def test_witnesses_of_no_work_are_zero() -> None:
    """Where a key asks for no work, stark-backend takes any witness; here a proof has one encoding."""
    key, proof = key_of("fibonacci"), proof_of("fibonacci")
    lazy = replace(key, params=replace(key.params, logup_pow_bits=0))
    with pytest.raises(InvalidProof, match="work of LogUp"):
        verify(lazy, changed(proof, ("buses", "pow_witness"), lambda witness: 1))


# -- other keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [name for name in NAMES if name != "fibonacci"])
def test_refuses_a_proof_under_another_key(other: str) -> None:
    with pytest.raises(InvalidProof):
        verify(key_of(other), proof_of("fibonacci"))


def with_params(key: OpenVmKey, **values: Any) -> OpenVmKey:
    """A key with other parameters, and its own hash."""
    other = replace(key, params=replace(key.params, **values))
    return replace(other, pre_hash=key_hash(other))


def test_the_hash_of_a_key_is_bound() -> None:
    """Another bound of the interactions changes no step of the verifier, and yet the proof is not one for that key."""
    key = key_of("fibonacci")
    assert with_params(key).pre_hash.tolist() == key.pre_hash.tolist()
    with pytest.raises(InvalidProof):
        verify(with_params(key, max_interactions=key.params.max_interactions - 1), proof_of("fibonacci"))


def test_refuses_what_the_key_does_not_allow() -> None:
    key, proof = key_of("interactions"), proof_of("interactions")
    with pytest.raises(InvalidProof, match="stacked columns, above"):
        verify(with_params(key_of("stacked"), w_stack=1), proof_of("stacked"))
    required = replace(key, airs=tuple(replace(air, is_required=True) for air in key.airs))
    with pytest.raises(InvalidProof, match="must be present"):
        verify(required, proof)
    (constraint, *_) = key.height_constraints
    reached = sum(
        c << max(t.log_height, key.params.log_skip)
        for c, t in zip(constraint.coefficients, proof.traces, strict=True)
        if t is not None
    )
    assert reached
    for threshold, allowed in ((reached, False), (reached + 1, True)):
        other = replace(key, height_constraints=(replace(constraint, threshold=threshold),))
        if allowed:
            verify(other, proof)
        else:
            with pytest.raises(InvalidProof, match="taller together"):
                verify(other, proof)
