"""The planner: what it is asked, how its replies are read, and how it reaches a chat model."""
