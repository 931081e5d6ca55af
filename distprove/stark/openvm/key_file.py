"""The file of a key, read and written. Its format is `tests/interop/openvm-judge/FORMAT.md`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from distprove.errors import FormatError, InvalidKey
from distprove.stark.openvm.container import KEY_MAGIC, Container, Writer, digest, fields, integers
from distprove.stark.openvm.graph import MAX_BUS, Graph, Interaction, is_column
from distprove.stark.openvm.key import HeightConstraint, OpenVmAir, OpenVmKey, Preprocessed, Widths
from distprove.stark.openvm.key_hash import key_hash
from distprove.stark.openvm.params import Proximity, SystemParams, WhirParams
from distprove.stark.openvm.proof import CODEC_VERSION
from kernels.maths.babybear import TWO_ADICITY

KEY_FORMAT = "openvm-key"
MAX_WIDTH = 1 << 24
MAX_PUBLIC_VALUES = 1 << 16


def read_key(path: Path) -> OpenVmKey:
    """Read a key's file. Raises InputError, FormatError, or InvalidKey if its hash is not that of its content."""
    return _key(Container.read(path, KEY_MAGIC, KEY_FORMAT))


def key_from_bytes(data: bytes, what: str = "key") -> OpenVmKey:
    """Parse a key's file. Raises FormatError, or InvalidKey if its hash is not that of its content."""
    return _key(Container(data, KEY_MAGIC, KEY_FORMAT, what))


def key_to_bytes(key: OpenVmKey) -> bytes:
    """Return a key's file: the same bytes as openvm-judge writes."""
    writer = Writer()
    header = {
        "codec_version": CODEC_VERSION,
        "params": _params_header(key.params),
        "trace_height_constraints": [
            {"coefficients": list(each.coefficients), "threshold": each.threshold} for each in key.height_constraints
        ],
        "max_constraint_degree": key.params.max_constraint_degree,
        "pre_hash": key.pre_hash.tolist(),
        "airs": [_air_header(air, writer) for air in key.airs],
    }
    return writer.assembled(KEY_MAGIC, KEY_FORMAT, header)


def _key(file: Container) -> OpenVmKey:
    what = file.what
    header = fields(
        file.header,
        {
            "codec_version": int,
            "params": dict,
            "trace_height_constraints": list,
            "max_constraint_degree": int,
            "pre_hash": list,
            "airs": list,
        },
        what,
    )
    if header["codec_version"] != CODEC_VERSION:
        raise FormatError(f"{what}: a key for version {header['codec_version']} of proofs, not {CODEC_VERSION}")
    params = _params(header["params"], what)
    if header["max_constraint_degree"] != params.max_constraint_degree:
        raise FormatError(f"{what}: states two maximum constraint degrees")
    airs = tuple(_air(file, each, params, f"{what}: AIR {i}") for i, each in enumerate(header["airs"]))
    constraints = tuple(
        HeightConstraint(
            integers(each["coefficients"], 1 << 32, what, len(airs)), _integer(each["threshold"], 1 << 32, what)
        )
        for each in (
            fields(each, {"coefficients": list, "threshold": int}, what) for each in header["trace_height_constraints"]
        )
    )
    file.end()
    key = OpenVmKey(params, airs, constraints, digest(header["pre_hash"], what))
    if not np.array_equal(key_hash(key), key.pre_hash):
        raise InvalidKey(f"{what}: its hash is not that of its content")
    return key


