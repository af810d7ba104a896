"""A small trace of every source, for landing again. Times are whole quarters of an hour and shares are quarters, which
binary fractions hold exactly: sums are the same in whatever order they are taken, so that equal means equal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from repeating import AT, Columnar, Document

QUARTER = 900
MS = int(AT) * 1000


def table(name: str, *rows: str, header: str = "", **others: Any) -> Document:
    return Document(f"raw/{name}" if "/" not in name else name, rows, before=f"{header}\n" if header else "", **others)


def objects(name: str, *rows: Mapping[str, Any]) -> Document:
    """A file of a collected run: a list, or an object a line."""
    texts = tuple(json.dumps(row) for row in rows)
    if name.endswith(".json"):
        return Document(f"n1/{name}", texts, before="[\n", between=",\n", after="\n]\n")
    return Document(f"n1/{name}", texts)


def quarters(count: int) -> str:
    return f"{AT + count * QUARTER}"


def _pod(name: str) -> Mapping[str, Any]:
    """A pod that runs on two GPUs."""
    gpus = {"nvidia.com/gpu": "2"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "vision", "uid": name, "creationTimestamp": "2026-03-01T10:00:00Z"},
        "spec": {"nodeName": "kube-1", "containers": [{"name": "main", "resources": {"limits": gpus}}]},
        "status": {
            "phase": "Running",
            "startTime": "2026-03-01T10:15:00Z",
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2026-03-01T10:15:00Z"}}}],
        },
    }


# Two jobs of two machines; what changes from dump to dump is told in both ways.
PAI = [
    table(
        "pai_job_table.csv",
        f"j1,i1,ann,Running,{quarters(0)},",
        f"j1,i1,ann,Terminated,{quarters(0)},{quarters(20)}",
        f"j1,i1,bob,Terminated,{quarters(0)},{quarters(20)}",  # nothing says which of these two is right
        f"j2,i2,bob,Failed,{quarters(2)},{quarters(12)}",
        f"j3,i3,bob,Waiting,{quarters(3)},",
    ),
    table(
        "pai_task_table.csv",
        f"j1,worker,2.0,Terminated,{quarters(1)},{quarters(20)},600.0,29.25,200.0,T4",
        f"j1,worker,2.0,Terminated,{quarters(1)},{quarters(20)},600.0,29.25,200.0,V100",
        f"j2,worker,2.0,Failed,{quarters(2)},{quarters(12)},600.0,29.25,50.0,T4",
        f"j3,worker,2.0,Waiting,{quarters(3)},,600.0,29.25,50.0,T4",
    ),
    table(
        "pai_instance_table.csv",
        f"j1,worker,a,w1,i1,Running,{quarters(1)},,m1",
        f"j1,worker,a,w1,i1,Terminated,{quarters(1)},{quarters(20)},m1",
        f"j1,worker,b,w2,i1,Running,{quarters(1)},,m1",
        f"j1,worker,b,w2,i1,Running,{quarters(2)},,m1",
        "j2,worker,c,w3,i2,Failed,,,m2",
        "j2,worker,c,w4,i2,Interrupted,,,m2",
        f"j2,worker,c,w5,i2,Terminated,{quarters(4)},{quarters(8)},m2",
        f"j2,worker,c,w5,i2,Terminated,{quarters(8)},{quarters(12)},m2",
        "j3,worker,d,,i3,Waiting,,,",
        "j3,worker,,,i3,Waiting,,,",
    ),
    table(
        "pai_sensor_table.csv",
        # Two GPUs that say the same; one that an earlier dump had told of.
        "j1,worker,w1,i1,m1,/dev/nvidia0,400.0,50.0,1.5,2.0,0.5,1.0,10.0,20.0,3.0,4.0",
        "j1,worker,w1,i1,m1,/dev/nvidia1,400.0,50.0,1.5,2.0,0.5,1.0,10.0,20.0,3.0,4.0",
        "j1,worker,w2,i1,m1,/dev/nvidia2,200.0,25.0,1.0,1.0,0.5,0.5,5.0,6.0,1.0,1.0",
        "j1,worker,w2,i1,m1,/dev/nvidia2,200.0,75.0,1.5,2.0,0.5,1.0,7.0,8.0,2.0,2.0",
        "j1,worker,w2,i1,m1,,200.0,25.0,1.0,1.0,0.5,0.5,5.0,6.0,1.0,1.0",
        "j2,worker,w5,i2,m2,/dev/nvidia0,100.0,25.0,1.0,1.0,0.5,0.5,5.0,6.0,1.0,1.0",
        "j2,worker,w5,i2,m2,/dev/nvidia0,100.0,50.0,1.0,1.0,0.5,0.5,5.0,6.0,1.0,1.0",
    ),
    table("pai_group_tag_table.csv", "i1,ann,T4,g1,bert", "i1,ann,T4,g2,bert", "i2,bob,,g2,"),
    table(
        "pai_machine_spec.csv", "m1,T4,96.0,512.0,2.0", "m1,T4,96.0,256.0,2.0", "m2,P100,96.0,512.0,2.0",
        "m2,V100,96.0,512.0,2.0", "m3,CPU,96.0,512.0,",
    ),
    table(
        "pai_machine_metric.csv",
        *(
            f"{worker},{machine},{quarters(begin)},{quarters(end)},0.25,0.5,10.0,{gpu},1.5,1e6,2.0,{cpu}"
            for worker, machine, begin, end, gpu, cpu in [
                ("w1", "m1", 1, 20, 100.0, 50.0),
                ("w2", "m1", 1, 8, 200.0, 25.0),
                ("w2", "m1", 1, 12, 150.0, 25.0),
                ("w2", "m1", 1, 12, 175.0, 25.0),
                ("w5", "m2", 4, 12, 25.0, 12.5),
                ("", "m2", 4, 12, 50.0, 12.5),
            ]
        ),
    ),
    table(
        "tpu_gpus.csv",
        '"Tesla T4","TU104","Sep 13th, 2018","PCIe 3","16 GB, GDDR6, 256 bit","585 MHz","1250 MHz","2560 / 160 / 64"',
        '"Tesla T4","TU104","Sep 13th, 2018","PCIe 3","15 GB, GDDR6, 256 bit","585 MHz","1250 MHz","2560 / 160 / 64"',
        '"Tesla V100","GV100","","PCIe 3","32 GB, HBM2, 4096 bit","1245 MHz","876 MHz","5120 / 320 / 128"',
        header="Product_Name,GPU_Chip,Released,Bus,Memory,GPU_clock,Memory_clock,Shaders_TMUs_ROPs",
    ),
]  # fmt: skip

ACME = [
    table(
        "seren.csv",
        "1,u1,1,8,128,Other,FAILED,2023-03-01 00:15:00+08:00,2023-03-01 00:30:00+08:00,2023-03-01 01:45:00+08:00,1,1,1",
        "2,u1,2,16,,Eval,CANCELLED,2023-03-01 00:30:00+08:00,,2023-03-01 00:45:00+08:00,0,900,0",
        "3,u1,2,16,64,SFT,RUNNING,2023-03-01 01:00:00+08:00,2023-03-01 01:00:00+08:00,,0,0,0",
        "3,u1,2,16,64,SFT,COMPLETED,2023-03-01 01:00:00+08:00,2023-03-01 01:00:00+08:00,2023-03-01 02:00:00+08:00,1,,",
        "3,u2,2,8,64,SFT,COMPLETED,2023-03-01 01:00:00+08:00,2023-03-01 01:00:00+08:00,2023-03-01 02:00:00+08:00,1,,",
        header="job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time",
    ),
    table(
        "kalos.csv",
        "a,u1,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:00+00:00,2023-05-17 11:15:00+00:00,"
        "2023-05-17 12:00:00+00:00,2023-05-17 12:00:00+00:00,,18,10.0,1152.0",
        "b,u2,,0,4,,,Debug,CANCELLED,2023-05-17 11:00:00+00:00,2023-05-17 11:00:00+00:00,,,"
        "2023-05-17 11:30:00+00:00,,,",
        "b,u3,,8,4,,,Debug,CANCELLED,2023-05-17 11:00:00+00:00,2023-05-17 11:00:00+00:00,,,"
        "2023-05-17 11:30:00+00:00,,,",
        header="job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,"
        "start_time,end_time,fail_time,stop_time,duration,queue,gpu_time",
    ),
]

HELIOS = [
    table(
        "Venus/cluster_log.csv",
        "7,u1,vcA,8,16,2,NODE_FAIL,2020-06-09 18:00:00,2020-06-09 18:15:00,2020-06-09 19:15:00,3600,900",
        "8,u1,vcA,8,16,2,COMPLETED,2020-06-09 18:00:00,2020-06-09 18:15:00,2020-06-09 20:15:00,7200,900",
        "8,u2,vcA,4,16,2,COMPLETED,2020-06-09 18:00:00,2020-06-09 18:15:00,2020-06-09 20:15:00,7200,900",
        "9,u2,vcB,1,4,1,PENDING,2020-06-09 18:15:00,,,,",
        header="job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
    ),
    table(
        "Venus/cluster_gpu_number.csv", "2020-06-08,8,8", "2020-06-09,16,16", "2020-06-09,24,24",
        header="date,vcA,total",
    ),
]  # fmt: skip

OPENB = [
    table(
        "openb_node_list_all_node.csv",
        "node-0,64000,262144,8,V100M32",
        "node-0,64000,131072,8,V100M32",
        "node-1,64000,262144,8,T4",
        header="sn,cpu_milli,memory_mib,gpu,model",
    ),
    table(
        "openb_pod_list_default.csv",
        "p0,12000,16384,1,500,,LS,Running,0,7200,0",
        "p1,6000,12288,2,1000,V100M32,BE,Failed,3600,7200,4500",
        "p1,6000,12288,4,1000,V100M32,BE,Failed,3600,7200,4500",
        "p2,6000,12288,1,500,V100M16|V100M32,BE,Pending,3600,7200,",
        header="name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
        "scheduled_time",
    ),
]


def philly_job(job: str, status: str, *attempts: tuple[str | None, str | None, dict[str, list[str]]]) -> str:
    tries = [
        {"start_time": begin, "end_time": end, "detail": [{"ip": ip, "gpus": gpus} for ip, gpus in machines.items()]}
        for begin, end, machines in attempts
    ]
    own = {"status": status, "vc": "v", "jobid": job, "user": "u", "submitted_time": "2017-10-03 10:00:00"}
    return json.dumps(own | {"attempts": tries})


FIRST_TRY = ("2017-10-03 10:15:00", "2017-10-03 11:15:00", {"m1": ["gpu0", "gpu1"], "m2": ["gpu0"]})
PHILLY = [
    Document(
        "raw/cluster_job_log.json",
        (
            philly_job("a", "Failed", FIRST_TRY),
            philly_job("a", "Pass", FIRST_TRY, ("2017-10-03 11:30:00", "2017-10-03 12:00:00", {"m1": ["gpu0"]})),
            philly_job("b", "Killed"),
            philly_job("c", "Killed", ("2017-10-03 10:15:00", None, {})),
        ),
        before="[\n",
        between=",\n",
        after="\n]\n",
    ),
    table(
        "cluster_machine_list.csv", "m1, 2, 12GB", "m1, 2, 24GB", "m2, 8, 24GB",
        header="machineId, number of GPUs, single GPU mem",
    ),
]  # fmt: skip


def sacct(job: str, state: str, start: str, end: str, nodes: str = "g1", name: str = "train", use: str = "") -> str:
    tres = f"cpu=8,gres/gpu={2 * len(nodes.split(','))}"
    return (
        f"{job}|{name}|ann|math|Tiger|{state}|2026-03-01T09:00:00|2026-03-01T09:00:00|{start}|{end}|"
        f"{len(nodes.split(','))}|8|8G|{tres}|{tres}|{nodes}|{use}"
    )


SLURM = [
    table(
        "sacct.txt",
        sacct("1", "RUNNING", "2026-03-01T10:00:00", "Unknown", "g1,g2"),
        sacct("1", "COMPLETED", "2026-03-01T10:00:00", "2026-03-01T14:00:00", "g1,g2"),
        sacct("1", "COMPLETED", "2026-03-01T10:00:00", "2026-03-01T14:00:00", "g1,g2", name="other"),
        sacct("1.0", "COMPLETED", "2026-03-01T10:00:00", "2026-03-01T14:00:00", "g1,g2", use="gres/gpuutil=50"),
        sacct("1.1", "COMPLETED", "2026-03-01T11:00:00", "2026-03-01T12:00:00", "g1,g2", use="gres/gpuutil=25"),
        sacct("2_[3-4]", "PENDING", "Unknown", "Unknown", "None assigned"),
        sacct("2_1", "FAILED", "2026-03-01T12:00:00", "2026-03-01T13:00:00", "g2"),
        sacct("3", "PREEMPTED", "2026-03-01T12:00:00", "2026-03-01T13:00:00", "g2"),
        sacct("3", "RUNNING", "2026-03-01T13:00:00", "Unknown", "g2"),
        header="JobID|JobName|User|Account|Cluster|State|Submit|Eligible|Start|End|NNodes|ReqCPUS|ReqMem|ReqTRES|"
        "AllocTRES|NodeList|TRESUsageInAve",
    ),
    table(
        "machines.csv", "Tiger,g1,h100,2,64,512", "Tiger,g1,h100,2,64,256", "Tiger,g2,h100,4,64,512",
        "Tiger,g3,h100,4,64,512", header="cluster,machine,gpu_type,gpus,cores,memory_gib",
    ),
    table(
        "outages.csv",
        'Tiger,g3,2026-03-01T10:00:00Z,,"disk, again"',
        'Tiger,g3,2026-03-01T10:00:00Z,2026-03-01T12:00:00Z,"disk, again"',
        "Tiger,g3,2026-03-01T10:00:00Z,2026-03-01T12:00:00Z,other words",
        "Tiger,g2,2026-03-01T11:00:00Z,2026-03-01T11:30:00Z,",
        header="cluster,machine,started_at,ended_at,reason",
    ),
    table(
        "checkpoints.csv",
        "Tiger,1,2026-03-01T10:15:00Z",
        "Tiger,1,2026-03-01T10:30:00Z",
        "Tiger,1,2026-03-01T10:15:00Z",
        header="cluster,job,saved_at",
    ),
]  # fmt: skip

OPENDC = [
    Columnar(
        "night/tasks.parquet",
        ("1", "2", "3"),
        table=pa.table(
            {
                "id": [1, 2, 3],
                "name": ["a", "b", "b"],
                "submission_time": pa.array([MS, MS, MS + 900_000], pa.timestamp("ms")),
                "duration": [3_600_000, 1_800_000, 900_000],
                "cpu_count": pa.array([4, 4, 8], pa.int32()),
                "cpu_capacity": [1000.0, 1000.0, 2000.0],
                "mem_capacity": [1000, 1000, 2000],
                "gpu_count": pa.array([1, 2, 0], pa.int32()),
                "gpu_capacity": [100.0, 200.0, 0.0],
            }
        ),
    ),
]


def samples(name: str, *facts: dict[str, Any], **columns: Any) -> Document:
    """Four samples of each, a quarter of a minute apart."""
    rows = [{"ts_ms": MS + 15_000 * number, "node": "n1", **columns, **each} for each in facts for number in range(4)]
    return objects(name, *rows)


COLLECTED = [
    objects("nodes.json", {"node_id": "n1", "cpu_cores": 8, "mem_mb": 1024, "host_id": "h1", "gpus": 2},
            {"node_id": "n1", "cpu_cores": 4, "mem_mb": 2048, "host_id": "h1", "gpus": 2}),
    samples("host_metrics.jsonl", {"cpu_util": 50.0, "mem_free_mb": 2.0}, {"load_1m": 0.5}, host_id="h1"),
    samples("link_metrics.jsonl", {"link": "n1.nic", "rx_Bps": 8.0, "tx_Bps": 4.0}, {"link": "n1.eth1", "rx_Bps": 0.0}),
    samples("proc_metrics.jsonl", {"pid": 7, "utime": 100, "stime": 0, "rss_kb": 4, "comm": "python"},
            {"pid": 8, "utime": 100, "stime": 0, "rss_kb": 8, "owner_kind": "slurm", "owner_id": "1"}),
    samples("gpu_metrics.jsonl",
            {"gpu_uuid": "GPU-1", "gpu_busy_ratio": 0.5, "power_watts": 128.0, "ecc_corrected_total": 3},
            {"gpu_uuid": "GPU-1", "gpu_busy_ratio": 0.25, "power_watts": 64.0, "temperature_celsius": 96.0},
            {"gpu_uuid": "GPU-2", "gpu_busy_ratio": 0.0, "owner_kind": "slurm", "owner_id": "1", "processes": 0,
             "clock_event_reasons": 4}),
    samples("gpu_processes.jsonl", {"gpu_uuid": "GPU-1", "pid": 7, "memory_used_bytes": 4096},
            {"gpu_uuid": "GPU-1", "pid": 7, "memory_used_bytes": 8192, "comm": "python"}),
    samples("node_events.jsonl", {"kind": "xid", "subject": "0000:3b:00", "code": 79, "message": "Xid 79"},
            source="kernel"),
    objects("invocations.jsonl",
            {"trace_id": "t", "span_id": "s", "ts_start": MS, "ts_end": MS + 250, "node": "n1", "status": 200},
            {"trace_id": "t", "span_id": "s", "ts_start": MS, "ts_end": MS + 250, "node": "n1", "status": 200,
             "bytes_in": 5}, {"trace_id": "t", "span_id": "u", "ts_start": MS, "ts_end": MS + 500, "node": "n1"}),
]  # fmt: skip


def dcgm(number: int) -> Document:
    labels = 'gpu="{0}",UUID="GPU-{0}",Hostname="g1",modelName="H100"'
    rows = [
        f"DCGM_FI_DEV_GPU_UTIL{{{labels.format(1)}}} {25 * number}",
        f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels.format(1)}}} {1_536_000 * number}",
        f"DCGM_FI_DEV_GPU_TEMP{{{labels.format(1)}}} 60",
        f'DCGM_FI_DEV_GPU_UTIL{{{labels.format(2)},pod="p",namespace="lab"}} 0',
        f"DCGM_FI_DEV_POWER_USAGE{{{labels.format(2)}}} 128",
        f"DCGM_FI_DEV_XID_ERRORS{{{labels.format(2)}}} {79 * (number // 2)}",
    ]
    return table(f"scrape{number}/gpu.prom", *rows, written_at=AT + 15 * number)


def node_exporter(number: int) -> Document:
    rows = [
        'node_uname_info{nodename="web01"} 1',
        f"node_time_seconds {AT + 15 * number}",
        f'node_cpu_seconds_total{{cpu="0",mode="idle"}} {64 + 8 * number}',
        f'node_cpu_seconds_total{{cpu="1",mode="idle"}} {64 + 8 * number}',
        f'node_cpu_seconds_total{{cpu="0",mode="user"}} {16 * number}',
        'node_disk_read_bytes_total{device="sda"} 100',
        'node_disk_read_bytes_total{device="sdb"} 100',
        f'node_network_receive_bytes_total{{device="eth0"}} {1500 * number}',
        "node_load1 0.5",
    ]
    return table(f"page{number}/node.prom", *rows, written_at=AT + 15 * number + 1)


OPEN_METRICS = table(
    "scraped/open.txt",
    *(f'DCGM_FI_DEV_GPU_UTIL{{gpu="5",UUID="GPU-5",hostname="g5"}} {25 * at} {AT + 15 * at}' for at in range(3)),
    header="# TYPE DCGM_FI_DEV_GPU_UTIL gauge",
    after="\n# EOF\n",
)
PROMETHEUS = [*(dcgm(number) for number in range(3)), *(node_exporter(number) for number in range(3)), OPEN_METRICS]

NVIDIA_SMI = [
    table(
        "smi/g1.csv",
        *(
            f"2026/03/01 10:00:{15 * at:02}.000, GPU-{gpu}, {gpu}, {busy} %, 1024 MiB, {power}.00 W"
            for at in range(3)
            for gpu, busy, power in [(0, 50, 128), (1, 0, 64), (1, 25, 64)]
        ),
        header="timestamp, uuid, index, utilization.gpu [%], memory.used [MiB], power.draw [W]",
    ),
    Document(
        "smi/g2.xml",
        (
            '<gpu id="00000000:3B:00.0">\n<product_name>H100</product_name>\n<uuid>GPU-9</uuid>\n'
            "<utilization><gpu_util>50 %</gpu_util></utilization>\n</gpu>",
        ),
        before='<?xml version="1.0" ?>\n<nvidia_smi_log>\n<timestamp>Sun Mar  1 10:00:00 2026</timestamp>\n',
        after="\n</nvidia_smi_log>\n",
    ),
]

ROCM_SMI = [
    Document(
        f"{folder}/r1.json",
        tuple(
            f'"card{card}": {{"Unique ID": "0x{card}a", "GPU use (%)": "{busy}",\n"Serial Number": "s{serial}"}}'
            for card, serial, busy in [(0, 1, busy), (1, 2, 0), (1, 3, 0)]
        ),
        before="{\n",
        between=",\n",
        after="\n}\n",
        written_at=written_at,
    )
    for folder, busy, written_at in [("rocm1", 50, AT), ("rocm2", 75, AT + 15)]
]

KERNEL_LOG = [
    table(
        "logs/k1.dmesg.log",
        "[    1.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
        "[    1.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
        "[    2.000000] oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/slurm,task=python,pid=7,uid=1000",
        "[    2.500000] Memory cgroup out of memory: Killed process 7 (python) total-vm:1kB, anon-rss:1kB",
        "[   30.000000] mlx5_core 0000:3b:00.0 ens1f0: Link down",
        "[   40.000000] usb 1-1: new device",
        is_ordered=True,
    ),
    table(
        "logs/k2.kern.log",
        "2026-03-01T10:00:00,000000+00:00 mlx5_core 0000:3b:00.0 ens1f0: Link down",
        "2026-03-01T10:00:15,000000+00:00 mlx5_core 0000:3b:00.0 ens1f0: Link up",
        "2026-03-01T10:00:30,000000+00:00 Out of memory: Killed process 9 (python) total-vm:1kB",
        is_ordered=True,
    ),
]

# A listing says also what it does not list, so that a part of it is another one: its rows stay together.
SLURM_NODES = [
    *(
        table(
            f"{folder}/scontrol-nodes.txt",
            "NodeName=g1 Arch=x86_64 Gres=gpu:a100:4 State=IDLE BootTime=2026-02-28T01:40:47\n"
            f"NodeName=g2 Arch=x86_64 Gres=gpu:a100:4 State={state}",
            written_at=AT + after,
        )
        for folder, state, after in [
            ("nodes1", "IDLE", 0),
            ("nodes2", "IDLE+DRAIN Reason=fan [root@2026-03-01T10:30:00]", 4 * QUARTER),
            ("nodes3", "MIXED", 8 * QUARTER),
        ]
    ),
    table(
        "events.txt",
        "tiger|g1|2026-03-01T11:00:00|2026-03-01T11:15:00|DRAIN|fan|root(0)",
        "tiger|g2|2026-03-01T12:00:00|2026-03-01T12:30:00|DOWN*|Not responding|slurm(64030)",
        header="Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User",
        written_at=AT + 12 * QUARTER,
    ),
]

SLURM_SETUP = [
    *(
        table(
            f"{folder}/partitions.txt",
            f"PartitionName=gpu Nodes=g[1-2] State={state} TRES=cpu=16,gres/gpu=8 MaxTime=1-00:00:00",
            "PartitionName=spare Nodes=g2 State=UP TRES=cpu=8,gres/gpu=4",
            written_at=AT + after,
        )
        for folder, state, after in [("setup1", "UP", 0), ("setup2", "DRAIN", 4 * QUARTER)]
    ),
    *(
        table(
            f"{folder}/reservations.txt",
            "ReservationName=fix StartTime=2026-03-01T12:00:00 EndTime=2026-03-01T13:00:00 Nodes=g2 Flags=MAINT"
            f" Users=root State={state}",
            written_at=AT + after,
        )
        for folder, state, after in [("setup1", "INACTIVE", 0), ("setup2", "ACTIVE", 12 * QUARTER)]
    ),
]

KUBERNETES = [
    table(
        f"{folder}/pods.json",
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [
                    {
                        "apiVersion": "v1",
                        "kind": "Node",
                        "metadata": {"name": "kube-1", "uid": "n1", "creationTimestamp": "2026-03-01T09:00:00Z"},
                        "status": {"capacity": {"nvidia.com/gpu": "8"}},
                    },
                    *(_pod(name) for name in names),
                ],
            }
        ),
        written_at=AT + after,
    )
    for folder, names, after in [("kube1", ("train-0", "train-1"), 2 * QUARTER), ("kube2", ("train-1",), 6 * QUARTER)]
]

TRAINING = [
    table(
        "run-7/trainer_log.txt",
        *(
            f':::MLLOG {{"namespace": "", "time_ms": {MS + 1000 * QUARTER * place}, "event_type": "POINT_IN_TIME",'
            f' "key": "train_loss", "value": {4 - step / 20}, "metadata": {{"samples_count": {step}}}}}'
            for place, step in enumerate((10, 20, 30, 20, 30, 40))
        ),
        is_ordered=True,
    ),
]

# A line of a job, the same job as it is told elsewhere, a part of it, and one that never began.
SWF = [
    table(
        "tiger.swf",
        "1 0 900 3600 8 -1 -1 8 -1 -1 1 1 1 1 -1 -1 -1 -1",
        "1 0 900 1800 8 -1 -1 8 -1 -1 1 1 1 1 -1 -1 -1 -1",
        "1 0 900 1800 8 -1 -1 8 -1 -1 2 1 1 1 -1 -1 -1 -1",
        "2 900 0 1800 2 -1 -1 2 -1 1024 0 2 1 -1 -1 -1 -1 -1",
        "2 900 0 1800 4 -1 -1 4 -1 1024 0 2 1 -1 -1 -1 -1 -1",
        "3 1800 -1 -1 -1 -1 -1 16 -1 -1 5 1 1 -1 -1 -1 -1 -1",
        header=f"; UnixStartTime: {AT:.0f}\n; Processors: GPUs",
    ),
]

SOURCES: dict[str, Sequence[Document]] = {
    "pai": PAI,
    "acme": ACME,
    "helios": HELIOS,
    "openb": OPENB,
    "philly": PHILLY,
    "slurm": SLURM,
    "opendc": OPENDC,
    "swf": SWF,
    "cctf": COLLECTED,
    "prometheus": PROMETHEUS,
    "nvidia_smi": NVIDIA_SMI,
    "rocm_smi": ROCM_SMI,
    "kernel_log": KERNEL_LOG,
    "slurm_nodes": SLURM_NODES,
    "slurm_setup": SLURM_SETUP,
    "kubernetes": KUBERNETES,
    "training": TRAINING,
}
