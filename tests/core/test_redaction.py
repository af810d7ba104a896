"""Secrets are hidden in what is kept, and what is evidence stays."""

from __future__ import annotations

import pytest

from examples import each
from gpulake.core.redaction import redacted, without_secrets
from planted import SECRETS


@each("kind", SECRETS)
def test_a_secret_is_hidden_where_it_stands(kind: str) -> None:
    secret, line = SECRETS[kind]
    hidden = redacted(f"step 7 of 9: {line} after 3 s")
    assert secret not in hidden
    assert "***" in hidden
    assert hidden.startswith("step 7 of 9: ")


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
        "[rank3]:[E ProcessGroupNCCL.cpp:616] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1234)",
        "GPU-5fd4f087-86f3-7a43-b711-4771313afc50 of gpu-17.cluster.local was lost at 0x7f3a9c001b40",
        "KeyError: 'module.layers.12.attn.w34'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/ann/run20260102abcdef9876/shard-0012.bin'",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has 79.15 GiB in total",
        '  File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1532, in _call_impl',
        "tokens per second: 123456.7, loss: 2.345e+00, lr: 1.0E-04",
        "slurmstepd: error: *** JOB 4711 ON gpu01 CANCELLED AT 2026-03-01T12:10:00 DUE TO NODE FAILURE ***",
        "no secret here",
        "",
    ],
)
def test_evidence_stays_as_it_is(line: str) -> None:
    assert redacted(line) == line


def test_a_private_key_is_hidden_whole() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEAsecretbody\nab==\n-----END RSA PRIVATE KEY-----\nafter"
    assert redacted(key) == "***\n***\n***\n-----END RSA PRIVATE KEY-----\nafter"


def test_a_row_keeps_its_ids_and_the_names_of_its_files() -> None:
    name = "0123456789abcdef" * 4
    row = {"diagnosis_id": name, "log": f"/logs/{name}", "run": 1, "cause": f"key {name}", "node": name}
    nested = {"evidence": [{"line": 1, "text": "password=hunter2", "file": name}], "at": None}
    assert without_secrets({**row, **nested}) == {
        **row,
        "cause": "key ***",
        "evidence": [{"line": 1, "text": "password=***", "file": name}],
        "at": None,
    }


def test_halves_of_characters_are_no_trouble() -> None:
    assert redacted("token=abc123def456 \ud800 end") == "token=*** ? end"
