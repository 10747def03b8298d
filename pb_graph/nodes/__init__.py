"""The graph's nodes, one file each; a question meets them in the order below.

intake, plan, review, estimate, allocate, answer (or solve, then synthesize), finish.
"""
