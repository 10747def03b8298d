"""Local models: the catalog, their weights, and the server that runs them."""
