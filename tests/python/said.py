"""What a message says to who made a mistake: what, where and what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def said(kind: type[BaseException], call: Callable[[], object], *words: str) -> str:
    """The message of the error that `call` raises. It has all the words, its advice behind a semicolon, and Python's names."""
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    for word in words:
        assert word in text, text
    assert "; " in text, f"no advice: {text}"
    assert "null" not in text, text
    assert "allowed: " not in text, text
    return text
