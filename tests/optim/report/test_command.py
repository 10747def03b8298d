from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from optim.cli import app
from tests.optim.report.samples import records


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever is read is this run; files go to an empty folder."""
    found = records(["vanilla", "cosine"])
    monkeypatch.setattr("optim.records.read_records", lambda _, **__: found)
    monkeypatch.chdir(tmp_path)


def report(*options: str) -> Result:
    return CliRunner().invoke(app, ["report", "logs", *options])


def test_it_writes_the_page(tmp_path: Path) -> None:
    done = report("--paper")
    assert (done.exit_code, done.stdout) == (0, "report.html is written.\n")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "o4-mini" in html


def test_json_and_csv_go_to_standard_output() -> None:
    done = report("--json", "--baseline", "cosine")
    assert json.loads(done.stdout)["studies"][0]["baseline"] == "cosine"
    done = report("--csv")
    assert [row["method"] for row in csv.DictReader(io.StringIO(done.stdout))] == [
        "vanilla",
        "cosine",
    ]


def test_json_goes_to_a_file_on_demand(tmp_path: Path) -> None:
    assert report("--json", "-o", "figures.json").stdout == ""
    assert json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))["studies"]


def test_a_file_becomes_what_its_name_says(tmp_path: Path) -> None:
    """As `optim.report` has it: no page under the name of a table."""
    report("-o", "figures.json")
    assert json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))["studies"]
    report("-o", "figures.csv")
    assert (tmp_path / "figures.csv").read_text(encoding="utf-8").startswith("dataset,")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--baseline", "best"), "no baseline named 'best'; there are: vanilla, cosine"),
        (("--json", "--csv"), "choose one of --json and --csv"),
        (("-o", "nowhere/report.html"), "cannot write nowhere/report.html: No such file"),
    ],
)
def test_what_cannot_be_done_is_said(options: tuple[str, ...], message: str) -> None:
    done = report(*options)
    assert done.exit_code == 2
    assert message in done.stderr
