"""Pages of HTML from templates: what is escaped, and what a page may load and run: nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from optim.report import formatting
from optim.report.svg import breakable

if TYPE_CHECKING:
    from optim.records import Record

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def render(template: str, **context: object) -> str:
    """Fill a template of this package, such as ``report/page.html.j2``, that extends the base.

    Everything is escaped unless it is markup. Control characters are replaced, and so are lone
    surrogates, which a log's JSON may hold and a file may not.
    """
    style = Markup(_style())  # noqa: S704 -- our own
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    html = _environment().get_template(template).render(style=style, policy=policy, **context)
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", html).encode("utf-8", "replace").decode()


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("optim", ""), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    names = ("count", "factor", "number", "p_value", "percent")
    found.filters |= {name: getattr(formatting, name) for name in names}
    found.filters |= {
        "breakable": breakable,
        "cut": lambda text, limit: formatting.shortened(text or "", limit)[0],
    }
    found.tests["right"] = is_right
    found.globals |= {"NOTHING": formatting.NOTHING, "span": formatting.span}
    return found


@cache
def _style() -> str:
    folder = files("optim.report")
    names = ("charts.css", "page.css")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def is_right(record: Record) -> bool:
    """Whether an answer has the full score."""
    return record.score is not None and record.score >= 1
