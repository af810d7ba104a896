"""NVLink: links that are up, errors, and traffic from counters where GPM does not report it."""

from __future__ import annotations

from gpulake.collect.gpus.driver import Device, Unanswered, Unsupported, nvml_names
from gpulake.collect.gpus.queries import FieldQueries, FieldValue, Values

ALL_LINKS = 0xFFFFFFFF  # the scope that sums over links; scope 0 is link 0 alone


class NvLink:
    def __init__(self, device: Device) -> None:
        self._device = device
        self._links = self._present_links()
        names = nvml_names()["nvlink"]
        traffic = {field: (name, ALL_LINKS) for field, name in names["traffic"].items()}
        errors = {name: (name, 0) for name in names["errors"]}
        of_link = {(name, link): (name, link) for name in names["errors_of_link"] for link in self._links}
        self._traffic = FieldQueries(device, traffic if self._links else {})
        self._errors = FieldQueries(device, errors if self._links else {})
        self._errors_of_link = FieldQueries(device, of_link)
        self._former: dict[str, FieldValue] = {}

    def read_slow(self) -> Values:
        if not self._links:
            return {}
        errors = self._errors.read() or self._errors_of_link.read()
        total = sum(int(error.raw) for error in errors.values()) if errors else None
        return {
            "nvlink_links_active": sum(self._is_up(link) for link in self._links),
            "nvlink_errors_total": self._device.driver.clean("nvlink_errors_total", total, int),
        }

    def read_traffic(self) -> Values:
        """Bytes a second since the last read."""
        found: Values = {}
        now = self._traffic.read()
        for field, latter in now.items():
            former = self._former.get(field)
            if former and latter.at_us > former.at_us and latter.raw >= former.raw:
                rate = (latter.raw - former.raw) * 1024 * 1_000_000 / (latter.at_us - former.at_us)
                found[field] = self._device.driver.clean(field, rate, float)
        self._former = now
        return found

    def _present_links(self) -> list[int]:
        links = []
        for link in range(self._device.driver.constant("NVML_NVLINK_MAX_LINKS") or 0):
            try:
                self._device.call("nvmlDeviceGetNvLinkState", link)
            except Unsupported:
                break
            except Unanswered:
                continue
            links.append(link)
        return links

    def _is_up(self, link: int) -> bool:
        return bool(self._device.call_or_none("nvmlDeviceGetNvLinkState", link) == 1)
