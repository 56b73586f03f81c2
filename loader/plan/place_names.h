#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "autotune/cache/cache_choice.h"
#include "base/hash.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// What is kept: "raw", "coefficients", "records".
const char* form_name(const autotune::CachePoint& at);
/// The op behind which samples are kept, as people name it: "resize#1"; "reading" before all ops.
std::string place_label(const transforms::Pipeline& pipeline, std::span<const std::size_t> order,
                        std::size_t ops);

/// What is beside the ops before a place when one of them is random: the random numbers, which are of one seed and of the
/// epochs from `epoch` on.
std::string drawn_name(const transforms::Pipeline& pipeline, std::span<const std::size_t> order,
                       std::size_t ops, std::uint64_t seed, std::uint64_t epoch);

/// What samples of a place are, so that streams which keep the same find each other's: their form, the ops before the
/// place in the order that runs. Seeds, batches and what follows may differ.
struct PlaceNames {
  std::string memory;  ///< for those with the same opened dataset
  Hash128 files;       ///< in files: with the versions of ops and codecs, and the fields that the ops take
  std::string about;   ///< the same for a person, as JSON
};
PlaceNames place_names(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                       std::span<const std::size_t> order, const autotune::CachePoint& at);

}  // namespace carya::loader
