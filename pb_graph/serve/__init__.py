"""An OpenAI-compatible endpoint in front of the graph; needs the extra ``serve``."""
