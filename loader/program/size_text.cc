#include "loader/program/size_text.h"

#include <charconv>
#include <cmath>
#include <map>

namespace carya::loader {

Result<std::uint64_t> parse_size(const std::string& text, std::uint64_t whole_bytes) {
  static const std::map<std::string, double> units{
      {"", 1},          {"B", 1},         {"KB", 1e3},      {"MB", 1e6},  {"GB", 1e9},
      {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TB", 1e12}, {"TiB", 1099511627776.0}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  const bool share = unit == "%";
  if (error == std::errc() && std::isfinite(value) && value > 0 &&
      (share ? value <= 100 : units.contains(unit))) {
    const double bytes = share ? value / 100 * static_cast<double>(whole_bytes) : value * units.at(unit);
    if (bytes < 9e18) return static_cast<std::uint64_t>(bytes);
  }
  return fail(Code::kInvalidArgument, "a size such as \"8GiB\" or a share of the memory such as \"50%\"");
}

}  // namespace carya::loader
