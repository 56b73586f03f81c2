#include "io/formats/example.h"

#include <cstring>

#include "base/escape.h"
#include "io/index/file_window.h"

namespace carya::io {
namespace {

using Kind = RecordField::Kind;
using WireType = WireReader::Type;
using Bytes = std::span<const std::byte>;

// Field numbers of the messages.
constexpr std::uint32_t kFeatures = 1, kFeatureLists = 2;      // Example, SequenceExample
constexpr std::uint32_t kEntry = 1, kKey = 1, kFeature = 2;    // Features
constexpr int kBytesList = 1, kFloatList = 2, kInt64List = 3;  // Feature
constexpr std::uint32_t kValue = 1;                            // of each list

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// take(field) for each field; false when the message is malformed or take says so.
template <typename Take>
bool for_each_field(Bytes message, const Take& take) {
  WireReader reader(message);
  while (const auto field = reader.next())
    if (!take(*field)) return false;
  return reader.ok();
}

/// take(value) for each number of a list, packed or not.
template <typename Take>
bool for_each_integer(Bytes list, const Take& take) {
  return for_each_field(list, [&](const WireReader::Field& field) {
    if (field.number != kValue) return true;
    if (field.type == WireType::kVarint) return take(field.value), true;
    if (field.type != WireType::kBytes) return true;
    WireReader packed(field.bytes);
    while (!packed.at_end()) {
      const auto value = packed.varint();
      if (!value) return false;
      take(*value);
    }
    return true;
  });
}

template <typename Take>  // take(bytes of some floats)
bool for_each_floats(Bytes list, const Take& take) {
  return for_each_field(list, [&](const WireReader::Field& field) {
    if (field.number != kValue) return true;
    if (field.type == WireType::kFixed32) {
      const auto bits = static_cast<std::uint32_t>(field.value);
      return take(std::as_bytes(std::span(&bits, 1))), true;
    }
    if (field.type != WireType::kBytes) return true;
    if (field.bytes.size() % 4 != 0) return false;
    return take(field.bytes), true;
  });
}

template <typename Take>
bool for_each_bytes(Bytes list, const Take& take) {
  return for_each_field(list, [&](const WireReader::Field& field) {
    if (field.number == kValue && field.type == WireType::kBytes) take(field.bytes);
    return true;
  });
}

}  // namespace

ExampleParser::ExampleParser(const RecordSpec& spec) : spec_(spec) {
  for (std::size_t f = 0; f < spec.fields.size(); ++f)
    if (spec.fields[f].key) wanted_.push_back({.field = f, .key = *spec.fields[f].key, .parts = {}});
}

bool ExampleParser::take_entry(Bytes entry) {
  // The key may stand behind the value.
  std::string_view key;
  bool parts = false;
  const bool good = for_each_field(entry, [&](const WireReader::Field& field) {
    if (field.type != WireType::kBytes) return true;
    if (field.number == kKey) key = text_of(field.bytes);
    parts = parts || field.number == kFeature;
    return true;
  });
  if (!good) return false;
  for (Wanted& wanted : wanted_) {
    if (wanted.key != key) continue;
    wanted.seen = true;
    wanted.parts.clear();
    for_each_field(entry, [&](const WireReader::Field& field) {
      if (field.type == WireType::kBytes && field.number == kFeature) wanted.parts.push_back(field.bytes);
      return true;
    });
  }
  return true;
}

bool ExampleParser::take_features(Bytes features) {
  return for_each_field(features, [&](const WireReader::Field& field) {
    return field.number != kEntry || field.type != WireType::kBytes || take_entry(field.bytes);
  });
}

// The feature is one of three lists: the last kind counts, and parts of one kind add up.
bool ExampleParser::take_values(const Wanted& wanted) {
  values_.kind = 0;
  values_.lists.clear();
  for (const Bytes part : wanted.parts) {
    const bool good = for_each_field(part, [&](const WireReader::Field& field) {
      if (field.type != WireType::kBytes || field.number > kInt64List) return true;
      const int kind = static_cast<int>(field.number);
      if (kind != values_.kind) values_.lists.clear();
      values_.kind = kind;
      values_.lists.push_back(field.bytes);
      return true;
    });
    if (!good) return false;
  }
  return true;
}

std::optional<Fault> ExampleParser::fill_bytes(const Wanted& wanted, RecordIndex::Range place,
                                               RecordIndex& index) {
  const RecordField& field = spec_.fields[wanted.field];
  std::uint64_t count = 0;
  Bytes value;
  for (const Bytes list : values_.lists)
    if (!for_each_bytes(list, [&](Bytes bytes) { value = bytes, ++count; })) return Fault::kMalformed;
  got_ = count;
  if (count != 1) return Fault::kOtherCount;
  got_ = value.size();
  if (field.kind == Kind::kBytes) {
    const auto into = static_cast<std::uint64_t>(value.data() - message_);
    index.set_range(wanted.field, {place.offset + into, value.size()});
    return std::nullopt;
  }
  const auto row = index.row(wanted.field);
  if (value.size() != row.size()) return Fault::kOtherBytes;
  std::memcpy(row.data(), value.data(), row.size());
  return std::nullopt;
}

std::optional<Fault> ExampleParser::fill_floats(std::span<std::byte> row) {
  std::uint64_t bytes = 0;
  for (const Bytes list : values_.lists) {
    const bool good = for_each_floats(list, [&](Bytes some) {
      if (some.size() <= row.size() && bytes <= row.size() - some.size() && !some.empty())
        std::memcpy(row.data() + bytes, some.data(), some.size());
      bytes += some.size();
    });
    if (!good) return Fault::kMalformed;
  }
  got_ = bytes / 4;
  return bytes == row.size() ? std::nullopt : std::optional(Fault::kOtherCount);
}

std::optional<Fault> ExampleParser::fill_integers(std::span<std::byte> row) {
  std::uint64_t count = 0;
  for (const Bytes list : values_.lists) {
    const bool good = for_each_integer(list, [&](std::uint64_t value) {
      if (count < row.size() / 8) std::memcpy(row.data() + 8 * count, &value, 8);
      ++count;
    });
    if (!good) return Fault::kMalformed;
  }
  got_ = count;
  return count == row.size() / 8 ? std::nullopt : std::optional(Fault::kOtherCount);
}

std::optional<Fault> ExampleParser::fill(const Wanted& wanted, RecordIndex::Range place, RecordIndex& index) {
  const RecordField& field = spec_.fields[wanted.field];
  got_ = 0;
  if (!wanted.seen) return Fault::kMissing;
  if (!take_values(wanted)) return Fault::kMalformed;
  index.note_found(wanted.field);
  if (values_.kind == 0) return Fault::kOtherCount;  // a key with a feature that is empty
  if (values_.kind == kBytesList && field.kind != Kind::kLabel) return fill_bytes(wanted, place, index);
  if (values_.kind == kFloatList && field.kind == Kind::kTensor && field.dtype == DType::kFloat32)
    return fill_floats(index.row(wanted.field));
  if (values_.kind == kInt64List && field.kind == Kind::kTensor && field.dtype == DType::kInt64)
    return fill_integers(index.row(wanted.field));
  if (values_.kind == kInt64List && field.kind == Kind::kLabel) {
    std::int64_t label = 0;
    const auto fault = fill_integers(std::as_writable_bytes(std::span(&label, 1)));
    if (!fault) index.set_label(label);
    return fault;
  }
  return Fault::kOtherKind;
}

void ExampleParser::parse(Bytes message, RecordIndex::Range place, RecordIndex& index) {
  if (wanted_.empty()) return;
  message_ = message.data();
  for (Wanted& wanted : wanted_) wanted.seen = false;
  WireReader reader(message);
  bool good = true;
  while (const auto field = good ? reader.next() : std::nullopt)
    if (field->number == kFeatures && field->type == WireType::kBytes) {
      const std::byte* const at = field->bytes.data();
      good = take_features(field->bytes);
      got_ = static_cast<std::uint64_t>(at - message_);
    }
  if (good && !reader.ok()) {
    good = false;
    got_ = static_cast<std::uint64_t>(reader.at() - message_);
  }
  if (!good) return index.fail(Fault::kMalformed, 0, got_);
  for (const Wanted& wanted : wanted_) {
    const auto fault = fill(wanted, place, index);
    if (!fault) continue;
    if (*fault == Fault::kMalformed)
      got_ = wanted.parts.empty() ? 0 : static_cast<std::uint64_t>(wanted.parts[0].data() - message_);
    return index.fail(*fault, wanted.field, got_);
  }
}

std::string describe_example(Bytes message) {
  constexpr std::size_t kShown = 1000;
  std::string text;
  const auto add = [&text](std::string_view key, const std::string& what) {
    if (text.size() < kShown)
      text += (text.empty() ? "" : ", ") + escaped(key.substr(0, 80)) + " (" + what + ")";
  };
  const auto entries = [&](Bytes features, const auto& describe) {
    return for_each_field(features, [&](const WireReader::Field& field) {
      if (field.number != kEntry || field.type != WireType::kBytes) return true;
      std::string_view key;
      Bytes value;
      const bool good = for_each_field(field.bytes, [&](const WireReader::Field& part) {
        if (part.number == kKey && part.type == WireType::kBytes) key = text_of(part.bytes);
        if (part.number == kFeature && part.type == WireType::kBytes) value = part.bytes;
        return true;
      });
      if (good) add(key, describe(value));
      return good;
    });
  };
  const auto feature = [](Bytes value) {
    std::uint64_t count = 0;
    std::string kind = "empty";
    for_each_field(value, [&](const WireReader::Field& list) {
      if (list.type != WireType::kBytes) return true;
      count = 0;
      if (list.number == kBytesList && for_each_bytes(list.bytes, [&](Bytes) { ++count; }))
        kind = std::to_string(count) + " bytes";
      if (list.number == kFloatList &&
          for_each_floats(list.bytes, [&](Bytes some) { count += some.size() / 4; }))
        kind = std::to_string(count) + " float";
      if (list.number == kInt64List && for_each_integer(list.bytes, [&](std::uint64_t) { ++count; }))
        kind = std::to_string(count) + " int64";
      return true;
    });
    return kind;
  };
  const bool good = for_each_field(message, [&](const WireReader::Field& field) {
    if (field.type != WireType::kBytes) return true;
    if (field.number == kFeatures) return entries(field.bytes, feature);
    if (field.number == kFeatureLists)
      return entries(field.bytes, [](Bytes) { return std::string("a list of a SequenceExample, not read"); });
    return true;
  });
  if (!good) return "no tf.train.Example";
  return text.empty() ? "no feature" : text;
}

}  // namespace carya::io
