#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// A pipeline of pictures that are decoded and of these ops behind that.
inline std::shared_ptr<const transforms::Pipeline> decoded_chain(const std::string& ops) {
  auto pipeline = transforms::Pipeline::parse(
      R"({"version":1,"source":{"type":"image_folder","path":"x"},"ops":[{"op":"decode_image"},)" + ops +
      R"(],"batch":{"batch_size":2}})");
  EXPECT_TRUE(pipeline) << pipeline.error().message;
  return *pipeline;
}

}  // namespace carya::loader
