"""Tokenizers of the reference library for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers


def byte_level(texts: Sequence[str], size: int, cuts: Any = None, **options: Any) -> Any:
    """Byte-level BPE of `size` tokens, trained on texts. `cuts`: its pre-tokenizer, by default GPT-2's."""
    made = Tokenizer(models.BPE(**options))
    made.pre_tokenizer = cuts or pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    )
    return made
