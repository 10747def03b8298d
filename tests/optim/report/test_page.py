from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

from markupsafe import Markup

from optim.report import as_csv, formatting, page, studies
from optim.report.figures import Point, front, points, scatter
from optim.report.svg import Scale, breakable, joined, tag, whisker
from tests.optim.report.samples import record, records, travelled

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)></pre></title></style>"
    "<a href='javascript:alert(3)'>x</a>\"><svg onload=alert(4)><!-- \x00 \ud800 &lt;"
)
MAY_STAND = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "footer", "nav", "section",
    "article", "h1", "h2", "h3", "h4", "p", "a", "b", "strong", "span", "code", "pre", "ul", "li",
    "dl", "dt", "dd", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "details",
    "summary", "figure", "figcaption", "wbr", "svg", "g", "line", "polyline", "polygon", "circle",
    "rect", "text",
}  # fmt: skip


class Reader(HTMLParser):
    """Reads a page as a browser would, and notes all there is."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attrs)))
        if name not in {"meta", "wbr"}:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, words: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(words)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def all(self, attribute: str) -> list[str]:
        return [str(a[attribute]) for _, a in self.elements if attribute in a]


def shown(found: list[Any], **options: Any) -> Reader:  # noqa: ANN401
    reader = Reader(page(studies(found), **options))
    assert reader.open == []
    return reader


def poisoned() -> list[Any]:
    """Every text of every record is hostile."""
    step = {"question": HOSTILE, "hint": HOSTILE, "answer": HOSTILE}
    found = []
    for number, one in enumerate(records(["stepwise", "vanilla"], questions=5, skill=0)):
        usage = one.report["usage"] | {"by_node": one.report["usage"]["by_node"]}
        usage["by_node"] |= {HOSTILE: usage["by_node"].popitem()[1]}
        account = one.report | {"steps": [s | step for s in one.report["steps"]], "usage": usage}
        account["warnings"] = [HOSTILE]
        texts = ("method", "model", "planner", "dataset", "output", "target", "question_text")
        changes: dict[str, Any] = dict.fromkeys(texts, HOSTILE) | {"report": account}
        changes |= {"explanation": HOSTILE, "question": f"{number} {HOSTILE}"}
        changes["made_by"] = {
            HOSTILE: HOSTILE,
            "command": [HOSTILE],
            "settings": {HOSTILE: HOSTILE},
        }
        changes["score_metadata"] = {"boxed": False, HOSTILE: HOSTILE}
        changes["method"] = f"{one.method} {HOSTILE}"
        if number % 3 == 0:
            changes |= {"score": None, "error": HOSTILE}
        found.append(dataclasses.replace(one, **changes))
    return found


def test_no_text_of_a_model_becomes_markup() -> None:
    html = page(studies(poisoned()), paper=True, title=HOSTILE)
    reader = Reader(html)
    assert {name for name, _ in reader.elements} <= MAY_STAND
    for _, attributes in reader.elements:
        assert not any(name.startswith("on") or name in {"src", "style"} for name in attributes)
    assert all(re.fullmatch(r"#s\d+(q\d+(-\d+)?)?", link) for link in reader.all("href"))
    assert "<script" not in html.lower()
    assert "<img" not in html
    assert "alert(1)</script>" not in html
    assert "\x00" not in html
    html.encode()  # a lone surrogate could not be written
    assert "<script>alert(1)</script>" in reader.text  # as text, it is all there


def test_the_page_may_run_and_load_nothing() -> None:
    html = page(studies(records()))
    policy = next(p for p in Reader(html).all("content") if "default-src" in p)
    style = re.search("<style>(.*?)</style>", html, re.DOTALL)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    rules = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert policy == rules
    assert "@import" not in style[1]
    assert "url(" not in style[1]
    without_namespace = html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http://" not in without_namespace
    assert "https://" not in without_namespace


def test_a_difference_of_scores_has_its_interval_on_the_page_and_in_csv() -> None:
    [study] = studies(records(["vanilla", "cosine"], errors=False))
    found = study.versus[0].comparison
    assert found is not None
    ends = [formatting.number(end, 1) for end in (found.accuracy_lower, found.accuracy_upper)]
    assert " to ".join(ends) in page([study])
    assert f"{found.accuracy_lower},{found.accuracy_upper}," in as_csv([study])


def test_a_line_of_equal_e3_is_labelled_with_its_own_value() -> None:
    found = [
        Point("a", 0, 500, 28, 1.5, (400, 600), (20, 36)),
        Point("b", 2, 600, 42, 3, (500, 700), (30, 54)),
    ]
    labels = re.findall(r"E³ = ([\d.]+)", scatter(found, 600, 400))
    assert "1.5" in labels
    assert len(set(labels)) == len(labels)


def test_the_best_figure_of_a_column_is_marked() -> None:
    [study] = studies(records())
    html = page([study])
    best = max(study.rows, key=lambda row: row.accuracy or 0)
    row = re.search(rf'<th scope="row">{breakable(best.method)}</th>(.*?)</tr>', html, re.DOTALL)
    assert row
    assert row[1].strip().startswith(f'<td class="best"><strong>{best.accuracy:.1f}</strong>')
    assert 'class="best"' not in page(studies(records(["vanilla"])))


def test_it_says_what_the_figures_do_not_show() -> None:
    found = records()
    assert "ended in an error" in shown(found).text
    assert "errors as 0" in shown(found).text
    reader = shown([r for r in found if r.method != "linear" or r.level != 5])
    assert "Not every method was asked every question: linear (6 missing)" in reader.text
    assert "Highest E³" not in reader.text
    assert "best" not in reader.all("class")


def test_zero_correct_answers_are_shown() -> None:
    reader = shown(records(skill=0))
    assert "No answer is right" in reader.text
    assert "nan" not in reader.text


def test_one_method_one_question_one_level_or_none() -> None:
    assert "Paired differences" not in shown(records(["cosine"])).text
    assert "vanilla" in shown([record("vanilla", 0)]).text
    assert "By level" not in shown([record("vanilla", 0, level=None)]).text
    two = [record("vanilla", 0), record("cosine", 0)]
    assert "Paired differences" in shown(two).text


def test_only_errors_make_a_page_too() -> None:
    reader = shown([record("vanilla", q, score=None, error="HTTP 500") for q in range(3)])
    assert "Nothing has a score yet" in reader.text


def test_free_answers_make_a_page_too() -> None:
    free = record("vanilla", 0)
    account = free.report | {"usage": free.report["usage"] | {"output_tokens": 0, "by_node": {}}}
    assert "vanilla" in shown([dataclasses.replace(free, report=account)]).text


def test_several_studies_have_a_list_of_contents() -> None:
    reader = shown([*records(["vanilla"]), *records(["vanilla"], dataset="gsm8k")])
    assert {"#s0", "#s1"} <= set(reader.all("href"))


def test_the_papers_rows_stand_beside_on_demand() -> None:
    found = records()
    assert "Llama-3.3-70B" not in shown(found).text
    with_paper = shown(found, paper=True).text
    assert "Llama-3.3-70B" in with_paper
    assert "o4-mini" in with_paper
    other = shown(records(["vanilla"], dataset="gsm8k"), paper=True).text
    assert "The paper has no table about gsm8k" in other


def test_every_chart_has_a_label_and_every_table_its_headers() -> None:
    reader = shown(records(), paper=True)
    charts = [attributes for name, attributes in reader.elements if name == "svg"]
    assert charts
    assert all(chart.get("aria-label") or chart.get("aria-hidden") for chart in charts)
    heads = [attributes for name, attributes in reader.elements if name == "th"]
    assert all(head.get("scope") for head in heads)


def test_the_front_holds_what_nothing_beats() -> None:
    found = points(studies(records())[0])
    best = front(found)
    assert best[0].tokens == min(point.tokens for point in found)
    assert max(point.score for point in found) == best[-1].score
    for point in best:
        assert not any(p.score > point.score and p.tokens < point.tokens for p in found)


def test_what_is_not_markup_is_escaped() -> None:
    made = tag("p", "<b>", Markup("<i>"), None, 3, class_="a&b")
    assert made == '<p class="a&amp;b">&lt;b&gt;<i>3</p>'
    assert joined("a", ["<"]) == "a&lt;"


def test_an_interval_beyond_the_axis_has_a_mark() -> None:
    scale = Scale(0, 10, 0, 100)
    assert str(whisker(scale, 5, (2, 8))).count("arrow") == 0
    assert str(whisker(scale, 5, (2, 80))).count("arrow") == 1
    assert str(whisker(scale, 5, (-1, None))).count("arrow") == 2
    assert whisker(scale, 5, (None, None)) is None
    wide = [record(m, q, score=float(q < 1)) for m in ("vanilla", "cosine") for q in range(3)]
    assert 'class="arrow"' in page(studies(wide))


def test_the_title_names_data_set_and_model() -> None:
    reader = shown([*records(["vanilla"]), *records(["vanilla"], dataset="gsm8k", model="gpt")])
    assert "math500, gsm8k: local:qwen2.5-coder-1.5b, gpt" in reader.text


def test_it_says_how_it_was_made_with_every_setting() -> None:
    about = {
        "date": "2026-11-22T04:25:46+00:00", "version": "0.1.0", "seed": 7, "scorer": "math",
        "command": ["pb-optim", "eval", "math500", "--data", "my file.json"], "split": "test",
        "data": "my file.json", "epochs": 5,
    }  # fmt: skip
    settings = {m: {"method": m, "budget": {"rule": "fixed"}} for m in ("vanilla", "cosine")}
    found = [
        record(method, q, made_by=about | {"settings": settings[method]})
        for method in settings for q in range(2)
    ]  # fmt: skip
    text = shown(found).text
    for words in (
        "2026-11-22 04:25", "0.1.0", "pb-optim eval math500 --data 'my file.json'", "my file.json",
        "Settings of every row, in full", 'method = "cosine"', 'budget = {"rule": "fixed"}',
    ):  # fmt: skip
        assert words in text


def test_accuracy_that_nothing_decides_is_called_undecided() -> None:
    same = [record(m, q, score=float(q % 2)) for m in ("vanilla", "cosine") for q in range(6)]
    text = shown(same).text
    assert "cosine against vanilla: accuracy undecided: no question differs; tokens " in text
    differs = [*same[:-1], record("cosine", 5, score=0.0)]
    assert "accuracy undecided" not in shown(differs).text


def test_few_questions_and_labels_are_told() -> None:
    few = shown(records(["vanilla"], questions=5, level_source="label")).text
    assert "biased upwards, and so" in few
    assert "Level: label." in few
    many = shown(records(["vanilla"], errors=False, level_source="estimated")).text
    assert "biased upwards, and so" not in many
    assert "Level: label." not in many
    assert "estimated" in many


def test_runs_show_their_spread() -> None:
    assert "standard deviation over runs" in shown(records(["vanilla"], epochs=3)).text
    assert "standard deviation over runs" not in shown(records(["vanilla"])).text


def test_travelplanners_rates_are_shown_with_each_constraint() -> None:
    text = shown([travelled(q) for q in range(4)]).text
    assert "TravelPlanner's rates" in text
    assert "75.0" in text
    assert "commonsense.sandbox" in text
    assert "2 / 4" in text
    assert "TravelPlanner" not in shown(records(["vanilla"])).text


def test_curves_by_level_have_intervals() -> None:
    html = page(studies(records(["vanilla"], questions=30, errors=False)))
    panel = re.search(r'<svg class="chart panel".*?</svg>', html, re.DOTALL)
    assert panel
    assert panel[0].count('class="whisker"') == 5


def test_what_the_paper_counts_is_told_as_far_as_it_is_known() -> None:
    text = " ".join(shown(records(), paper=True).text.split())
    assert "leaves planning out;" not in text
    assert "its released code does not count it" in text
    assert "Certaindex" in text
    assert "not among our methods" not in text


def test_the_page_says_how_many_pseudo_answers_its_intervals_have() -> None:
    """As `optim.statistics.estimates` has it for one method."""
    text = " ".join(shown(records()).text.split())
    assert "three quarters of a right and of a wrong answer" in text
