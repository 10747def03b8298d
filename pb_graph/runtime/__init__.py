"""What runs a node: its model calls with their account, journal and stream, and the models."""
