"""The page: what it says first, and that it can neither load nor run anything."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from optim.records import Record
from optim.reporting import answers, rendered, report
from optim.reporting.formatting import COLUMNS, Column
from pb_graph.errors import InputError
from tests.optim.reporting.samples import record, records, travelled

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)></pre></title></style>"
    "<a href='javascript:alert(3)'>x</a>\"><svg onload=alert(4)><!-- &lt;"
)
MAY_STAND = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "footer", "nav", "section",
    "h1", "h2", "h3", "p", "a", "b", "span", "code", "pre", "ul", "li", "dl", "dt", "dd", "div",
    "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "figure",
    "figcaption", "label", "input", "svg", "g", "line", "rect", "text", "path", "defs", "clippath",
}  # fmt: skip


class Reader(HTMLParser):
    """Reads a page as a browser would."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html = html
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attrs)))

    def handle_data(self, words: str) -> None:
        self.words.append(words)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def shown(found: list[Record], **options: object) -> Reader:
    return Reader(rendered(answers(found), "html", **options))  # type: ignore[arg-type]


def row(method: str, right: range, tokens: int, questions: int = 60) -> list[Record]:
    found = [
        record(method, q, score=float(q in right), error=None, made_by={"seed": 1})
        for q in range(questions)
    ]
    for one in found:
        usage = one.report["usage"]
        usage["by_node"] = {"answer": usage["by_node"]["answer"]}
        usage["by_node"]["answer"]["output_tokens"] = usage["output_tokens"] = tokens
        usage["input_tokens"] = 200
    return found


def test_text_of_models_can_run_nothing() -> None:
    made_by = {"prompt": HOSTILE, "settings": {"note": HOSTILE}, "gaps": HOSTILE, "data": HOSTILE}
    found = [
        replace(
            record(method, q), method=HOSTILE + method, question=HOSTILE + str(q),
            dataset=HOSTILE, model=HOSTILE, output=HOSTILE, question_text=HOSTILE, made_by=made_by,
        )
        for method in ("vanilla", "cosine") for q in range(3)
    ]  # fmt: skip
    reader = shown(found, paper=True)
    assert {name for name, _ in reader.elements} <= MAY_STAND
    attributes = {(name, value) for _, attrs in reader.elements for name, value in attrs.items()}
    assert not {name for name, _ in attributes if name.startswith("on") or name == "style"}
    assert all(str(value).startswith("#") for name, value in attributes if name == "href")
    assert not [1 for name, _ in attributes if name == "src"]


def test_the_policy_allows_its_own_style_sheet_and_nothing_else() -> None:
    reader = shown(records(["vanilla"]))
    [policy] = [a["content"] for n, a in reader.elements if n == "meta" and "http-equiv" in a]
    style = re.search(r"<style>(.*?)</style>", reader.html, re.DOTALL)
    assert style
    hashed = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'"
    )


