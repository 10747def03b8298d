"""A short name for a JSON value, the same on every machine."""

from __future__ import annotations

import hashlib
import json


def digest(value: object) -> str:
    """Give 32 hexadecimal digits for a JSON value; key order does not matter."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
