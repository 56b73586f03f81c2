#pragma once

#include <pybind11/pybind11.h>

namespace carya::python {

/// `_core.Bpe`: byte-level byte-pair encoding, which carya.Tokenizer makes of a tokenizer's file; and many texts at once on
/// their way to it and from it: `read_lines`, `pad_rows`.
void bind_bpe(pybind11::module_& module);

}  // namespace carya::python
