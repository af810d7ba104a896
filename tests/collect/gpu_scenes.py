"""Scenes for the fake driver: a GPU that says everything (values as an H200 gave them), and others made from it."""

from __future__ import annotations

from typing import Any

import pynvml

NO_VALUE = 0xFFFFFFFFFFFFFFFF
ALL_LINKS = 0xFFFFFFFF


def full_gpu(uuid: str = "GPU-1", bus: str = "00000000:1B:00.0") -> dict[str, Any]:
    return {
        "answers": {
            "nvmlDeviceGetUUID": uuid,
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetPciInfo": {"busId": bus},
            "nvmlDeviceGetUtilizationRates": {"gpu": 99, "memory": 0},
            f"nvmlDeviceGetMemoryInfo {pynvml.nvmlMemory_v2}": {
                "total": 150754820096,
                "reserved": 644939776,
                "used": 5368709120,
                "free": 144741171200,
            },
            "nvmlDeviceGetMemoryInfo": {"total": 150754820096, "used": 6013648896, "free": 144741171200},
            "nvmlDeviceGetPowerUsage": 573930,
            "nvmlDeviceGetTotalEnergyConsumption": 22970930,
            f"nvmlDeviceGetTemperature {pynvml.NVML_TEMPERATURE_GPU}": 46,
            f"nvmlDeviceGetClockInfo {pynvml.NVML_CLOCK_SM}": 1965,
            f"nvmlDeviceGetClockInfo {pynvml.NVML_CLOCK_MEM}": 3201,
            "nvmlDeviceGetCurrentClocksEventReasons": 4,
            "nvmlDeviceGetEncoderUtilization": [1, 167000],
            "nvmlDeviceGetDecoderUtilization": [0, 167000],
            "nvmlDeviceGetEnforcedPowerLimit": 700000,
            f"nvmlDeviceGetTemperatureThreshold {pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN}": 89,
            "nvmlDeviceGetTotalEccErrors 0 0": 1,
            "nvmlDeviceGetTotalEccErrors 1 0": 2,
            "nvmlDeviceGetTotalEccErrors 0 1": 3,
            "nvmlDeviceGetTotalEccErrors 1 1": 4,
            "nvmlDeviceGetRemappedRows": [5, 6, 1, 0],
            "nvmlDeviceGetPcieReplayCounter": 7,
            "nvmlDeviceGetCurrPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetNvLinkState 0": 1,
            "nvmlDeviceGetNvLinkState 1": 0,
            "nvmlDeviceGetNvLinkState 2": 1,
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetSupportedEventTypes": 0xFF,
            "nvmlDeviceGetComputeRunningProcesses": [{"pid": 4242, "usedGpuMemory": 5366611968}],
            "nvmlDeviceGetGraphicsRunningProcesses": [{"pid": 4243, "usedGpuMemory": None}],
            "nvmlDeviceGetProcessUtilization": [
                {"pid": 4242, "timeStamp": 1_767_323_045_000_000, "smUtil": 97, "memUtil": 31}
            ],
        },
        "fields": {
            f"{pynvml.NVML_FI_DEV_MEMORY_TEMP} 0": [44],
            f"{pynvml.NVML_FI_DEV_PERF_POLICY_POWER} 0": [3_804_102_000],
            f"{pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL} 0": [250_000_000],
            f"{pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL} 0": [8],
            f"{pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL} 0": [9],
            f"{pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX} {ALL_LINKS}": [1000, 3000],
            f"{pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX} {ALL_LINKS}": [1000, 1500],
        },
        "gpm": {
            str(pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL): 99.0,
            str(pynvml.NVML_GPM_METRIC_SM_UTIL): 96.0,
            str(pynvml.NVML_GPM_METRIC_SM_OCCUPANCY): 14.0,
            str(pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL): 93.0,
            str(pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL): 16.0,
            str(pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC): 2.0,
            str(pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC): 0.5,
        },
    }


def plain_gpu(uuid: str = "GPU-2", bus: str = "00000000:3B:00.0") -> dict[str, Any]:
    """Most of it is not supported: a desktop's GPU."""
    return {
        "answers": {
            "nvmlDeviceGetUUID": uuid,
            "nvmlDeviceGetName": "NVIDIA T400",
            "nvmlDeviceGetPciInfo": {"busId": bus},
            "nvmlDeviceGetUtilizationRates": {"gpu": 0, "memory": 0},
            "nvmlDeviceGetMemoryInfo": {"total": 2147483648, "used": 1048576, "free": 2146435072},
            f"nvmlDeviceGetMemoryInfo {pynvml.nvmlMemory_v2}": {"error": "FunctionNotFound"},
            f"nvmlDeviceGetTemperature {pynvml.NVML_TEMPERATURE_GPU}": 31,
            "nvmlDeviceGetPowerUsage": {"error": "NotSupported"},
        }
    }


def mig_gpu() -> dict[str, Any]:
    """Cut in parts: two instances, at the first and third place."""
    gpu = full_gpu()
    answers = gpu["answers"]
    for call in ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetProcessUtilization"):
        del answers[call]
    answers |= {"nvmlDeviceGetMigMode": [1, 1], "nvmlDeviceGetMaxMigDeviceCount": 3}
    gpu["instances"] = [_instance("MIG-a", 7, "NVIDIA H200 MIG 1g.18gb"), None, _instance("MIG-b", 9, "NVIDIA H200")]
    gpu["gpm_of_instance"] = {
        "7": {str(pynvml.NVML_GPM_METRIC_SM_UTIL): 50.0, str(pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC): 2.0},
        "9": {str(pynvml.NVML_GPM_METRIC_SM_UTIL): 0.0},
    }
    return gpu


def _instance(uuid: str, part: int, name: str) -> dict[str, Any]:
    return {
        "answers": {
            "nvmlDeviceGetUUID": uuid,
            "nvmlDeviceGetName": name,
            "nvmlDeviceGetGpuInstanceId": part,
            "nvmlDeviceGetAttributes_v2": {
                "memorySizeMB": 36096,
                "gpuInstanceSliceCount": 2,
                "computeInstanceSliceCount": 1,
            },
            "nvmlDeviceGetMemoryInfo": {"total": 18 << 30, "used": part << 20, "free": 0},
            "nvmlDeviceGetComputeRunningProcesses": [{"pid": 4000 + part, "usedGpuMemory": part << 20}],
        }
    }
