"""Dependencies point one way: optim -> graph -> nodes -> planner, models, budget.

In optim likewise: cli -> tune, bam -> evaluate -> report -> records, summary -> statistics,
methods, datasets, scorers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FRAMEWORKS = {"langgraph", "langchain", "langchain_core", "langchain_openai", "dspy"}

# What a part of the package may know of the others; types for annotations are free for all.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "budget": {"errors"},
    "settings": {"budget", "errors", "methods"},
    "program": {"errors", "settings"},
    "state": {"budget"},
    "events": {"budget", "state"},
    "prompts": set(),
    "answers": set(),
    "arithmetic": set(),
    "examples": set(),
    "methods": {"answers", "arithmetic", "budget", "errors", "examples", "prompts"},
    "local": {"errors"},
    "models": {"budget", "errors", "local"},
    "planner": {"program", "budget", "errors", "models", "prompts", "state"},
    "runtime": {
        *("answers", "budget", "errors", "models"),
        *("planner", "program", "prompts", "settings", "state"),
    },
    "nodes": {
        "budget",
        "errors",
        "methods",
        "models",
        "planner",
        "prompts",
        "runtime",
        "settings",
        "state",
    },
    "graph": {"budget", "errors", "program", "models", "nodes", "runtime", "settings", "state"},
    "turn": {"budget", "errors", "models"},
    "middleware": {"budget", "budgeted_model", "runtime", "turn"},
    "budgeted_model": {"budget", "errors", "models", "runtime", "turn"},
    "agents": {
        *("budget", "errors", "graph", "runtime", "state"),
        *("budgeted_model", "middleware", "turn"),
    },
    "serve": {"budget", "errors", "graph", "runtime", "settings", "state"},
    "probe": {"errors", "models", "settings"},
}
FRAMEWORKS_OF: dict[str, set[str]] = {
    "errors": set(),
    "budget": set(),
    "settings": set(),
    "program": set(),
    "state": {"langchain_core", "langgraph"},
    "events": set(),
    "prompts": set(),
    "examples": set(),
    "answers": set(),
    "arithmetic": set(),
    "methods": set(),
    "local": {"langchain_openai"},
    "models": {"langchain_core", "langchain", "langchain_openai"},
    "planner": {"langchain_core", "dspy"},
    "runtime": {"langchain_core", "langgraph"},
    "nodes": {"langchain_core", "langgraph"},
    "graph": {"langchain_core", "langgraph"},
    "serve": {"langchain_core", "langgraph"},
    "probe": {"langchain_core"},
}


# Rooms of optim, the lowest first: a room imports those of lower storeys, of its own only itself.
# Imports within functions count. A module or folder that is in no storey is refused.
STOREYS: list[set[str]] = [
    {"methods", "datasets", "scorers", "statistics", "e3", "extras"},
    {"records", "summary"},
    {"report"},
    {"evaluate"},
    {"tune", "bam"},
    {"cli"},
]
# One-line modules that keep a published name.
FACES = {"experiment", "simulate", "calibrate"}
# What a room may know of its own storey.
BESIDE: dict[str, set[str]] = {
    "e3": {"statistics"},
    "scorers": {"datasets", "extras"},
    "summary": {"records"},
    "records": {"summary"},
}


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def part_of(module: str) -> str:
    """The part of the package a dotted name belongs to: 'pb_graph.nodes.plan' -> 'nodes'."""
    return [*module.split("."), ""][1]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports(path: Path) -> Iterator[str]:
    """Modules imported when the code runs, wherever in it; not those for annotations only."""
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        item = pending.pop()
        if isinstance(item, ast.If) and "TYPE_CHECKING" in ast.unparse(item.test):
            pending += item.orelse
        elif isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            yield from (f"{item.module}.{alias.name}" for alias in item.names)
        else:
            pending += ast.iter_child_nodes(item)


def parts_of_ours(path: Path) -> set[str]:
    return {part_of(name) for name in imports(path) if name.split(".")[0] == "pb_graph"}


def test_no_part_imports_one_above_it() -> None:
    for path in sources("pb_graph"):
        part = part_of(module_of(path))
        if part in MAY_IMPORT:
            assert parts_of_ours(path) - {part} <= MAY_IMPORT[part], path
        assert "optim" not in {name.split(".")[0] for name in imports(path)}, path


def test_each_part_knows_only_its_own_frameworks() -> None:
    for path in sources("pb_graph"):
        found = {name.split(".")[0] for name in imports(path)} & FRAMEWORKS
        assert found <= FRAMEWORKS_OF.get(part_of(module_of(path)), FRAMEWORKS), path


def storey_of(room: str) -> int:
    return next(height for height, rooms in enumerate(STOREYS) if room in rooms)


def rooms_of_ours(path: Path) -> set[str]:
    every = {part_of(name) for name in imports(path) if name.split(".")[0] == "optim"}
    return every - {"", "make_callable", "on_first_use"}


def test_no_room_of_optim_imports_one_above_or_beside_it() -> None:
    for path in sources("optim"):
        room = part_of(module_of(path))
        if room in FACES | {"__init__"}:
            continue
        above = {
            other
            for other in rooms_of_ours(path) - {room} - BESIDE.get(room, set())
            if other in FACES or storey_of(other) >= storey_of(room)
        }
        assert not above, path


def test_no_rooms_of_optim_import_each_other_in_a_circle() -> None:
    needs: dict[str, set[str]] = {}
    for path in sources("optim"):
        room = part_of(module_of(path))
        if room not in FACES:
            needs.setdefault(room, set()).update(rooms_of_ours(path) - {room} - FACES)
    free: set[str] = set()
    while ready := {room for room, others in needs.items() if others <= free} - free:
        free |= ready
    assert set(needs) == free


def test_the_engine_contract_of_dspy_stays_in_one_module() -> None:
    users = [
        module_of(path)
        for path in sources("pb_graph")
        if any(name.startswith("dspy.lm15") for name in imports(path))
    ]
    assert users == ["pb_graph.planner.engine"]


def test_a_node_never_touches_a_model() -> None:
    """They ask `ModelCalls`, which charges whatever is asked."""
    for path in sources("pb_graph/nodes"):
        calls = {
            node.func.attr
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        assert not calls & {"invoke", "ainvoke", "stream", "astream"}


def test_every_module_says_what_it_is_for() -> None:
    for path in [*sources("pb_graph"), *sources("optim")]:
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_no_module_is_left_out_of_the_rules() -> None:
    parts = {part_of(module_of(path)) for path in sources("pb_graph")}
    assert set(MAY_IMPORT) <= parts
    assert parts - set(MAY_IMPORT) <= {"__init__", "cli"}
