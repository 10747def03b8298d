"""Does an endpoint keep its promises? Asked with the very requests that the graph sends."""
