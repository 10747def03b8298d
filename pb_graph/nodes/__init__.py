"""The graph's nodes, one file each; a question meets them in the order below.

intake, plan, estimate, allocate, review, answer (or solve, then synthesize), finish.
"""
