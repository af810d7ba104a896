"""The settings of recoveries: what they allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpulake.core.config import load
from gpulake.core.errors import ConfigError
from gpulake.core.recovery_settings import Recoveries


def test_a_table_of_the_file_changes_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "gpulake.toml"
    path.write_text('[recoveries]\nexecutor = "slurm"\nmost_restarts = 5\nspare_nodes = ["s1"]\n')
    assert load({}, {"GPULAKE_CONFIG": str(path)}).recoveries == Recoveries(
        executor="slurm", most_restarts=5, spare_nodes=("s1",)
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"most_restarts": -1}, "most_restarts is -1"),
        ({"most_cordoned_ratio": 1.5}, "most_cordoned_ratio is 1.5"),
        ({"most_cordoned_ratio": float("nan")}, "most_cordoned_ratio is nan"),
        ({"command_seconds": 0.0}, "command_seconds is 0.0"),
        ({"test_tries": 0}, "test_tries is 0"),
        ({"namespace": "a b"}, "namespace is 'a b'"),
        ({"pod_selector": "app=x"}, "pod_selector is 'app=x'"),
        ({"pod_selector": "a={job_id},b"}, "pod_selector is 'a={job_id},b'"),
        ({"checkpoints": "/ckpt/{node}"}, "checkpoints is '/ckpt/{node}'"),
        ({"restart_command": ("sbatch", "x.sh")}, "restart_command ['sbatch', 'x.sh'] names no job"),
        ({"restart_command": ("x", "{job_id}", "{node}")}, "restart_command has the placeholder {node}"),
        ({"cordon_command": ("x", "{job_id}")}, "cordon_command ['x', '{job_id}'] names no node"),
        ({"test_command": ("{nodes}", "{nodes}")}, "test_command begins with '{nodes}'"),
    ],
)
def test_what_cannot_be_is_an_error_that_names_it(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Recoveries(**given)
    assert caught.value.message == message
    assert caught.value.hint
