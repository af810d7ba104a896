"""Bring a Job of Kubernetes back: a program, which the executor starts and which starts kubectl.

    python -m gpulake.act.kubernetes_job --namespace=vision --selector=batch.kubernetes.io/job-name=train train/3f2a91c0

A Job that failed for good is made anew, one that is suspended is resumed, and of one that may still try the pods are
deleted. A Job that was made anew since (another uid), that completed, or that another controller made, is refused.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpulake.act.commands import ask, run, small_environment
from gpulake.core.errors import ActError
from gpulake.core.words import label

MOST_SECONDS = 3600.0  # whoever starts this program ends it earlier
NOTHING = "No resources found"  # kubectl calls it a success
QUEUE = "kueue.x-k8s.io/queue-name"
# What the server writes into a Job, and refuses in a new one.
_GENERATED = {"controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"}


def bring_back(namespace: str, selector: str, name: str, uid: str) -> str:
    """What was done, in a few words."""
    where = f"--namespace={namespace}"
    get = ("kubectl", "get", "job", name, where, "--ignore-not-found", "--output=json")
    text = ask(get, MOST_SECONDS, small_environment())
    if text is None:
        why = run(get, MOST_SECONDS, small_environment()).detail
        raise ActError(f"job {name!r} cannot be read: {why}", "check the namespace and the rights to get jobs")
    if not text.strip():
        return _delete_pods(where, selector)
    job = json.loads(text)
    if not job["metadata"]["uid"].startswith(uid):
        raise ActError(f"job {name!r} was made anew since", "nothing has to be done, or name the new one")
    ended = {one["type"] for one in job.get("status", {}).get("conditions", ()) if one["status"] == "True"}
    if ended & {"Complete", "SuccessCriteriaMet"}:
        raise ActError(f"job {name!r} completed", "there is nothing to bring back")
    has_failed, is_suspended = bool(ended & {"Failed", "FailureTarget"}), job["spec"].get("suspend", False)
    if (has_failed or is_suspended) and (owners := job["metadata"].get("ownerReferences")):
        whose = label(f"{owners[0]['kind']} {owners[0]['name']}")
        raise ActError(f"job {name!r} is of {whose}, which makes it", "set restart_command")
    if has_failed:
        return _make_anew(where, job)
    if is_suspended:
        if QUEUE in job["metadata"].get("labels", {}):
            raise ActError(f"job {name!r} waits in a queue of Kueue", "it starts when its turn comes")
        return _ran("patch", "job", name, where, "--type=merge", '--patch={"spec":{"suspend":false}}')
    return _delete_pods(where, selector)


def _delete_pods(where: str, selector: str) -> str:
    said = _ran("delete", "pod", where, f"--selector={selector}", "--wait=false")
    if NOTHING in said:
        raise ActError(f"no pod has {selector}", "check namespace and pod_selector, or set restart_command")
    return said


def _make_anew(where: str, job: dict[str, Any]) -> str:
    """Under its name, for kubectl to delete the failed one first. The server sees it before, under another name."""
    fresh = anew(job)
    others = {key: value for key, value in fresh["metadata"].items() if key != "name"}
    file = Path(tempfile.mkdtemp(prefix="gpulake-")) / "job.json"  # of this user alone: it may hold secrets
    is_kept = False
    try:
        file.write_text(json.dumps({**fresh, "metadata": {**others, "generateName": "gpulake-trial-"}}))
        _ran("create", where, f"--filename={file}", "--dry-run=server")
        file.write_text(json.dumps(fresh))
        is_kept = True
        said = _ran("replace", "--force", where, f"--filename={file}")
        is_kept = False
    except ActError as error:
        raise ActError(error.message, f"the definition of the job is in {file}" if is_kept else "") from None
    finally:
        if not is_kept:
            shutil.rmtree(file.parent)
    return said


def anew(job: dict[str, Any]) -> dict[str, Any]:
    """The Job as one would submit it: without its status, and without what the server generated."""
    spec = json.loads(json.dumps(job["spec"]))
    meta = job["metadata"]
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
        template = spec["template"].setdefault("metadata", {})
        template["labels"] = _submitted(template.get("labels"))
    own = {"name": meta["name"], "namespace": meta["namespace"], "labels": _submitted(meta.get("labels"))}
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {**own, "annotations": meta.get("annotations") or {}},
        "spec": spec,
    }


def _submitted(labels: dict[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in (labels or {}).items() if name not in _GENERATED}


def _ran(*words: str) -> str:
    outcome = run(("kubectl", *words), MOST_SECONDS, small_environment())
    if outcome.status != "done":
        raise ActError(outcome.detail or f"kubectl {words[0]} failed", "")
    return outcome.detail


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Brings a Job of Kubernetes back; exits with 1 if that is not possible."
    )
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--selector", required=True, help="selects the pods of the job")
    parser.add_argument("job", help="its name, and behind a slash the beginning of its uid")
    given = parser.parse_args(arguments)
    name, _, uid = given.job.partition("/")
    try:
        sys.stdout.write(f"{bring_back(given.namespace, given.selector, name, uid)}\n")
    except ActError as error:
        sys.stderr.write(f"{error.message}; {error.hint}".rstrip("; ") + "\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
