"""The picture of a tuning: every candidate is in it, nothing in it runs, and a PNG is a PNG."""

from __future__ import annotations

import struct
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from optim.tune.artefact import CandidateRecord
from optim.tune.page import KINDS, html, png, write
from pb_graph.errors import InputError
from pb_graph.settings import Settings
from tests.optim.report.test_browser import CHROMIUM, asked_for, browse
from tests.support.artefacts import CANDIDATES, candidate, measured, tuning

_PNG = b"\x89PNG\r\n\x1a\n"
ATTACK = "</pre><script>document.title='owned'</script><img src=x onerror=owned()> $\\frac{1"


def size_of(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(_PNG)
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


def drawn(**changes: Any) -> list[str]:  # noqa: ANN401
    """The names of the kinds in a picture, in the order of drawing."""
    order: list[str] = []
    usual = Axes.scatter

    def scatter(self: Axes, *places: Any, **style: Any) -> Any:  # noqa: ANN401
        order.append(style["label"])
        return usual(self, *places, **style)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Axes, "scatter", scatter)
        png(tuning(**changes))
    return order


class TestPage:
    def test_every_proposal_is_in_the_table_with_why_it_fell(self) -> None:
        unmeasured = CandidateRecord(
            name="c9", questions=0, instructions={"decompose": "Be odd."}, fell="not measured"
        )
        page = html(tuning(left_out=3, candidates=(*CANDIDATES, unmeasured)), picture=_PNG)
        for one in (*CANDIDATES, unmeasured):
            assert f'<th scope="row">{one.name}' in page
        assert "Use two short sub-questions." in page
        assert "execution=single_pass" in page
        assert '<td class="text">lost</td>' in page
        assert '<td class="text">not measured</td>' in page
        assert "3 more are left out." in page

    def test_the_verdict_and_the_figures_are_told(self) -> None:
        page = html(tuning(), picture=_PNG)
        assert "undecided whether it is better. It is not worse on the held-out" in page
        assert "1.60 (1.28" in page
        assert "0 of 40: accuracy undecided" in page
        assert "0.50 (0.40" in page
        kept = html(tuning(verdict="kept", reason="Nothing better.", held_out=None), picture=_PNG)
        assert "The original is kept. Nothing better." in kept

    def test_it_says_how_it_was_made_with_every_setting(self) -> None:
        about = {"command": "pb-optim tune --data mine.jsonl", "split": "dev", "scorer": "math"}
        page = html(tuning(made_by=about), picture=_PNG)
        for words in (*about.values(), "2026-11-21 12:00 UTC", "dspy 3.4.1", "000000000000"):
            assert words in page
        for name in Settings.model_fields:
            assert f"{name} = " in page

    def test_few_questions_are_said_below_the_figures(self) -> None:
        assert "biased upwards" not in html(tuning(), picture=_PNG)
        few = tuning().dev.model_copy(update={"before": measured(50, 800, questions=29)})
        assert "fewer than 30 questions is biased upwards" in html(tuning(dev=few), picture=_PNG)

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
        assert found.count("img") == 1
        assert "default-src 'none'" in unescape(page)
        assert '; img-src data:"' in unescape(page)

    def test_ends_that_do_not_exist_are_left_out(self) -> None:
        bare = measured(50, 800)
        fields = {"lower": None, "upper": None}
        parts = {
            name: getattr(bare, name).model_copy(update=fields) for name in ("tokens", "accuracy")
        }
        dev = tuning().dev.model_copy(update={"before": bare.model_copy(update=parts)})
        assert html(tuning(dev=dev))


class TestPicture:
    def test_it_is_a_png_of_a_readable_size(self) -> None:
        width, height = size_of(png(tuning()))
        assert width >= 1000
        assert height >= 600

    def test_the_original_is_drawn_last_and_larger_so_that_nothing_hides_it(self) -> None:
        same = candidate("same", 50, 800)
        order = drawn(candidates=(*CANDIDATES, same))
        assert order == [
            "given up early", "candidate", "without a plan", "best on dev", "original",
        ]  # fmt: skip
        sizes = {name: size for name, (_, _, size, _) in KINDS.items()}
        assert sizes["original"] > 2 * max(v for name, v in sizes.items() if name != "original")
        assert not KINDS["original"][3]  # hollow: what measured the same is seen within it

    def test_what_was_not_measured_has_no_place_in_it(self) -> None:
        unmeasured = CandidateRecord(name="c9", questions=0, fell="not measured")
        assert png(tuning(candidates=(*CANDIDATES, unmeasured))) == png(tuning())

    def test_names_are_no_formulas(self) -> None:
        odd = candidate("$\\frac{1$", 50, 500, role="chosen")
        assert png(tuning(candidates=(CANDIDATES[0], odd))).startswith(_PNG)

    def test_one_candidate_is_enough(self) -> None:
        assert png(tuning(candidates=CANDIDATES[:1])).startswith(_PNG)


class TestFiles:
    def test_both_are_written(self, tmp_path: Path) -> None:
        page, picture = write(tuning(), tmp_path)
        assert page.read_text(encoding="utf-8") == html(tuning())
        assert picture.read_bytes() == png(tuning())

    def test_nothing_to_show_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no candidate to show"):
            write(tuning(candidates=()), tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_is_none_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"cannot write to .*nowhere: No such file"):
            write(tuning(), tmp_path / "nowhere")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here to open the page with")
class TestBrowser:
    def test_it_renders_and_loads_nothing(self, tmp_path: Path) -> None:
        page, _ = write(tuning(), tmp_path)
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
