"""Define the nodes of the graph, one file each; `pb_graph.graph` connects them."""
