"""What brings a Job of Kubernetes back, by the answers of kubectl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dead_jobs
from dead_jobs import Programs
from examples import each
from gpulake.act.kubernetes_job import anew, main

WHERE = ["--namespace=vision", "--selector=batch.kubernetes.io/job-name=train"]
UID = "3f2a91c0-0000-4000-8000-000000000000"
LABELS = {"batch.kubernetes.io/controller-uid": UID, "job-name": "train", "team": "a"}


def a_job(*conditions: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "vision",
            "uid": UID,
            "resourceVersion": "7",
            "labels": labels or {},
        },
        "spec": {"selector": {"matchLabels": {"controller-uid": UID}}, "template": template, **spec},
        "status": {"conditions": [{"type": kind, "status": "True"} for kind in conditions]},
    }


def of_jobset(job: dict[str, Any]) -> dict[str, Any]:
    job["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "all"}]
    return job


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return dead_jobs.programs(tmp_path / "bin", monkeypatch)


DELETED = [["delete", "pod", *WHERE, "--wait=false"]]
RESUMED = [["patch", "job", "train", WHERE[0], "--type=merge", '--patch={"spec":{"suspend":false}}']]


@each(
    "job, calls",
    [
        (a_job(), DELETED),
        (a_job(suspend=True), RESUMED),
        (of_jobset(a_job()), DELETED),
    ],
)
def test_a_job_is_brought_back(cluster: Programs, job: dict[str, Any], calls: list[list[str]]) -> None:
    cluster.answer(("^kubectl get job train", 0, json.dumps(job)))
    assert main([*WHERE, "train/3f2a91c0"]) == 0
    assert [call[1:] for call in cluster.calls()][-1:] == calls


def test_a_job_that_failed_is_made_anew_once_the_server_would_take_it(cluster: Programs) -> None:
    cluster.answer(("^kubectl get job train", 0, json.dumps(a_job("Failed"))))
    assert main([*WHERE, "train"]) == 0
    trial, real = (call[1:] for call in cluster.calls())
    assert (trial[0], trial[-1], real[:2]) == ("create", "--dry-run=server", ["replace", "--force"])
    file = Path(real[-1].removeprefix("--filename="))
    assert not file.parent.exists()


def test_one_that_the_server_refuses_is_not_deleted_first(
    cluster: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.answer(("^kubectl get job train", 0, json.dumps(a_job("Failed"))), ("create", 1, "quota exceeded"))
    assert main([*WHERE, "train"]) == 1
    assert [call[1] for call in cluster.calls()] == ["create"]
    assert capsys.readouterr().err == "quota exceeded\n"


def test_the_definition_of_one_that_could_not_be_made_is_kept(
    cluster: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    job = a_job("Failed")
    cluster.answer(("^kubectl get job train", 0, json.dumps(job)), ("replace", 1, "connection refused"))
    assert main([*WHERE, "train"]) == 1
    said, _, path = capsys.readouterr().err.strip().partition("; the definition of the job is in ")
    assert said == "connection refused"
    assert json.loads(Path(path).read_text()) == anew(job)


def test_a_new_job_has_nothing_that_the_server_made() -> None:
    fresh = anew(a_job("Failed", labels={"team": "a"}, backoffLimit=0))
    assert fresh == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "vision", "labels": {"team": "a"}, "annotations": {}},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": {"team": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    by_hand = a_job("Failed", manualSelector=True)
    assert anew(by_hand)["spec"] == by_hand["spec"]


@each(
    "uid, job, says",
    [
        ("99999999", a_job(), "job 'train' was made anew since"),
        ("3f2a91c0", a_job("Complete"), "job 'train' completed"),
        ("3f2a91c0", of_jobset(a_job("Failed")), "job 'train' is of JobSet all, which makes it"),
        ("3f2a91c0", a_job(labels={"kueue.x-k8s.io/queue-name": "q"}, suspend=True), "waits in a queue of Kueue"),
    ],
)
def test_what_must_not_be_done_is_refused(
    cluster: Programs, capsys: pytest.CaptureFixture[str], uid: str, job: dict[str, Any], says: str
) -> None:
    cluster.answer(("^kubectl get job train", 0, json.dumps(job)))
    capsys.readouterr()
    assert main([*WHERE, f"train/{uid}"]) == 1
    assert says in capsys.readouterr().err
    assert cluster.calls() == []


def test_a_kubectl_that_fails_is_an_error(cluster: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answer(("^kubectl get job train", 1, "forbidden"))
    assert main([*WHERE, "train"]) == 1
    assert "job 'train' cannot be read: forbidden" in capsys.readouterr().err
