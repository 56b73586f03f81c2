// Attach messages that are well-formed and have hostile values: every number of the document and of its
// pipeline may be anything. Whatever is taken is then read from, for a batch or two.

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "loader/control/documents.h"
#include "loader/daemon/job_table.h"
#include "loader/wire/number_ranges.h"
#include "shm/slot_ring.h"
#include "tests/fuzz/drawn.h"

namespace {

using namespace carya;          // NOLINT(google-build-using-namespace): a program's own file
using namespace carya::loader;  // NOLINT(google-build-using-namespace)

const std::string& folder() {
  static const PhotosFolder made(2);
  return made.path();
}

Json& place_in(Json& body, std::string_view field) {
  Json* at = &body;
  for (field.remove_prefix(field.find('.') + 1); !field.empty();) {
    const auto end = std::min(field.find('.'), field.size());
    std::string name(field.substr(0, end));
    field.remove_prefix(std::min(end + 1, field.size()));
    const bool list = name.ends_with("[]");
    if (list) name.resize(name.size() - 2);
    at = &(*at)[name];
    if (list) at = &(*at)[0];
  }
  return *at;
}

Json pipeline() {
  static const Json whole = Json::parse(
      R"({"version":1,"source":{"type":"image_folder","path":")" + folder() +
      R"(/data"},"views":[{"view":"take","count":2}],"shuffle":{"seed":5},"ops":[{"op":"decode_image"},)"
      R"({"op":"random_resized_crop","size":[16,16],"scale":[0.5,1.0],"ratio":[0.75,1.25]},)"
      R"({"op":"pad","padding":[1,2,3,4]},{"op":"center_crop","size":[12,12]},{"op":"gaussian_blur","kernel_size":3},)"
      R"({"op":"random_horizontal_flip","p":0.5},{"op":"normalize","mean":0.4,"std":0.2}],)"
      R"("batch":{"batch_size":2,"global_size":null,"drop_last":false,"pad_last":false}})");
  return whole;
}

void read_some(const JobTable::Attachment& attachment) {
  const Seat& seat = attachment.seat;
  const auto reader = shm::RingReader::attach(seat.stream->reader_fds(seat.reader), seat.reader);
  for (int i = 0; reader && i < 2; ++i) static_cast<void>((*reader)->next(50));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static JobTable table({.jobs = 4, .shared_bytes = 64 << 20, .threads = 1, .linger_s = 0});
  Choices choices(data, size);
  AttachRequest request{.job = "fuzz", .cache_dir = folder() + "/cache"};
  request.options.threads = 1;
  request.options.slots = 2;
  request.options.epochs = 1;
  request.options.io_timeout_s = 0;
  request.options.decode_index.wanted = true;
  Json body = Json::from_cbor(encode(request));
  Json document = pipeline();
  std::vector<Json*> numbers;
  collect_numbers(document, numbers);
  const auto ranges = number_ranges();
  for (int i = 0; i < 8 && choices.any(); ++i) {
    const std::uint8_t which = choices.byte();
    if ((which & 1) != 0) {
      *numbers[choices.byte() % numbers.size()] = choices.number();
    } else if (const NumberRange& range = ranges[choices.byte() % ranges.size()];
               range.field.starts_with("Attach.") && !range.field.starts_with("Attach.options.remote")) {
      place_in(body, range.field) = choices.number();
    }
  }
  std::string bytes;
  Json::to_cbor(body, bytes);
  auto read = decode<AttachRequest>(bytes);
  if (!read) return 0;
  AttachCall call{.request = std::move(*read)};
  const std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto sealed = SealedBytes::copy("fuzz", std::as_bytes(std::span(text)));
  if (!sealed) return 0;
  auto mapped = SealedBytes::map(*sealed, 1 << 20, "fuzz");
  if (!mapped) std::abort();
  call.document = std::move(*mapped);
  const std::string empty(1, '\0');
  for (std::size_t i = 0; i < call.request.arrays.size(); ++i) {
    const auto rows = SealedBytes::copy("rows", std::as_bytes(std::span(empty)));
    call.arrays.push_back(SealedBytes::map(*rows, 1, "rows").value());
  }
  auto attached = table.attach(call, [](std::uint64_t) { return true; });
  if (attached) {
    read_some(*attached);
    table.leave(attached->seat, DetachReason::kClosed, "fuzz");
  }
  table.stop_all();
  return 0;
}
