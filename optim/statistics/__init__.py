"""Statistics of accuracy, tokens and E³: estimates of one method, comparison of two."""
