"""What `explain` says of stores: the requests and bytes of an epoch, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def store_costs(stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`report["store"]` by `loader.stats()`."""
    cache = stats.get("cache")
    kept = cache["expected_share"] if cache and cache["after"] is not None else 0.0
    return [_costs(store, kept) for store in stats.get("store", [])]


def _costs(store: Mapping[str, Any], kept: float) -> dict[str, Any]:
    """`kept`: the share of records that is not asked for again. Until something was read, a record is a request."""
    known = store["reads"] > 0
    requests = store["epoch_reads"] * (store["requests"] / store["reads"] if known else 1.0)
    size = store["epoch_reads"] * store["bytes"] / store["reads"] if known else store["epoch_bytes"]

    def of(share: float) -> dict[str, Any]:
        cost = share * (requests * store["prices"]["request"] / 1000 + size * store["prices"]["gb"] / 1e9)
        return {"requests": share * requests, "bytes": share * size, "cost": cost}

    return {
        **{
            key: store[key]
            for key in ("source", "requests", "bytes", "retries", "throttled", "hedged", "cost", "prices")
        },
        "epoch": of(1.0),
        "later_epoch": of(1.0 - kept),
    }


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The same as text."""
    for store in report.get("store", []):
        asked = [f"{store['retries']:,} failed"] if store["retries"] else []
        asked += [f"{store['throttled']:,} of them refused as too many"] if store["throttled"] else []
        asked += [f"{store['hedged']:,} asked twice"] if store["hedged"] else []
        yield f"{store['source']}: {_amount(store)} so far{''.join(f', {one}' for one in asked)}."
        prices = store["prices"]
        later = store["later_epoch"]
        kept = "" if later == store["epoch"] else f"; with what is kept {_amount(later)}"
        yield (
            f"An epoch takes {_amount(store['epoch'])}{kept}, at ${prices['request']:g} per 1,000 requests and "
            f"${prices['gb']:g} per GB (prices=)."
        )


def _amount(figures: Mapping[str, Any]) -> str:
    """Requests, bytes and dollars.

    >>> _amount({"requests": 1281167, "bytes": 146.8e9, "cost": 0.512})
    '1,281,167 requests and 139,999.4 MiB ($0.512)'
    """
    from .explanation import size

    return f"{figures['requests']:,.0f} requests and {size(figures['bytes'])} (${figures['cost']:.3g})"
