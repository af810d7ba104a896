"""Lines of InfluxDB, as Telegraf writes them: `measurement,tag=value field=1i,other=2.5 1700000000000000000`."""

from __future__ import annotations

import re

from gpulake.formats.messages import MESSAGES, Message
from gpulake.formats.messages.json import known_metrics
from gpulake.formats.messages.samples import SampleMessages, with_node
from gpulake.formats.prometheus import NOT_IN_NAMES, labels_json
from gpulake.formats.sample_rows import milliseconds

_WORD = r"(?:[^\\,= ]|\\.)+"
_STRING = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(
    rf"(?P<name>(?:[^\\, ]|\\.)+)(?P<tags>(?:,{_WORD}={_WORD})*) (?P<fields>{_WORD}=(?:{_STRING}|[^, ]+)"
    rf"(?:,{_WORD}=(?:{_STRING}|[^, ]+))*)(?: (?P<time>-?\d+))?"
)
_PAIR = re.compile(rf"({_WORD})=({_STRING}|(?:[^\\, ]|\\.)+)(?:,|$)")
_NUMBER = re.compile(r"(-?[0-9.]+(?:[eE][+-]?\d+)?)[iu]?")
_ESCAPED = re.compile(r"\\([,= ])")
# nvidia_smi of Telegraf has nvidia-smi's words without their units; those that say the same as an exporter's names do.
TELEGRAF = {
    "nvidia_smi_utilization_gpu": "DCGM_FI_DEV_GPU_UTIL",
    "nvidia_smi_utilization_memory": "DCGM_FI_DEV_MEM_COPY_UTIL",
    "nvidia_smi_temperature_gpu": "DCGM_FI_DEV_GPU_TEMP",
    "nvidia_smi_power_draw": "DCGM_FI_DEV_POWER_USAGE",
    "nvidia_smi_memory_used": "DCGM_FI_DEV_FB_USED",
    "nvidia_smi_memory_free": "DCGM_FI_DEV_FB_FREE",
    "nvidia_smi_clocks_current_sm": "DCGM_FI_DEV_SM_CLOCK",
    "nvidia_smi_clocks_current_memory": "DCGM_FI_DEV_MEM_CLOCK",
}
RENAMED = {"host": "Hostname", "index": "gpu", "uuid": "UUID", "name": "modelName"}  # tags of nvidia_smi


@MESSAGES.register("influx")
class InfluxLines(SampleMessages):
    def read(self, place: int, message: Message) -> None:
        for line in message.value.decode().splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            found = _LINE.fullmatch(line.strip())
            if found is None:
                raise ValueError(f"not a line of InfluxDB: {line[:200]}")
            name = _ESCAPED.sub(r"\1", found["name"])
            tags = {
                NOT_IN_NAMES.sub("_", _ESCAPED.sub(r"\1", k)): _ESCAPED.sub(r"\1", v)
                for k, v in _PAIR.findall(found["tags"][1:])
            }
            if name == "nvidia_smi":
                tags = {RENAMED.get(tag, tag): value for tag, value in tags.items()}
            elif "host" in tags:
                tags.setdefault("Hostname", tags["host"])
            labels = labels_json(with_node(tags, message))
            at_ms = milliseconds(int(found["time"])) if found["time"] else message.at_ms
            for field, text in _PAIR.findall(found["fields"]):
                number = _NUMBER.fullmatch(text)
                if number:
                    metric = _metric(name, field)
                    self.found.add(self.found.number(metric, labels), float(number[1]), at_ms, place)


def _metric(name: str, field: str) -> str:
    if field in known_metrics():
        return known_metrics()[field]
    plain = NOT_IN_NAMES.sub("_", f"{name}_{field}")
    return TELEGRAF.get(plain, plain)
