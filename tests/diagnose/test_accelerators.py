"""Hardware errors of any vendor: the node is cordoned, and neither the code nor a restart is blamed."""

from __future__ import annotations

from diagnosing import diagnose
from examples import each

STEPS = "step 1/100 loss 2.0\nstep 2/100 loss 1.9\n"
DIES = 'Traceback (most recent call last):\n  File "/job/t.py", line 3, in <module>\n    loss.backward()\n'
FAULTS = (
    f"{DIES}RuntimeError: HBM MULTI BIT ECC ERROR.Error code: 507054\n",
    f"{DIES}RuntimeError: SUSPECT REMOTE ERROR.Error code: 507057\n",
    f"{DIES}RuntimeError: HIP error: hipErrorECCNotCorrectable\n",
    f"{DIES}XlaRuntimeError: INTERNAL: Accelerator device halted prematurely, perhaps due to a failed check.\n",
    "amdgpu 0000:c1:00.0: amdgpu: 3 uncorrectable hardware errors detected in umc block\n",
    "amdgpu 0000:c1:00.0: amdgpu: GPU reset(4) failed\n",
    "habanalabs hl3: Device heartbeat failed! PCI link is disconnected\n",
    "habanalabs hl2: HBM ECC double-bit error detected at channel 3\n",
    "tpu_driver: uncorrectable ECC error in HBM of chip 2\n",
)


@each("fault", FAULTS, name=lambda fault: fault.splitlines()[-1][:40])
def test_a_hardware_error_that_was_not_corrected_is_a_cordon(fault: str) -> None:
    found = diagnose(STEPS + fault)
    assert (found.category, found.recovery.action) == ("infrastructure", "cordon_node_and_restart")


def test_errors_that_were_corrected_or_never_happened_are_none() -> None:
    quiet = "amdgpu 0000:c1:00.0: amdgpu: 12 correctable hardware errors in umc block\nECC uncorrectable errors: 0\n"
    assert diagnose(f"{quiet}{STEPS}Training finished.\n").verdict == "healthy"
