#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/error.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"

namespace carya::transforms {

/// A plan around the place before its first op, where a record is as it was read.
struct SourceParts {
  std::shared_ptr<const Plan> before;  ///< only pack() is of use
  std::shared_ptr<const Plan>
      behind;  ///< run() of a packed record gives what the whole plan gives of the record
  std::vector<std::size_t> packed{};  ///< the fields of which coefficients are kept
};

/// Part a plan before its first op. `before` packs packed coefficients in the place of each JPEG that only decode_image
/// takes, where it has an entry (coefficient_maker.h), and all other fields as they are: a JPEG without an entry with its
/// whole decode index. A record whose JPEG is broken is kCorrupt there. `options.first` and `last` are not looked at.
///
/// A packed record has its fields one behind the other, each at a multiple of kPackAlign: those of a fixed size as they
/// are, the others behind four int64: 0 for the bytes of the source, 1 for coefficients; the length of the bytes, which
/// follow; the length of a decode index, which comes last; 0. Between the two stand 64 zeros if the bytes are the source's.
///
/// `behind` believes nothing of that, since records may come from files: run() is kNotFound if packed coefficients are
/// not whole. Then the record itself is needed. Wrong bytes that are whole give wrong pixels, and nothing worse.
///
/// Errors: those of Plan::compile(); kUnsupported: no field is only decoded by decode_image, or the plan is not fused.
Result<SourceParts> part_at_source(std::shared_ptr<const Pipeline> pipeline, PlanOptions options);

/// The same place for records that are kept as they were read, whatever the ops do with them. `before` packs all fields as
/// they are, in the layout above, without indexes. Of `behind` only can_unpack() and unpack() are of use: it gives the
/// inputs of the whole plan, with the bytes behind them that decoders may look at.
///
/// Errors: kUnsupported: no field of the pipeline is read from storage.
Result<SourceParts> part_records(const Pipeline& pipeline);

}  // namespace carya::transforms
