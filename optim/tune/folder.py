"""The former place of `optim.evaluate.resume.claim`."""

from optim.evaluate.resume import claim

__all__ = ["claim"]
