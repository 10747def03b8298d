from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from optim.tuning.candidate import MAX_BYTES, OWN, Candidate, own_texts, read_texts
from optim.tuning.optimizer import Optimizer
from optim.tuning.optimizers import candidates, random_search
from pb_graph import InputError


def file(folder: Path, content: str) -> Path:
    path = folder / "candidates"
    path.write_text(content, encoding="utf-8")
    return path


def test_a_json_list_is_read(tmp_path: Path) -> None:
    assert read_texts(file(tmp_path, json.dumps(["One.", " Two.\n"]))) == ["One.", "Two."]


def test_text_is_split_at_lines_of_dashes(tmp_path: Path) -> None:
    content = "---\nOne - or two --- words.\n---\n\nTwo,\nin lines.\n-----  \nThree.\n---\n"
    assert read_texts(file(tmp_path, content)) == [
        "One - or two --- words.",
        "Two,\nin lines.",
        "Three.",
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "holds no instruction"),
        ("---\n \n---", "holds no instruction"),
        ("[]", "holds no instruction"),
        ("[1]", "is no list of texts"),
        ("[oops", "begins like a JSON list"),
        ("x" * (MAX_BYTES + 1), "too large"),
    ],
)
def test_a_file_without_instructions_is_refused(
    content: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=complaint):
        read_texts(file(tmp_path, content))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the candidates"):
        read_texts(tmp_path / "none")
    path = tmp_path / "latin"
    path.write_bytes(b"\xe9\xff")
    with pytest.raises(InputError, match="no text in UTF-8"):
        read_texts(path)


def test_the_packages_list_has_eight_styles_at_least_and_all_of_them_fit() -> None:
    found = own_texts("decompose")
    assert len(set(found)) == len(found) >= 8
    candidates = [Candidate({"decompose": text}) for text in found]
    assert len({candidate.identity for candidate in candidates}) == len(found)
    assert OWN["decompose"] not in found


@pytest.mark.parametrize("text", own_texts("decompose"))
def test_none_of_them_speaks_of_the_replys_form(text: str) -> None:
    assert not {"json", "list of", "number your", "format"} & set(text.lower().split())
    assert len(text.split()) < 100


@pytest.mark.parametrize("chosen", [candidates, random_search])
def test_what_of_a_list_the_budget_does_not_reach_is_said(chosen: Optimizer) -> None:
    say = chosen(texts=list("abcde")).forecast
    assert say is not None
    assert say(10, 60, Mock(), 0) == "5 of 5 instructions on 10 questions each."
    assert say(10, 49, Mock(), 0) == (
        "3 of 5 instructions on 10 questions each. This budget does not reach the other 2. A "
        "higher one would."
    )


def test_there_is_no_list_for_other_predictors() -> None:
    with pytest.raises(InputError, match="give --candidates"):
        own_texts("estimate")
