"""The header of `nvidia-smi --query-gpu=… --format=csv`, in the words of --query-gpu with dots as underscores."""

from __future__ import annotations

import re

IDENTITIES = {"index", "uuid", "pci_bus_id", "serial"}
FIELD = re.compile(r"([a-z][a-z0-9_]*)((?:\.[a-z0-9_]+)*)( \[[^\]]*\])?")
# The first words of all that --query-gpu knows.
FAMILIES = {
    "timestamp", "driver_version", "count", "name", "gpu_name", "serial", "gpu_serial", "uuid", "gpu_uuid", "pci",
    "gpu_bus_id", "pcie", "index", "display_mode", "display_attached", "display_active", "persistence_mode",
    "addressing_mode", "accounting", "driver_model", "vbios_version", "inforom", "gom", "fan", "pstate",
    "clocks_event_reasons", "clocks_event_reasons_counters", "clocks_throttle_reasons", "memory", "compute_mode",
    "compute_cap", "utilization", "encoder", "dramEncryption", "ecc", "retired_pages", "temperature", "power",
    "enforced", "module", "instant", "clocks", "mig", "gsp", "c2c", "protected_memory", "fabric", "platform",
    "hostname", "gpu_recovery_action", "reset_status", "remapped_rows",
}  # fmt: skip
# Other names of a field, of older versions and of short forms.
SAME = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci_bus_id",
    "clocks_sm": "clocks_current_sm",
    "clocks_mem": "clocks_current_memory",
    "clocks_throttle_reasons_active": "clocks_event_reasons_active",
    "pcie_link_gen_gpucurrent": "pcie_link_gen_current",
}


def header_names(header: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a header row of nvidia-smi; none where it is not one."""
    found = [FIELD.fullmatch(field) for field in header]
    if not all(field and field[1] in FAMILIES for field in found):
        return ()
    # A header of plain words might be of another format.
    if not any(field and (field[2] or field[3]) for field in found) and IDENTITIES.isdisjoint(header):
        return ()
    names = [f"{field[1]}{field[2]}".replace(".", "_") for field in found if field]
    return tuple(SAME.get(name, name) for name in names)
