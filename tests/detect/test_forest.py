"""The forest scores as scikit-learn does, from a file that can do no harm."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import IsolationForest
from sklearn.preprocessing import StandardScaler

from examples import cases
from gpulake.core.errors import InputError
from gpulake.detect.forest import Forest, fit, load

NAMES = ["a", "b", "c"]


def days(seed: int, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(100, 30, size=(count, 3)).round(1)


def kept(forest: Forest, path: Path) -> Forest:
    path.write_text(forest.to_json())
    return load(path)


@pytest.mark.slow
@settings(max_examples=cases(15))
@given(seed=st.integers(0, 1000), count=st.integers(3, 400))
def test_a_kept_forest_scores_as_scikit_learn_does(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int
) -> None:
    rows = days(seed, count)
    scaler = StandardScaler().fit(rows)
    theirs = IsolationForest(n_estimators=100, contamination=0.05, random_state=42).fit(scaler.transform(rows))
    ours = kept(fit(rows, NAMES), tmp_path_factory.mktemp("model") / "model.json")
    expected = theirs.decision_function(scaler.transform(rows))
    np.testing.assert_allclose(ours.decide(rows), expected, rtol=0, atol=1e-12)
    assert ((ours.decide(rows) < 0) == (theirs.predict(scaler.transform(rows)) == -1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 49, 255, 257, 300, 30_000], ids=str)
@pytest.mark.parametrize("kind", ["plain", "ties", "constant column"])
def test_every_tree_is_the_one_that_scikit_learn_grows(count: int, kind: str) -> None:
    rows = days(count, count)
    if kind == "ties":
        rows = (rows / 20).round() * 20
    if kind == "constant column":
        rows[:, 1] = 7.0
    scaler = StandardScaler().fit(rows)
    theirs = IsolationForest(n_estimators=100, contamination=0.05, random_state=42).fit(scaler.transform(rows))
    ours = fit(rows, NAMES)
    assert (ours.mean, ours.scale) == (scaler.mean_.tolist(), scaler.scale_.tolist())
    assert ours.offset == pytest.approx(theirs.offset_, abs=1e-12)
    for tree, estimator in zip(ours.trees, theirs.estimators_, strict=True):
        grown = estimator.tree_
        assert tree.left == grown.children_left.tolist()
        assert tree.right == grown.children_right.tolist()
        assert tree.feature == grown.feature.tolist()
        assert tree.threshold == grown.threshold.tolist()
        assert tree.samples == grown.n_node_samples.tolist()


def test_the_same_days_give_the_same_scores() -> None:
    rows = days(1, 49)
    assert (fit(rows, NAMES).decide(rows) == fit(rows, NAMES).decide(rows)).all()


def test_days_that_are_all_alike_have_no_anomaly() -> None:
    rows = np.full((20, 3), 5.0)
    assert not (fit(rows, NAMES).decide(rows) < 0).any()


def test_a_model_file_holds_numbers_and_words_and_nothing_else() -> None:
    document = json.loads(fit(days(1, 10), NAMES).to_json())
    assert sorted(document) == ["features", "format", "mean", "offset", "samples_per_tree", "scale", "trees"]
    assert len(document["trees"]) == 100


def test_loading_a_model_imports_no_pickle_reader(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "model.json").write_text(fit(days(1, 10), NAMES).to_json())
    program = (
        "import sys; from pathlib import Path; from gpulake.detect.forest import load;"
        f"load(Path({str(tmp_path / 'model.json')!r}));"
        "assert 'sklearn' not in sys.modules and 'joblib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def broken(change: str) -> str:
    document = json.loads(fit(days(1, 10), NAMES).to_json())
    tree = document["trees"][0]
    match change:
        case "loop":
            tree["left"][0] = 0
        case "outside":
            tree["right"][0] = 10_000
        case "feature":
            tree["feature"][0] = 7
        case "lengths":
            tree["samples"].pop()
        case "format":
            document["format"] = "joblib"
        case "missing":
            del document["offset"]
    return json.dumps(document)


@pytest.mark.parametrize("change", ["loop", "outside", "feature", "lengths", "format", "missing"])
def test_a_model_file_that_was_tampered_with_is_refused(tmp_path: Path, change: str) -> None:
    (tmp_path / "model.json").write_text(broken(change))
    with pytest.raises(InputError):
        load(tmp_path / "model.json")


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("\x80\x04 not json")
    with pytest.raises(InputError, match="is no model file"):
        load(tmp_path / "model.json")
