"""InfiniBand ports as node_exporter reports them."""

from __future__ import annotations

from pathlib import Path

from conftest import built_from, rows_of

PORT = '{device="mlx5_0",port="1",instance="n1:9100"}'
PAGE = "".join(
    f"node_infiniband_{name}{PORT} {value} 1767600000000\n"
    for name, value in {
        "port_data_received_bytes_total": 7,
        "link_downed_total": 2,
        "symbol_error_total": 9,
        "rate_bytes_per_second": 5e10,
        "state_id": 1,
    }.items()
)


def test_a_port_of_infiniband_is_a_link_with_its_errors(tmp_path: Path) -> None:
    lake = built_from(tmp_path, {"ib.prom": PAGE}, tables=("silver_link_samples",))
    rows = rows_of(
        lake,
        "SELECT interface, rx_bytes_total, link_downed_total, symbol_errors_total, speed_bits_per_second, is_up"
        " FROM silver_link_samples",
    )
    assert [tuple(row.values()) for row in rows] == [("mlx5_0/1", 7, 2, 9, 400_000_000_000, False)]
