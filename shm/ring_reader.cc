#include <fcntl.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "shm/futex.h"
#include "shm/lease_ledger.h"
#include "shm/memfd.h"
#include "shm/slot_ring.h"

// The reader's half of the protocol numbered in slot_ring.cc.

namespace carya::shm {
namespace {

using format::ControlHeader;
using format::ReaderEntry;
using format::ReaderPage;
using format::SlotEntry;

constexpr std::int64_t kSoonNs = 200'000;  // between two waits of a reader that outruns its producers
constexpr long kDozeNs = 50'000;
constexpr int kSliceMs = 200;  // the longest sleep between two looks at whether the ring still exists

std::unexpected<Error> closed(const std::string& why) {
  return fail(Code::kClosed, "ring reader: " + why + "; make a new Loader");
}
std::unexpected<Error> corrupt(const std::string& what) {
  return fail(Code::kCorrupt, "ring reader: " + what);
}

/// Map the control segment and check all of it that does not change.
Result<Region> map_control(int fd, std::uint32_t reader, std::size_t slots) {
  TRY(check_memfd(fd, format::kControlBytes, kSealReadOnly, "control segment"));
  ASSIGN(Region control, Region::map(fd, format::kControlBytes, Region::Access::kReadOnly));
  control.prefault();
  const auto& header = *reinterpret_cast<const ControlHeader*>(control.data());
  if (header.magic != format::kControlMagic || header.version != format::kVersion) {
    return corrupt("control segment: not of version 1");
  }
  if (header.control_bytes != format::kControlBytes || header.slots_offset != format::kSlotsOffset ||
      header.readers_offset != format::kReadersOffset) {
    return corrupt("control segment: other offsets than version 1 has");
  }
  if (header.slots != slots || slots < 1 || slots > kSlotsMax) {
    return corrupt(fmt::format("control segment: {} slots, descriptors of {}", header.slots, slots));
  }
  if (header.readers > kReadersMax || reader >= header.readers) {
    return corrupt(fmt::format("control segment: reader {} of {}", reader, header.readers));
  }
  return control;
}

/// Map the reader's own page; `attach_id` is what it says.
Result<Region> map_page(int fd, std::uint32_t reader, std::uint32_t& attach_id) {
  TRY(check_memfd(fd, format::kPageBytes, kSealSize, "reader page"));
  ASSIGN(Region mapped, Region::map(fd, format::kPageBytes, Region::Access::kReadWrite));
  mapped.prefault();
  const auto& page = *reinterpret_cast<const ReaderPage*>(mapped.data());
  attach_id = page.attach_id;
  if (page.magic != format::kPageMagic || page.version != format::kVersion || page.reader != reader ||
      page.entries != format::kQueueEntries || attach_id == 0) {
    return corrupt("reader page: not of version 1, or another reader's");
  }
  return mapped;
}

Result<UniqueFd> duplicate_bell(int fd) {
  UniqueFd bell(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!bell) {
    if (errno == EMFILE) return fail_errno("ring reader: bell", errno);
    return corrupt("bell: not a descriptor");
  }
  const int flags = fcntl(bell.get(), F_GETFL);
  if (flags < 0 || (flags & O_NONBLOCK) == 0) return corrupt("bell: a release could block on it");
  return bell;
}

}  // namespace

struct RingReader::Impl {
  std::shared_ptr<Lease::Ledger> ledger = std::make_shared<Lease::Ledger>();
  SlotLayout layout;
  std::uint32_t reader = 0;
  std::uint32_t attach_id = 0;
  std::uint32_t slots = 0;
  std::uint64_t head = 0;            // deliveries that were taken
  std::int64_t waited_until_ns = 0;  // the end of the last wait

