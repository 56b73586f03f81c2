"""Paths that are URLs: which are read, another server than the cloud's, listings of buckets."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._errors import IoError, NotFound, Unsupported, invalid
from .paths import expand_braces

# Stores that list their objects, and how many parts of a URL say where a bucket is: "gs://bucket",
# "az://account/container".
_STORES = {"s3": 1, "gs": 1, "az": 2}
SCHEMES = (*(store + by for store in _STORES for by in ("", "+http", "+https")), "https", "http")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_PAGE_BYTES_MAX = 16 << 20  # 1,000 keys of 1,024 bytes, each of them escaped
_KEYS_MAX = 10_000_000
# What listings of S3 and Google, and those of Azure, say of an object.
_PLACES = {
    **{f"ListBucketResult/Contents/{name}": name for name in ("Key", "Size", "ETag", "Generation")},
    "EnumerationResults/Blobs/Blob/Name": "Key",
    "EnumerationResults/Blobs/Blob/Properties/Content-Length": "Size",
    "EnumerationResults/Blobs/Blob/Properties/Etag": "ETag",
}


def scheme_of(path: str) -> str:
    """The scheme of a URL; "" for a path on this machine.

    >>> scheme_of("s3://bucket/a.tar"), scheme_of("/data/a.tar")
    ('s3', '')
    """
    found = _SCHEME.match(path)
    return found.group(1) if found else ""


def is_url(path: Any) -> bool:
    return isinstance(path, str) and scheme_of(path) != ""


def check_url(name: str, url: str) -> str:
    """Errors: InvalidArgument (a scheme that is not read, or a URL that may hold a secret)."""
    scheme = scheme_of(url)
    if scheme not in SCHEMES:
        wanted = (
            f"s3://, gs://, az://, https:// or http://: {scheme}:// is not read; copy the data, or mount it as a folder"
        )
        raise invalid(name, url, wanted)
    if scheme.startswith("http") and ("?" in url or "#" in url):
        raise invalid(name, re.sub(r"[?#].*", "?...", url), "a URL without a query, which could hold a secret")
    if "@" in url.split("://", 1)[1].split("/", 1)[0]:
        raise invalid(name, re.sub(r"://[^/]*@", "://...@", url), "a URL without user and password")
    return url


def at_endpoint(url: str, endpoint: str | None) -> str:
    """An object of another server than the cloud's, by its endpoint: `endpoint=` of the sources.

    >>> at_endpoint("s3://bucket/a.tar", "http://127.0.0.1:8333")
    's3+http://127.0.0.1:8333/bucket/a.tar'
    """
    store = scheme_of(url)
    if endpoint is None or store not in _STORES:
        return url
    if not isinstance(endpoint, str) or not re.fullmatch(r"https?://[^/?#@\s]+/?", endpoint):
        raise invalid("endpoint", endpoint, 'the URL of a server, such as "http://host:9000"')
    return f"{store}+{endpoint.rstrip('/')}/{url.split('://', 1)[1]}"


def is_listed(url: str) -> bool:
    """Whether a URL lies in a store whose objects can be listed."""
    return scheme_of(url).split("+")[0] in _STORES


def bucket_of(url: str) -> tuple[str, str]:
    """The URL of a bucket, and what follows it: the key, or its beginning.

    >>> bucket_of("s3+http://host:9000/bucket/a/b.tar")
    ('s3+http://host:9000/bucket', 'a/b.tar')
    """
    scheme, rest = url.split("://", 1)
    store, _, by = scheme.partition("+")
    depth = _STORES[store] + bool(by)
    parts = rest.split("/")
    return f"{scheme}://{'/'.join(parts[:depth])}", "/".join(parts[depth:])


def url_paths(
    name: str,
    given: Any,
    endpoint: str | None = None,
    named: re.Pattern[str] | None = None,
    shown: str = "",
) -> list[str] | None:
    """The URLs of a source's files, as a user gives them: one, a list, braces, a pattern of keys, or, where `named` says which
    of its objects count, a folder of a bucket (it ends with "/"). None where it is no URL.

    Errors: those of `check_url`, `at_endpoint`, `matching` and `in_folder`; InvalidArgument (an endpoint for files).
    """
    single = isinstance(given, str | bytes | os.PathLike)
    listed = [os.fsdecode(given)] if single else [one for one in given if is_url(one)] if _is_list(given) else []
    if not any(is_url(one) for one in listed):
        if endpoint is not None:
            raise invalid("endpoint", endpoint, "it only with paths that are s3://, gs:// or az://")
        return None
    if not single and len(listed) != len(given):
        raise invalid(name, given, "URLs only, or paths on this machine only")
    urls = [at_endpoint(check_url(name, url), endpoint) for url in listed]
    if not single:
        return urls
    if named is not None and urls[0].endswith("/"):
        return in_folder(urls[0], named, shown)
    expanded = expand_braces(urls[0])
    return [url for one in expanded for url in (matching(name, one) if has_pattern(one) else [one])]


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str | bytes)


def has_pattern(url: str) -> bool:
    """Whether a URL is a pattern of keys of a bucket. (A "?" in an http URL is a query.)"""
    return is_listed(url) and re.search(r"[*?\[]", url) is not None


def matching(name: str, pattern: str) -> list[str]:
    """The objects whose keys match a pattern, bytewise; "*" passes over no "/". Errors: NotFound."""
    literal = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    wanted = re.compile(fnmatch.translate(pattern))
    slashes = pattern.count("/")
    found = [url for url in list_objects(literal) if url.count("/") == slashes and wanted.match(url)]
    if not found:
        raise NotFound(f"{name}: nothing matches {pattern!r}; give a pattern that matches objects")
    return found


def in_folder(url: str, named: re.Pattern[str], shown: str) -> list[str]:
    """The objects directly below a URL that ends with "/", and are called so. Errors: NotFound, Unsupported (http)."""
    depth = url.count("/")
    objects = [one for one in list_objects(url) if one.count("/") == depth]
    found = [one for one in objects if named.search(posixpath.basename(one))]
    if not found:
        raise NotFound(f"paths: no object below {url} is called {shown}; give the URLs of the files")
    return found


def list_objects(prefix: str) -> list[str]:
    """The URLs of all objects whose URLs begin with `prefix`, bytewise, by ListObjectsV2 of S3, which Google has as well, or
    by Azure's List Blobs. Their sizes and versions are kept for the first time that each is asked for, within a minute.

    Errors: Unsupported (no bucket), those of the store, IoError (an answer that is no listing).
    """
    if not is_listed(prefix):
        scheme = scheme_of(prefix)
        raise Unsupported(f"{prefix}: servers of {scheme}:// have no listing; give the URLs of the files")
    bucket, begin = bucket_of(prefix)
    azure = scheme_of(prefix).startswith("az")
    fixed = [("restype", "container"), ("comp", "list")] if azure else [("list-type", "2"), ("encoding-type", "url")]
    urls: list[str] = []
    token = ""
    while True:
        query = [*fixed, ("prefix", begin)]
        query += [("marker" if azure else "continuation-token", token)] if token else []
        found, following = _parse_page(_core.store_page(bucket, query, _PAGE_BYTES_MAX), prefix)
        found = [entry for entry in found if entry["Key"] and not entry["Key"].endswith("/")]
        urls += [f"{bucket}/{entry['Key']}" for entry in found]
        _remember(bucket, found)
        if not following:
            return sorted(urls, key=lambda url: url.encode("utf-8", "surrogateescape"))
        if following == token or len(urls) > _KEYS_MAX:
            raise IoError(f"{prefix}: the store's listing does not end; give a longer prefix")
        token = following


def _remember(bucket: str, entries: list[dict[str, str]]) -> None:
    listed = []
    for entry in entries:
        size, tag, generation = entry.get("Size", ""), entry.get("ETag", ""), entry.get("Generation", "")
        if tag and not tag.startswith('"'):  # Azure's, and those of some servers of S3: the header has the quotes
            tag = f'"{tag}"'
        version = f"generation {generation}" if re.fullmatch(r"[0-9]+", generation) else tag
        if re.fullmatch(r"[0-9]{1,18}", size) and version.isascii():
            listed.append((f"{bucket}/{entry['Key']}", int(size), version))
    _core.store_remember(listed)


def _parse_page(page: bytes, subject: str) -> tuple[list[dict[str, str]], str]:
    """What a ListBucketResult or an EnumerationResults says of each object (Key, Size, ETag, Generation), and the token of the
    next page ("": the last). Entities and DTDs are refused."""
    # Loaded by who lists a bucket, not by `import carya`.
    import xml.parsers.expat
    from urllib.parse import unquote, unquote_plus

    objects: list[dict[str, str]] = []
    entry = {"Key": ""}
    fields: dict[str, str] = {}
    path: list[str] = []
    text: list[str] = []

    encoded = False  # the name of a blob, which no XML could hold as it is

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal encoded, entry
        path.append(tag.rsplit(" ", 1)[-1])
        text.clear()
        encoded = attributes.get("Encoded") == "true"
        if "/".join(path) in ("ListBucketResult/Contents", "EnumerationResults/Blobs/Blob"):
            entry = {"Key": ""}
            objects.append(entry)
        if len(path) > 16:
            raise ValueError("nested too deeply")

    def end(_: str) -> None:
        place = "/".join(path)
        if place in _PLACES:
            value = "".join(text)
            entry[_PLACES[place]] = unquote(value) if encoded else value
        elif len(path) == 2:
            fields[path[1]] = "".join(text)
        path.pop()
        text.clear()

    def refuse(*_: object) -> None:
        raise ValueError("a document type, which listings have not")

    parser = xml.parsers.expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = text.append
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(page, True)
        if not {"IsTruncated", "KeyCount", "Name", "Blobs"} & set(fields):
            raise ValueError("no list of objects")
    except (xml.parsers.expat.ExpatError, ValueError) as error:
        raise IoError(f"{subject}: the store's answer is no listing: {error}; give the URL of a bucket") from None
    if fields.get("EncodingType") == "url":
        for one in objects:
            one["Key"] = unquote_plus(one["Key"])
    if "Blobs" in fields:
        return objects, fields.get("NextMarker", "")
    return objects, fields.get("NextContinuationToken", "") if fields.get("IsTruncated") == "true" else ""
