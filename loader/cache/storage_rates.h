#pragma once

#include <array>
#include <cstdint>

namespace carya::loader {

/// Seconds that something takes for so many bytes.
struct SizeCost {
  double fixed_s = 0, per_byte_s = 0;
  double at(double bytes) const { return fixed_s + per_byte_s * bytes; }
  /// The line through what two sizes took; neither part of it is below 0. `small` and `large` may be the same.
  static SizeCost through(double small, double small_s, double large, double large_s);
  bool operator==(const SizeCost&) const = default;
};

/// What is done with samples in files.
enum class StorageWork : std::uint8_t {
  kRead,      ///< reading through the page cache, which has them
  kReadPast,  ///< reading past it
  kWrite,
};
inline constexpr std::size_t kStorageWorks = 3;

/// What a sample in files of a folder costs there: its time at the best rate that there is (of several at the same time,
/// the time of one divided by their number), and CPU time of the threads that read and write. A plain value.
struct StorageRates {
  std::array<SizeCost, kStorageWorks> time{}, cpu{};  ///< by StorageWork
  std::int64_t measured_at_s = 0;                     ///< Unix time

  const SizeCost& time_of(StorageWork work) const { return time.at(static_cast<std::size_t>(work)); }
  const SizeCost& cpu_of(StorageWork work) const { return cpu.at(static_cast<std::size_t>(work)); }
  bool operator==(const StorageRates&) const = default;
};

/// Whether these can be rates of a storage: for what comes from a file.
bool is_possible(const StorageRates& rates);

}  // namespace carya::loader
