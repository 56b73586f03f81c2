#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "transforms/op/json.h"
#include "transforms/op/op.h"

namespace carya::transforms {

/// The entry of a pipeline's list of ops that no op passes.
inline constexpr std::string_view kBarrier = "barrier";

/// A user's hints for the place of an op in the order. They do not change what the op does.
struct OrderHints {
  bool keep_position = false;           ///< no op passes this one
  std::vector<std::size_t> depends_on;  ///< ops declared before this one that must run before it
};

/// The hints of one op as its JSON object states them; names are not looked up yet.
struct GivenHints {
  bool keep_position = false;
  std::vector<std::string> depends_on;

  /// The canonical object and the printed line of an op with its hints added. Both stay as they are without hints.
  std::string in_json(const std::string& op_json) const;
  std::string in_text(const std::string& op_text) const;
};

/// Take the hints out of the object of an op; its parameters stay. Errors: kInvalidArgument.
Result<GivenHints> take_hints(Json& object);

/// Whether an object has hints. Ops inside of other ops may not, since they run in their given order.
bool has_hints(const Json& object);

/// The labels of ops: "crop", or "crop#1" for the second op of that name if there are several.
std::vector<std::string> op_labels(const std::vector<std::unique_ptr<Op>>& ops);

/// The hints of all ops. The names in `depends_on` are looked up among the ops declared before: a name, or "crop#1" for
/// the second op of that name. Errors: kInvalidArgument if a name is that of no op, of several ops, of the op itself or
/// of a later one, and for a circle. The message names the op and what to change.
Result<std::vector<OrderHints>> look_up(const std::vector<std::unique_ptr<Op>>& ops,
                                        const std::vector<GivenHints>& given);

}  // namespace carya::transforms
