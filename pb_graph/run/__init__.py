"""One run of the graph: its models, its account, its journal, and the calls of its nodes."""
