"""What language models are trained on, as functions of samples: `.map(carya.language.CleanText(lower=True), fields="text")`.

What is drawn depends on seed, epoch and record only. `ChatTokens` needs the packages jinja2 and tokenizers (`carya[text]`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ._errors import InvalidArgument, NotFound, SampleError, Unsupported, invalid
from ._options import integer

__all__ = ["BasicEnglish", "ChatTokens", "CleanText", "MaskTokens", "ShiftLabels", "Vocabulary"]

Ids = np.ndarray[Any, np.dtype[np.int32]]
IGNORED = -100  # the label of what no loss is computed of: torch's cross_entropy leaves it out
_IDS_MAX = 1 << 31


class CleanText:
    """A text, cleaned: Unicode normalization, `replace`, `lower`, `spaces` and `strip`, in this order.

    `unicode`: "NFC", "NFD", "NFKC" or "NFKD", by Python's `unicodedata` (whose version is that of the Python that runs, and belongs
    to the fingerprint). `replace`: pairs of a regular expression of `re` and what takes the place of each match. `spaces`: runs of
    white space become one space. `strip`: none at the ends.
    Errors: InvalidArgument (a pattern that is none), SampleError (no text: the record is broken).

    >>> import carya
    >>> carya.language.CleanText(unicode="NFKC", lower=True, spaces=True, strip=True, replace=[("<.*?>", " ")])(" Ｈello <b>World</b>\\n")
    'hello world'
    """

    def __init__(
        self,
        *,
        unicode: Literal["NFC", "NFD", "NFKC", "NFKD"] | None = None,
        lower: bool = False,
        strip: bool = False,
        spaces: bool = False,
        replace: Sequence[tuple[str, str]] = (),
    ) -> None:
        if unicode not in (None, "NFC", "NFD", "NFKC", "NFKD"):
            raise invalid("CleanText: unicode", unicode, '"NFC", "NFD", "NFKC", "NFKD" or None')
        for name, given in (("lower", lower), ("strip", strip), ("spaces", spaces)):
            if not isinstance(given, bool):
                raise invalid(f"CleanText: {name}", given, "True or False")
        self._unicode, self._lower, self._strip, self._spaces = unicode, lower, strip, spaces
        self._tables = unicodedata.unidata_version if unicode else ""  # another one may make another text
        self._replace: list[tuple[str, str]] = []  # as texts, which tell one from another in a fingerprint
        self._compiled = []
        for pair in replace:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(one, str) for one in pair):
                raise invalid("CleanText: replace", pair, "pairs of a regular expression and a text")
            try:
                compiled = re.compile(pair[0])
                compiled.sub(pair[1], "")
            except (re.error, IndexError) as error:
                raise invalid("CleanText: replace", pair, f"a regular expression of re ({error})") from None
            self._replace.append((pair[0], pair[1]))
            self._compiled.append((compiled, pair[1]))

    def __call__(self, text: str) -> str:
        text = _checked_text("CleanText", text)
        if self._unicode is not None:
            text = unicodedata.normalize(self._unicode, text)
        for pattern, by in self._compiled:
            text = pattern.sub(by, text)
        if self._lower:
            text = text.lower()
        if self._spaces:
            text = re.sub(r"\s+", " ", text)
        return text.strip() if self._strip else text


class MaskTokens:
    """Ids and labels of masked language modelling, as BERT is trained: `.map(MaskTokens(...), fields="ids", out=("ids", "labels"))`.

    Each id that is none of `special_ids` is chosen with probability `p`; of those chosen a share `masked` becomes `mask_id`, a share
    `random` any id below `vocab_size`, and the others stay. Labels, int32 as the ids, are what chosen ids were, and -100 elsewhere.
    Reference: transformers.DataCollatorForLanguageModeling, with own random numbers, those of the record.
    Errors: InvalidArgument (ids that are no one-dimensional integers).

    >>> import carya, numpy as np
    >>> ids, labels = carya.language.MaskTokens(103, 1000, special_ids=(101, 102), p=1.0, masked=1.0, random=0.0)(
    ...     np.array([101, 7, 8, 102]), np.random.default_rng(0))
    >>> ids.tolist(), labels.tolist()
    ([101, 103, 103, 102], [-100, 7, 8, -100])
    """

    def __init__(
        self,
        mask_id: int,
        vocab_size: int,
        *,
        special_ids: Sequence[int] = (),
        p: float = 0.15,
        masked: float = 0.8,
        random: float = 0.1,
    ) -> None:
        self._size = integer("MaskTokens: vocab_size", vocab_size, 1, "a number of ids from 1 on", _IDS_MAX - 1)
        self._mask = integer("MaskTokens: mask_id", mask_id, 0, "an id from 0 on", _IDS_MAX - 1)
        for name, share in (("p", p), ("masked", masked), ("random", random)):
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise invalid(f"MaskTokens: {name}", share, "a share of 0 to 1")
        if masked + random > 1 + 1e-9:
            raise invalid("MaskTokens: masked + random", masked + random, "shares of at most 1 together")
        self._p, self._masked, self._random = float(p), float(masked), float(random)
        kept = [integer("MaskTokens: special_ids", one, 0, "ids from 0 on", _IDS_MAX - 1) for one in special_ids]
        self._special = np.array(sorted(set(kept)), np.int64)

    def __call__(self, ids: Any, rng: np.random.Generator) -> tuple[Ids, Ids]:
        given = _checked_ids("MaskTokens", ids)
        draws = rng.random((2, len(given)))  # as many for each length, whatever is chosen
        others = rng.integers(self._size, size=len(given), dtype=np.int32)
        chosen = (draws[0] < self._p) & ~np.isin(given, self._special)
        labels = np.where(chosen, given, np.int32(IGNORED))
        made = np.where(chosen & (draws[1] < self._masked), np.int32(self._mask), given)
        by_chance = chosen & (draws[1] >= self._masked) & (draws[1] < self._masked + self._random)
        return np.where(by_chance, others, made), labels


class ShiftLabels:
    """Inputs and labels of next-token prediction: `.map(ShiftLabels(), fields="ids", out=("ids", "labels"))`.

    Inputs are all ids but the last, labels all but the first. With a second field, as the loss mask of `ChatTokens`
    (`fields=("ids", "loss_mask")`), labels are -100 where the mask of the id to be predicted is false.
    It comes before `.pack(length, ("ids", "labels"), value={"labels": -100})`: no label is then an id of the next sample, and the rows
    are as long as their `segment` and `position`.
    Errors: InvalidArgument (ids that are no one-dimensional integers, none at all, or a mask of another length).

    >>> import carya, numpy as np
    >>> [one.tolist() for one in carya.language.ShiftLabels()(np.array([5, 6, 7]), np.array([0, 0, 1]))]
    [[5, 6], [-100, 7]]
    """

    def __call__(self, ids: Any, loss_mask: Any = None) -> tuple[Ids, Ids]:
        given = _checked_ids("ShiftLabels", ids)
        if not len(given):
            raise InvalidArgument(
                "ShiftLabels: ids: there are none; filter empty samples, or put a token before each text"
            )
        labels = given[1:]
        if loss_mask is not None:
            mask = np.asarray(loss_mask)
            if mask.shape != given.shape:
                raise InvalidArgument(f"ShiftLabels: loss_mask: got shape {mask.shape}, and the ids have {given.shape}")
            labels = np.where(mask[1:].astype(bool), labels, np.int32(IGNORED))
        return given[:-1], labels


class BasicEnglish:
    """A text as words: lower case, punctuation as words of its own or left out. The words of torchtext's "basic_english".

    >>> import carya
    >>> carya.language.BasicEnglish()("You can't, (really)!")
    ['you', 'can', "'", 't', ',', '(', 'really', ')', '!']
    """

    _SPACED = re.compile(r"['.,()!?]")
    _DROPPED = re.compile(r'"')
    _BLANK = re.compile(r"<br />|[;:]")

    def __call__(self, text: str) -> list[str]:
        text = self._DROPPED.sub("", _checked_text("BasicEnglish", text).lower())
        return self._SPACED.sub(r" \g<0> ", self._BLANK.sub(" ", text)).split()


class Vocabulary:
    """Words as ids, int32 [n]: the place of each word in `words`. `unknown`: the word whose id others get.

    `count` makes one of texts. Errors: InvalidArgument (a word twice; a word that is none of them, without `unknown`).
    Reference: torchtext.vocab.build_vocab_from_iterator.

    >>> import carya
    >>> words = carya.language.Vocabulary.count([["a", "b", "a"], ["c"]], special=["<unk>"], unknown="<unk>")
    >>> words.words, words(["a", "z", "c"]).tolist()
    (['<unk>', 'a', 'b', 'c'], [1, 0, 3])
    """

    def __init__(self, words: Sequence[str], *, unknown: str | None = None) -> None:
        self.words = list(words)
        self._ids = {word: id for id, word in enumerate(self.words)}
        if len(self._ids) < len(self.words):
            twice = next(word for id, word in enumerate(self.words) if self._ids[word] != id)
            raise invalid("Vocabulary: words", twice, "each word once")
        if unknown is not None and unknown not in self._ids:
            raise invalid("Vocabulary: unknown", unknown, "one of the words")
        self._unknown = None if unknown is None else self._ids[unknown]
        # For the fingerprint, which would look at no more than the first 10,000 words: this attribute is the first by its name.
        self._digest = hashlib.blake2b(
            repr((self.words, unknown)).encode(errors="surrogatepass"), digest_size=16
        ).hexdigest()

    @classmethod
    def count(
        cls,
        texts: Any,
        *,
        special: Sequence[str] = (),
        unknown: str | None = None,
        at_least: int = 1,
        most: int | None = None,
    ) -> Vocabulary:
        """The words of an iterable of lists of words: `special` ones, then the others from the most frequent to the rarest, equally
        frequent ones in alphabetical order. `at_least`: how often a word must come; `most`: so many in all."""
        counts: dict[str, int] = {}
        for words in texts:
            for word in words:
                counts[word] = counts.get(word, 0) + 1
        rest = sorted((word for word in counts if word not in set(special)), key=lambda word: (-counts[word], word))
        found = [*special, *(word for word in rest if counts[word] >= at_least)]
        return cls(found if most is None else found[:most], unknown=unknown)

    def __len__(self) -> int:
        return len(self.words)

    def __call__(self, words: Sequence[str]) -> Ids:
        try:
            if self._unknown is None:
                return np.array([self._ids[word] for word in words], np.int32)
            return np.array([self._ids.get(word, self._unknown) for word in words], np.int32)
        except KeyError as error:
            raise InvalidArgument(
                f"Vocabulary: {error} is none of its words; give unknown= for words like it"
            ) from None


class ChatTokens:
    """A conversation as ids and a loss mask: `.map(ChatTokens("llama-3"), fields="messages", out=("ids", "loss_mask"))`.

    `source`: a folder with a `tokenizer.json` and the model's chat template (`chat_template.jinja`, or "chat_template" of its
    `tokenizer_config.json`); `template` is taken in its place. Messages are a list of {"role": ..., "content": ...}, as they are in
    jsonl files, or a JSON text of it. The template makes a text of them by Jinja, sandboxed, which the package `tokenizers` encodes.
    Ids are int32 [n].

    The loss mask, uint8 [n], is 1 for ids of what `roles` say: of what the template puts into `{% generation %}` blocks; where it
    has none, of what a message adds to the text of those before it and the prompt for an answer. `truncate`: at most so many
    ids, from the front on.

    Errors: InvalidArgument (a template that takes messages before it back), NotFound, SampleError (no such files, or broken
    ones; no such messages, or a conversation that the template refuses: the record is broken), Unsupported (a package is missing).
    Reference: transformers' apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True).
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        template: str | None = None,
        roles: Sequence[str] = ("assistant",),
        truncate: int | None = None,
    ) -> None:
        self._folder = os.path.expanduser(os.fspath(source))
        self._roles = tuple(roles)
        if not self._roles or isinstance(roles, str) or not all(isinstance(role, str) for role in self._roles):
            raise invalid("ChatTokens: roles", roles, 'names of roles, as ("assistant",)')
        if truncate is not None:
            integer("ChatTokens: truncate", truncate, 1, "a number of ids from 1 on")
        self._truncate = truncate
        config = self._config()
        self._tokenizer = self._read("tokenizer.json")
        self._template = template if template is not None else self._found_template(config)
        if not isinstance(self._template, str):
            raise invalid("ChatTokens: template", self._template, "a Jinja template")
        self._tokens = {
            name: _content_of(config.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")
        }
        self._open()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_jinja", "_encoder")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __call__(self, messages: Any) -> tuple[Ids, np.ndarray[Any, np.dtype[np.uint8]]]:
        said = self._checked(messages)
        text, spans = _parted(self._render(said, False))
        if not self._marks:
            spans = self._by_prefix(said, text)
        found = self._encoder.encode(text, add_special_tokens=False)
        ids = np.array(found.ids[: self._truncate], np.int32)
        begins = np.array([begin for begin, _ in found.offsets[: self._truncate]], np.int64)
        mask = np.zeros(len(ids), np.uint8)
        for begin, end in spans:
            mask[(begins >= begin) & (begins < end)] = 1
        return ids, mask

    def _checked(self, messages: Any) -> list[dict[str, Any]]:
        if isinstance(messages, str | bytes):
            try:
                messages = json.loads(messages)
            except (ValueError, RecursionError) as error:
                raise SampleError(f"ChatTokens: messages: no JSON: {error}; give a list of messages") from None
        if isinstance(messages, np.ndarray):
            messages = messages.tolist()
        said = list(messages) if isinstance(messages, list | tuple) else []
        if not said or not all(isinstance(one, Mapping) and isinstance(one.get("role"), str) for one in said):
            found = repr(messages)
            raise SampleError(
                f"ChatTokens: messages: got {found[:200]}{'...' * (len(found) > 200)}; give a list of "
                '{"role": ..., "content": ...} with at least one'
            )
        if any(mark in json.dumps(said, ensure_ascii=False, default=str) for mark in (_BEGIN, _END)):
            raise SampleError("ChatTokens: messages: they have U+FDD0 or U+FDD1, which no text has; leave them out")
        return [dict(one) for one in said]

    def _render(self, messages: Sequence[dict[str, Any]], asks: bool) -> str:
        """The text that the template makes. `asks`: with the beginning of an answer."""
        import jinja2

        try:
            return str(self._jinja.render(messages=messages, add_generation_prompt=asks, **self._tokens))
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
            raise SampleError(
                f"ChatTokens: the template: {type(error).__name__}: {error}; mend the messages, or the template"
            ) from None

    def _by_prefix(self, messages: Sequence[dict[str, Any]], text: str) -> list[tuple[int, int]]:
        """Which part of the text the messages of the roles have added."""
        spans = []
        for number, message in enumerate(messages):
            if message["role"] not in self._roles:
                continue
            behind = self._render(messages[: number + 1], False)
            before = self._render(messages[:number], True) if number else ""
            if number and not behind.startswith(before):  # it is not the model that answers
                before = self._render(messages[:number], False)
            if not (behind.startswith(before) and text.startswith(behind)):
                raise InvalidArgument(
                    f"ChatTokens: the template writes message {number} in another way when more follow, so that its part of the text is "
                    "not known; put {% generation %} and {% endgeneration %} around what the model says, and give it as template="
                )
            spans.append((len(before), len(behind)))
        return spans

    def _open(self) -> None:
        try:
            import tokenizers
        except ImportError:
            raise Unsupported("ChatTokens: it needs the package tokenizers; pip install carya[text]") from None
        try:
            self._encoder = tokenizers.Tokenizer.from_str(self._tokenizer)
        except Exception as error:  # the package raises no narrower one
            raise SampleError(f"ChatTokens: {self._folder}: tokenizers: {error}; get the files again") from None
        self._encoder.no_padding()
        self._encoder.no_truncation()
        self._jinja, self._marks = _compiled(self._template), "endgeneration" in self._template

    def _config(self) -> dict[str, Any]:
        if not os.path.exists(os.path.join(self._folder, _CONFIG)):
            return {}
        try:
            found = json.loads(self._read(_CONFIG))
        except (ValueError, RecursionError) as error:
            raise SampleError(f"ChatTokens: {self._folder}: {_CONFIG}: no JSON: {error}; get the file again") from None
        return found if isinstance(found, dict) else {}

    def _found_template(self, config: dict[str, Any]) -> Any:
        if os.path.exists(os.path.join(self._folder, _TEMPLATE)):
            return self._read(_TEMPLATE)
        found = config.get("chat_template")
        if isinstance(found, list):  # several, by name
            named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
            found = named.get("default")
        if found is None:
            raise NotFound(
                f"ChatTokens: {self._folder}: no {_TEMPLATE}, nor a chat_template in its {_CONFIG}; give template="
            )
        return found

    def _read(self, name: str) -> str:
        path = os.path.join(self._folder, name)
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(
                f"ChatTokens: {path}: it does not exist; give a folder as save_pretrained() of transformers writes it"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SampleError(f"ChatTokens: {path}: {error}; get the file again") from None


_CONFIG, _TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
_BEGIN, _END = "\ufdd0", "\ufdd1"  # no characters: they stand for nothing in any text


def _compiled(template: str) -> Any:
    """The template, in a sandbox, with what transformers has in its own. A clock it has not: texts depend on messages only."""
    try:
        import jinja2
        from jinja2 import ext, nodes, sandbox
    except ImportError:
        raise Unsupported("ChatTokens: it needs the package jinja2; pip install carya[text]") from None

    class Generation(ext.Extension):
        """{% generation %}: what the model says."""

        tags = {"generation"}  # noqa: RUF012  as the class above has it

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_within"), [], [], body).set_lineno(line)

        def _within(self, caller: Any) -> str:
            return f"{_BEGIN}{caller()}{_END}"

    def refused(message: str) -> None:
        raise jinja2.TemplateError(message)

    def to_json(value: Any, **options: Any) -> str:
        return json.dumps(value, **({"ensure_ascii": False} | options))

    own = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols]
    )
    own.filters["tojson"] = to_json
    own.globals["raise_exception"] = refused
    try:
        return own.from_string(template)
    except jinja2.TemplateError as error:
        raise SampleError(
            f"ChatTokens: template: line {getattr(error, 'lineno', '?')}: {error}; mend the template"
        ) from None


def _parted(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without marks, and what stood between them."""
    parts, spans, length, begin = [], [], 0, 0
    for part in re.split(f"([{_BEGIN}{_END}])", text):
        if part == _BEGIN:
            begin = length
        elif part == _END:
            spans.append((begin, length))
        else:
            parts.append(part)
            length += len(part)
    return "".join(parts), spans


def _content_of(token: Any) -> str:
    """Of a token as a text, or as the document of an added one."""
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else ""


def _checked_text(who: str, text: Any) -> str:
    if not isinstance(text, str):
        raise SampleError(
            f"{who}: text: got {type(text).__name__}, not a text; mend the record, or name the field of the texts: "
            '.map(..., fields="text")'
        )
    return text


def _checked_ids(who: str, ids: Any) -> Ids:
    given = np.asarray(ids)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidArgument(
            f'{who}: ids: got {given.dtype} {given.shape}; give one-dimensional integers: .map(..., fields="ids")'
        )
    return given.astype(np.int32, copy=False)
