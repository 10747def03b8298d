"""The page of a tuning: every candidate is in it, and nothing in it runs."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from optim.report import write
from optim.tuning.artefact import CandidateRecord
from optim.tuning.page import PAGE, html
from pb_graph.errors import InputError
from pb_graph.settings import Settings
from tests.optim.report.test_browser import CHROMIUM, asked_for, browse
from tests.support.artefacts import CANDIDATES, candidate, measured, tuning

ATTACK = "</pre><script>document.title='owned'</script><img src=x onerror=owned()> $\\frac{1"


def marks(page: str) -> list[tuple[str, str]]:
    """Kind and hint of each mark of the wide drawing, in the order of drawing."""
    broad = page[page.index('class="chart broad"') : page.index('class="chart slim"')]
    return re.findall(r'class="mark (k\d)"><title>([^<]*)</title>', broad)


def names(page: str) -> list[str]:
    """What is written beside the marks of the wide drawing."""
    broad = page[page.index('class="chart broad"') : page.index('class="chart slim"')]
    return re.findall(r'class="name"[^>]*>([^<]*)<', broad)


class TestPage:
    def test_every_proposal_is_in_the_table_with_why_it_fell(self) -> None:
        unmeasured = CandidateRecord(
            name="c9", questions=0, instructions={"decompose": "Be odd."}, fell="not measured"
        )
        page = html(tuning(left_out=3, candidates=(*CANDIDATES, unmeasured)))
        for one in (*CANDIDATES, unmeasured):
            assert f'<th scope="row">{one.name}' in page
        assert "Use two short sub-questions." in page
        assert "execution=single_pass" in page
        assert '<td class="text">lost</td>' in page
        assert '<td class="text">not measured</td>' in page
        assert "and 3 more" in page

    def test_the_verdict_and_the_figures_are_told(self) -> None:
        page = html(tuning())
        assert "undecided whether it is better. It is not worse on the held-out" in page
        assert "1.60 (1.28" in page
        assert "0 of 40: accuracy undecided" in page
        assert "0.50 (0.40" in page
        kept = html(tuning(verdict="kept", reason="Nothing better.", held_out=None))
        assert "The original is kept. Nothing better." in kept

    def test_it_says_how_it_was_made_with_every_setting(self) -> None:
        about = {"command": "pb-optim tune --data mine.jsonl", "split": "dev", "scorer": "math"}
        page = html(tuning(made_by=about))
        for words in (*about.values(), "2026-11-21 12:00 UTC", "dspy 3.4.1", "000000000000"):
            assert words in page
        for name in Settings.model_fields:
            assert f"{name} = " in page

    def test_few_questions_are_said_below_the_figures(self) -> None:
        assert "biased upwards" not in html(tuning())
        few = tuning().dev.model_copy(update={"before": measured(50, 800, questions=29)})
        assert "fewer than 30 questions is biased upwards" in html(tuning(dev=few))

    def test_text_of_a_model_is_escaped(self) -> None:
        hostile = candidate(
            ATTACK, 60, 500, role="chosen", instructions={"decompose": ATTACK},
            settings={"domain": ATTACK},
        )  # fmt: skip
        page = html(tuning(candidates=(*CANDIDATES, hostile), reason=ATTACK))
        found: list[str] = []

        class Reader(HTMLParser):
            def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
                found.append(tag)
                assert not any(name.startswith("on") for name, _ in attrs)

        Reader().feed(page)
        assert "script" not in found
        assert "img" not in found
        assert "default-src 'none'" in unescape(page)
        assert "img-src" not in page

    def test_ends_that_do_not_exist_are_left_out(self) -> None:
        bare = measured(50, 800)
        fields = {"lower": None, "upper": None}
        parts = {
            name: getattr(bare, name).model_copy(update=fields) for name in ("tokens", "accuracy")
        }
        dev = tuning().dev.model_copy(update={"before": bare.model_copy(update=parts)})
        assert html(tuning(dev=dev))


class TestPicture:
    def test_the_original_is_drawn_last_and_hollow_so_that_nothing_hides_it(self) -> None:
        same = candidate("same", 50, 800)
        drawn = marks(html(tuning(candidates=(*CANDIDATES, same))))
        early, plain, reference, chosen, original = "k4", "k0", "k1", "k3", "k5"
        assert [k for k, _ in drawn] == [early, plain, plain, reference, chosen, original]
        sides = {
            kind: [
                max(xs) - min(xs)
                for found in re.findall(rf'points="([^"]*)" class="mark {kind}"', html(tuning()))
                if (xs := [float(pair.split(",")[0]) for pair in found.split()])
            ]
            for kind in (reference, original)
        }
        assert min(sides[original]) > 1.5 * max(sides[reference])

    def test_only_what_matters_is_named_beside_its_mark(self) -> None:
        assert sorted(names(html(tuning()))) == ["c1", "original", "vanilla"]

    def test_each_mark_says_what_it_is(self) -> None:
        hints = dict(reversed(hint.split(": ", 1)) for _, hint in marks(html(tuning())))
        assert "score 70.0 %, T 2\N{NARROW NO-BREAK SPACE}600, E³ 1.88" in hints
        assert any(name == "original" and "T 800 (640" in hint for hint, name in hints.items())

    def test_what_was_given_up_early_has_no_part_in_the_front(self) -> None:
        def front(*more: CandidateRecord) -> str:
            found = re.search(r'<polyline points="([^"]*)" class="front"', html(
                tuning(candidates=(*CANDIDATES[:3], *more))))  # fmt: skip
            assert found
            return found[1]

        early = candidate("early", 60, 900, questions=10)
        assert len(front(early).split()) == len(front().split())
        whole = candidate("whole", 60, 900)
        assert len(front(whole).split()) > len(front().split())

    def test_what_was_not_measured_has_no_place_in_it(self) -> None:
        unmeasured = CandidateRecord(name="c9", questions=0, fell="not measured")
        with_it = marks(html(tuning(candidates=(*CANDIDATES, unmeasured))))
        assert with_it == marks(html(tuning()))

    def test_one_candidate_is_enough(self) -> None:
        assert len(marks(html(tuning(candidates=CANDIDATES[:1])))) == 1


class TestFiles:
    def test_the_page_is_written(self, tmp_path: Path) -> None:
        page = write(tmp_path / PAGE, html(tuning()))
        assert page.name == "candidates.html"
        assert page.read_text(encoding="utf-8") == html(tuning())

    def test_nothing_to_show_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no candidate to show"):
            write(tmp_path / PAGE, html(tuning(candidates=())))
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_is_none_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"cannot write .*nowhere.*: No such file"):
            write(tmp_path / "nowhere" / PAGE, html(tuning()))


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here to open the page with")
class TestBrowser:
    def test_it_renders_and_loads_nothing(self, tmp_path: Path) -> None:
        page = write(tmp_path / PAGE, html(tuning()))
        shot, log = tmp_path / "shot.png", tmp_path / "log.json"
        browse(
            page.as_uri(),
            tmp_path / "profile",
            "--window-size=1000,1500",
            f"--screenshot={shot}",
            f"--log-net-log={log}",
        )
        assert len(shot.read_bytes()) > 30_000  # a blank page is a tenth of that
        assert asked_for(log) == []

    def test_nothing_in_an_instruction_runs(self, tmp_path: Path) -> None:
        hostile = candidate("c9", 60, 500, instructions={"decompose": ATTACK})
        page = html(tuning(candidates=(*CANDIDATES, hostile)))
        # Past the escaping, the policy alone has to hold.
        broken = page.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'")
        for name, content in (("escaped", page), ("unescaped", broken)):
            file = tmp_path / f"{name}.html"
            file.write_text(content, encoding="utf-8")
            dom = browse(file.as_uri(), tmp_path / "profile", "--dump-dom").stdout
            assert "<title>Tuning on arithmetic</title>" in dom
        assert "<script>document" in dom  # the second page did hold the attack
