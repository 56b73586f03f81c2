#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transforms/kernels/codec/transcoder.h"
#include "transforms/op/op.h"
#include "transforms/op/params.h"

namespace carya::transforms {

/// Makes pictures of encoded fields smaller, and leaves them encoded: see Transcoder. The first op of a pipeline, or none.
class Transcode final : public Op {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  Transcode(Json::Object canonical, const TranscodeSpec& spec,
            std::optional<std::vector<std::string>> fields);
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;

  const TranscodeSpec& spec() const { return spec_; }

 private:
  TranscodeSpec spec_;
  std::optional<std::vector<std::string>> fields_;
};

/// The op as what it is; null: it is another.
const Transcode* as_transcode(const Op& op);

}  // namespace carya::transforms
