"""Many series at once, point by point, are told what each would be told alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpulake.core.errors import InputError
from gpulake.detect.detectors.surprise import Surprise
from gpulake.detect.series import Floats, Ints, Series
from gpulake.detect.stream import Stream, score_rows

MINUTE_MS = 60_000


def many(count: int = 4000, seed: int = 0) -> tuple[Ints, Floats]:
    """Noise, a day's rhythm, a shift, a constant, gaps, a late start, and what is hardly more than its last digits."""
    random = np.random.default_rng(seed)
    times = np.arange(count, dtype=np.int64) * MINUTE_MS + 1_700_000_000_000
    noise = random.normal(size=(7, count))
    rows = noise.copy()
    rows[1] += 10 * np.sin(times / 86_400_000 * 2 * np.pi)
    rows[2, 3000:] += 8
    rows[3] = 5.0
    rows[4][random.random(count) < 0.3] = np.nan
    rows[5, :700] = np.nan
    rows[6] = 1e9 + 1e-3 * noise[6]
    return times, rows


def test_a_row_is_told_what_the_default_detector_says_of_it_alone() -> None:
    times, rows = many()
    scores, flags = score_rows(times, rows, MINUTE_MS)
    for place, row in enumerate(rows):
        alone = Surprise().score(Series("row", ("value",), times, row[:, None], MINUTE_MS))
        np.testing.assert_allclose(scores[place], alone.score, rtol=1e-3, atol=1e-5, err_msg=str(place))
        assert (flags[place] == alone.is_flagged).mean() > 0.999, place


def test_a_stream_goes_on_where_it_stopped(tmp_path: Path) -> None:
    times, rows = many(1500)
    stream, other = Stream(len(rows), MINUTE_MS), Stream(len(rows), MINUTE_MS)
    for moment, values in zip(times[:1000].tolist(), rows.T[:1000], strict=True):
        stream.update(moment, values)
        other.update(moment, values)
    stream.save(tmp_path / "state.parquet")
    stream = Stream.load(tmp_path / "state.parquet")
    for moment, values in zip(times[1000:].tolist(), rows.T[1000:], strict=True):
        ours, theirs = stream.update(moment, values), other.update(moment, values)
        np.testing.assert_array_equal(ours.score, theirs.score)
        np.testing.assert_array_equal(ours.is_flagged, theirs.is_flagged)


def test_a_time_that_is_not_later_is_refused() -> None:
    stream = Stream(1, MINUTE_MS)
    stream.update(MINUTE_MS, np.zeros(1))
    with pytest.raises(InputError, match="is not after"):
        stream.update(MINUTE_MS, np.zeros(1))


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.parquet").write_text("no")
    with pytest.raises(InputError, match="is no state of a stream"):
        Stream.load(tmp_path / "state.parquet")
    with pytest.raises(InputError, match="cannot read the state"):
        Stream.load(tmp_path / "none.parquet")
