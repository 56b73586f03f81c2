#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "shm/slot_ring.h"

namespace carya::shm {

/// A ring's descriptors as they came over a socket: owned, closed with this object. After RingReader::attach
/// they are not needed any more.
struct ReceivedReader {
  std::uint32_t reader = 0;
  UniqueFd control, page, bell;
  std::vector<UniqueFd> slots;

  SlotRing::ReaderFds fds() const;
};

/// Pass a reader its descriptors over a Unix stream or seqpacket socket (SCM_RIGHTS), as FORMAT.md says;
/// several messages when they are many. Waits at most timeout_ms for room. Errors: kTimeout, kClosed (peer
/// gone), kExhausted.
Status send_reader_fds(int socket, std::uint32_t reader, const SlotRing::ReaderFds& fds, int timeout_ms);

/// The other end. What comes is checked: counts, order, descriptors missing or too many (closed again).
/// Errors: kTimeout, kClosed, kCorrupt, kExhausted (descriptors of this process).
Result<ReceivedReader> receive_reader_fds(int socket, int timeout_ms);

}  // namespace carya::shm
