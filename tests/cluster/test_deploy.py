"""Files for deployment: each agrees with the command line and the metrics, and its own tool finds nothing to mend."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import typer
import yaml

from cluster.record.metrics import ENDED
from cluster.service.http.api import TABLE
from cluster.service.metrics import METRICS
from distprove.cli.app import app
from distprove.cli.up import PORT
from distprove.host.provenance import version
from tests.support import ROOT

DEPLOY = ROOT / "cluster" / "deploy"
YAML = sorted(DEPLOY.rglob("*.yaml"))
MANIFESTS = [path for path in YAML if path.parent.name in ("kubernetes", "kuberay")]
OWN_KINDS = [path for path in MANIFESTS if path.parent.name == "kubernetes" and path.stem != "kustomization"]
"""Manifests of kinds that Kubernetes itself has."""
SLURM = DEPLOY / "slurm.sh"
DOCKERFILE = DEPLOY / "Dockerfile"
DOCKERIGNORE = DEPLOY / "Dockerfile.dockerignore"


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def walk(value: Any) -> Iterator[Any]:
    """A value and all that it holds."""
    yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(item)


def containers(path: Path) -> list[dict[str, Any]]:
    return [item for item in walk(documents(path)) if isinstance(item, dict) and "image" in item]


def commands() -> Iterator[tuple[str, list[str]]]:
    """The command lines of distprove in the files, without its name."""
    for path in YAML:
        for item in walk(documents(path)):
            if isinstance(item, dict) and isinstance(item.get("args"), list) and "command" not in item:
                yield path.name, item["args"]  # of the image's own entry
            if isinstance(item, str) and re.match(r"(\S*/)?distprove \S", item):
                yield path.name, shlex.split(item)[1:]
            for quoted in re.findall(r"`distprove ([^`]+)`", item) if isinstance(item, str) else ():
                yield path.name, shlex.split(quoted)
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    (default,) = re.findall(r"^CMD (.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert json.loads(entry)[-1] == "distprove"
    yield DOCKERFILE.name, json.loads(default)
    for line in SLURM.read_text().replace("\\\n", " ").splitlines():
        found = re.search(r"^[^#]*?\bdistprove ((?!\w*\.).*?)( &|\|\|.*)?$", line.strip())
        if found and "SBATCH" not in line:
            yield SLURM.name, shlex.split(found[1])


def test_the_image_is_built_of_what_git_has() -> None:
    """Nothing that git ignores is sent to the build, so no environment, build or wheel of this machine."""
    ignored = {line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()}
    expected = {line.removeprefix("/") if "/" in line else f"**/{line}" for line in ignored}
    given = [line for line in DOCKERIGNORE.read_text().splitlines() if not line.startswith("#")]
    assert sorted(given) == sorted(expected)
    assert ignored >= {".venv", "build", "dist", "*.so"}


@pytest.mark.parametrize(("file", "words"), list(commands()))
def test_every_command_line_is_one_that_distprove_takes(file: str, words: list[str]) -> None:
    command = typer.main.get_command(app)
    context = command.make_context("distprove", list(words))
    while hasattr(command, "resolve_command"):
        left = [*getattr(context, "_protected_args", ()), *context.args]
        name, command, left = command.resolve_command(context, left)
        context = command.make_context(name, left, parent=context)


def test_the_command_lines_are_found() -> None:
    found = sorted((file, words[0]) for file, words in commands())
    assert found == [
        ("Dockerfile", "doctor"),
        *(("alerts.yaml", name) for name in ("status", "status", "up")),
        ("ray-up.yaml", "doctor"),
        ("rayjob.yaml", "prove"),
        ("slurm.sh", "prove"),
        ("slurm.sh", "report"),
        ("statefulset.yaml", "up"),
    ]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_name_images_of_this_version_without_a_registry_and_give_them_no_rights(path: Path) -> None:
    for document in documents(path):
        assert {"apiVersion", "kind"} <= document.keys()
    for container in containers(path):
        assert container["image"] == f"distprove:{version()}"
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"]["drop"] == ["ALL"]
        assert context["runAsUser"] == 10001 or container["name"] == "own"
    mounted = {mount["name"] for c in containers(path) for mount in c.get("volumeMounts", ())}
    declared = {
        volume["name"] if "name" in volume else volume["metadata"]["name"]
        for item in walk(documents(path))
        if isinstance(item, dict)
        for key in ("volumes", "volumeClaimTemplates")
        for volume in item.get(key, ())
    }
    assert mounted == declared


def test_the_service_is_probed_where_it_answers_without_a_token() -> None:
    (service,) = (c for c in containers(DEPLOY / "kubernetes" / "statefulset.yaml") if c["name"] == "service")
    open_paths = {route.path for route in TABLE.routes if route.open}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert service[probe]["httpGet"]["path"] in open_paths
        assert service[probe]["httpGet"]["port"] == service["ports"][0]["name"]
    assert service["ports"][0]["containerPort"] == PORT
    assert f"--port={PORT}" in service["args"]
    (exposed,) = documents(DEPLOY / "kubernetes" / "service.yaml")
    assert exposed["spec"]["ports"][0]["port"] == PORT
    assert f"EXPOSE {PORT}" in DOCKERFILE.read_text()


def test_no_secret_is_in_the_files() -> None:
    for path in YAML:
        for document in documents(path):
            assert document.get("kind") != "Secret"


def test_kubernetes_resources_are_all_of_the_tree() -> None:
    folder = DEPLOY / "kubernetes"
    (tree,) = documents(folder / "kustomization.yaml")
    assert {*tree["resources"], "kustomization.yaml"} == {path.name for path in folder.iterdir()}
    assert tree["images"] == [{"name": "distprove", "newTag": version()}]


def expressions() -> list[str]:
    """What is asked of Prometheus by the dashboard and the alerts."""
    dashboard = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [item["query"] for item in dashboard["templating"]["list"] if item["type"] == "query"]
    (alerts,) = documents(DEPLOY / "monitoring" / "alerts.yaml")
    return asked + [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]


def test_dashboard_and_alerts_ask_for_metrics_that_are_told_and_labels_that_they_have() -> None:
    known = {metric.name: {*metric.labels, "instance", "job"} for metric in (*METRICS, ENDED)}
    for metric in (*METRICS, ENDED):
        if metric.kind == "histogram":
            for part in ("bucket", "sum", "count"):
                known[f"{metric.name}_{part}"] = known[metric.name] | {"le"}
    used = set()
    for expression in expressions():
        names = re.findall(r"\bdistprove_\w+", expression)
        assert set(names) <= known.keys(), expression
        used |= set(names)
        labels = {label for found in re.findall(r"by \(([^)]*)\)", expression) for label in found.split(", ")}
        labels |= set(re.findall(r'[{,]\s*(\w+)[!=]~?=?"', expression))
        assert not names or labels <= set.union(*(known[name] for name in names)), expression
    assert len(used) > len(METRICS) // 2


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    dashboard = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text())
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in dashboard["panels"]})
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in dashboard["panels"])


def test_ray_takes_the_cluster_file() -> None:
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    (cluster,) = documents(DEPLOY / "ray-up.yaml")
    jsonschema.validate(cluster, schema)
    started = " ".join(cluster["head_start_ray_commands"] + cluster["worker_start_ray_commands"])
    assert started.count("RAY_AUTH_MODE=token") == started.count("ray start") == 2


STUBS = {
    "scontrol": "printf 'one\\ntwo\\n'",
    "srun": 'while [[ $1 == --* ]]; do shift; done\nexec "$@"',
    "mkdir": 'echo mkdir "$@" >> "$NOTES"; exec /bin/mkdir -p "${@:3}"',
    "ray": 'echo ray "$@" >> "$NOTES"; [[ $1 == status ]] || exec sleep 1000',
    "distprove": 'echo distprove "$@" >> "$NOTES"; [[ $1 == report ]] && exit 0\n'
    "trap 'echo ended >> \"$NOTES\"; exit 130' TERM\n"
    'until (( $(grep -c "^ray start" "$NOTES") == 2 )); do sleep 0.05; done\n[[ $ENDS ]] && exit $ENDS\n'
    'echo begun >> "$NOTES"; while :; do sleep 0.05; done',
}
"""What the Slurm script calls, as programs that note it. The prover begins when both nodes' Ray has been started, which
runs beside the script. ENDS: how the prover ends by itself, if it does."""


@pytest.mark.parametrize(("ends", "code"), [("0", 0), ("3", 3), ("", 130)])
def test_the_slurm_script_starts_a_cluster_ends_it_and_exits_as_the_job_does(
    tmp_path: Path, ends: str, code: int
) -> None:
    """Also when Slurm says that the time is nearly up: then the prover ends first, and what is proven stays."""
    for name, body in STUBS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o700)
    notes = tmp_path / "notes"
    job = str(os.getpid())
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "NOTES": str(notes), "ENDS": ends}
    environment |= {"SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": "x", "SLURM_CPUS_PER_TASK": "4"}
    with subprocess.Popen(["bash", str(SLURM), "/shared/job.toml", "/shared/run"], env=environment) as script:
        if not ends:
            until = time.monotonic() + 150
            while "begun" not in (notes.read_text() if notes.exists() else "") and time.monotonic() < until:
                time.sleep(0.02)
            script.terminate()
        assert script.wait(100) == code
    told = notes.read_text().splitlines()
    assert sum(line.startswith("ray start") for line in told) == 2
    assert any(line.startswith("ray start --head") and f"/var/tmp/dp-{job}" in line for line in told)
    assert told[-1] == "distprove report /shared/run --overwrite --metrics /shared/run/metrics.prom"
    assert ("ended" in told) is not bool(ends)
    assert not Path(f"/var/tmp/dp-{job}").exists()


TOOLS = {
    "promtool": ("check", "rules", str(DEPLOY / "monitoring" / "alerts.yaml")),
    "shellcheck": (str(SLURM),),
    "bash": ("-n", str(SLURM)),
    "hadolint": (str(DOCKERFILE),),
    "kustomize": ("build", str(DEPLOY / "kubernetes")),
    "kubernetes-validate": ("--strict", *map(str, OWN_KINDS)),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tool_of_each_file_finds_nothing_to_mend(tool: str) -> None:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run([found, *TOOLS[tool]], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
