"""Problems of known level to compare with, written for this purpose and part of no data set."""

from __future__ import annotations

EXAMPLES = """Level 1: What is 15 % of 60?
Level 2: The sides of a rectangle are 3:4 and its diagonal is 20 cm long. What is its area?
Level 3: How many whole numbers below 1000 are divisible by neither 2 nor 5?
Level 4: For which real a do x^2 + ax + 1 = 0 and x^2 + x + a = 0 have a root in common?
Level 5: How many ways are there to tile a 2 by 12 board with dominoes and 2 by 2 \
squares such that no two squares touch?"""
