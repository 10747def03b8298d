"""Imports go down only, also those for annotations and those inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STOREYS = {
    "optim": (
        "cli",
        "tuning",
        "evaluation",
        "bench reporting",
        "records",
        "bam datasets e3 extras methods rivals scorers statistics",
    ),
    "pb_graph": (
        "cli serve probe",
        "agents graph",
        "nodes",
        "run",
        "planner models local program",
        "prompts styles state settings answers",
        "budget methods tasks",
        "types errors",
    ),
}
"""The rooms of each package, the highest storey first."""


def sources(folder: str) -> dict[str, Path]:
    """Return the modules of a package by their dotted names."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    return dict(zip((name.removesuffix(".__init__") for name in names), paths, strict=True))


def imports(path: Path) -> Iterator[str]:
    """Yield the dotted name of everything that a module imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", ["pb_graph", "optim"])
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    known = sources(package)
    needs = {
        name: {
            module
            for target in imports(path)
            if (module := target if target in known else target.rpartition(".")[0]) in known
        }
        - {name}
        for name, path in known.items()
    }
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("package", STOREYS)
def test_imports_between_storeys_only_go_down(package: str) -> None:
    files = sources(package)
    storeys = {
        room: place for place, rooms in enumerate(STOREYS[package]) for room in rooms.split()
    }
    rooms = {name: name.split(".")[1] for name in files if "." in name}
    assert set(rooms.values()) == storeys.keys()
    for name, room in rooms.items():
        for target in imports(files[name]):
            if target.startswith(f"{package}."):  # the public names count as the highest storey
                below = storeys.get(target.split(".")[1], 0)
                assert storeys[room] <= below, f"{name} imports {target}"


def test_pb_graph_does_not_import_optim() -> None:
    for path in sources("pb_graph").values():
        assert "optim" not in {name.split(".")[0] for name in imports(path)}, path


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("optim.tuning.evaluator", ["dspy.lm15"]),
        (
            "pb_graph.models.options",
            ["._llm_type", "._identifying_params", "._get_ls_params", "_with_cache", "__pregel"],
        ),
    ],
)
def test_what_another_library_does_not_promise_stays_in_one_module(
    module: str, names: list[str]
) -> None:
    paths = sources(module.partition(".")[0])
    texts = {name: path.read_text("utf-8") for name, path in paths.items()}
    users = [name for name, text in texts.items() if any(one in text for one in names)]
    assert users == [module]


def test_a_node_never_calls_a_model_itself() -> None:
    for path in sources("pb_graph/nodes").values():
        calls = {
            node.func.attr
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        assert not calls & {"invoke", "ainvoke", "stream", "astream"}, path
