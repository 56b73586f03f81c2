#include "tests/transforms/samples_test_lib.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include <jpeglib.h>

#include "base/hash.h"

namespace carya::transforms::testing {
namespace {

namespace fs = std::filesystem;

Bytes read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Bytes bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());  // memcpy takes no null
  return bytes;
}

std::vector<NamedBytes> folder_files(const char* folder, std::size_t stride, std::size_t bytes_max) {
  std::vector<NamedBytes> files;
  const char* root = std::getenv("CARYA_TEST_DATA");
  if (!root) return files;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / folder))
    if (entry.is_regular_file() && entry.file_size() <= bytes_max) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (std::size_t i = 0; i < paths.size(); i += stride)
    files.push_back({paths[i].string(), read_file(paths[i])});
  return files;
}

Bytes text_bytes(const std::string& text) {
  Bytes bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());  // memcpy takes no null
  return bytes;
}

}  // namespace

Bytes make_jpeg(int width, int height, int components, bool progressive, int sampling, int orientation,
                std::uint32_t seed) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = components;
  info.in_color_space = components == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 90, TRUE);
  if (components == 3) info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = sampling;
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (orientation != 1) {
    const unsigned char exif[] = {'E', 'x',  'i', 'f', 0,
                                  0,   'I',  'I', 42,  0,
                                  8,   0,    0,   0,   1,
                                  0,   0x12, 1,   3,   0,
                                  1,   0,    0,   0,   static_cast<unsigned char>(orientation),
                                  0,   0,    0,   0,   0,
                                  0,   0};
    jpeg_write_marker(&info, JPEG_APP0 + 1, exif, sizeof exif);
  }
  std::vector<unsigned char> row(static_cast<std::size_t>(width * components));
  std::uint32_t state = seed * 2654435761U + 1;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width * components; ++x) {
      state = state * 1664525U + 1013904223U;
      const int shape = (x / 7 % 2 == y / 5 % 2 ? 180 : 40) + (x * 60 / (width * components));
      row[static_cast<std::size_t>(x)] = static_cast<unsigned char>(shape + static_cast<int>(state >> 28));
    }
    unsigned char* rows[] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  Bytes bytes(size);
  std::memcpy(bytes.data(), memory, size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return bytes;
}

std::vector<NamedBytes> test_pictures(std::size_t stride, std::size_t bytes_max) {
  std::vector<NamedBytes> files = folder_files("images", stride, bytes_max);
  std::erase_if(files, [](const NamedBytes& file) {  // lists, archives and formats that are refused anyway
    const bool jpeg =
        file.bytes.size() > 2 && file.bytes[0] == std::byte{0xFF} && file.bytes[1] == std::byte{0xD8};
    const bool png =
        file.bytes.size() > 2 && file.bytes[0] == std::byte{0x89} && file.bytes[1] == std::byte{'P'};
    return !jpeg && !png;
  });
  int orientation = 1;
  for (const int width : {1, 7, 33, 150})
    for (const int height : {1, 16, 97})
      for (const int components : {1, 3}) {
        orientation = orientation % 8 + 1;
        const bool progressive = (width + height) % 3 == 0;
        const int sampling = height % 2 + 1;
        files.push_back({"made " + std::to_string(width) + "x" + std::to_string(height) + "x" +
                             std::to_string(components) + " orientation " + std::to_string(orientation),
                         make_jpeg(width, height, components, progressive, sampling, orientation)});
      }
  return files;
}

std::vector<NamedBytes> malformed_files() {
  std::vector<NamedBytes> files = folder_files("malformed", 1, std::size_t{1} << 20);
  const Bytes good = make_jpeg(90, 70);
  for (const std::size_t keep :
       {std::size_t{0}, std::size_t{1}, std::size_t{20}, good.size() / 2, good.size() - 2})
    files.push_back(
        {"cut to " + std::to_string(keep), Bytes(good.begin(), good.begin() + static_cast<long>(keep))});
  for (std::size_t at = 3; at < good.size(); at += 41) {
    Bytes flipped = good;
    flipped[at] ^= std::byte{0x55};
    files.push_back({"byte " + std::to_string(at) + " changed", flipped});
  }
  files.push_back({"webp", text_bytes("RIFF1234WEBPVP8 ")});
  files.push_back({"png signature alone", text_bytes("\x89PNG\r\n\x1a\n")});
  return files;
}

std::string document(const std::string& ops, const std::string& batch, const std::string& source) {
  return R"({"version":1,"source":)" + source + R"(,"ops":[)" + ops + R"(],"batch":)" + batch + "}";
}

std::shared_ptr<const Pipeline> pipeline_of(const std::string& json) {
  auto pipeline = Pipeline::parse(json);
  if (!pipeline) {
    ADD_FAILURE() << json << ": " << pipeline.error().message;
    std::abort();
  }
  return *pipeline;
}

std::shared_ptr<const Pipeline> decoded(const std::string& ops) {
  return pipeline_of(document(kDecode + ops));
}

std::string error_of(const std::string& json) {
  const auto pipeline = Pipeline::parse(json);
  if (pipeline) return "no error";
  EXPECT_EQ(pipeline.error().code, Code::kInvalidArgument);
  return pipeline.error().message;
}

std::string op_error(const std::string& ops, const std::string& source) {
  return error_of(document(ops, R"({"batch_size":2})", source));
}

