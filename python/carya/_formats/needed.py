"""Libraries that only some sources need."""

from __future__ import annotations

import importlib
from typing import Any

from .._errors import Unsupported


def needed(kind: str, module: str, extra: str) -> Any:
    """The module. Errors: Unsupported, with the line that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unsupported(f"{kind}: it needs {module} ({error}); call pip install 'carya[{extra}]'") from None
