"""What theory says of failures, checkpoints and spare machines. Failures are independent and come at a constant rate.

A job that works for `interval`, writes a checkpoint for `cost`, and needs `restart` after each failure, which may
strike at any moment, takes M·e^(R/M)·(e^((interval + cost)/M) − 1) for each interval, M being its mean time to failure
(Daly, FGCS 22 (2006) 303–312). Young's interval and Daly's approximate the best one; all times are in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

EXACT_UP_TO = 1000  # events; beyond, the approximation of Wilson and Hilferty is right to five digits
NORMAL_975 = 1.959963984540054
STEPS = 200  # halvings: to the last bit


def poisson_interval(events: int) -> tuple[float, float]:
    """The exact 95 % interval (Garwood) of the expected number of events, of which so many came."""
    if events > EXACT_UP_TO:
        return _wilson_hilferty(events, -NORMAL_975), _wilson_hilferty(events + 1, NORMAL_975)
    most = 2 * events + 20.0
    low = _root(lambda mean: 1 - _poisson_at_most(events - 1, mean) - 0.025, 0, most) if events else 0.0
    return low, _root(lambda mean: 0.025 - _poisson_at_most(events, mean), 0, most)


def _wilson_hilferty(events: int, deviations: float) -> float:
    return float(events * (1 - 1 / (9 * events) + deviations / (3 * math.sqrt(events))) ** 3)


def _poisson_at_most(events: int, mean: float) -> float:
    if mean <= 0:
        return 1.0
    return math.fsum(math.exp(count * math.log(mean) - mean - math.lgamma(count + 1)) for count in range(events + 1))


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(STEPS):
        middle = (low + high) / 2
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def young_interval(mttf: float, cost: float) -> float:
    """First order."""
    return math.sqrt(2 * cost * mttf)


def daly_interval(mttf: float, cost: float) -> float:
    """Higher order; as long as the mean time to failure, if a checkpoint takes twice that or more."""
    if cost >= 2 * mttf:
        return mttf
    root = math.sqrt(cost / (2 * mttf))
    return young_interval(mttf, cost) * (1 + root / 3 + root**2 / 9) - cost


def best_interval(mttf: float, cost: float) -> float:
    """Where the expected time is least: e^((t + cost)/M)·(1 − t/M) = 1."""
    return _root(lambda t: 1 - math.exp(min((t + cost) / mttf, 700)) * (1 - t / mttf), 0, mttf)


def goodput_ratio(mttf: float, cost: float, restart: float, interval: float) -> float:
    """Work by time, over a long job."""
    return interval / segment_seconds(mttf, restart, interval + cost)


def segment_seconds(mttf: float, restart: float, length: float) -> float:
    """Expected time until so long a stretch has passed without a failure, restarts included."""
    exponent = length / mttf
    if exponent + restart / mttf > 700:
        return math.inf
    return mttf * math.exp(restart / mttf) * math.expm1(exponent)


def spare_machines(needed: int, down_ratio: float, probability: float) -> int:
    """The fewest spares with which `needed` machines are up with this probability, at a random time."""
    spares = 0
    while _binomial_at_most(spares, needed + spares, down_ratio) < probability:
        spares += 1
    return spares


def _binomial_at_most(most: int, trials: int, ratio: float) -> float:
    if ratio <= 0 or most >= trials:
        return 1.0
    if ratio >= 1:
        return 0.0
    up, down = math.log1p(-ratio), math.log(ratio)
    whole = math.lgamma(trials + 1)
    return math.fsum(
        math.exp(
            whole - math.lgamma(count + 1) - math.lgamma(trials - count + 1) + count * down + (trials - count) * up
        )
        for count in range(most + 1)
    )