std::string array_source(const std::string& shape) {
  return R"({"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":)" + shape +
         R"(,"fingerprint":""}}})";
}

Bytes counting(std::size_t bytes) {
  Bytes out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 251);
  return out;
}

Bytes made_row(std::size_t bytes) {
  Bytes row(bytes);
  std::uint32_t state = 12345;
  for (std::byte& value : row) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<std::byte>(state >> 24);
  }
  return row;
}

std::shared_ptr<const Plan> plan_of(const std::string& json, PlanOptions options) {
  auto plan = Plan::compile(pipeline_of(json), options);
  if (!plan) {
    ADD_FAILURE() << json << ": " << plan.error().message;
    std::abort();
  }
  return *plan;
}

Guarded::Guarded(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t body = (bytes + page - 1) / page * page;
  map_bytes_ = body + 2 * page;
  void* map = mmap(nullptr, map_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(map != MAP_FAILED);
  map_ = static_cast<std::byte*>(map);
  if (body > 0) CHECK(mprotect(map_ + page, body, PROT_READ | PROT_WRITE) == 0);
  data_ = map_ + page + body - bytes;
}

Guarded::~Guarded() {
  munmap(map_, map_bytes_);
}

Outcome run_guarded(const Plan& plan, Scratch& scratch, const SampleId& id,
                    const std::vector<Bytes>& inputs) {
  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<std::span<const std::byte>> spans;
  for (const Bytes& input : inputs) {
    // One readable byte after the end is the caller's part of the contract.
    memory.push_back(std::make_unique<Guarded>(input.size() + 1));
    if (!input.empty()) std::memcpy(memory.back()->data(), input.data(), input.size());
    spans.emplace_back(memory.back()->data(), input.size());
  }
  std::vector<std::byte*> outputs;
  for (const TensorSpec& spec : plan.outputs()) {
    memory.push_back(std::make_unique<Guarded>(static_cast<std::size_t>(spec.bytes())));
    outputs.push_back(memory.back()->data());
    std::memset(outputs.back(), 0xA5, static_cast<std::size_t>(spec.bytes()));
  }
  Outcome outcome;
  if (const Status status = plan.run(scratch, id, spans, outputs); !status) {
    outcome.error = status.error();
    return outcome;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outcome.tensors.emplace_back(outputs[i], outputs[i] + plan.outputs()[i].bytes());
  return outcome;
}

Bytes label_bytes(std::int64_t label) {
  Bytes bytes(sizeof label);
  std::memcpy(bytes.data(), &label, sizeof label);
  return bytes;
}

std::vector<Bytes> tensors_of(const Plan& plan, Scratch& scratch, std::uint64_t record,
                              const Bytes& picture) {
  const Outcome outcome =
      run_guarded(plan, scratch, {.epoch = 1, .record = record}, {picture, label_bytes(5)});
  EXPECT_FALSE(outcome.error) << outcome.error->message;
  return outcome.tensors;
}

std::string digest_of(const std::vector<std::string>& ops) {
  Hasher128 hasher;
  const Bytes row = made_row(33 * 47 * 3);
  Scratch scratch;
  for (const std::string& op : ops) {
    const auto plan = plan_of(document(op, R"({"batch_size":1})", array_source("[33,47,3]")), {.seed = 42});
    for (std::uint64_t record = 0; record < 20; ++record)
      hasher.update(std::span<const std::byte>(
          run_guarded(*plan, scratch, {.epoch = 1, .record = record, .occurrence = record % 3}, {row})
              .tensors.at(0)));
  }
  return hasher.digest().hex();
}

void expect_fused_is_whole_among_waiting_steps(const std::string& op, const std::string& resize) {
  // Before and after flips that wait, windows that only narrow, ones that reach outside, resizes and colors.
  const std::vector<std::pair<std::string, std::string>> around = {
      {R"({"op":"random_resized_crop","size":[24,31]},{"op":"random_horizontal_flip"},)", ""},
      {R"({"op":"random_vertical_flip"},)", R"(,{"op":"random_resized_crop","size":[24,31]})"},
      {R"({"op":"random_horizontal_flip"},{"op":"crop","top":3,"left":-4,"height":40,"width":50},)",
       R"(,{"op":"random_vertical_flip"},{"op":"center_crop","size":[20,21]},{"op":"to_layout","layout":"CHW"})"},
      {resize,
       R"(,{"op":"random_crop","size":[30,30],"padding":[1,2,3,4]},{"op":"normalize","mean":0.5,"std":0.25})"},
  };
  const std::vector<Bytes> pictures = {make_jpeg(90, 70), make_jpeg(41, 64, 1),
                                       make_jpeg(70, 50, 3, true, 1, 6)};
  Scratch scratch;
  for (const auto& [before, after] : around) {
    const std::string json = document(R"({"op":"decode_image","apply_exif":true},)" + before + op + after);
    const auto fused = plan_of(json);
    const auto whole = plan_of(json, {.fuse = false});
    for (std::uint64_t record = 0; record < 12; ++record) {
      const std::vector<Bytes> inputs{pictures[record % pictures.size()], label_bytes(0)};
      const Outcome a = run_guarded(*fused, scratch, {.record = record}, inputs);
      ASSERT_FALSE(a.error) << json << ": " << a.error->message;
      ASSERT_TRUE(a.tensors == run_guarded(*whole, scratch, {.record = record}, inputs).tensors) << json;
    }
  }
}

}  // namespace carya::transforms::testing
