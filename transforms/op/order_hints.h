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

/// What a user says of an op's place in the order. It changes nothing of what the op does.
struct OrderHints {
  bool keep_position = false;           ///< nothing passes it
  std::vector<std::size_t> depends_on;  ///< ops declared before it that run before it
};

/// The hints of one op as its object has them, names not looked up yet.
struct GivenHints {
  bool keep_position = false;
  std::vector<std::string> depends_on;

  /// What they add to the op's canonical object and to its line; nothing where nothing was said.
  std::string in_json(const std::string& op_json) const;
  std::string in_text(const std::string& op_text) const;
};

/// Takes the hints out of the object of an op, which is left with its parameters. Errors: kInvalidArgument.
Result<GivenHints> take_hints(Json& object);

/// Whether an object has hints: ops inside of others run in their order.
bool has_hints(const Json& object);

/// "crop", or "crop#1" for the second where several ops are called so.
std::vector<std::string> op_labels(const std::vector<std::unique_ptr<Op>>& ops);

/// The hints of all ops with the names in `depends_on` looked up among the ops declared before: a name, or
/// "crop#1" for the second so called. Errors: kInvalidArgument: a name of no op, of several, of the op
/// itself, of a later one, a circle; the message names the op and what to change.
Result<std::vector<OrderHints>> look_up(const std::vector<std::unique_ptr<Op>>& ops,
                                        const std::vector<GivenHints>& given);

}  // namespace carya::transforms
