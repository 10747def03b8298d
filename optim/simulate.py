"""The same as `optim.bam.simulate`."""

from optim.bam.simulate import *  # noqa: F403
