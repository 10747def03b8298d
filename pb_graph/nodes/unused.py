"""Settings that have no effect beside the others that were chosen.

They are spoken of, not refused: a file of settings, or what a server or an evaluation sets for all,
may be meant for several methods.
"""

from __future__ import annotations

from operator import attrgetter

from pb_graph.methods import METHODS
from pb_graph.settings import Settings


def unused(settings: Settings) -> list[str]:
    """What to say of settings that are not the usual ones, and yet change nothing."""
    usual, own = Settings(), METHODS[settings.method].uses
    notes = []
    for names, has_effect, where in _rules(settings):
        values = {name: attrgetter(name) for name in names.split() if name not in own}
        chosen = [name for name, of in values.items() if of(settings) != of(usual)]
        if chosen and not has_effect:
            notes.append(f"without effect with {settings.method}: {', '.join(chosen)} ({where})")
    return notes


def _rules(settings: Settings) -> list[tuple[str, bool, str]]:
    """Names of settings, whether they have an effect, and where they would.

    What is not here bears on every call, or tells of the questions, as ``domain`` does; what a
    method goes by itself is its own (`Method.uses`).
    """
    method, policy, schedule = METHODS[settings.method], settings.auto, settings.schedule
    budgets, splits, is_auto = settings.budgets, settings.splits, method.name == "auto"
    forces, is_said = settings.enforcement == "force", settings.enforcement == "prompt"
    says = budgets and method.is_prompt
    by_level = budgets and settings.budget_rule.needs_level
    graded = settings.graded or (splits and settings.planning == "fused")
    return [
        ("execution planning schedule remainder min_step", splits, "for plan_and_budget"),
        ("power", splits and schedule == "polynomial", "for schedule=polynomial"),
        ("gamma", splits and schedule == "exponential", "for schedule=exponential"),
        ("epsilon", splits and schedule == "cosine", "for schedule=cosine"),
        ("bam", splits and schedule == "bam", "for schedule=bam"),
        ("rollover parallel synthesis", settings.stepwise, "for execution=stepwise"),
        ("review_plan max_steps", settings.plans, "for methods that plan"),
        ("budget enforcement", budgets, "it has no budget: cutoff bounds each of its calls"),
        ("budget", says or not (budgets and is_said), "it says none: for enforcement=cap or force"),
        ("reserve", budgets and forces, "for a budget with enforcement=force"),
        ("prompt_unit", says, "for methods that say a budget"),
        ("planner_cap", settings.plans or by_level, "for methods that ask a planner"),
        ("level_examples", graded or by_level, "where levels are estimated"),
        ("samples confidence", False, "for adaptive_consistency"),
        ("probe_every probes_agree", False, "for certaindex"),
        ("auto", False, "for method=auto"),
        ("auto.short auto.confidence auto.plain_from", not is_auto or policy.tries > 0, "no tries"),
        ("auto.plain", not (is_auto and (budgets or is_said)), "without a budget, and not if said"),
        ("auto.surprisal", not is_auto or (forces and not budgets), "for force without a budget"),
    ]
