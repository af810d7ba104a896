"""NVLink: links that are up, errors, and traffic from counters where GPM does not tell it."""

from __future__ import annotations

from typing import Any

from gpulake.collect.gpus.asker import FieldAsker, FieldValue, Values
from gpulake.collect.gpus.driver import Driver, Unanswered, Unsupported

ALL_LINKS = 0xFFFFFFFF  # the scope that sums over links; none given means link 0 alone
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
        self._links = self._links_there()
        wanted = TRAFFIC if self._links else {}
        self._traffic = FieldAsker(driver, handle, subject, wanted)
        self._errors = FieldAsker(driver, handle, subject, {name: (name, 0) for name in ERRORS} if self._links else {})
        self._errors_of_link = FieldAsker(
            driver, handle, subject, {(name, link): (name, link) for name in ERRORS_OF_LINK for link in self._links}
        )
        self._former: dict[str, FieldValue] = {}

    def read_slow(self) -> Values:
        if not self._links:
            return {}
        errors = self._errors.ask() or self._errors_of_link.ask()
        total = sum(int(error.raw) for error in errors.values()) if errors else None
        return {
            "nvlink_links_active": sum(self._is_up(link) for link in self._links),
            "nvlink_errors_total": self._driver.clean("nvlink_errors_total", total, int),
        }

    def read_traffic(self) -> Values:
        """Bytes a second since the read before."""
        found: Values = {}
        now = self._traffic.ask()
        for field, latter in now.items():
            former = self._former.get(field)
            if former and latter.at_us > former.at_us and latter.raw >= former.raw:
                rate = (latter.raw - former.raw) * 1024 * 1_000_000 / (latter.at_us - former.at_us)
                found[field] = self._driver.clean(field, rate, float)
        self._former = now
        return found

    def _links_there(self) -> list[int]:
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
        try:
            state = self._driver.call("nvmlDeviceGetNvLinkState", self._subject, self._handle, link)
        except (Unsupported, Unanswered):
            return False
        return bool(state == 1)
