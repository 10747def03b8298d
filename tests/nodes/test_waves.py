"""Waves: what can be solved next, and which answers it builds on."""

from __future__ import annotations

import pytest

from pb_graph import Settings
from pb_graph.nodes.allocate import is_final, needed_steps, next_wave
from pb_graph.types import SubQuestion


def plan(*needs: list[int]) -> list[SubQuestion]:
    return [
        SubQuestion(
            index=index, question=f"Q{index}", hint="", depends_on=deps, level=None, credit=None
        )
        for index, deps in enumerate(needs)
    ]


DIAMOND = plan([], [0], [0], [1, 2])
SCATTERED = plan([], [], [], [])
LAST_STEP = Settings(synthesis="last_step", parallel=True)
CALL = Settings(synthesis="call", parallel=True)


def waves(steps: list[SubQuestion], settings: Settings) -> list[list[int]]:
    done: set[int] = set()
    found = []
    while wave := [step["index"] for step in next_wave(steps, done, settings)]:
        found.append(wave)
        done |= set(wave)
    return found


@pytest.mark.parametrize(
    ("steps", "settings", "expected"),
    [
        (DIAMOND, LAST_STEP, [[0], [1, 2], [3]]),
        (SCATTERED, LAST_STEP, [[0, 1, 2], [3]]),
        (SCATTERED, CALL, [[0, 1, 2, 3]]),
        (plan([], [0], [1]), CALL, [[0], [1], [2]]),
        (plan([]), LAST_STEP, [[0]]),
        (SCATTERED, Settings(parallel=False), [[0], [1], [2], [3]]),
    ],
)
def test_a_wave_is_all_that_waits_for_nothing(
    steps: list[SubQuestion], settings: Settings, expected: list[list[int]]
) -> None:
    assert waves(steps, settings) == expected


def test_a_step_builds_on_its_needs_and_on_theirs() -> None:
    steps = plan([], [0], [], [1], [3])
    assert needed_steps(steps, 3, LAST_STEP) == [0, 1]
    assert needed_steps(steps, 2, LAST_STEP) == []


def test_the_closing_step_builds_on_all_others() -> None:
    assert needed_steps(SCATTERED, 3, LAST_STEP) == [0, 1, 2]
    assert needed_steps(SCATTERED, 3, CALL) == []
    assert is_final(SCATTERED, 3, LAST_STEP)
    assert not is_final(SCATTERED, 3, CALL)
