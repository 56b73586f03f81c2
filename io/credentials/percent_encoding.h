#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carya::io {

/// Names and values of a URL's query, not encoded, in any order.
using Query = std::vector<std::pair<std::string, std::string>>;

/// Whether a byte stands for itself in every part of a URL: letters, digits and "-._~".
bool is_unreserved(unsigned char c);

/// Percent-encode all but letters, digits and "-._~", and the characters of `keep`.
std::string percent_encoded(std::string_view text, std::string_view keep = "");

/// The query as it is signed and sent: encoded, sorted, each name with '='.
std::string canonical_query(const Query& query);

}  // namespace carya::io
