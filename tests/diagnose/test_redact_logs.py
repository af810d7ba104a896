"""What is hidden in the surroundings that logs really have: dumps of settings, banners, launchers, listings."""

from __future__ import annotations

import pytest

from gpulake.diagnose.judge.redact import Redactor

SECRETS = (
    "  hf_token ........................................ {}",
    "wandb_api_key ................................... {}",
    "Namespace(api_key='{}', lr=0.1)",
    "[('api_key', '{}'), ('lr', 0.1)]",
    "| api_key | {} |",
    "<password>{}</password>",
    "secret_key: !!str {}",
    "callback?password%3D{}",
    '"password"\\u003a "{}"',
    "password -> {}",
    "password is {}",
    "using api key {}",
    "with token '{}'",
    "GITHUB_PAT={}",
    "machine github.com login bob password {}",
    "docker login -u bob -p {} registry",
    "mysql -uroot -p{} -h db",
    "kubectl create secret generic x --from-literal=pw={}",
)
MKOWALSKI = (
    "SUDO_USER=mkowalski",
    "SLURM_JOB_USER=mkowalski",
    "   UserId=mkowalski(1001) GroupId=research(1002) MCS_label=N/A",
    "drwxr-xr-x 2 mkowalski research 4096 May  1 10:00 ckpt",
    "wandb: Currently logged in as: mkowalski to https://api.wandb.ai. Use `wandb login --relogin`",
    "Accepted publickey for mkowalski from 10.1.1.1 port 22 ssh2",
    "job 7 was submitted by mkowalski at noon",
    "sudo: mkowalski : TTY=pts/0 ; USER=root ; COMMAND=/bin/ls",
    "  user ............................ mkowalski",
    "/home/mkowalski/x\nrun name: mkowalski_llama_7b",
    "/home/mkowalski/x\nKeyError: 'MKowalski'",
    "/home/mkowalski/x\nexp-mkowalski2",
    "/var/log/mkowalski/x.log",
    "/opt/conda/envs/mkowalski/bin/python",
)
BIGBOX4 = (
    "srun: error: bigbox4: task 3: Exited with exit code 1",
    "srun: error: bigbox[4-7]: tasks 0-31: Killed",
    "[bigbox4:12345] *** Process received signal ***",
    "[bigbox4:12345] [ 0] /lib/x86_64-linux-gnu/libpthread.so.0",
    "bigbox4: Traceback (most recent call last):",
    "torchrun --master_addr bigbox4 --nnodes 2",
    "torchrun --rdzv-endpoint bigbox4:29500",
    "  master_addr ..................... bigbox4",
    "The node 'bigbox4_1234_0' has failed to send a keep-alive heartbeat",
    "Node bigbox4 went down",
    "nodes bigbox3,bigbox4 are down",
    "ssh: Could not resolve hostname bigbox4: Name or service not known",
    "pod/bigbox-llm-7d9f8b6c5-x2x7z OOMKilled",
    'the namespace "bigbox-prod" is gone',
    "botocore.exceptions.ClientError: bucket bigbox-data not found",
)
OTHERS = (
    ("2001:db8:85a3::8a2e:370:7334", "NCCL INFO Bootstrap : Using eth0:2001:db8:85a3::8a2e:370:7334<0>"),
    ("2001:db8::7334", "NET/IB : Using [0]mlx5_0:1/RoCE ; OOB ib0:2001:db8::7334<0>"),
    ("2001:db8::7334", "connecting to 2001:db8::7334:29500"),
    ("10.17.3.4", "said \\n10.17.3.4\\n and left"),
    ("10.17.3.4", "peer_10.17.3.4_29500"),
    ("10.17.3.4", "IP 10.17.3.4.22 > x"),
    ("acme-research", "wandb: Currently logged in as: mkowalski (acme-research). Use `wandb login --relogin`"),
    ("anna", "GET /confirm/anna%40acme.io"),
    ("Schmidt", "Author: Anna Schmidt <anna.schmidt@acme.io>"),
    ("aK7MDENG/bPxRfiC", "found wJalrXUtnFEMI/aK7MDENG/bPxRfiCYEXAMPLEKE in env"),
    ("moonshot", "$HOME/moonshot/x"),
    ("moonshot", "'/data/My Folder/moonshot/x'"),
    ("moonshot", "/data/day=7/moonshot/x"),
    ("moonshot", "/data/{moonshot}/x"),
    ("moonshot", "/usr/local/moonshot/x"),
    ("moonshot", "src/moonshot/train.py"),
    ("moonshot", "datasets/moonshot/load.py"),
)


def hidden(text: str) -> str:
    redactor = Redactor()
    found = redactor.hide(text)
    assert redactor.restore(found) == text
    return found.lower()


@pytest.mark.parametrize("surrounding", SECRETS)
def test_a_secret_is_hidden_however_its_name_is_joined_to_it(surrounding: str) -> None:
    assert "abc123def" not in hidden(surrounding.replace("{}", "abc123def"))


@pytest.mark.parametrize("text", MKOWALSKI)
def test_a_person_is_hidden(text: str) -> None:
    assert "mkowalski" not in hidden(text)


@pytest.mark.parametrize("text", BIGBOX4)
def test_a_machine_is_hidden(text: str) -> None:
    assert "bigbox" not in hidden(text)


@pytest.mark.parametrize(("private", "text"), OTHERS)
def test_addresses_names_and_places_are_hidden(private: str, text: str) -> None:
    assert private.lower() not in hidden(text)


def test_what_looks_private_and_is_not_stays() -> None:
    lines = [
        "rank0: starting, epoch1: done, step-3: ok",
        "std::bad_alloc in c10::detail at 02:42:53, at::native::add, PCI 0000:3b:00.0",
        "the token count is 4096 and the password was wrong",
        "src/transport/net_socket.cc:123, python/ray/worker.py, ../csrc/attention.cu",
        "/usr/local/cuda-12.4/lib64/libcudart.so, /opt/conda/lib/libstdc++.so.6, /var/log/syslog",
        "see https://pytorch.org/docs/stable/distributed.html#launch-utility",
        "#SBATCH --ntasks-per-node=8",
    ]
    assert Redactor().hide_lines(lines) == lines
