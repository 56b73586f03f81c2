#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// How many rows and bytes one chunk may have; a request that has more is no request.
inline constexpr std::uint64_t kRemoteRowsMax = 16'384;
inline constexpr std::uint64_t kRemoteBytesMax = std::uint64_t{1} << 30;

/// A file as the host listed it.
struct RemoteFile {
  std::string path;  ///< absolute, the host's
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const RemoteFile&) const = default;
};

/// Where a record's bytes lie.
struct RemoteAddress {
  RemoteFile file;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// What a worker is to do with chunks: the first `cut` ops of a pipeline, in this order. It holds a
/// pipeline's document, which is hostile until checked, and no code.
struct RemotePlan {
  std::uint64_t id = 0;  ///< the host's number for it
  std::string pipeline;  ///< its canonical JSON
  Hash128 fingerprint;   ///< of the ops, their versions and the codecs': another one gives other bits
  std::uint64_t seed = 0;
  std::vector<std::uint64_t> order;  ///< as transforms::PlanOptions::order, always written out
  std::uint64_t cut = 0;             ///< ops that the worker runs, 1 to all
  /// Some of the source: a worker that sees these as they are here may read records itself. None: it may not.
  std::vector<RemoteFile> files{};
};

/// What a worker answers to a plan that it takes.
struct RemoteReady {
  bool reads = false;  ///< records itself: it may be sent addresses
  std::string note{};  ///< about that, for people; "": it has no folder to read from
};

/// A chunk that a worker is to compute. What follows it is described in FORMAT.md.
struct RemoteChunk {
  std::uint64_t plan = 0;
  std::uint64_t epoch = 0;
  std::uint64_t rows = 0;
  bool addresses = false;  ///< encoded inputs are addresses of records, not their bytes
};

/// Which sample a row is: transforms::SampleId without the epoch.
struct RemoteRow {
  std::uint64_t record = 0;
  std::uint64_t occurrence = 0;
};

/// What came of a chunk. Behind it follow the rows, tensor by tensor of the plan's outputs, each tensor's
/// rows one behind the other. Rows that are broken are all zeros: whether a record is bad data is the host's
/// to say, so it computes them itself.
struct RemoteResult {
  std::vector<std::uint64_t> broken;  ///< rows, ascending
  std::uint64_t thread_ns = 0;        ///< that it took a thread of the worker, waiting for a core included
  std::string unread{};               ///< why a row is broken whose record could not be read; "": none was
};

/// CBOR.
template <typename Document>
std::string encode_remote(const Document& document);
/// What a peer sent: checked for form and ranges. Errors: kCorrupt with the field's name.
template <typename Document>
Result<Document> decode_remote(std::span<const std::byte> body);

/// Every number that a host's document can have, as number_ranges() names it.
std::vector<std::string> host_number_fields();

/// Decoders may look so far past the end of a record, and must see the same there on every machine.
inline constexpr std::size_t kRemoteSlackBytes = 64;

/// What follows a RemoteChunk.
struct RemoteInputs {
  std::vector<RemoteRow> rows;
  std::vector<std::span<const std::byte>> inputs;  ///< rows x fields
  /// Decode index entries (transforms/jpeg/FORMAT.md) of the encoded inputs, empty where there is none: rows
  /// x fields, or none at all. They save time and can change no bit of an honest host's.
  std::vector<std::span<const std::byte>> entries{};
};
/// As it is sent: the table of rows and lengths, and then these parts, which are those of `inputs`.
std::vector<std::byte> remote_table(std::span<const transforms::SourceField> fields,
                                    const RemoteInputs& inputs);
std::vector<std::span<const std::byte>> remote_parts(std::span<const transforms::SourceField> fields,
                                                     const RemoteInputs& inputs);

/// An address as an encoded input. Errors: kCorrupt: it is none.
std::vector<std::byte> remote_address(const RemoteAddress& address);
Result<RemoteAddress> parse_remote_address(std::span<const std::byte> input);

/// Taken apart: spans are in `payload`, entries as many as inputs.
/// Errors: kCorrupt: lengths that are not those of the bytes, or not those that the fields have.
Result<RemoteInputs> parse_remote_inputs(const RemoteChunk& chunk,
                                         std::span<const transforms::SourceField> fields,
                                         std::span<const std::byte> payload);

}  // namespace carya::loader
