"""The picture of a tuning: every candidate is in it, nothing in it runs, and a PNG is a PNG."""

from __future__ import annotations

import re
import struct
from html.parser import HTMLParser
from pathlib import Path

import pytest

from optim.tune.picture import html, png, write
from pb_graph.artefact import Candidate
from pb_graph.errors import InputError
from tests.optim.report.test_browser import CHROMIUM, asked_for, browse
from tests.support.artefacts import CANDIDATES, candidate, measured, tuning

_PNG = b"\x89PNG\r\n\x1a\n"
ATTACK = "</pre><script>document.title='owned'</script><img src=x onerror=owned()> $\\frac{1"


def size_of(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(_PNG)
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


def marks_of(page: str, kind: int) -> int:
    """How often a kind of candidate is drawn; each drawing is there wide and narrow."""
    assert len(re.findall(r'class="chart (?:broad|slim)"', page)) == 2
    drawings = "".join(re.findall(r'<svg class="chart (?:broad|slim)".*?</svg>', page, re.DOTALL))
    return drawings.count(f"mark k{kind}") // 2


class TestPage:
    def test_every_candidate_is_drawn_as_what_it_is(self) -> None:
        page = html(tuning())
        others, references, originals, chosen, given_up = (
            marks_of(page, kind) for kind in range(5)
        )
        assert (others, references, originals, chosen, given_up) == (1, 1, 1, 1, 1)

    def test_every_candidate_is_in_the_table_and_its_instruction_below(self) -> None:
        page = html(tuning(left_out=3))
        for one in CANDIDATES:
            assert f'<th scope="row">{one.name}' in page
        assert "Use two short sub-questions." in page
        assert "execution=single_pass" in page
        assert "3 more are left out." in page

    def test_what_was_given_up_has_no_part_in_the_front(self) -> None:
        def front(*more: Candidate) -> list[str]:
            return re.findall(
                r'<polyline points="([^"]*)" class="front"',
                html(tuning(candidates=(*CANDIDATES, *more))),
            )

        assert front(candidate("lucky", 69, 900, questions=10)) == front()
        assert front(candidate("good", 69, 900)) != front()

    def test_lines_of_equal_e3_are_drawn(self) -> None:
        assert re.search(r"E³ = \d", html(tuning()))

    def test_the_verdict_and_the_figures_are_told(self) -> None:
        page = html(tuning())
        assert "Tuned program adopted. It is not worse on the held-out questions." in page
        assert "1.60 (1.28" in page
        kept = html(tuning(verdict="kept", reason="Nothing better.", held_out=None))
        assert "Original kept. Nothing better." in kept
        assert "best on dev, not adopted" in kept

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
        assert not {"script", "img"} & set(found)
        assert "default-src &#39;none&#39;" in page

    def test_ends_that_do_not_exist_are_left_out(self) -> None:
        bare = measured(50, 800)
        fields = {"lower": None, "upper": None}
        parts = {
            name: getattr(bare, name).model_copy(update=fields) for name in ("tokens", "accuracy")
        }
        dev = tuning().dev.model_copy(update={"before": bare.model_copy(update=parts)})
        assert marks_of(html(tuning(dev=dev)), 2) == 1
        assert png(tuning(dev=dev)).startswith(_PNG)


class TestPicture:
    def test_it_is_a_png_of_a_readable_size(self) -> None:
        width, height = size_of(png(tuning()))
        assert width >= 1000
        assert height >= 600

    def test_it_shows_the_candidates(self) -> None:
        assert png(tuning()) != png(tuning(candidates=CANDIDATES[:2]))

    def test_names_are_no_formulas(self) -> None:
        odd = candidate("$\\frac{1$", 50, 500, role="chosen")
        assert png(tuning(candidates=(CANDIDATES[0], odd))).startswith(_PNG)

    def test_one_candidate_is_enough(self) -> None:
        assert png(tuning(candidates=CANDIDATES[:1])).startswith(_PNG)


class TestFiles:
    def test_both_are_written(self, tmp_path: Path) -> None:
        page, picture = write(tuning(), tmp_path)
        assert page.read_text(encoding="utf-8") == html(tuning())
        assert picture.read_bytes().startswith(_PNG)

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
        broken = page.replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'")
        for name, content in (("escaped", page), ("unescaped", broken)):
            file = tmp_path / f"{name}.html"
            file.write_text(content, encoding="utf-8")
            dom = browse(file.as_uri(), tmp_path / "profile", "--dump-dom").stdout
            assert "<title>Tuning on arithmetic</title>" in dom
        assert "<script>document" in dom  # the second page did hold the attack
