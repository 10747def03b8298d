"""The command ``pb-graph``."""
