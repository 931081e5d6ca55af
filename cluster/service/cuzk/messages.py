"""The messages of cuzk's `ProvingEngine` (package cuzk.v1), as curio speaks them.

They are declared here by name, number and type, and made into classes when this module is imported: code that protoc
generates goes with one version of the protobuf runtime, and these classes with any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "cuzk.v1"
SERVICE = f"{PACKAGE}.ProvingEngine"
METHODS: Mapping[str, tuple[str, str]] = {
    "SubmitProof": ("SubmitProofRequest", "SubmitProofResponse"),
    "AwaitProof": ("AwaitProofRequest", "AwaitProofResponse"),
    "Prove": ("ProveRequest", "ProveResponse"),
    "CancelProof": ("CancelProofRequest", "CancelProofResponse"),
    "GetStatus": ("GetStatusRequest", "GetStatusResponse"),
    "GetMetrics": ("GetMetricsRequest", "GetMetricsResponse"),
    "PreloadSRS": ("PreloadSrsRequest", "PreloadSrsResponse"),
    "EvictSRS": ("EvictSrsRequest", "EvictSrsResponse"),
}
"""Request and answer of each method."""

_ENUMS: Mapping[str, tuple[str, ...]] = {
    "ProofKind": (
        "PROOF_KIND_UNSPECIFIED",
        "POREP_SEAL_COMMIT",
        "SNAP_DEALS_UPDATE",
        "WINDOW_POST_PARTITION",
        "WINNING_POST",
    ),
    "Priority": ("PRIORITY_UNSPECIFIED", "LOW", "NORMAL", "HIGH", "CRITICAL"),
    "AwaitProofResponse.Status": ("UNKNOWN", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"),
    "SRSStatus.Tier": ("HOT", "WARM", "COLD"),
}
_MESSAGES: Mapping[str, Mapping[int, str]] = {
    "SubmitProofRequest": {
        1: "string request_id",
        2: "ProofKind proof_kind",
        3: "uint64 sector_size",
        4: "uint64 registered_proof",
        5: "Priority priority",
        10: "bytes vanilla_proof",
        11: "repeated bytes vanilla_proofs",
        20: "uint64 sector_number",
        21: "uint64 miner_id",
        22: "bytes randomness",
        23: "uint32 partition_index",
        30: "bytes comm_r_old",
        31: "bytes comm_r_new",
        32: "bytes comm_d_new",
    },
    "SubmitProofResponse": {1: "string job_id", 2: "uint32 queue_position", 3: "string assigned_gpu"},
    "AwaitProofRequest": {1: "string job_id", 2: "uint64 timeout_ms"},
    "AwaitProofResponse": {
        1: "string job_id",
        2: "AwaitProofResponse.Status status",
        3: "bytes proof",
        4: "string error_message",
        10: "uint64 queue_wait_ms",
        11: "uint64 srs_load_ms",
        12: "uint64 synthesis_ms",
        13: "uint64 gpu_compute_ms",
        14: "uint64 total_ms",
    },
    "ProveRequest": {1: "SubmitProofRequest submit"},
    "ProveResponse": {1: "AwaitProofResponse result"},
    "CancelProofRequest": {1: "string job_id"},
    "CancelProofResponse": {1: "bool was_running"},
    "GetStatusRequest": {},
    "GetStatusResponse": {
        1: "repeated GPUStatus gpus",
        2: "repeated SRSStatus loaded_srs",
        3: "repeated QueueStatus queues",
        4: "uint64 total_proofs_completed",
        5: "uint64 total_proofs_failed",
        6: "uint64 uptime_seconds",
        7: "uint64 pinned_memory_bytes",
        8: "uint64 pinned_memory_limit_bytes",
    },
    "GPUStatus": {
        1: "uint32 ordinal",
        2: "string name",
        3: "uint64 vram_total_bytes",
        4: "uint64 vram_free_bytes",
        5: "string current_job_id",
        6: "string current_proof_kind",
    },
    "SRSStatus": {1: "string circuit_id", 2: "SRSStatus.Tier tier", 3: "uint64 size_bytes", 4: "uint32 ref_count"},
    "QueueStatus": {1: "string proof_kind", 2: "uint32 pending", 3: "uint32 in_progress"},
    "PreloadSrsRequest": {1: "string circuit_id"},
    "PreloadSrsResponse": {1: "bool already_loaded", 2: "uint64 load_time_ms"},
    "EvictSrsRequest": {1: "string circuit_id"},
    "EvictSrsResponse": {1: "bool was_loaded", 2: "uint64 freed_bytes"},
    "GetMetricsRequest": {},
    "GetMetricsResponse": {1: "string prometheus_text"},
}
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"string": _FIELD.TYPE_STRING, "bytes": _FIELD.TYPE_BYTES, "bool": _FIELD.TYPE_BOOL}
_SCALARS |= {"uint32": _FIELD.TYPE_UINT32, "uint64": _FIELD.TYPE_UINT64}


def _declared() -> Any:
    """The file that declares all of them."""
    file = descriptor_pb2.FileDescriptorProto(name="cuzk/v1/proving.proto", package=PACKAGE, syntax="proto3")
    made = {name: file.message_type.add(name=name) for name in _MESSAGES}
    for name, values in _ENUMS.items():
        outer, _, inner = name.rpartition(".")
        enum = made[outer].enum_type.add(name=inner) if outer else file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in _MESSAGES.items():
        for number, declared in fields.items():
            *labels, kind, own = declared.split()
            label = _FIELD.LABEL_REPEATED if labels else _FIELD.LABEL_OPTIONAL
            field = made[name].field.add(name=own, number=number, label=label)
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type = _FIELD.TYPE_ENUM if kind in _ENUMS else _FIELD.TYPE_MESSAGE
                field.type_name = f".{PACKAGE}.{kind}"
    return file


def _classes() -> Mapping[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_declared())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _MESSAGES
    }


MESSAGES: Mapping[str, Any] = _classes()
"""The class of each message."""


def number_of(enum: str, value: str) -> int:
    """The number of an enum's value."""
    return _ENUMS[enum].index(value)


def value_of(enum: str, number: int) -> str:
    """The value of an enum with that number; "" for one that is not known."""
    values = _ENUMS[enum]
    return values[number] if 0 <= number < len(values) else ""
