#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"

namespace carya::transforms::testing {

using Bytes = std::vector<std::byte>;

/// A JPEG of `width` x `height` with shapes and noise; `components` 1 or 3, `progressive`, `sampling` 1 or 2.
/// `orientation` 1..8 as an Exif block.
Bytes make_jpeg(int width, int height, int components = 3, bool progressive = false, int sampling = 2,
                int orientation = 1, std::uint32_t seed = 1);

struct NamedBytes {
  std::string name;
  Bytes bytes;
};

/// Real pictures of CARYA_TEST_DATA's images folder, every `stride`-th by name, at most `bytes_max` each; and
/// always the made ones (all samplings, gray, progressive, orientations, odd and tiny sizes).
std::vector<NamedBytes> test_pictures(std::size_t stride, std::size_t bytes_max);
/// All files of CARYA_TEST_DATA's malformed folder, and made ones: cut, flipped bits, foreign formats, empty.
std::vector<NamedBytes> malformed_files();

/// The pipeline document of one image_folder source with these ops (JSON list without brackets).
std::string document(const std::string& ops, const std::string& batch = R"({"batch_size":2})",
                     const std::string& source = R"({"type":"image_folder","path":"x"})");
std::shared_ptr<const Pipeline> pipeline_of(const std::string& json);
std::shared_ptr<const Plan> plan_of(const std::string& json, PlanOptions options = {});
/// Of pictures that are decoded, and of these ops behind that.
std::shared_ptr<const Pipeline> decoded(const std::string& ops);
/// What is said against a document, which is an invalid argument: else "no error".
std::string error_of(const std::string& json);
std::string op_error(const std::string& ops,
                     const std::string& source = R"({"type":"image_folder","path":"x"})");

// Ops and sources of many chains; kDecode has the comma behind it.
inline const std::string kDecodeAlone = R"({"op":"decode_image"})";
inline const std::string kDecode = kDecodeAlone + ",";
inline const std::string kSmallCrop = R"({"op":"random_crop","size":[24,24]})";
inline const std::string kResizedCrop = R"({"op":"random_resized_crop","size":[24,31]})";
inline constexpr char kWithMask[] = R"({"type":"files","paths":["a"],"labels":[1],"extra":{"mask":["b"]}})";
/// One uint8 array of this shape (JSON).
std::string array_source(const std::string& shape);

/// A picture of so many bytes, each of which is another one than its neighbours.
Bytes counting(std::size_t bytes);
/// Noise that is the same everywhere; a JPEG's pixels need not be.
Bytes made_row(std::size_t bytes);

/// Memory with an unreadable page right after the end (and one before the page of the start).
class Guarded {
 public:
  explicit Guarded(std::size_t bytes);
  Guarded(const Guarded&) = delete;
  ~Guarded();
  std::byte* data() const { return data_; }

 private:
  std::byte* map_;
  std::size_t map_bytes_;
  std::byte* data_;
};

struct Outcome {
  std::optional<Error> error;
  std::vector<Bytes> tensors;
};
/// run() with inputs and outputs between guard pages.
Outcome run_guarded(const Plan& plan, Scratch& scratch, const SampleId& id, const std::vector<Bytes>& inputs);

Bytes label_bytes(std::int64_t label);
/// What a plan makes in epoch 1 of a picture whose label is 5.
std::vector<Bytes> tensors_of(const Plan& plan, Scratch& scratch, std::uint64_t record, const Bytes& picture);
/// Of what each of these ops makes of noise, for many records.
std::string digest_of(const std::vector<std::string>& ops);

/// Expect the same bits from the fused plan and op by op, with the op (JSON) before and after flips that
/// wait, windows that only narrow or reach outside, and resizes; `resize`: what stands before it (JSON and a
/// comma).
void expect_fused_is_whole_among_waiting_steps(const std::string& op, const std::string& resize);

}  // namespace carya::transforms::testing
