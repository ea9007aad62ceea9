"""The machine: its memory, batches as tensors, the forward pass, loading."""

import os

# How torch's threads wait for each other is read once, when torch is first imported: so it is said here, before any
# other import of this package. By default they spin for milliseconds; as soon as anything else runs on the machine,
# each of the 600 waits of a step then costs a time slice. Measured for 16 sequences on 2 processors with 4 other busy
# processes: 3,100 ms a step, with this figure 40. Not spinning at all costs a third on a calm machine.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
