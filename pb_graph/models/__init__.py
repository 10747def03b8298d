"""Resolve chat models by name, call them within a cap, and count their tokens."""
