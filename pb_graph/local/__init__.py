"""Local models: which there are, how they get here, and the server that runs them."""
