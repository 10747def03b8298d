"""Define the planner: its prompts, the reading of its replies, and its calls to a chat model."""
