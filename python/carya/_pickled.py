"""Where pickles of earlier versions find what they name: modules that have moved into rooms since."""

from __future__ import annotations

import sys

from . import _pipeline
from ._explain import explanation
from ._loading import batch, remote
from ._pipeline import chain, pipeline

_MOVED = {"_batch": batch, "_chain": chain, "_explanation": explanation, "_remote": remote}

sys.modules.update({f"{__package__}.{name}": module for name, module in _MOVED.items()})
vars(_pipeline)["_rebuild"] = pipeline._rebuild  # the package has the name that the module had
