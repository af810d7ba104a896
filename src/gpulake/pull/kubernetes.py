"""What a Kubernetes API lists now: pods, nodes, events and jobs, as one file a pull. Only GET requests are sent.

The server keeps no history: a pull is a snapshot, and what happened between two of them follows from both.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from gpulake.core.errors import InputError, PullError, require
from gpulake.core.http_client import Answer, HttpClient, RefusedError
from gpulake.formats.json_items import items
from gpulake.formats.kubernetes import API, SNAPSHOT
from gpulake.formats.kubernetes_gpus import words
from gpulake.pull import PULLS, Desk, Piece, Span
from gpulake.pull.kubeconfig import ACCOUNT, access

PAGE_OBJECTS = 500
MOST_RESTARTS = 3  # of a list whose pages expired as they were read
RECENT = timedelta(minutes=1)
ROLE_HINT = "give the account the role in docs/kubernetes.md, or name its namespaces with --namespace"


@PULLS.register("kubernetes")
@dataclass(frozen=True)
class KubernetesPull:
    kubeconfig: str = ""
    context: str = ""
    namespaces: tuple[str, ...] = ()
    cluster: str = "kubernetes"
    saved: Path | None = None  # what kubectl printed, instead of a server
    timeout_seconds: float = 60.0
    page_objects: int = PAGE_OBJECTS
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    account: Path = ACCOUNT
    name: str = "kubernetes"

    def __post_init__(self) -> None:
        require(self.saved is None or self.saved.exists(), f"no file or folder at {self.saved}", "check the path")

    @property
    def address(self) -> str:
        return self.cluster

    @property
    def scope(self) -> str:
        return f"from {self.saved}" if self.saved else ",".join(sorted(self.namespaces))

    @property
    def overlap(self) -> timedelta:
        return timedelta()

    def pieces(self, span: Span, desk: Desk) -> Iterator[Piece]:
        if self.saved:
            yield Piece(span, tuple(self._saved_files(self.saved, desk.folder)))
        elif span.until < desk.clock.now() - RECENT:
            yield Piece(span)  # the server does not know the past
        else:
            found = access(self.kubeconfig, self.context, self.environment, self.account)
            client = HttpClient(found.url, found.headers, found.context, self.timeout_seconds, wait=desk.wait)
            listing = _Listing(self, client, desk)
            yield Piece(span, (listing.save(),), tuple(listing.skipped))

    def _saved_files(self, saved: Path, folder: Path) -> Iterator[Path]:
        """Copies, since what has landed is removed; each says which cluster it is of."""
        files = sorted(saved.rglob("*.json")) if saved.is_dir() else [saved]
        require(bool(files), f"no .json file in {saved}", "save them with kubectl get … -o json")
        for number, file in enumerate(files):
            copy = folder / (file.name if len({one.name for one in files}) == len(files) else f"{number}-{file.name}")
            modified = file.stat().st_mtime
            try:
                has_items = self._write_items(file, copy, modified)
            except InputError:
                has_items = False  # landing says which file it is, and lands the others
            if not has_items:
                shutil.copy2(file, copy)
            yield copy

    def _write_items(self, file: Path, copy: Path, modified: float) -> bool:
        parts = (json.dumps(part.value) for part in items(file, "items") if not part.key)
        first = next(parts, None)
        if first is None:
            return False
        with copy.open("w", encoding="utf-8") as out:
            write_head(out, self.cluster, datetime.fromtimestamp(modified, UTC), (), ())
            out.writelines(f",\n{text}" for text in (first, *parts))
            out.write(END)
        os.utime(copy, (modified, modified))
        return True


END = '\n],\n"kind": "List"}\n'


def write_head(
    out: IO[str],
    cluster: str,
    taken_at: datetime,
    kinds: tuple[str, ...],
    namespaces: tuple[str, ...],
    skipped: str = "",
) -> None:
    taken = f"{taken_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    spec = {"cluster": cluster, "takenAt": taken, "kinds": kinds, "namespaces": namespaces, "skipped": skipped}
    head = {"apiVersion": API, "kind": SNAPSHOT, "metadata": {"name": taken}, "spec": spec}
    out.write(f'{{"apiVersion": "v1", "items": [\n{json.dumps(head)}')


@dataclass
class _Listing:
    source: KubernetesPull
    client: HttpClient
    desk: Desk
    taken_at: datetime | None = None
    kinds: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def save(self) -> Path:
        """The file has its final name once it is whole."""
        part = self.desk.folder / "objects.part"
        with part.open("w+", encoding="utf-8") as out:
            for entry in words()["pulled"]:
                self.desk.report(f"listing {entry['resource']}", 0.0)
                self._list(entry, out)
        taken = self.taken_at or self.desk.clock.now()
        file = self.desk.folder / f"{taken:%Y%m%dT%H%M%SZ}.json"
        with file.open("w", encoding="utf-8") as whole, part.open(encoding="utf-8") as objects:
            namespaces = self.source.namespaces or ("*",)
            kinds = tuple(dict.fromkeys(self.kinds))
            write_head(whole, self.source.cluster, taken, kinds, namespaces, "; ".join(self.skipped))
            shutil.copyfileobj(objects, whole)
            whole.write(END)
        part.unlink()
        return file

    def _list(self, entry: Mapping[str, Any], out: IO[str]) -> None:
        begin = out.tell()
        try:
            version = self._version(entry["group"])
            if version is None:
                self.skipped.append(f"{entry['resource']}.{entry['group']}: not there")
                return
            for path in self._paths(entry, version):
                self._pages(path, entry["kind"], version, out)
        except RefusedError as error:
            out.seek(begin)
            out.truncate()
            if error.status == 401:
                raise PullError(error.message, "the token or the certificate is not accepted: try kubectl") from None
            if error.status not in (403, 404) or entry["kind"] == "Pod":
                raise _told(error) from None
            why = "not there" if error.status == 404 else "not allowed"
            self.skipped.append(f"{entry['resource']}{'.' if entry['group'] else ''}{entry['group']}: {why}")
            return
        self.kinds.append(entry["kind"])

    def _version(self, group: str) -> str | None:
        if not group:
            return "v1"
        try:
            found = self._ask(f"/apis/{group}")
        except RefusedError as error:
            if error.status == 404:
                return None
            raise
        return str((found.get("preferredVersion") or {}).get("groupVersion") or "") or None

    def _paths(self, entry: Mapping[str, Any], version: str) -> Iterator[str]:
        root = f"/api/{version}" if not entry["group"] else f"/apis/{version}"
        if entry.get("is_of_cluster") or not self.source.namespaces:
            yield f"{root}/{entry['resource']}"
        else:
            for namespace in self.source.namespaces:
                yield f"{root}/namespaces/{namespace}/{entry['resource']}"

    def _pages(self, path: str, kind: str, version: str, out: IO[str]) -> None:
        """All pages of a list. Where the server has dropped the rest of it (410), it is read again from its begin."""
        begin = out.tell()
        for restart in range(MOST_RESTARTS + 1):
            try:
                following = ""
                while True:
                    parameters = {"limit": str(self.source.page_objects)}
                    page = self._ask(path, parameters | ({"continue": following} if following else {}))
                    for item in page.get("items") or ():
                        out.write(f",\n{json.dumps(_slim(item, kind, version))}")
                    following = str((page.get("metadata") or {}).get("continue") or "")
                    if not following:
                        return
            except RefusedError as error:
                if error.status != 410 or restart == MOST_RESTARTS:
                    raise
                out.seek(begin)
                out.truncate()

    def _ask(self, path: str, parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
        answer = self.client.ask(path, parameters)
        self.taken_at = self.taken_at or answer.server_time
        return _document(self.client.url, answer)


def _slim(item: object, kind: str, version: str) -> object:
    """An item with its kind, which lists leave out, and without what is long or may be secret."""
    if not isinstance(item, dict):
        return item
    found = {"apiVersion": version, "kind": kind, **item}
    metadata = item.get("metadata")
    if isinstance(metadata, dict):
        annotations = metadata.get("annotations")
        kept = {key: value for key, value in metadata.items() if key != "managedFields"}
        if isinstance(annotations, dict):
            kept["annotations"] = {
                key: value
                for key, value in annotations.items()
                if key != "kubectl.kubernetes.io/last-applied-configuration"
            }
        found["metadata"] = kept
    return _without_commands(found) if kind != "Event" else found


def _without_commands(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_commands(one)
            for key, one in value.items()
            if key not in ("env", "envFrom", "args", "command")
        }
    return [_without_commands(one) for one in value] if isinstance(value, list) else value


def _document(url: str, answer: Answer) -> dict[str, Any]:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or "kind" not in found:
        raise PullError(f"what answers at {url} is no Kubernetes API", "check `server` of the kubeconfig")
    return found


def _told(error: RefusedError) -> PullError:
    return PullError(error.message, ROLE_HINT) if error.status == 403 else error
