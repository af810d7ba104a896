"""The Helm chart: it passes helm's lint, and Kubernetes' API and this version take what it renders."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml

import gpulake
from gpulake.cli import root
from gpulake.cli.run import _check
from gpulake.core.config import load

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm"
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="needs helm: scripts/helm builds it")


def helm(*words: str) -> str:
    done = subprocess.run(["helm", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(*words: str) -> dict[tuple[str, str], Any]:
    given = ("--namespace", "mon", "--kube-version", "1.30", "--set", "secret=keys", *words)
    documents = [one for one in yaml.safe_load_all(helm("template", "lake", str(CHART), *given)) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


def parsed(words: list[str]) -> None:
    """As the command line takes them, down to the last group."""
    command: click.Command = root
    while isinstance(command, click.Group):
        context = command.make_context("gpulake", list(words), resilient_parsing=False)
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        _, found, words = command.resolve_command(context, rest)
        assert found
        command = found
    command.make_context("gpulake", list(words))


def test_versions_of_chart_image_and_package_are_one() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert {chart["version"], chart["appVersion"], values["image"].partition(":")[2]} == {gpulake.__version__}


def test_extras_of_the_image_are_those_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = (ROOT / "deploy/Dockerfile").read_text().partition("whl)[")[2].partition("]")[0].split(",")
    assert named
    assert set(named) <= set(extras)


@needs_helm
def test_the_chart_passes_helms_lint_and_asks_for_its_secret() -> None:
    helm("lint", "--strict", str(CHART), "--set", "secret=keys")
    refused = subprocess.run(
        ["helm", "template", str(CHART), "--kube-version", "1.30"], capture_output=True, text=True, check=False
    )
    assert "name a Secret with GPULAKE_SERVE_TOKENS" in refused.stderr


@needs_helm
def test_rendered_settings_and_command_lines_are_taken_by_this_version(tmp_path: Path) -> None:
    found = rendered()
    assert set(found) == {
        ("ConfigMap", "lake"),
        ("PersistentVolumeClaim", "lake-lake"),
        ("Service", "lake"),
        ("Deployment", "lake"),
        ("DaemonSet", "lake-collector"),
    }
    settings = tmp_path / "gpulake.toml"
    settings.write_text(found["ConfigMap", "lake"]["data"]["gpulake.toml"])
    config = load({"config": settings}, {})
    _check(config)
    ports = {port["port"] for port in found["Service", "lake"]["spec"]["ports"]}
    listening = {int(config.run.host_and_port[1]), int(config.run.sources["collectors"].ingest[2].partition(":")[2])}
    assert ports == listening
    for kind, name in (("Deployment", "lake"), ("DaemonSet", "lake-collector")):
        pod = found[kind, name]["spec"]["template"]["spec"]
        container = pod["containers"][0]
        parsed(container["args"])
        assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]


@needs_helm
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--set", "service.storageClass=fast,collector.runtimeClass=nvidia,collector.nodeSelector.gpu=yes"),
    ],
)
def test_each_object_has_only_fields_that_kubernetes_knows_and_of_their_types(words: tuple[str, ...]) -> None:
    schema = json.loads(gzip.decompress((ROOT / "tests/fixtures/kubernetes_schema.json.gz").read_bytes()))
    found = rendered(*words)
    for (kind, _), document in found.items():
        group = "apps.v1" if document["apiVersion"] == "apps/v1" else "core.v1"
        jsonschema.validate(document, {**schema, "$ref": f"#/definitions/io.k8s.api.{group}.{kind}"})
    pod = found["DaemonSet", "lake-collector"]["spec"]["template"]["spec"]
    pod["containers"][0]["readonlyRootFilesystem"] = True
    with pytest.raises(jsonschema.ValidationError, match="readonlyRootFilesystem"):
        jsonschema.validate(
            found["DaemonSet", "lake-collector"], {**schema, "$ref": "#/definitions/io.k8s.api.apps.v1.DaemonSet"}
        )


@needs_helm
def test_the_collectors_can_be_left_out_and_a_standby_added() -> None:
    words = ("--set", "collector.enabled=false,service.replicas=2,service.accessMode=ReadWriteMany")
    found = rendered(*words)
    assert ("DaemonSet", "lake-collector") not in found
    assert found["Deployment", "lake"]["spec"]["replicas"] == 2
    assert found["PersistentVolumeClaim", "lake-lake"]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert json.dumps([*found.values()]).count('"secretRef": {"name": "keys"}') == 1
