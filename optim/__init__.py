"""Measures and improves the graph: E³, data sets, scorers, evaluation and tuning."""
