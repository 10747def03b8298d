"""The graph's nodes, one file each; `pb_graph.graph` says in which order a question meets them."""
