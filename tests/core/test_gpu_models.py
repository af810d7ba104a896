"""The catalogue of GPU models: each name means one model, and each figure has a source."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulake.core.config import Config, GpuType, load
from gpulake.core.gpu_models import gpu_models, matching, model_of
from gpulake.core.packaged import packaged_toml

MODELS = packaged_toml("gpulake.core", "gpu_models.toml")["models"]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_matches_its_own_examples_and_leaves_the_others_alone(name: str) -> None:
    entry = MODELS[name]
    found = {example: getattr(model_of(example), "name", None) for example in (name, *entry["matches"])}
    assert found == dict.fromkeys((name, *entry["matches"]), name)
    assert [example for example in entry["ignores"] if getattr(model_of(example), "name", None) == name] == []
    assert entry["ignores"]
    assert entry["source"]


@pytest.mark.parametrize("name", MODELS)
def test_a_figure_without_a_datasheet_names_where_it_is_from(name: str) -> None:
    model = gpu_models()[name]
    assert (model.idle_watts is None, model.usd_per_hour is None) == (not model.idle_source, not model.price_source)
    for figure in (model.memory_bytes, model.busy_watts, model.idle_watts, model.fp16_teraflops, model.usd_per_hour):
        assert figure is None or figure > 0
    assert model.idle_watts is None or model.busy_watts is None or model.idle_watts < model.busy_watts


@pytest.mark.parametrize(
    "name",
    ["", None, "unknown", "mixed", "MISC", "CPU", "G2", "several", "MIG 1g.5gb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb"],
)
def test_a_name_that_means_no_whole_gpu_has_no_model(name: str | None) -> None:
    assert model_of(name) is None


def test_one_of_several_names_of_a_model_is_enough_to_know_it() -> None:
    price = GpuType(price_per_hour=2.5)
    known = {"h100": price, "T4": GpuType(price_per_hour=0.1)}
    assert matching("NVIDIA H100 80GB HBM3", known) == price
    assert matching("H100 PCIe", known) is None
    assert matching("MISC", {"MISC": price}) == price


def test_what_gpulake_toml_gives_counts_for_all_names_of_the_model_and_the_rest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpulake.toml").write_text("[gpu_types.h100]\nprice_per_hour = 2.5\n[gpu_types.MISC]\nidle_watts = 9\n")
    known = load({}, {}).gpu_types
    assert matching("NVIDIA H100 80GB HBM3", known) == GpuType(price_per_hour=2.5, busy_watts=700, idle_watts=70)
    assert matching("gres/gpu:t4", known) == GpuType(price_per_hour=0.35, busy_watts=70, idle_watts=10)
    assert matching("MISC", known) == GpuType(idle_watts=9)


def test_default_prices_are_in_dollars_and_are_not_taken_for_another_currency() -> None:
    euros = load({"currency": "EUR"}, {}).gpu_types
    assert matching("T4", euros) == GpuType(busy_watts=70, idle_watts=10)
    assert matching("T4", Config().gpu_types) == GpuType(price_per_hour=0.35, busy_watts=70, idle_watts=10)
