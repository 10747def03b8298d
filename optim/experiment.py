"""The former place of `optim.evaluate.Experiment`."""

from optim.evaluate.experiment import Experiment

__all__ = ["Experiment"]
