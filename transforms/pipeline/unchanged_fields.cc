#include "transforms/pipeline/unchanged_fields.h"

#include <set>

#include "transforms/pipeline/source.h"

namespace carya::transforms {

std::vector<std::string> unchanged_fields(const Pipeline& pipeline) {
  std::vector<FieldState> states = initial_states(pipeline.fields());
  std::set<std::string> taken;
  for (const auto& op : pipeline.ops()) {
    std::vector<std::string> before;
    for (const FieldState& state : states) before.push_back(state.spec.name);
    std::vector<std::size_t> indices;
    CHECK(op->infer(states, indices));  // it was so when the pipeline was parsed
    for (const std::size_t i : indices) {
      if (i < before.size()) taken.insert(before[i]);
      if (i < states.size()) taken.insert(states[i].spec.name);
    }
  }
  std::vector<std::string> names;
  for (const SourceField& field : pipeline.fields())
    if (!taken.contains(field.spec.name)) names.push_back(field.spec.name);
  return names;
}

}  // namespace carya::transforms