def test_ids_differ_and_links_lead_somewhere() -> None:
    found = [one for name in ("a", "b") for one in records(["vanilla", "cosine"], planner=name)]
    reader = shown(found)
    ids = [str(attrs["id"]) for _, attrs in reader.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = {str(attrs["href"])[1:] for _, attrs in reader.elements if "href" in attrs}
    assert links
    assert links <= set(ids)


def test_the_first_sentence_is_the_cheapest_row_without_a_visible_loss() -> None:
    """And then what the row with more E³ loses: E³ alone would crown the terse one."""
    found = [
        *row("vanilla", range(51), 400),
        *row("concise", range(50), 200),
        *row("chain_of_draft", range(37), 60),
    ]
    reader = shown(found)
    first = reader.text.index("Cheapest method without a visible loss of accuracy against vanilla")
    crowned = reader.text[first:]
    for words in (
        "vanilla: concise; accuracy, % 83.3 (71.4 to 91.1); completion 200 (", "; E³ 34.7 (",
        "chain_of_draft has more E³, 63.4 (", "but loses accuracy; accuracy, points:",
        "\N{MINUS SIGN}23.3 (",
    ):  # fmt: skip
        assert words in crowned


def test_a_loss_that_the_interval_shows_is_not_crowned() -> None:
    """Five lost and none won of forty: the test says 0.06, the interval is wholly below 0."""
    found = [*row("vanilla", range(30), 400, 40), *row("concise", range(5, 30), 9, 40)]
    text = shown(found).text
    assert "visible loss of accuracy against vanilla: vanilla" in text
    assert "concise has more E³" in text
    assert "but loses accuracy" in text
    few = shown([*row("vanilla", range(5), 400, 5), *row("concise", range(0), 9, 5)]).text
    assert "5 questions are too few to see a loss of accuracy against vanilla" in few
    assert "Cheapest" not in few


def test_a_cache_makes_a_prompt_cheaper() -> None:
    found = row("vanilla", range(30), 100)
    for one in found:
        one.report["usage"]["input_token_details"] = {"cache_read": 150}
    text = shown(found).text
    assert "cached money" in text
    assert "600465" in text  # 200 + 4 * 100, and 135 less
    assert "cached money" not in shown(row("vanilla", range(30), 100)).text


def test_weak_figures_are_doubted() -> None:
    few = [*records(["vanilla"], questions=5, level_source="label"), record("cosine", 0)]
    lost = [*few, record("vanilla", 9, score=None, error="HTTP 500")]
    text = shown(lost).text
    for words in (
        "biased upwards", "vanilla: the data set told the levels", "in no figure: vanilla (1)",
        "cosine (5 missing",
    ):  # fmt: skip
        assert words in text
    assert "Nothing has a score yet" in shown([record("vanilla", 0, score=None, error="x")]).text
    assert "No answer is right" in shown(records(["vanilla"], skill=0, errors=False)).text


def test_a_column_of_a_report_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COLUMNS, "seconds", lambda row: f"{row['seconds']:.0f} s")
    right = Column(lambda row: f"{100 * row['tokens'] / row['accuracy']:.0f}", "Of a right answer.")
    monkeypatch.setitem(COLUMNS, "tokens per right answer", right)
    page = rendered(answers(records(["vanilla", "cosine"])), "html")
    assert '<th scope="col">seconds</th>' in page
    assert '<th scope="col" title="Of a right answer.">tokens per right answer</th>' in page


def test_the_page_says_how_it_was_made_and_shows_each_prompt_once() -> None:
    made_by = {
        "date": "2026-11-22T04:25:46+00:00", "seed": 7, "prompt": "Solve {question} briefly.",
        "command": ["pb-optim", "eval", "--data", "my file.json"], "settings": {"method": "cosine"},
    }  # fmt: skip
    text = shown(records(["cosine", "linear"], made_by=made_by)).text
    for words in (
        "2026-11-22 04:25", "--data 'my file.json'", 'method="cosine"',
        "Prompt of cosine, linear",
    ):  # fmt: skip
        assert words in text
    assert text.count("Solve {question} briefly.") == 1


def test_the_page_shows_what_caps_would_give() -> None:
    """One vanilla run is a ladder; a method with a budget was capped already."""
    page = rendered(answers(records(["vanilla", "cosine"], errors=False)), "html")
    text = Reader(page).text
    assert "What a cap would give." in text
    ladder = page.partition("<summary>Ladder of caps</summary>")[2].partition("</table>")[0]
    assert ladder.count('<th scope="row">vanilla</th>') == 8
    assert "cosine" not in ladder
    assert "Ladder" not in rendered(answers(records(["cosine"])), "html")


def test_travelplanner_and_levels_have_tables() -> None:
    text = shown([travelled(q) for q in range(4)]).text
    assert all(name in text for name in ("Travelplanner rates", "By level"))


def test_json_and_csv_hold_the_figures_for_machines(tmp_path: Path) -> None:
    found = records(["vanilla", "cosine"])
    table = answers(found, prices={found[0].model: (1.0, 10.0)})
    [study] = json.loads(rendered(table, "json", paper=True))["studies"]
    assert [row["method"] for row in study["figures"]] == ["vanilla", "cosine"]
    assert study["figures"][0]["money_unit"] == "US $ per 1,000 questions"
    assert study["paired"][0]["baseline"] == "vanilla"
    assert len(study["paper_rows"]) == 80
    assert {"by_level", "token_parts", "made_by"} <= study.keys()
    lines = report(table, tmp_path / "all.csv").read_text("utf-8").splitlines()
    assert len(lines) == 3
    assert {"money", "ock_score", "vs_ratio", "vs_p_value_holm"} <= set(lines[0].split(","))


def test_a_report_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    for path, found, words in (
        ("all.pdf", records(["vanilla"]), "ends with .html, .json or .csv"),
        ("all.html", [], "no answer to report"),
        ("missing/all.csv", records(["vanilla"]), "cannot write"),
    ):
        with pytest.raises(InputError, match=words):
            report(found, tmp_path / path)
