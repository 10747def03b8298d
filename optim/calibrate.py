"""The same as `optim.bam.calibrate`."""

from optim.bam.calibrate import *  # noqa: F403
