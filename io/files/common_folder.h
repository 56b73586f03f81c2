#pragma once

#include <string>
#include <vector>

namespace carya::io {

/// The longest folder that all paths begin with, as written ("" when they share none, "/" for the root). What
/// remains of each path is relative to it, so that a fingerprint does not change when a data set moves as a
/// whole.
std::string common_folder(const std::vector<std::string>& paths);

/// `path` without the folder of common_folder().
std::string below_folder(const std::string& folder, const std::string& path);

}  // namespace carya::io
