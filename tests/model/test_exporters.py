"""GPUs under the names of other exporters than DCGM's, as Prometheus scrapes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.flow import Flow

PAGE = """# TYPE nvidia_smi_utilization_gpu_ratio gauge
node_uname_info{instance="10.0.0.7:9100",nodename="gpu-07"} 1 1763424000000
node_load1{instance="10.0.0.7:9100"} 2 1763424000000
node_load1{instance="gpu-08:9100"} 3 1763424000000
nvidia_smi_gpu_info{instance="10.0.0.7:9835",uuid="df6e7a7c",name="NVIDIA A100"} 1 1763424000000
nvidia_smi_utilization_gpu_ratio{instance="10.0.0.7:9835",uuid="df6e7a7c"} 0.25 1763424000000
nvidia_smi_memory_used_bytes{instance="10.0.0.7:9835",uuid="df6e7a7c"} 1048576 1763424000000
gpu_gfx_activity{hostname="mi-1",gpu_id="2",card_series="AMD Instinct MI300X",job_id="8",pod=""} 0 1763424000000
gpu_used_vram{hostname="mi-1",gpu_id="2",job_id="8",pod=""} 2 1763424000000
gpu_energy_consumed{hostname="mi-1",gpu_id="2",job_id="8",pod=""} 3e6 1763424000000
hw_gpu_utilization_ratio{host_name="ot-1",hw_id="GPU-9",hw_gpu_task="general"} 0.5 1763424000000
hw_gpu_utilization_ratio{host_name="ot-1",hw_id="GPU-9",hw_gpu_task="decoder"} 1 1763424000000
hw_power_watts{host_name="ot-1",hw_id="GPU-9",hw_type="gpu"} 300 1763424000000
hw_power_watts{host_name="ot-1",hw_id="cpu0",hw_type="cpu"} 90 1763424000000
"""


@pytest.mark.slow
def test_each_exporter_fills_the_samples_of_gpus_in_our_units(config: Config, tmp_path: Path) -> None:
    (tmp_path / "page.prom").write_text(PAGE)
    flow = Flow(config)
    flow.land([tmp_path / "page.prom"])
    flow.build()
    columns = "source, node_id, gpu_id, gpu_index, gpu_name, busy_ratio, memory_used_bytes, energy_joules_total,"
    found = rows_of(flow.lake, f"SELECT {columns} power_watts, owner_kind, owner_id FROM silver_gpu_samples ORDER BY 1")
    assert [tuple(row.values()) for row in found] == [
        ("amd_exporter", "mi-1", "mi-1/gpu2", 2, "AMD Instinct MI300X", 0.0, 2 << 20, 3.0, None, "slurm", "8"),
        (
            "nvidia_exporter",
            "gpu-07",
            "GPU-df6e7a7c",
            None,
            "NVIDIA A100",
            0.25,
            1 << 20,
            None,
            None,
            "unattributed",
            None,
        ),
        ("otel_exporter", "ot-1", "GPU-9", None, None, 0.5, None, None, 300.0, "unattributed", None),
    ]
    hosts = rows_of(flow.lake, "SELECT node_id, load_1m FROM silver_host_samples ORDER BY 1")
    assert hosts == [{"node_id": "gpu-07", "load_1m": 2.0}, {"node_id": "gpu-08", "load_1m": 3.0}]
