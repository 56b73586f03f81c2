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

/// The limits of one chunk in rows and bytes. A request that has more is refused.
inline constexpr std::uint64_t kRemoteRowsMax = 16'384;
inline constexpr std::uint64_t kRemoteBytesMax = std::uint64_t{1} << 30;

/// A file as the host listed it.
struct RemoteFile {
  std::string path;  ///< an absolute path of the host
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

/// What a worker does with chunks: it runs the first `cut` ops of a pipeline, in this order. A plan holds a pipeline's
/// document, which is hostile until checked, and no code.
struct RemotePlan {
  std::uint64_t id = 0;  ///< the host's number of the plan
  std::string pipeline;  ///< the pipeline's canonical JSON
  Hash128 fingerprint;   ///< covers ops, op versions and codec versions: another fingerprint gives other bits
  std::uint64_t seed = 0;
  std::vector<std::uint64_t> order;  ///< as transforms::PlanOptions::order, always written out
  std::uint64_t cut = 0;             ///< the number of ops that the worker runs, 1 to all
  /// Some files of the source. A worker that sees them as they are listed here may read records itself. Empty: no
  /// worker may.
  std::vector<RemoteFile> files{};
};

/// A worker's answer to a plan that it takes.
struct RemoteReady {
  bool reads = false;  ///< the worker reads records itself: it may be sent addresses
  std::string note{};  ///< why it does or does not, for people; "": it has no folder to read from
};

/// A chunk for a worker to compute. FORMAT.md describes the bytes that follow it.
struct RemoteChunk {
  std::uint64_t plan = 0;
  std::uint64_t epoch = 0;
  std::uint64_t rows = 0;
  bool addresses = false;  ///< encoded inputs are addresses of records, not their bytes
};

/// The sample of a row: transforms::SampleId without the epoch.
struct RemoteRow {
  std::uint64_t record = 0;
  std::uint64_t occurrence = 0;
};

/// The result of a chunk. The rows follow it, tensor by tensor of the plan's outputs; the rows of a tensor lie one
/// behind the other. Broken rows are all zeros. The host computes those itself, since it decides whether a record is
/// bad data.
struct RemoteResult {
  std::vector<std::uint64_t> broken;  ///< the broken rows, ascending
  std::uint64_t thread_ns = 0;        ///< time of a thread of the worker, with its waits for a core
  std::string unread{};               ///< why some record could not be read; "": all could
};

/// Encode a document as CBOR.
template <typename Document>
std::string encode_remote(const Document& document);
/// Decode what a peer sent, and check its form and ranges. Errors: kCorrupt, with the field's name.
template <typename Document>
Result<Document> decode_remote(std::span<const std::byte> body);

/// The names, as in number_ranges(), of all numbers that a host's documents can have.
std::vector<std::string> host_number_fields();

/// Decoders may read so many bytes beyond the end of a record, and must read the same there on every machine.
inline constexpr std::size_t kRemoteSlackBytes = 64;

/// The part that follows a RemoteChunk.
struct RemoteInputs {
  std::vector<RemoteRow> rows;
  std::vector<std::span<const std::byte>> inputs;  ///< rows x fields
  /// Decode index entries (transforms/jpeg/FORMAT.md) of the encoded inputs: rows x fields, or none at all. An input
  /// without an entry has an empty one. Entries save time; those of an honest host change no bit.
  std::vector<std::span<const std::byte>> entries{};
};
/// Encode inputs as they are sent: a table of rows and lengths, and then the parts, which point to `inputs`.
std::vector<std::byte> remote_table(std::span<const transforms::SourceField> fields,
                                    const RemoteInputs& inputs);
std::vector<std::span<const std::byte>> remote_parts(std::span<const transforms::SourceField> fields,
                                                     const RemoteInputs& inputs);

/// Encode an address as an input, and read one. Errors: kCorrupt (the input is no address).
std::vector<std::byte> remote_address(const RemoteAddress& address);
Result<RemoteAddress> parse_remote_address(std::span<const std::byte> input);

/// Read the inputs of a chunk from `payload`, into which the spans point. There are as many entries as inputs.
/// Errors: kCorrupt (lengths that do not fit the payload or the fields).
Result<RemoteInputs> parse_remote_inputs(const RemoteChunk& chunk,
                                         std::span<const transforms::SourceField> fields,
                                         std::span<const std::byte> payload);

}  // namespace carya::loader
