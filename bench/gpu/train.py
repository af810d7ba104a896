"""A small training job to record on a machine with a GPU: work and pauses in turn, so that curves have a shape."""

from __future__ import annotations

import argparse
import time

import torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=100)
    options = parser.parse_args()
    torch.manual_seed(0)
    width = 8192
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(8))).cuda().bfloat16()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    end = time.monotonic() + options.seconds
    step = 0
    while time.monotonic() < end:
        # Fifteen seconds of steps, then five in which the "loader" starves.
        until = min(end, time.monotonic() + 15)
        batch = 4096 if (step // 2) % 2 == 0 else 512
        data = torch.randn(batch, width, device="cuda", dtype=torch.bfloat16)
        while time.monotonic() < until:
            loss = (model(data) - data).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            torch.cuda.synchronize()
        step += 1
        print(f"phase {step}: batch {batch}, loss {loss.item():.4f}", flush=True)
        time.sleep(max(0.0, min(5.0, end - time.monotonic())))


if __name__ == "__main__":
    main()
