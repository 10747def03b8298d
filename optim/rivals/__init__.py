"""Define published methods against long answers, for comparison in an evaluation.

Importing this package registers them under `pb_graph.methods.method`; their options are constants.
"""

from optim.rivals import adaptive_consistency, certaindex, focused_cot, prompts, tale_ep

__all__ = ["adaptive_consistency", "certaindex", "focused_cot", "prompts", "tale_ep"]
