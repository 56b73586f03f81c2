#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "shm/slot_layout.h"

namespace carya::shm {

inline constexpr std::uint32_t kSlotsMax = 256;
inline constexpr std::uint32_t kReadersMax = 32;
/// Words of a published slot whose meaning only the loader knows (step, epoch, rows, ...).
inline constexpr std::size_t kMetaWords = 12;
using Meta = std::array<std::uint64_t, kMetaWords>;

struct SlotRingOptions {
  std::uint32_t slots = 4;    ///< memfds, each layout.slot_bytes(); 1..kSlotsMax
  std::uint32_t readers = 1;  ///< pages for readers; 1..kReadersMax
  /// False: slots are write-sealed for readers, who map them privately. What a reader writes stays in its process and
  /// ends with the batch.
  bool readers_may_write = true;
  bool hugetlb = false;  ///< use MFD_HUGETLB; create() fails when the pool is empty
};

/// Statistics of a ring for stats().
struct SlotRingStats {
  std::uint64_t bytes = 0;  ///< the ring's memory, without what was given back to the system
  std::uint64_t huge_bytes = 0;
  std::uint32_t free = 0, filling = 0, ready = 0, held = 0;
};

/// The owner's side of a ring of slots (DESIGN section 5). A ring has one sealed memfd per slot, a control segment that
/// only the owner writes, and one page per reader that only that reader writes. States: FREE -> FILLING -> READY
/// -> (per reader) pending -> held -> released -> FREE.
///
/// The owner checks what a reader writes against its own ledger. A wrong slot, a wrong generation or a double release
/// detaches that reader with a reason, and costs nobody else anything.
/// Threads: acquire, publish, abandon, collect, attach and detach: owner thread only (or under the owner's lock). Any
/// thread may write a slot's data between acquire and publish.
class SlotRing {
 public:
  /// Allocate, seal and pre-fault the memory. Errors: kExhausted, with the bytes wanted and what to lower.
  static Result<std::shared_ptr<SlotRing>> create(const SlotLayout& layout, const SlotRingOptions& options);
  virtual ~SlotRing() = default;

  virtual const SlotLayout& layout() const = 0;
  virtual std::uint32_t slots() const = 0;

  /// Limit the ring while memory is short: from now on at most `slots` (at least 2) are FILLING, or READY and untaken.
  /// The memory of the other slots goes back to the system. The number of all slots ends the limit. Slots that readers
  /// hold are not counted, but a take rings no bell: while the ring is limited, try acquire() now and then. Slots that
  /// readers may not write keep their memory, since the kernel lets nobody empty them.
  virtual void set_limit(std::uint32_t slots) = 0;

  /// Collect releases, then turn a FREE slot to FILLING and return it; empty if there is none.
  virtual std::optional<std::uint32_t> acquire() = 0;
  /// The start of the slot's memory; tensors lie at the layout's offsets. Valid while the ring or any lease of the slot
  /// lives.
  virtual std::byte* data(std::uint32_t slot) = 0;
  /// FILLING -> READY for every attached reader (or those in `readers_mask`). Wakes the readers that wait. Sequences
  /// ascend.
  virtual void publish(std::uint32_t slot, std::uint64_t sequence, const Meta& meta,
                       std::uint32_t readers_mask = ~0u) = 0;
  /// FILLING -> FREE, since nothing was published.
  virtual void abandon(std::uint32_t slot) = 0;
  /// Take in the slots that readers released. Returns how many slots became FREE. Never blocks.
  virtual std::uint32_t collect() = 0;

  /// The owner's bell. Readers ring it on release (and on death) while set_waiting(true) asks for it. Poll it for
  /// POLLIN; then collect().
  virtual int event_fd() const = 0;
  /// Tell readers whether the owner sleeps and wants the bell. Set true, collect() once more, then sleep on event_fd().
  virtual void set_waiting(bool waiting) = 0;

