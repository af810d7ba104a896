"""Which names are time zones."""

from __future__ import annotations

from zoneinfo import available_timezones

import pytest

from gpulake.core.clock import is_time_zone


def test_every_zone_that_the_system_has_is_one() -> None:
    assert [name for name in sorted(available_timezones()) if not is_time_zone(name)] == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Asia",
        "Asia/",
        "Asia/Atlantis",
        "Asia/../Asia/Tokyo",
        "Asia//Tokyo",
        "America/Argentina",
        "/Asia/Tokyo",
        "posix/Asia/Tokyo",
        "+08:00",
        "Asia/Tokyo\n",
        "Asia/\0",
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert not is_time_zone(name)
