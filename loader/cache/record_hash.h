#pragma once

#include <cstdint>

namespace carya::loader {

/// Where a record stands among all when room is given by hash: the same in every process and on every machine. Memory
/// keeps the lowest. Source: the finalizer of splitmix64, prng.di.unimi.it/splitmix64.c (public domain).
inline std::uint64_t record_hash(std::uint64_t record) {
  record += 0x9E3779B97F4A7C15;
  record = (record ^ (record >> 30)) * 0xBF58476D1CE4E5B9;
  record = (record ^ (record >> 27)) * 0x94D049BB133111EB;
  return record ^ (record >> 31);
}

}  // namespace carya::loader
