"""Metrics as Prometheus reads them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, tuple[str, ...]], float]


def samples(text: bytes) -> Samples:
    """Values by name and label values, in the order of the labels' names."""
    families = text_string_to_metric_families(text.decode())
    return {(s.name, tuple(v for _, v in sorted(s.labels.items()))): s.value for f in families for s in f.samples}