  /// Attach a new reader, whose page is new memory (4096 B). Returns the reader's index. The reader gets the READY
  /// slots from that sequence on, in order, then those that are published from now on.
  /// Errors: kExhausted; kNotFound if one of those slots was FREE already.
  virtual Result<std::uint32_t> attach_reader(std::uint64_t from_sequence = UINT64_MAX) = 0;
  /// Deliver nothing more to the reader. Slots that it took may still have users and stay held until they are released.
  /// Slots that were delivered and not taken are dropped, and the reader gets kClosed. The reader keeps its index until
  /// detach_reader(), which the owner calls when held_by() is 0 or the reader's process has ended.
  virtual void retire_reader(std::uint32_t reader, const std::string& reason) = 0;
  /// The reader has ended and may have a successor. Slots that it has not taken, and those that are published from now
  /// on, stay READY for attach_reader(from_sequence), even if nobody holds them. Call it before detach_reader().
  virtual void keep_untaken(std::uint32_t reader) = 0;
  /// Keep slots of lower sequences no longer.
  virtual void drop_kept(std::uint64_t before_sequence) = 0;
  /// Keep nothing any more: all readers are here, or none will come.
  virtual void stop_keeping() = 0;
  /// Take back the reader's leases and pending slots at once, since the reader is dead or misbehaved. Retire a reader
  /// whose leases still have users instead.
  virtual void detach_reader(std::uint32_t reader, const std::string& reason) = 0;
  /// Why the reader was detached or retired; "" while it is attached.
  virtual std::string detach_reason(std::uint32_t reader) const = 0;
  /// The number of slots that the reader leases (READY, taken and not released). For a retired reader it is the number
  /// at the last collect().
  virtual std::uint32_t held_by(std::uint32_t reader) const = 0;
  /// The number of slots that were delivered to the reader and that it has not released, taken or not.
  virtual std::uint32_t owed_by(std::uint32_t reader) const = 0;
  /// The number of slots that retired readers lease, each counted once.
  virtual std::uint32_t held_by_retired() const = 0;
  /// The nanoseconds that the reader says it slept for batches; the reader may write any number.
  virtual std::uint64_t waited_ns(std::uint32_t reader) const = 0;
  /// The least waited_ns() of all attached readers: the one that slept least keeps the others waiting. 0 without any.
  virtual std::uint64_t least_waited_ns() const = 0;

  /// The descriptors for a reader in another process: control (read-only), the reader's page, the bell, then the slots.
  struct ReaderFds {
    int control, page, bell;
    std::vector<int> slots;
  };
  virtual ReaderFds reader_fds(std::uint32_t reader) const = 0;

  virtual SlotRingStats stats() const = 0;
};

/// A reader's right to one published slot. Movable. Any thread may release it, once, without a lock of the loader, even
/// after the reader, the ring or the engine is gone. In a forked child the release does nothing.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  ~Lease();

  explicit operator bool() const { return ledger_ != nullptr; }
  const std::byte* data() const { return data_; }
  std::byte* writable_data() const;  ///< nullptr when slots are read-only for readers
  std::uint32_t slot() const { return slot_; }
  std::uint64_t sequence() const { return sequence_; }
  const Meta& meta() const { return meta_; }
  void release();

 private:
  friend class RingReader;
  struct Ledger;
  std::shared_ptr<Ledger> ledger_;  // the reader's mappings and its page; outlives the reader
  std::byte* data_ = nullptr;
  std::uint32_t slot_ = 0;
  std::uint32_t generation_ = 0;
  std::uint64_t sequence_ = 0;
  Meta meta_{};
};

/// The reader's side of a ring. It also works in the owner's process: embedded streams use the same layout and code.
/// Threads: next() by one thread at a time; any thread releases leases.
class RingReader {
 public:
  /// Map what the owner passed, and check magic, version, sizes and seals. The reader duplicates the descriptors; the
  /// caller still closes its own. Errors: kCorrupt, kExhausted.
  static Result<std::unique_ptr<RingReader>> attach(const SlotRing::ReaderFds& fds, std::uint32_t reader);
  ~RingReader();

  /// Returns the next slot that was published for this reader, in order of publication. It needs no system call if one
  /// is ready. Else it sleeps on its futex, at most 200 ms at a time and timeout_ms in all (0: do not wait). A signal
  /// ends the wait early with kTimeout and sys_errno EINTR. Errors: kTimeout, kClosed (the reader is detached, or the
  /// ring has ended and all that it published was taken), kCorrupt, kForked. kClosed and kCorrupt come again at each
  /// call; leases stay valid.
  Result<Lease> next(int timeout_ms);
  /// The number of leases that are not released.
  std::uint32_t held() const;
  /// The number of slots that are published for this reader and not taken. Call it in the thread of next(). Cost: one
  /// load.
  std::uint32_t pending() const;
  const SlotLayout& layout() const;

 private:
  struct Impl;
  explicit RingReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Whether this process is a fork()ed child of one that used rings. Leases then do nothing, and next() fails with
/// kForked.
bool in_forked_child();

}  // namespace carya::shm
