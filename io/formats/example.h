#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/wire.h"
#include "io/index/record_index.h"

namespace carya::io {

/// Takes the wanted features out of tf.train.Example messages, and out of the context of SequenceExamples,
/// which lies in the same place. Values may be packed or not, of the entries with one key the last counts,
/// unknown fields are passed over. What a field needs of its feature:
///   kBytes   one bytes value
///   kLabel   one int64
///   kTensor  as many floats as it has values (float32), as many int64 (int64), or one bytes value as long as
///            the tensor, whose bytes it becomes
///
/// Threads: owner only. Cost: one pass over the tags of the message, and over the values of tensors.
/// Source:  tensorflow/core/example/{example,feature}.proto
class ExampleParser {
 public:
  /// `spec` outlives it; fields without a key are the caller's.
  explicit ExampleParser(const RecordSpec& spec);

  /// Fills the last record of `index`, or marks it broken. `place`: of the message in the file.
  void parse(std::span<const std::byte> message, RecordIndex::Range place, RecordIndex& index);

 private:
  struct Wanted {
    std::size_t field;
    std::string_view key;
    bool seen = false;
    std::vector<std::span<const std::byte>> parts;  ///< the Feature; several where it was sent in parts
  };
  struct Values {  // of one feature
    int kind = 0;  // the number of its list in Feature; 0: none
    std::vector<std::span<const std::byte>> lists;
  };

  bool take_features(std::span<const std::byte> features);
  bool take_entry(std::span<const std::byte> entry);
  bool take_values(const Wanted& wanted);
  /// The fault, with `got` set; nothing when all is well.
  std::optional<Fault> fill(const Wanted& wanted, RecordIndex::Range place, RecordIndex& index);
  std::optional<Fault> fill_bytes(const Wanted& wanted, RecordIndex::Range place, RecordIndex& index);
  std::optional<Fault> fill_floats(std::span<std::byte> row);
  std::optional<Fault> fill_integers(std::span<std::byte> row);

  const RecordSpec& spec_;
  std::vector<Wanted> wanted_;
  Values values_;
  const std::byte* message_ = nullptr;
  std::uint64_t got_ = 0;
};

/// What features a message has, for people: "image/encoded (1 bytes), x (3 float)"; why it has none.
std::string describe_example(std::span<const std::byte> message);

}  // namespace carya::io
