"""NVLink: links that are up, errors, and traffic from counters where GPM does not report it."""

from __future__ import annotations

from typing import Any

from gpulake.collect.gpus.driver import Driver, Unanswered, Unsupported
from gpulake.collect.gpus.queries import FieldQueries, FieldValue, Values

ALL_LINKS = 0xFFFFFFFF  # the scope that sums over links; scope 0 is link 0 alone
TRAFFIC = {
    "nvlink_rx_bytes_per_second": ("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", ALL_LINKS),
    "nvlink_tx_bytes_per_second": ("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", ALL_LINKS),
}
ERRORS = (
    "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
)
ERRORS_OF_LINK = (
    "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY",
    "NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY",
    "NVML_FI_DEV_NVLINK_ERROR_DL_CRC",
)


class NvLink:
    def __init__(self, driver: Driver, handle: Any, subject: str) -> None:
        self._driver = driver
        self._handle = handle
        self._subject = subject
        self._links = self._present_links()
        self._traffic = FieldQueries(driver, handle, subject, TRAFFIC if self._links else {})
        self._errors = FieldQueries(
            driver, handle, subject, {name: (name, 0) for name in ERRORS} if self._links else {}
        )
        self._errors_of_link = FieldQueries(
            driver, handle, subject, {(name, link): (name, link) for name in ERRORS_OF_LINK for link in self._links}
        )
        self._former: dict[str, FieldValue] = {}

    def read_slow(self) -> Values:
        if not self._links:
            return {}
        errors = self._errors.read() or self._errors_of_link.read()
        total = sum(int(error.raw) for error in errors.values()) if errors else None
        return {
            "nvlink_links_active": sum(self._is_up(link) for link in self._links),
            "nvlink_errors_total": self._driver.clean("nvlink_errors_total", total, int),
        }

    def read_traffic(self) -> Values:
        """Bytes a second since the last read."""
        found: Values = {}
        now = self._traffic.read()
        for field, latter in now.items():
            former = self._former.get(field)
            if former and latter.at_us > former.at_us and latter.raw >= former.raw:
                rate = (latter.raw - former.raw) * 1024 * 1_000_000 / (latter.at_us - former.at_us)
                found[field] = self._driver.clean(field, rate, float)
        self._former = now
        return found

    def _present_links(self) -> list[int]:
        links = []
        for link in range(self._driver.constant("NVML_NVLINK_MAX_LINKS") or 0):
            try:
                self._driver.call("nvmlDeviceGetNvLinkState", self._subject, self._handle, link)
            except Unsupported:
                break
            except Unanswered:
                continue
            links.append(link)
        return links

    def _is_up(self, link: int) -> bool:
        return bool(self._driver.call_or_none("nvmlDeviceGetNvLinkState", self._subject, self._handle, link) == 1)
