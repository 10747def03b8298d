"""Chat models: found by name, called within a cap, and their tokens counted."""
