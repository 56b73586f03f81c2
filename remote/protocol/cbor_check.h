#pragma once

#include <cstddef>
#include <span>

#include "base/error.h"

namespace carya::remote {

struct CborLimits {
  std::size_t depth = 8;       ///< maps and arrays inside each other
  std::size_t items = 65'536;  ///< keys and values in all
};

/// Whether the bytes are one well-formed CBOR item within the limits: definite lengths, no tags, nothing
/// after it. What a peer sent is looked at with this before a parser that allocates sees it. Errors:
/// kCorrupt. Source: RFC 8949, section 3.
Status check_cbor(std::span<const std::byte> bytes, const CborLimits& limits = {});

}  // namespace carya::remote
