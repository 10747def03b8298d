"""The page of results and its picture are made from the answers that they cite."""

from __future__ import annotations

import lzma
import re

from tests.benchmarks import measured

_LABEL = re.compile(r'aria-label="([^"]+)"')


def test_every_table_of_the_page_is_built_from_the_answers() -> None:
    text = measured.PAGE.read_text(encoding="utf-8")
    assert measured.page(text) == text
    assert len(text.splitlines()) <= 150


def test_the_picture_shows_the_figures_of_the_table() -> None:
    stored = measured.PICTURE.read_text(encoding="utf-8")
    assert _LABEL.findall(stored) == _LABEL.findall(measured.picture())


def test_texts_stand_beside_the_answers_of_the_last_day() -> None:
    lines = lzma.decompress(measured.TEXTS.read_bytes()).decode().splitlines()
    assert len(lines) > 0
    assert max(path.stat().st_size for path in (measured.TEXTS, measured.ANSWERS)) < 1_500_000