def _params(header: Any, what: str) -> SystemParams:
    what = f"{what}: params"
    sizes = ("l_skip", "n_stack", "w_stack", "log_blowup", "max_constraint_degree")
    params = fields(header, {**dict.fromkeys(sizes, int), "whir": dict, "logup": dict}, what)
    pow_bits = ("mu_pow_bits", "query_phase_pow_bits", "folding_pow_bits")
    whir = fields(
        params["whir"],
        {"k": int, "rounds": list, **dict.fromkeys(pow_bits, int), "proximity": (str, dict)},
        f"{what}.whir",
    )
    logup = fields(
        params["logup"],
        dict.fromkeys(("max_interaction_count", "log_max_message_length", "pow_bits"), int),
        f"{what}.logup",
    )
    rounds = [fields(each, {"num_queries": int}, f"{what}.whir.rounds") for each in whir["rounds"]]
    proximity = _proximity(whir["proximity"], what)
    try:
        return SystemParams(
            log_skip=params["l_skip"],
            n_stack=params["n_stack"],
            w_stack=params["w_stack"],
            log_blowup=params["log_blowup"],
            whir=WhirParams(
                log_fold=whir["k"],
                queries=tuple(each["num_queries"] for each in rounds),
                mu_pow_bits=whir["mu_pow_bits"],
                query_pow_bits=whir["query_phase_pow_bits"],
                folding_pow_bits=whir["folding_pow_bits"],
                proximity=proximity,
            ),
            max_interactions=logup["max_interaction_count"],
            log_max_message_length=logup["log_max_message_length"],
            logup_pow_bits=logup["pow_bits"],
            max_constraint_degree=params["max_constraint_degree"],
        )
    except FormatError as error:
        raise FormatError(f"{what}: {error}") from None


def _proximity(value: Any, what: str) -> Proximity:
    if value == "UniqueDecoding":
        return Proximity("UniqueDecoding")
    if isinstance(value, dict) and value.keys() == {"SplitUniqueList"}:
        own = fields(value["SplitUniqueList"], {"m": int, "list_start_round": int}, what)
        return Proximity("SplitUniqueList", own["m"], own["list_start_round"])
    if isinstance(value, dict) and value.keys() == {"ListDecoding"}:
        return Proximity("ListDecoding", fields(value["ListDecoding"], {"m": int}, what)["m"])
    raise FormatError(f"{what}: no decoding regime")


def _air(file: Container, header: Any, params: SystemParams, what: str) -> OpenVmAir:
    air = fields(
        header,
        {
            "name": str,
            "is_required": bool,
            "num_public_values": int,
            "need_rot": bool,
            "max_constraint_degree": int,
            "width": dict,
            "preprocessed": (dict, type(None)),
            "nodes": dict,
            "constraints": list,
            "interactions": list,
            "unused_variables": dict,
        },
        what,
    )
    try:
        air["name"].encode()
    except UnicodeEncodeError:  # JSON can escape half of a pair, and no file can hold it
        raise FormatError(f"{what}: half of a surrogate pair is in its name") from None
    widths = _widths(air["width"], what)
    if (air["preprocessed"] is None) != (widths.preprocessed is None):
        raise FormatError(f"{what}: a preprocessed trace without a width, or the reverse")
    graph = Graph(
        file.array(air["nodes"], None, 4),
        integers(air["constraints"], 1 << 32, what),
        tuple(_interaction(each, what) for each in air["interactions"]),
    )
    public_values = _integer(air["num_public_values"], MAX_PUBLIC_VALUES, what)
    degree = _integer(air["max_constraint_degree"], params.max_constraint_degree + 1, what)
    all_widths = (widths.preprocessed, *widths.cached, widths.common)
    graph.check(all_widths, public_values, what)
    unused = file.array(air["unused_variables"], None, 4)
    if not all(is_column(all_widths, *node) for node in unused.tolist()):
        raise FormatError(f"{what}: an unused variable that is no column")
    if graph.reads_next != air["need_rot"]:
        raise FormatError(f"{what}: need_rot is not whether a node is of the next row")
    if graph.degree > degree:
        raise FormatError(f"{what}: expressions of the degree {graph.degree}, above {degree}")
    if any(len(each.message) >= 1 << params.log_max_message_length for each in graph.interactions):
        raise FormatError(f"{what}: a message that is longer than the parameters allow")
    return OpenVmAir(
        name=air["name"],
        is_required=air["is_required"],
        public_values=public_values,
        needs_next=air["need_rot"],
        max_constraint_degree=degree,
        widths=widths,
        preprocessed=None
        if widths.preprocessed is None
        else _preprocessed(file, air["preprocessed"], widths.preprocessed, params, what),
        graph=graph,
        unused_variables=unused,
    )


