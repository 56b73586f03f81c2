#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "autotune/cache/cache_choice.h"
#include "loader/plan/kept_place.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// Parts of what stats() and explain() say of the samples that are kept (docs/cache.md). `facts` and `choice` are of the
/// last decision; `kept` is null where nothing is kept. JSON; times are in us, null where they are not known.

/// Nothing, and each place, with its costs: an array.
std::string choices_report(const transforms::Pipeline& pipeline, std::span<const std::size_t> order,
                           const autotune::CacheInputs& facts, const autotune::CacheChoice& choice);

/// What is in memory and in files, and what came of it: an object.
std::string kept_report(const KeptPlace* kept, const autotune::CacheInputs& facts);

}  // namespace carya::loader
