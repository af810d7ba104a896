"""A file of each kind that `gpulake land` reads: two good rows and a bad one. Tests and attacks begin with them."""

from __future__ import annotations

import io
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq


class Example(NamedTuple):
    name: str
    good: str  # two rows
    bad: str  # one row
    end: str = ""  # what closes the file
    content: bytes = b""  # the file itself, where it is no text; good and bad then say what its rows read like

    @property
    def whole(self) -> bytes:
        return self.content or (self.good + self.bad + self.end).encode()


def parquet(**columns: list[object]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


EAST = "2023-03-01 00:18:22+08:00"
SEREN = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,"
    "fail_time,stop_time,duration,queue,gpu_time\n"
)
HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
PHILLY = (
    '[{"status": "", "vc": "v", "jobid": "j", "attempts": [], "submitted_time": "2017-10-07 01:11:39", "user": ""},\n'
    '{"status": "Pass", "vc": "v", "jobid": "k", "attempts": [], "submitted_time": "None", "user": null},\n'
)
HEADER = "Product_Name,GPU_Chip,Released,Bus,Memory,GPU_clock,Memory_clock,Shaders_TMUs_ROPs\n"
EXAMPLES = {
    "pai": [
        Example("pai_job_table.csv", "a,i,u,Failed,1.0,2.0\nb,i,u,Failed,,\n", "c,i,u,Failed,noon,\n"),
        Example("pai_task_table.csv", "a,ps,1,Failed,1,2,600,29,,T4\nb,ps,1,,,,,,,\n", "c,ps,one,,,,,,,\n"),
        Example("pai_instance_table.csv", "a,ps,n,w,i,Failed,1.0,,m\nb,ps,,,,Waiting,,,\n", "a,,n,w,i,Failed,,,m\n"),
        Example("pai_sensor_table.csv", "j,t,w,i,m,g,1,2,3,4,5,6,7,8,9,0\n" * 2, "j,t,,i,m,g,1,2,3,4,5,6,7,8,9,0\n"),
        Example("pai_group_tag_table.csv", "i,u,T4,g,bert\nk,u,,g,\n", ",u,,g,\n"),
        Example("pai_machine_spec.csv", "m,T4,96,512,2\nn,CPU,96,512,0\n", "o,T4,many,512,2\n"),
        Example("pai_machine_metric.csv", "w,m,1,2,0,0,0,0,0,0,0,0\n" * 2, "w,m,1,2,0,0,0,0,0,0,0\n"),
    ],
    "acme": [
        Example(
            "trace_seren.csv", SEREN + f"1,u,1,8,128,Other,FAILED,{EAST},{EAST},{EAST},117,32,936.0\n" * 2, "1,u\n"
        ),
        Example(
            "trace_kalos.csv",
            KALOS + f"1,u,8,64,960,1000,100.0,Other,FAILED,{EAST},,NaT,{EAST},,18,10.0,1152.0\n" * 2,
            "1,u,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58,,,,,18,10.0,1152.0\n",
        ),
    ],
    "helios": [
        Example(
            "cluster_log.csv",
            HELIOS + "1,u,v,1,1,1,COMPLETED,2020-06-09 18:41:01,,,1,0\n" * 2,
            "1,u,v,1,1,1,COMPLETED,2020-02-30 18:41:01,,,1,0\n",
        ),
        Example("cluster_gpu_number.csv", "date,vcEwI,total\n2020-04-01,72,968\n", "2020-04-02,72,968,1\n"),
    ],
    "inventory": [
        Example(
            "machines.csv", "cluster,machine,gpu_type,gpus,cores,memory_gib\nc,m,H100,8,96,2048\nc,n,,,,\n", "c,m\n"
        ),
        Example(
            "outages.csv",
            f'machine,cluster,started_at,ended_at,reason\nm,c,{EAST},,"disk, then fan"\nm,c,{EAST},{EAST},\n',
            "m,c,yesterday,,\n",
        ),
        Example("checkpoints.csv", f"cluster,job,saved_at\nc,1,{EAST}\nc,2,{EAST}\n", "c,1,yesterday\n"),
    ],
    "slurm": [
        Example(
            "sacct.txt",
            "JobID|State|End|\n1|COMPLETED|2024-05-01T10:00:00|\n2_[3-4]|PENDING|Unknown|\n",
            "5|FAILED|soon|\n",
        )
    ],
    "philly": [
        Example("cluster_job_log", PHILLY, PHILLY.split("\n")[1].replace("[]", "[{}]")[:-1] + "\n", "]\n"),
        Example(
            "cluster_machine_list", "machineId, number of GPUs, single GPU mem\nm1,8, 24GB\nm2,2, 12GB\n", "m3,8\n"
        ),
    ],
    "openb": [
        Example(
            "openb_node_list_all_node.csv", "sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\nb,1,1,2,T4\n", ",1,1,0,\n"
        ),
        Example(
            "openb_pod_list_default.csv", PODS + "p,1,1,1,460,,LS,Running,0,12,\n" * 2, "p,1,1,1,x,,LS,Failed,0,,\n"
        ),
    ],
    "opendc": [
        Example(
            "tasks.parquet",
            "id=1\nid=2\n",
            "submission_time=5, duration=1, cpu_count=1, cpu_capacity=1.0, mem_capacity=1\n",
            content=parquet(
                id=[1, 2, None],
                submission_time=[5, 5, 5],
                duration=[1, 1, 1],
                cpu_count=[1, 1, 1],
                cpu_capacity=[1.0, 1.0, 1.0],
                mem_capacity=[1, 1, 1],
            ),
        ),
        Example(
            "fragments.parquet",
            "id=1\nid=2\n",
            "id=2, duration=3, cpu_usage=inf\n",
            content=parquet(id=[1, 2, 2], duration=[1, 2, 3], cpu_usage=[0.0, 0.5, float("inf")]),
        ),
    ],
    "cctf": [
        Example(
            "nodes.json", '[{"node_id": "a"},\n{"node_id": "b", "gpus": 0},\n', '{"node_id": "c", "gpus": 0.5}\n', "]\n"
        ),
        Example(
            "links.json",
            '[{"u": "a", "v": "a.net", "BW_bps": 0, "PR_s": null},\n{"u": "b", "v": "b.net"},\n',
            "7\n",
            "]",
        ),
        Example(
            "host_metrics.jsonl", '{"ts_ms": 1, "node": "a", "cpu_util": 0}\n' * 2, '{"ts_ms": 1, "node": 7, "cpu_\n'
        ),
        Example("link_metrics.jsonl", '{"ts_ms": 1, "node": "a", "link": "a.nic", "is_up": true}\n' * 2, "[]\n"),
        Example(
            "proc_metrics.jsonl", '{"ts_ms": 1, "pid": 7, "rss_kb": 3, "utime": 0, "stime": 1}\n' * 2, '{"pid": 7}\n'
        ),
        Example("proc_cpu.jsonl", '{"ts_ms": 1, "pid": 7, "cpu_ms": 0.5, "dt_ms": 9}\n' * 2, "no\n"),
        Example(
            "proc_rss.jsonl", '{"ts_ms": 1, "pid": 7, "rss_kb": 0}\n' * 2, '{"ts_ms": -1, "pid": 7, "rss_kb": 0}\n'
        ),
        Example(
            "gpu_metrics.jsonl",
            '{"ts_ms": 1, "node": "a", "gpu_uuid": "GPU-1", "gpu_busy_ratio": 0}\n' * 2,
            '{"ts_ms": 1, "node": "a", "gpu_uuid": "GPU-1", "gpu_busy_ratio": NaN}\n',
        ),
        Example("gpu_processes.jsonl", '{"ts_ms": 1, "node": "a", "gpu_uuid": "G", "pid": 7}\n' * 2, '{"ts_ms": 1}\n'),
        Example("node_events.jsonl", '{"ts_ms": 1, "node": "a", "kind": "xid", "code": 79}\n' * 2, '{"ts_ms": 1}\n'),
        Example(
            "invocations.jsonl", '{"ts_end": 3, "node": "a", "status": 200}\n' * 2, '{"ts_end": "soon", "node": "a"}\n'
        ),
        Example(
            "placement_events.jsonl",
            '{"ts": 1, "event": "start", "node_id": "a"}\n' * 2,
            '{"ts": 1e99, "event": "a"}\n',
        ),
        Example("system_stats.jsonl", '{"ts_ms": 1, "metric": "in_flight", "value": 0}\n' * 2, '{"ts_ms": 1}\n'),
        Example("run_meta.json", '[{"run_id": "r", "rate": 50},\n{"run_id": "s"},\n', '{"rate": 50}\n', "]\n"),
        Example("module_inventory.json", '[{"module_id": "m"},\n{"module_id": "n"},\n', '{"name": "o"}\n', "]\n"),
    ],
    "prometheus": [
        Example(
            "page.prom",
            '# TYPE up gauge\nup 0\nDCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 0 1700000000000\n',
            'DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-2"} 4294967295\n',
        )
    ],
    "nvidia_smi": [
        Example(
            "node.xml",
            '<?xml version="1.0" ?>\n<nvidia_smi_log>\n' + '<gpu id="1"><uuid>GPU-1</uuid></gpu>\n' * 2,
            "<gpu><uuid></uuid></gpu>\n",
            "</nvidia_smi_log>\n",
        ),
        Example("node.csv", "index, utilization.gpu [%]\n0, 0 %\n1, [N/A]\n", "2\n"),
    ],
    "rocm_smi": [Example("node.json", '{"card0": {"GPU use (%)": "0"},\n"card1": {},\n', '"card2": "N/A"\n', "}\n")],
    "kernel_log": [
        Example(
            "n1.dmesg.log", "[ 1.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=7, lost\n<6>[ 2.0] hello\n", "[ 3.0] \ufffd\n"
        )
    ],
    "gpu_specs": [Example("tpu_gpus.csv", HEADER + "T4,,,,,,,\nV100,,,,,,,\n", "short,row\n")],
}