def _widths(header: Any, what: str) -> Widths:
    found = fields(header, {"preprocessed": (int, type(None)), "cached_mains": list, "common_main": int}, what)
    fixed = found["preprocessed"]
    widths = Widths(
        None if fixed is None else _integer(fixed, MAX_WIDTH, what),
        integers(found["cached_mains"], MAX_WIDTH, what),
        _integer(found["common_main"], MAX_WIDTH, what),
    )
    if not widths.common and not any(widths.cached):
        raise FormatError(f"{what}: no main column")
    return widths


def _interaction(header: Any, what: str) -> Interaction:
    found = fields(header, {"bus": int, "count": int, "weight": int, "message": list}, what)
    return Interaction(
        _integer(found["bus"], MAX_BUS, what),
        _integer(found["count"], 1 << 32, what),
        _integer(found["weight"], 1 << 32, what),
        integers(found["message"], 1 << 32, what),
    )


def _preprocessed(file: Container, header: Any, width: int, params: SystemParams, what: str) -> Preprocessed:
    found = fields(header, {"commit": list, "hypercube_dim": int, "stacking_width": int, "trace": dict}, what)
    log_height = found["hypercube_dim"] + params.log_skip
    if not 0 <= log_height <= min(params.log_height, TWO_ADICITY):
        raise FormatError(f"{what}: a preprocessed trace of 2^{log_height} rows")
    taken = width << max(log_height, params.log_skip)
    if found["stacking_width"] != -(-taken >> params.log_height):
        raise FormatError(f"{what}: stacked in another number of columns than its trace takes")
    return Preprocessed(
        digest(found["commit"], what),
        found["hypercube_dim"],
        found["stacking_width"],
        file.elements(found["trace"], width, 1 << log_height),
    )


def _integer(value: Any, below: int, what: str) -> int:
    return integers([value], below, what)[0]


def _params_header(params: SystemParams) -> dict[str, Any]:
    whir, proximity = params.whir, params.whir.proximity
    regimes: dict[str, Any] = {
        "UniqueDecoding": "UniqueDecoding",
        "ListDecoding": {"ListDecoding": {"m": proximity.multiplicity}},
        "SplitUniqueList": {
            "SplitUniqueList": {"m": proximity.multiplicity, "list_start_round": proximity.list_start_round}
        },
    }
    return {
        "l_skip": params.log_skip,
        "n_stack": params.n_stack,
        "w_stack": params.w_stack,
        "log_blowup": params.log_blowup,
        "whir": {
            "k": whir.log_fold,
            "rounds": [{"num_queries": count} for count in whir.queries],
            "mu_pow_bits": whir.mu_pow_bits,
            "query_phase_pow_bits": whir.query_pow_bits,
            "folding_pow_bits": whir.folding_pow_bits,
            "proximity": regimes[proximity.regime],
        },
        "logup": {
            "max_interaction_count": params.max_interactions,
            "log_max_message_length": params.log_max_message_length,
            "pow_bits": params.logup_pow_bits,
        },
        "max_constraint_degree": params.max_constraint_degree,
    }


def _air_header(air: OpenVmAir, writer: Writer) -> dict[str, Any]:
    fixed = air.preprocessed
    return {
        "name": air.name,
        "is_required": air.is_required,
        "num_public_values": air.public_values,
        "need_rot": air.needs_next,
        "max_constraint_degree": air.max_constraint_degree,
        "width": {
            "preprocessed": air.widths.preprocessed,
            "cached_mains": list(air.widths.cached),
            "common_main": air.widths.common,
        },
        "preprocessed": None
        if fixed is None
        else {
            "commit": fixed.root.tolist(),
            "hypercube_dim": fixed.n,
            "stacking_width": fixed.stacked_width,
            "trace": writer.add(fixed.trace),
        },
        "nodes": writer.add(air.graph.nodes),
        "constraints": list(air.graph.constraints),
        "interactions": [
            {"bus": each.bus, "count": each.count, "weight": each.weight, "message": list(each.message)}
            for each in air.graph.interactions
        ],
        "unused_variables": writer.add(air.unused_variables),
    }
