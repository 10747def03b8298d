"""The paper's other experiments: each a way to choose methods, or a table made from records."""
