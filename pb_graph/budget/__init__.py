"""Split a budget by level and over sub-questions, and charge a block of code to a `Budget`."""

from pb_graph.budget.account import use_budget as use_budget
from pb_graph.budget.allocation import LevelTable as LevelTable
from pb_graph.budget.allocation import PerLevel as PerLevel
from pb_graph.budget.allocation import optimal_allocation as optimal_allocation
from pb_graph.budget.allocation import schedule_weights as schedule_weights
from pb_graph.budget.allocation import split as split
