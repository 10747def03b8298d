"""The page in a real browser: it renders, loads nothing, runs nothing, and its links open."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from optim.report import page, studies
from tests.optim.report.samples import record, records

CHROMIUM = shutil.which("chromium")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--virtual-time-budget=2000", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
_PNG = b"\x89PNG\r\n"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here to open the page with")


def browse(url: str, profile: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [str(CHROMIUM), *_FLAGS, f"--user-data-dir={profile}", *flags, url]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603


def asked_for(log: Path) -> list[str]:
    """What the page asked the network for; the browser's own errands have no origin."""
    events = json.loads(log.read_text(encoding="utf-8"))["events"]
    asked = [event["params"] for event in events if "initiator" in event.get("params", {})]
    return [params["url"] for params in asked if params["initiator"] != "not an origin"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(studies(records()), paper=True), encoding="utf-8")
    return path


def test_it_renders_wide_and_narrow_and_loads_nothing(file: Path, tmp_path: Path) -> None:
    for width in (1200, 500):
        shot, log = tmp_path / f"{width}.png", tmp_path / f"{width}.json"
        browse(
            file.as_uri(),
            tmp_path / "profile",
            f"--window-size={width},2000",
            f"--screenshot={shot}",
            f"--log-net-log={log}",
        )
        content = shot.read_bytes()
        assert content.startswith(_PNG)
        assert len(content) > 50_000  # a blank page is a tenth of that
        assert asked_for(log) == []


def test_a_page_that_loads_something_would_be_noticed(tmp_path: Path) -> None:
    file, log = tmp_path / "page.html", tmp_path / "log.json"
    file.write_text('<!doctype html><img src="http://canary.invalid/x.png">')
    browse(file.as_uri(), tmp_path / "profile", "--dump-dom", f"--log-net-log={log}")
    assert asked_for(log) == ["http://canary.invalid/x.png"]


def test_a_link_opens_the_answer_that_it_leads_to(file: Path, tmp_path: Path) -> None:
    link = re.search(r'href="#(s0q\d+-\d+)"', file.read_text(encoding="utf-8"))
    assert link
    dom = browse(f"{file.as_uri()}#{link[1]}", tmp_path / "profile", "--dump-dom").stdout
    assert dom.count("<details open") == 1
    opened = dom.split("<details open", 1)[1].split("</summary>", 1)[1]
    assert opened.startswith(f'<div id="{link[1]}"')


def test_nothing_in_an_answer_runs(tmp_path: Path) -> None:
    attack = "</pre></script><script>document.title='owned'</script><img src=x onerror=owned()>"
    html = page(studies([record("vanilla", 0, skill=0, output=attack, question_text=attack)]))
    # Past the escaping, the policy alone has to hold.
    broken = html.replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'")
    for name, content in (("escaped", html), ("unescaped", broken)):
        file = tmp_path / f"{name}.html"
        file.write_text(content, encoding="utf-8")
        dom = browse(file.as_uri(), tmp_path / "profile", "--dump-dom").stdout
        assert "<title>math500: local:qwen2.5-coder-1.5b</title>" in dom
    assert "<script>document" in dom  # the second page did hold the attack
