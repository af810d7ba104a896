"""What was measured beside a log: samples of nodes and GPUs, and what they say of a run."""

from gpulake.diagnose.telemetry.files import read_samples
from gpulake.diagnose.telemetry.from_lake import samples_from_lake, samples_of_job
from gpulake.diagnose.telemetry.samples import Samples, Window
from gpulake.diagnose.telemetry.scene import window_of
from gpulake.diagnose.telemetry.witness import consult

__all__ = ["Samples", "Window", "consult", "read_samples", "samples_from_lake", "samples_of_job", "window_of"]
