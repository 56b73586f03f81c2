// Bodies of control messages: what the check lets pass, every document's reader takes without harm.

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "loader/control/documents.h"
#include "remote/protocol/cbor_check.h"

template <typename Document>
static void read(const std::string& body) {
  using namespace carya::loader;
  const auto document = decode<Document>(body);
  if (!document) return;
  const auto again = decode<Document>(encode(*document));
  if (!again || encode(*again) != encode(*document)) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya::loader;
  if (!carya::remote::check_cbor(std::as_bytes(std::span(data, size)))) return 0;
  const std::string body(reinterpret_cast<const char*>(data), size);
  read<Hello>(body);
  read<AttachRequest>(body);
  read<Attached>(body);
  read<LendRequest>(body);
  read<TurnRequest>(body);
  read<WantGrants>(body);
  read<SeekRequest>(body);
  read<PolicyRequest>(body);
  read<DeliveredErrors>(body);
  read<DetachRequest>(body);
  read<StreamStats>(body);
  read<DaemonStatus>(body);
  read<LongIs>(body);
  read<ErrorIs>(body);
  return 0;
}
