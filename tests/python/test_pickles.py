"""Pickles: of today, and of versions before the modules moved into rooms."""

from __future__ import annotations

import pickle

import pytest

import carya

# What commit ebac172 wrote with protocol 2.
PIPELINE = (
    b"\x80\x02ccarya._pipeline\n_rebuild\nq\x00}q\x01(X\x04\x00\x00\x00typeq\x02X\x05\x00"
    b"\x00\x00filesq\x03X\x05\x00\x00\x00pathsq\x04]q\x05X\x05\x00\x00\x00a.jpgq\x06aX\x06\x00\x00\x00labels"
    b"q\x07]q\x08K\x03aX\x05\x00\x00\x00extraq\t}q\nuN()}q\x0bX\x04\x00\x00\x00seedq\x0cK\x01s)N)t"
    b"q\r\x87q\x0eRq\x0f."
)
CHAIN = (
    b"\x80\x02ccarya._chain\nOpChain\nq\x00)\x81q\x01N}q\x02X\x07\x00\x00\x00_listedq\x03"
    b"}q\x04(X\x02\x00\x00\x00opq\x05X\x16\x00\x00\x00random_horizontal_flipq\x06X\x01\x00\x00\x00p"
    b"q\x07G?\xe0\x00\x00\x00\x00\x00\x00u\x85q\x08s\x86q\tb."
)
BATCH = (
    b"\x80\x02ccarya._batch\n_rebuild\nq\x00}q\x01X\x01\x00\x00\x00xq\x02]q\x03(K\x01K\x02es"
    b"(NNNK\x04J\xff\xff\xff\xffJ\xff\xff\xff\xfftq\x04\x86q\x05Rq\x06."
)
PLACEMENT = (
    b"\x80\x02ccarya._remote\nPlacement\nq\x00)\x81q\x01X\x05\x00\x00\x00phaseq\x02X\x05\x00\x00\x00localq\x03s."
)
EXPLANATION = (
    b"\x80\x02ccarya._explanation\nExplanation\nq\x00)\x81q\x01X\x05\x00\x00\x00ord"
    b"erq\x02]q\x03X\x06\x00\x00\x00resizeq\x04as."
)


def test_pickles_of_an_earlier_version_are_read() -> None:
    assert pickle.loads(PIPELINE) == carya.files(["a.jpg"], labels=[3]).shuffle(seed=1)
    assert repr(pickle.loads(CHAIN)) == "carya.ops().random_horizontal_flip(p=0.5)"
    batch = pickle.loads(BATCH)
    assert type(batch) is carya.Batch
    assert (batch["x"], batch.step) == ([1, 2], 4)
    assert pickle.loads(PLACEMENT) == carya.Placement(phase="local")
    explanation = pickle.loads(EXPLANATION)
    assert (type(explanation).__name__, explanation) == ("Explanation", {"order": ["resize"]})


@pytest.mark.parametrize("old", [PIPELINE, CHAIN, BATCH, PLACEMENT, EXPLANATION])
def test_what_was_read_is_pickled_again(old: bytes) -> None:
    read = pickle.loads(old)
    again = pickle.loads(pickle.dumps(read))
    assert (type(again), repr(again)) == (type(read), repr(read))