  Status map(const SlotRing::ReaderFds& fds);
  Status map_slots(const std::vector<int>& slot_fds);
  Status check_attached() const;
  Result<Lease> take_pending();
  Result<Lease> take();
  Status wait(int slice_ms);
  Status doze();
  void add_waited(std::int64_t slept_ns) {
    // Relaxed, and not one atomic operation: only this thread writes it, and no other memory depends on it.
    auto& sum = ledger->own_page().waited_ns;
    sum.store(sum.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(slept_ns),
              std::memory_order_relaxed);
  }
  bool empty() const {
    // Sequentially consistent: partner of publish() when called after the wait flag was set (protocol 5).
    return ledger->reader_entry(reader).tail.load(std::memory_order_seq_cst) == head;
  }
};

Status RingReader::Impl::map(const SlotRing::ReaderFds& fds) {
  ASSIGN(ledger->control, map_control(fds.control, reader, fds.slots.size()));
  ASSIGN(ledger->page, map_page(fds.page, reader, attach_id));
  ASSIGN(ledger->bell, duplicate_bell(fds.bell));
  slots = static_cast<std::uint32_t>(fds.slots.size());
  TRY(map_slots(fds.slots));
  TRY(check_attached());
  if (ledger->header().closed.load(std::memory_order_relaxed) != 0) return closed("the ring is gone");
  // Relaxed: it only has to be atomic. A second reader of one attachment would overwrite the first one's releases.
  if (ledger->own_page().claimed.exchange(1, std::memory_order_relaxed) != 0) {
    return fail(Code::kInvalidArgument,
                "ring reader: this attachment is in use; attach_reader() gives another");
  }
  return {};
}

Status RingReader::Impl::map_slots(const std::vector<int>& slot_fds) {
  const ControlHeader& header = ledger->header();
  const std::uint64_t bytes = header.slot_bytes;
  const bool read_only = (header.flags & format::kFlagReadOnly) != 0;
  ledger->slots_writable = !read_only;
  ledger->slots.reserve(slot_fds.size());
  for (const int fd : slot_fds) {
    TRY(check_memfd(fd, bytes, read_only ? kSealReadOnly : kSealSize, "slot"));
    const auto access = read_only ? Region::Access::kPrivate : Region::Access::kReadWrite;
    ASSIGN(Region region, Region::map(fd, bytes, access));
    region.prefault();
    ledger->slots.push_back(std::move(region));
  }
  ASSIGN(layout, SlotLayout::parse(ledger->slots[0].data(), bytes));
  return {};
}

Status RingReader::Impl::check_attached() const {
  // Sequentially consistent: partner of retire_reader() when called after `taken` was stored (protocol 13).
  if (ledger->reader_entry(reader).attach_id.load(std::memory_order_seq_cst) != attach_id) {
    return closed(fmt::format("reader {} was detached", reader));
  }
  return {};
}

/// Take what is pending. Returns an empty lease if nothing is. kClosed comes only when nothing will be pending any
/// more.
Result<Lease> RingReader::Impl::take_pending() {
  // Acquire, with the owner's last store: what it published before it ended is visible below and is still delivered.
  const bool ended = ledger->header().closed.load(std::memory_order_acquire) != 0;
  TRY(check_attached());
  if (!empty()) return take();
  if (ended) return closed("the ring is gone");
  return Lease();
}

/// Protocol 6 and 7. Call when not empty().
Result<Lease> RingReader::Impl::take() {
  const ReaderEntry& mine = ledger->reader_entry(reader);
  const std::uint64_t tail =
      mine.tail.load(std::memory_order_acquire);  // with publish(): all before the tail
  const std::uint64_t delivery =
      mine.queue[head % format::kQueueEntries].load(std::memory_order_acquire);  // with hand_over()
  const std::uint32_t slot = format::slot_of(delivery);
  if (tail - head > slots || slot >= slots) {
    TRY(check_attached());
    return corrupt(fmt::format("delivery of slot {}, {} waiting, of {}", slot, tail - head, slots));
  }
  // Every load is an acquire, so the attach_id below is read last and vouches for all that was read before it.
  const SlotEntry& entry = ledger->slot_entry(slot);
  Lease lease;
  lease.slot_ = slot;
  lease.generation_ = entry.generation.load(std::memory_order_acquire);
  lease.sequence_ = entry.sequence.load(std::memory_order_acquire);
  for (std::size_t word = 0; word < kMetaWords; ++word) {
    lease.meta_[word] = entry.meta[word].load(std::memory_order_acquire);
  }
  const bool ready =
      entry.state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(format::SlotState::kReady);
  const bool held = (entry.holders.load(std::memory_order_acquire) & 1u << reader) != 0;
  TRY(check_attached());
  if (!ready || !held || lease.generation_ != format::generation_of(delivery)) {
    return corrupt(fmt::format("slot {} was delivered and is not ready", slot));
  }
  // Pages that this process wrote in an earlier batch would hide this one.
  if (!ledger->slots_writable) ledger->slots[slot].forget_writes();
  lease.data_ = ledger->slots[slot].data();
  // Stored before the tail of any release of this slot, also by another thread, and before attach_id is read again.
  ledger->own_page().taken.store(++head, std::memory_order_seq_cst);
  ledger->held.fetch_add(1, std::memory_order_relaxed);
  lease.ledger_ = ledger;
  TRY(check_attached());  // else the lease gives the slot back
  return lease;
}

/// Protocol 5: sleep until something is published, at most slice_ms. Errors: kTimeout after a signal.
Status RingReader::Impl::wait(int slice_ms) {
  const ReaderEntry& mine = ledger->reader_entry(reader);
  auto& flag = ledger->own_page().waiting;
  const std::uint32_t seen = mine.wake_word.load(std::memory_order_acquire);  // before the look at the tail
  flag.store(1, std::memory_order_seq_cst);
  Status status;
  const bool ended = ledger->header().closed.load(std::memory_order_acquire) != 0;
  if (!ended && check_attached() && empty() &&
      futex_wait(mine.wake_word, seen, slice_ms) == FutexWait::kInterrupted) {
    status = fail(Code::kTimeout, "ring reader: interrupted by a signal", EINTR);
  }
  flag.store(0, std::memory_order_relaxed);  // a late wake-up is harmless
  return status;
}

/// Sleep a little before asking to be woken. A reader that waits again so soon outruns its producers; without this, a
/// fast stream of small batches would cost them a wake-up each. Errors: as wait().
Status RingReader::Impl::doze() {
  const timespec little{0, kDozeNs};
  if (clock_nanosleep(CLOCK_MONOTONIC, 0, &little, nullptr) == EINTR)
    return fail(Code::kTimeout, "ring reader: interrupted by a signal", EINTR);
  return {};
}

RingReader::RingReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RingReader::~RingReader() = default;

Result<std::unique_ptr<RingReader>> RingReader::attach(const SlotRing::ReaderFds& fds, std::uint32_t reader) {
  auto impl = std::make_unique<Impl>();
  impl->reader = reader;
  TRY(impl->map(fds));
  return std::unique_ptr<RingReader>(new RingReader(std::move(impl)));
}

Result<Lease> RingReader::next(int timeout_ms) {
  Impl& impl = *impl_;
  if (impl.ledger->forked()) return fail(Code::kForked, "ring reader: used in a forked child");
  Result<Lease> lease = impl.take_pending();
  if (!lease || *lease) return lease;
  const std::int64_t end_ns = timeout_ms > 0 ? monotonic_ns() + timeout_ms * 1'000'000LL : 0;
  bool dozed = false;
  for (;;) {
    const std::int64_t left_ns = timeout_ms > 0 ? end_ns - monotonic_ns() : 0;
    if (left_ns <= 0)
      return fail(Code::kTimeout, fmt::format("ring reader: no batch within {} ms", timeout_ms));
    const std::int64_t left_ms = (left_ns + 999'999) / 1'000'000;
    const bool soon = !dozed && end_ns - left_ns - impl.waited_until_ns < kSoonNs;
    const Status slept =
        soon ? impl.doze() : impl.wait(static_cast<int>(std::min<std::int64_t>(left_ms, kSliceMs)));
    const std::int64_t now_ns = monotonic_ns();
    impl.add_waited(now_ns - (end_ns - left_ns));
    impl.waited_until_ns = now_ns;
    dozed = true;
    TRY(slept);
    lease = impl.take_pending();
    if (!lease || *lease) return lease;
  }
}

std::uint32_t RingReader::held() const {
  return impl_->ledger->held.load(std::memory_order_relaxed);
}
std::uint32_t RingReader::pending() const {
  if (impl_->ledger->forked()) return 0;
  // Relaxed: the result is only a figure, and take() looks again. The owner may have written anything there.
  const std::uint64_t tail = impl_->ledger->reader_entry(impl_->reader).tail.load(std::memory_order_relaxed);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(tail - impl_->head, impl_->slots));
}
const SlotLayout& RingReader::layout() const {
  return impl_->layout;
}

}  // namespace carya::shm
