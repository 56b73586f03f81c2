#include "io/formats/tfrecord.h"

#include <algorithm>

#include "io/formats/crc32c.h"
#include "io/formats/example.h"

namespace carya::io {
namespace {

constexpr std::uint64_t kHead = 12;                           // length and its checksum
constexpr std::uint64_t kTail = 4;                            // checksum of the data
constexpr std::uint64_t kLoadedMax = std::uint64_t{1} << 30;  // a record is in memory while it is looked at

bool holds(std::span<const std::byte> bytes, std::uint32_t stored) {
  return masked_crc(crc32c(bytes)) == stored;
}

// What stands where the first record's length should.
std::unexpected<Error> no_tfrecord(const std::string& subject, std::span<const std::byte> head) {
  const auto first = static_cast<unsigned>(head[0]), second = static_cast<unsigned>(head[1]);
  const auto compressed = [&subject](const std::string& with, const std::string& command) {
    return fail(Code::kUnsupported,
                "tfrecord " + subject + ": compressed with " + with +
                    ", so records cannot be read one by one; unpack it first: " + command);
  };
  if (first == 0x1f && second == 0x8b) return compressed("gzip", "gzip -dc " + subject + " > UNPACKED");
  if ((first & 0x0f) == 8 && (first * 256 + second) % 31 == 0)
    return compressed("zlib", "pigz -dcz < " + subject + " > UNPACKED");
  return fail(Code::kCorrupt,
              "tfrecord " + subject +
                  " @0: not a TFRecord file (the checksum of the first length is wrong); give "
                  "files that TFRecordWriter wrote, or copy it again");
}

}  // namespace

Result<RecordIndex> index_tfrecord(const std::string& subject, FileWindow& file, const RecordSpec& spec,
                                   ListingProgress& progress) {
  RecordIndex index(spec);
  ExampleParser parser(spec);
  std::optional<std::size_t> whole;
  bool parses = false;
  for (std::size_t f = 0; f < spec.fields.size(); ++f) {
    if (spec.fields[f].key)
      parses = true;
    else
      whole = f;
  }
  if (whole) index.note_found(*whole);
  const std::uint64_t end = file.file_bytes();
  const auto broken = [&](std::uint64_t at, std::uint64_t bytes, Fault what, std::uint64_t got) -> Status {
    TRY(index.begin({at, bytes}));
    index.fail(what, 0, got);
    return {};
  };
  for (std::uint64_t at = 0; at < end;) {
    if (end - at < kHead) {
      TRY(broken(at, end - at, Fault::kCutOff, kHead - (end - at)));
      break;
    }
    ASSIGN(const auto head, file.at(at, kHead));
    const auto length = load_little<std::uint64_t>(head.data());
    if (!holds(head.first(8), load_little<std::uint32_t>(head.data() + 8))) {
      if (at == 0) return no_tfrecord(subject, head);
      TRY(broken(at, end - at, Fault::kLengthSum, end - at));
      break;
    }
    const std::uint64_t left = end - at - kHead;
    if (left < kTail || length > left - kTail) {
      const std::uint64_t missing = length > UINT64_MAX - kTail ? UINT64_MAX : length + kTail - left;
      TRY(broken(at, end - at, Fault::kCutOff, missing));
      break;
    }
    if (at == 0) index.expect(end / (kHead + length + kTail) + 1);
    const RecordIndex::Range place{at + kHead, length};
    at += kHead + length + kTail;
    TRY(index.begin(place));
    if (length >= kLoadedMax) {
      index.fail(Fault::kTooLong, 0, length);
    } else {
      bool sound = true;
      if (parses || spec.check_data) {
        ASSIGN(const auto data, file.at(place.offset, length + kTail));
        const auto message = data.first(length);
        sound = !spec.check_data || holds(message, load_little<std::uint32_t>(data.data() + length));
        if (!sound) index.fail(Fault::kDataSum);
        if (parses && index.count() == 1) index.describe(describe_example(message));
        if (sound && parses) parser.parse(message, place, index);
      }
      if (sound && whole && (index.faults().empty() || index.faults().back().record != index.count() - 1))
        index.set_range(*whole, place);
    }
    if (index.count() % kTellEvery == 0 && !progress.add(kTellEvery)) return listing_stopped();
  }
  return index;
}

}  // namespace carya::io
