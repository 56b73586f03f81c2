"""Rows of Arrow tables as samples: numbers as arrays of their dtype, text and bytes as they are."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgument, SampleError

Read = Callable[[int], Any]


class _Null(Exception):
    """There is no value where a number is needed."""


class TableRows:
    """The rows of one table. `subject` names it in errors, `fill` has what stands for null, by column. Threads: one.

    `keep_nulls`: a null, and a list with one in it, is what `to_pylist` makes of it, where a number is needed too.

    Structs are taken apart ("image.bytes"). Numbers and bools are arrays () of the column's dtype; dates, times and durations
    integers in the column's unit; lists of numbers arrays, also nested ones, as far as inner lists are of one length;
    everything else is what `to_pylist` makes of it.
    """

    def __init__(self, table: Any, subject: str, fill: Mapping[str, Any], keep_nulls: bool = False) -> None:
        table = without_structs(table)
        self._subject = subject
        self._batches = [
            [
                (name, _reader(column, fill.get(name), keep_nulls))
                for name, column in zip(table.column_names, batch, strict=True)
            ]
            for batch in table.to_batches()
            if batch.num_rows
        ]
        counts = [batch.num_rows for batch in table.to_batches() if batch.num_rows]
        self._starts = [0, *itertools.accumulate(counts)]

    def __call__(self, row: int) -> dict[str, Any]:
        """Errors: SampleError (a null where a number is needed, text that is no UTF-8, a value that Python has not)."""
        number = bisect.bisect_right(self._starts, row) - 1
        inside = row - self._starts[number]
        name = ""
        sample = {}
        try:
            for name, read in self._batches[number]:
                sample[name] = read(inside)
        except _Null:
            wanted = f"fill_null={{{name!r}: ...}}, or leave the column out"
            raise SampleError(f"{self._subject}, row {row}: {name}: got null; give {wanted}") from None
        except (ValueError, ArithmeticError) as error:  # also pyarrow's ArrowInvalid
            wanted = "columns= without it, or another record"
            raise SampleError(f"{self._subject}, row {row}: {name}: {error}; give {wanted}") from error
        return sample


def without_structs(table: Any) -> Any:
    """The same table, or schema's empty table, with the fields of structs as columns. Errors: InvalidArgument (two of one name)."""
    import pyarrow as pa

    while any(pa.types.is_struct(_storage(field.type)) for field in table.schema):
        columns = [
            column if not isinstance(column.type, pa.BaseExtensionType) else _bare(column) for column in table.columns
        ]
        table = pa.table(columns, names=table.column_names).flatten()
    names = table.column_names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(f"columns: two columns are called {twice!r}; give columns= with one of them")
    return table


def plain_type(kind: Any) -> Any:
    """The type without dictionaries, views and extensions: what a value is, not how it is stored."""
    import pyarrow as pa

    kind = _storage(kind)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if kind == pa.string_view():
        return pa.string()
    if kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([kind.field(i).with_type(plain_type(kind.field(i).type)) for i in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(plain_type(kind.value_type)), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(plain_type(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(plain_type(kind.value_type)))
    return kind


def _storage(kind: Any) -> Any:
    import pyarrow as pa

    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind


def _bare(column: Any) -> Any:
    import pyarrow as pa

    return pa.chunked_array([chunk.storage for chunk in column.chunks], type=column.type.storage_type)


def _reader(array: Any, fill: Any, keep_nulls: bool) -> Read:
    """How the values of a column are read by row."""
    read = _value_reader(array, fill)
    if not keep_nulls:
        return read

    def read_or_null(row: int) -> Any:
        try:
            return read(row)
        except _Null:
            return array[row].as_py()

    return read_or_null


def _value_reader(array: Any, fill: Any) -> Read:
    import pyarrow as pa

    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if _is_number(kind):
        return _numbers(array, fill)
    if is_list(kind):
        inner = kind
        while is_list(inner):
            inner = inner.value_type
        if _is_number(inner):
            return _lists(array, fill)
    if fill is not None and array.null_count:
        array = array.fill_null(fill)
    return lambda row: array[row].as_py()


def is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or (types.is_temporal(kind) and not types.is_interval(kind))
    )


def _values(array: Any, fill: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
    """Numbers of a column, and which of them are there; None for all."""
    import pyarrow as pa

    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    valid = None
    if array.null_count:
        if fill is None:
            valid = array.is_valid().to_numpy(zero_copy_only=False)
        array = array.fill_null(pa.scalar(0 if fill is None else fill).cast(array.type))
    return array.to_numpy(zero_copy_only=False), valid


def _numbers(array: Any, fill: Any) -> Read:
    values, valid = _values(array, fill)
    if valid is None:
        return lambda row: values[row, ...]

    def read(row: int) -> Any:
        if not valid[row]:
            raise _Null
        return values[row, ...]

    return read


def _lists(array: Any, fill: Any) -> Read:
    """Lists of numbers, nested or not."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        offsets: Sequence[int] = range(array.offset * size, (array.offset + len(array)) * size + 1, size or 1)
        offsets = offsets if size else [0] * (len(array) + 1)
    else:
        offsets = array.offsets.to_numpy()
    there = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if not _is_number(array.type.value_type):
        inner, dtype, depth = _lists(array.values, fill), *_innermost(array.type)

        def nested(row: int) -> Any:
            if there is not None and not there[row]:
                raise _Null
            items = [inner(i) for i in range(offsets[row], offsets[row + 1])]
            if not items:
                return np.empty((0,) * depth, dtype)
            alike = all(isinstance(item, np.ndarray) and item.shape == items[0].shape for item in items)
            return np.stack(items) if alike else items

        return nested
    values, valid = _values(array.values, fill)
    if there is None and valid is None:
        return lambda row: values[offsets[row] : offsets[row + 1]]

    def read(row: int) -> Any:
        here = slice(offsets[row], offsets[row + 1])
        if (there is not None and not there[row]) or (valid is not None and not valid[here].all()):
            raise _Null
        return values[here]

    return read


def _innermost(kind: Any) -> tuple[np.dtype[Any], int]:
    """Dtype and depth of nested lists of numbers."""
    import pyarrow as pa

    depth = 0
    while not _is_number(kind):
        kind, depth = kind.value_type, depth + 1
    if pa.types.is_temporal(kind):
        kind = pa.int32() if kind.bit_width == 32 else pa.int64()
    return np.dtype(kind.to_pandas_dtype()), depth
