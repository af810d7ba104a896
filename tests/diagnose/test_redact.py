"""What is hidden, that nothing hidden shows, and that all of it comes back."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases, each
from gpulake.diagnose.judge.redact import Redactor

BASE62 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
HEX = "0123456789abcdef"


def some(alphabet: str, least: int, most: int | None = None) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=least if most is None else most)


# Secrets that are known by their shape, whatever stands around them.
SHAPED = {
    "aws": some(BASE62[:26] + "234567", 16).map("AKIA{}".format),
    "hugging face": some(BASE62, 34).map("hf_{}".format),
    "github": some(BASE62, 36).map("ghp_{}".format),
    "github, fine-grained": some(BASE62 + "_", 40).map("github_pat_{}".format),
    "openai": some(BASE62, 40).map("sk-proj-{}".format),
    "slack": some("0123456789", 11).map("xoxb-{}-abc".format),
    "google": some(BASE62, 35).map("AIza{}".format),
    "wandb": some(HEX, 40),
    "jwt": st.tuples(some(BASE62, 12), some(BASE62, 20), some(BASE62, 20)).map("eyJ{0[0]}.{0[1]}.{0[2]}".format),
}
SURROUNDINGS = (
    "{}",
    "token is {} here",
    "'{}'",
    '{{"value": "{}"}}',
    "[{}]",
    "x={},y=1",
    "curl -H 'X: {}' https://example.com/a",
    "https://user:{}@example.com/x.git",
    "https://example.com/a?b={}&c=1",
    "/home/someone/{}/file.txt",
    "login failed for ({})",
    "\u00fcber {} \u2014 \u4e2d\u6587",
    "<SECRET_1>{}<SECRET_2>",
    "[rank0]: Traceback {}: {} end",
)
# Values of any kind, after a name that says what they are.
NAMED = (
    "password={}",
    "PASSWORD: {}",
    "export WANDB_API_KEY={}",
    "AWS_SECRET_ACCESS_KEY={}",
    '{{"password": "{}", "user": "x"}}',
    "{{'client_secret': '{}'}}",
    '\\"api_key\\": \\"{}\\"',
    "--password {}",
    "--hf-token {}",
    "Authorization: Bearer {}",
    "authorization=Basic {}",
    "Cookie: session={}",
    "mysql://root:{}@db/x",
    "sshpass -p {}",
    "db.password = '{}'",
)
PRIVATE = {
    "e-mail": ("anna.schmidt+gpu@example.co.uk", "mail anna.schmidt+gpu@example.co.uk now"),
    "home": ("aschmidt", 'File "/home/aschmidt/run/train.py", line 3'),
    "home on a Mac": ("aschmidt", "/Users/aschmidt/x"),
    "home on Windows": ("aschmidt", r"C:\Users\aschmidt\run.py"),
    "user elsewhere in the text": ("aschmidt", "/home/aschmidt/x\nhello aschmidt, welcome"),
    "login": ("aschmidt", "aschmidt@gpu-01 $ ls"),
    "login's host": ("gpu-01", "aschmidt@gpu-01 $ ls"),
    "user=": ("aschmidt", "user=aschmidt started"),
    "uid": ("aschmidt", "uid=1000(aschmidt) gid=5"),
    "ipv4": ("10.17.3.4", "connect to 10.17.3.4:29500 refused"),
    "ipv6": ("fd00:12::17", "[fd00:12::17]:29500 timed out"),
    "mapped": ("10.17.3.4", "[::ffff:10.17.3.4]:29500"),
    "mac": ("aa:bb:cc:dd:ee:0f", "eth0 aa:bb:cc:dd:ee:0f up"),
    "full name": ("train-07.hpc.example.com", "host train-07.hpc.example.com is down"),
    "short name elsewhere": ("train-07", "train-07.hpc.example.com\ntrain-07 went away"),
    "nccl's host": ("lambda4", "lambda4:123:456 [0] NCCL INFO Bootstrap"),
    "torch's host": ("lambda4", "  host      : lambda4"),
    "slurm's host": ("lambda4", "*** JOB 1 ON lambda4 CANCELLED AT 2026-01-01T00:00:00 ***"),
    "master": ("lambda4", "MASTER_ADDR=lambda4"),
    "syslog's host": ("lambda4", "Jan  2 03:04:05 lambda4 kernel: NVRM: Xid"),
    "gpu": ("5fd4f087-86f3-7a43-b711-4771313afc50", "GPU-5fd4f087-86f3-7a43-b711-4771313afc50 lost"),
    "serial": ("1654922006536", "Serial Number : 1654922006536"),
    "path": ("secret_project", "/mnt/lab/secret_project/data.tar.gz missing"),
    "relative path": ("secret_project", "no such file: outputs/secret_project/model.pt"),
    "bucket": ("secret-project", "s3://secret-project/a/b.parquet"),
}
KEY = ["-----BEGIN RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA7bq", "c2hvcnQ=", "-----END RSA PRIVATE KEY-----"]


@pytest.mark.parametrize("kind", SHAPED)
@given(data=st.data())
@settings(max_examples=cases(30))
def test_a_token_is_hidden_whatever_stands_around_it(kind: str, data: st.DataObject) -> None:
    secret = data.draw(SHAPED[kind])
    text = data.draw(st.sampled_from(SURROUNDINGS)).replace("{}", secret).replace("{{", "{").replace("}}", "}")
    redactor = Redactor()
    hidden = redactor.hide(text)
    assert secret not in hidden
    assert redactor.restore(hidden) == text


@pytest.mark.parametrize("surrounding", NAMED)
@given(secret=st.text(BASE62 + "!$%^&*+,.;:/()[]{}", min_size=4, max_size=24).filter(lambda text: text[0].isalnum()))
@settings(max_examples=cases(40))
def test_a_value_after_a_telling_name_is_hidden_whole(surrounding: str, secret: str) -> None:
    secret = f"{secret.replace('/', '7') if '://' in surrounding else secret}1"  # never a mere None
    text = surrounding.replace("{{", "{").replace("}}", "}").replace("{}", secret)
    redactor = Redactor()
    hidden = redactor.hide(text)
    assert secret not in hidden
    assert redactor.restore(hidden) == text


@each("kind", PRIVATE)
def test_people_machines_and_places_are_hidden(kind: str) -> None:
    private, text = PRIVATE[kind]
    redactor = Redactor()
    hidden = redactor.hide(text)
    assert private not in hidden
    assert redactor.restore(hidden) == text


@given(st.text())
@settings(max_examples=cases(300))
def test_any_text_comes_back(text: str) -> None:
    redactor = Redactor()
    assert redactor.restore(redactor.hide(text)) == text


WHOLE = (
    "<IP_1>",
    "<SECRET_2>",
    "<TEXT_1>",
    "10.0.0.1",
    "hf_" + "a1" * 20,
    "-----BEGIN PRIVATE KEY-----",
    "\ud800",
    "é",
)
PARTS = ("user=", "anna", "home", "://", "password=", *"é<>_1@/ '[]:\"\\\n")
PIECES = st.sampled_from((*WHOLE, *PARTS))


@pytest.mark.slow
@given(st.lists(PIECES, max_size=25).map("".join))
@settings(max_examples=cases(600))
def test_text_that_looks_like_placeholders_comes_back(text: str) -> None:
    redactor = Redactor()
    hidden = redactor.hide(text)
    assert redactor.restore(hidden) == text
    assert hidden.count("\n") == text.count("\n")
    hidden.encode()


def test_the_same_value_has_the_same_placeholder_in_every_text() -> None:
    redactor = Redactor()
    assert redactor.hide("10.1.1.1 and 10.1.1.2 and 10.1.1.1") == "<IP_1> and <IP_2> and <IP_1>"
    assert redactor.hide("from 10.1.1.2") == "from <IP_2>"


def test_what_helps_to_understand_a_failure_stays() -> None:
    lines = [
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total)",
        "KeyError: 'model.layers.0.self_attn.q_proj.weight'",
        "[E ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)",
        "undefined symbol: _ZNK3c1011StorageImpl27throw_data_ptr_access_errorEv",
        "c10::Error at ../aten/src/ATen/native/cuda/Loss.cu:242, Qwen2MoeForCausalLM",
        "iteration 100/500 | tokens/s 12.3 | max_tokens: 4096 | eos_token='</s>' | 02:42:53",
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
        "libcuda.so.1 in /usr/lib/x86_64-linux-gnu/libcuda.so.1, /dev/nvidia0, /dev/shm",
        "could not reach https://huggingface.co on 127.0.0.1, api_key=None, self.net(x)",
    ]
    assert Redactor().hide_lines(lines) == lines


def test_a_path_keeps_its_package_and_its_extension() -> None:
    redactor = Redactor()
    package = 'File "/home/anna/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 114'
    assert redactor.hide(package) == 'File "<PATH_1>/site-packages/torch/nn/modules/linear.py", line 114'
    assert redactor.hide("'/data/x/shard_1.tar.gz' /dev/shm/x1.bin") == "'<PATH_2>.tar.gz' /dev/shm/<PATH_3>.bin"


@pytest.mark.parametrize("lines", [KEY, KEY[1:], KEY[:-1], [f"[rank0]: {line}" for line in KEY], ["\\n".join(KEY)]])
def test_a_private_key_is_hidden_even_in_part(lines: list[str]) -> None:
    hidden = "\n".join(Redactor().hide_lines(lines))
    assert "MIIEpAIBAAKCAQEA7bq" not in hidden
    assert "c2hvcnQ=" not in hidden


def test_secrets_can_stay_hidden_where_the_rest_comes_back() -> None:
    redactor = Redactor()
    hidden = redactor.hide("password=hunter22 at 10.1.1.1")
    assert hidden == "password=<SECRET_1> at <IP_1>"
    assert redactor.restore(hidden, but=("SECRET",)) == "password=<SECRET_1> at 10.1.1.1"
    assert redactor.restore("<IP_9>") == "<IP_9>"


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["a", "/a", "a.", "a@", "password=", "-----BEGIN ", ":", "a-", '"\\', "https://", "0", "<IP_", "a:1:1 "]
)
def test_no_text_takes_long(piece: str) -> None:
    """Ten times the text takes about ten times as long, so that a hostile line cannot stop us."""

    def spent(length: int) -> float:
        line = (piece * length)[:length]
        began = time.process_time()
        Redactor().hide(line)
        return time.process_time() - began

    assert spent(20_000) < 40 * max(spent(2_000), 0.002)
