#!/usr/bin/env python3
"""Text to token ids: megabytes per CPU second of `carya.Tokenizer`, beside Hugging Face's `tokenizers` on one thread.

"fresh": texts that the tokenizer has not seen, after as many others; "again": the same texts once more. Without `--tokenizer` one is trained
on half of the texts; without `--text` they are made of words that are drawn. Run: give `--smoke` for small texts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import carya

DOCUMENT = 5000  # characters


def drawn(characters: int) -> str:
    rng = random.Random(1)
    words = ["".join(rng.choice("etaoinshrdlcumwfgypbvk") for _ in range(1 + rng.randrange(9))) for _ in range(20_000)]
    parts, left = [], characters
    while left > 0:
        word = words[min(int(rng.paretovariate(0.7)), len(words)) - 1]
        parts.append(word + rng.choice((" ",) * 12 + (", ", ".\n", " 1917 ")))
        left -= len(parts[-1])
    return "".join(parts)


def trained(documents: list[str]) -> Any:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=32_000, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(documents, trainer)
    return made


def rate(encode: Any, documents: list[str]) -> float:
    """Megabytes of UTF-8 per second of CPU."""
    begin = time.process_time()
    encode(documents)
    return sum(len(one.encode()) for one in documents) / (time.process_time() - begin) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--text", type=Path, nargs="*", help="files of UTF-8")
    parser.add_argument("--tokenizer", help="a tokenizer.json")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    text = (
        "".join(file.read_text() for file in given.text) if given.text else drawn(50_000 if given.smoke else 4_000_000)
    )
    documents = [text[i : i + DOCUMENT] for i in range(0, len(text), DOCUMENT)]
    random.Random(2).shuffle(documents)
    seen, fresh = documents[::2], documents[1::2]
    reference = Tokenizer.from_file(given.tokenizer) if given.tokenizer else trained(seen)
    report: dict[str, list[float]] = {"fresh": [], "again": [], "tokenizers": []}
    for _ in range(1 if given.smoke else given.rounds):
        own = carya.Tokenizer(reference)
        for one in seen:
            own.encode(one)
        for name in ("fresh", "again"):
            report[name].append(rate(lambda some, own=own: [own.encode(one) for one in some], fresh))
        report["tokenizers"].append(
            rate(lambda some: reference.encode_batch_fast(some, add_special_tokens=False), fresh)
        )
    best = {name: max(values) for name, values in report.items()}
    print("native" if own.native else own.why, "  ".join(f"{name} {value:,.1f} MB/s" for name, value in best.items()))
    print(json.dumps(best))


if __name__ == "__main__":
    main()
