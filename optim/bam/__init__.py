"""The Budget Allocation Model as a world to simulate, and fitted to logged answers."""
