"""The pages of results and their picture are made from the answers that they cite."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest

from tests.benchmarks import measured

_LABEL = re.compile(r'aria-label="([^"]+)"')


@pytest.mark.parametrize(("path", "most"), [*zip(measured.PAGES, (40, 220), strict=True)])
def test_every_table_of_a_page_is_built_from_the_answers(path: Path, most: int) -> None:
    text = path.read_text(encoding="utf-8")
    assert measured.page(text) == text
    assert len(text.splitlines()) <= most


def test_the_picture_shows_the_figures_of_the_table() -> None:
    stored = measured.PICTURE.read_text(encoding="utf-8")
    assert _LABEL.findall(stored) == _LABEL.findall(measured.picture())


def test_texts_stand_beside_the_answers_of_the_last_day() -> None:
    lines = lzma.decompress(measured.TEXTS.read_bytes()).decode().splitlines()
    assert len(lines) > 0
    assert max(path.stat().st_size for path in (measured.TEXTS, measured.ANSWERS)) < 1_500_000
