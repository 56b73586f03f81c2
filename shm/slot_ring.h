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
/// Words of a published slot that mean something to the loader only (step, epoch, rows, ...).
inline constexpr std::size_t kMetaWords = 12;
using Meta = std::array<std::uint64_t, kMetaWords>;

struct SlotRingOptions {
  std::uint32_t slots = 4;    ///< memfds, each layout.slot_bytes(); 1..kSlotsMax
  std::uint32_t readers = 1;  ///< pages for readers; 1..kReadersMax
  /// False: slots are write-sealed for readers, who map them privately: what they write stays in their
  /// process and ends with the batch.
  bool readers_may_write = true;
  bool hugetlb = false;  ///< MFD_HUGETLB; an error when the pool is empty
};

/// How much of the ring's memory is in huge pages, and other figures for stats().
struct SlotRingStats {
  std::uint64_t bytes = 0;  ///< of memory, those given back not counted
  std::uint64_t huge_bytes = 0;
  std::uint32_t free = 0, filling = 0, ready = 0, held = 0;
};

/// The owner's side of a ring of slots (DESIGN section 5): one sealed memfd per slot, a control segment that
/// only the owner writes, one page per reader that only that reader writes. States: FREE -> FILLING -> READY
/// -> (per reader) pending -> held -> released -> FREE.
///
/// What a reader writes is checked against the owner's own ledger; a wrong slot, generation or double release
/// detaches that reader with a reason and costs nobody else anything.
/// Threads: acquire, publish, abandon, collect, attach and detach: owner thread only (or under the owner's
/// lock); slot data may be written by any thread between acquire and publish.
class SlotRing {
 public:
  /// Memory is allocated, sealed and pre-faulted here. Errors: kExhausted with the bytes wanted and what to
  /// lower.
  static Result<std::shared_ptr<SlotRing>> create(const SlotLayout& layout, const SlotRingOptions& options);
  virtual ~SlotRing() = default;

  virtual const SlotLayout& layout() const = 0;
  virtual std::uint32_t slots() const = 0;

  /// For a time of little memory: at most so many slots (at least 2) lie FILLING or READY and untaken from
  /// now on; the memory of those that are not needed for that goes back to the system. The number of all
  /// slots ends it. What readers hold is not counted, but a take rings no bell: while limited, try acquire()
  /// now and then. Slots that readers may not write keep their memory: the kernel lets nobody empty them.
  virtual void set_limit(std::uint32_t slots) = 0;

  /// A FREE slot, now FILLING, or none. Collects releases first.
  virtual std::optional<std::uint32_t> acquire() = 0;
  /// Start of the slot's memory (tensors at layout offsets). Valid while the ring or any lease of the slot
  /// lives.
  virtual std::byte* data(std::uint32_t slot) = 0;
  /// FILLING -> READY for every attached reader (or those in `readers_mask`), and wake those that wait.
  /// Sequences ascend.
  virtual void publish(std::uint32_t slot, std::uint64_t sequence, const Meta& meta,
                       std::uint32_t readers_mask = ~0u) = 0;
  /// FILLING -> FREE: nothing was published.
  virtual void abandon(std::uint32_t slot) = 0;
  /// Take in what readers released; returns how many slots became FREE. Never blocks.
  virtual std::uint32_t collect() = 0;

  /// Rung by readers on release (and on death) when asked for by wait flag. Poll it for POLLIN; then
  /// collect().
  virtual int event_fd() const = 0;
  /// Tell readers that the owner sleeps and wants the bell: set true, collect() once more, then sleep on
  /// event_fd().
  virtual void set_waiting(bool waiting) = 0;

  /// A new reader: its index. Its page is new memory (4096 B). It is delivered the READY slots from that
  /// sequence on, in order, then what is published from now on.
  /// Errors: kExhausted; kNotFound, when one of them was FREE already.
  virtual Result<std::uint32_t> attach_reader(std::uint64_t from_sequence = UINT64_MAX) = 0;
  /// It will take no more, but what it has taken may still have users: that stays held until it is released.
  /// What was delivered and not taken is dropped, and the reader hears kClosed. It keeps its index until
  /// detach_reader(), to be called when held_by() is 0 or its process has ended.
  virtual void retire_reader(std::uint32_t reader, const std::string& reason) = 0;
  /// The reader has ended and may have a successor: from now on what it has not taken, and what is published,
  /// stays READY for attach_reader(from_sequence), also when nobody holds it. Call before detach_reader().
  virtual void keep_untaken(std::uint32_t reader) = 0;
  /// What was published before that sequence is kept no longer.
  virtual void drop_kept(std::uint64_t before_sequence) = 0;
  /// All readers are here, or none will come: nothing is kept any more.
  virtual void stop_keeping() = 0;
  /// Its leases and pending slots are taken back at once (the reader is dead, or misbehaved). Not for a
  /// reader whose leases still have users: retire that one.
  virtual void detach_reader(std::uint32_t reader, const std::string& reason) = 0;
  /// Why a reader was detached or retired, "" while it is attached.
  virtual std::string detach_reason(std::uint32_t reader) const = 0;
  /// Slots that the reader holds leases on (READY and taken, not released); of one that was retired, as
  /// collect() saw it last.
  virtual std::uint32_t held_by(std::uint32_t reader) const = 0;
  /// Nanoseconds that a reader says it has slept for batches: any number.
  virtual std::uint64_t waited_ns(std::uint32_t reader) const = 0;
  /// The least of that of all attached readers: who slept least keeps the others waiting. 0 without any.
  virtual std::uint64_t least_waited_ns() const = 0;

  /// Descriptors to pass to a reader in another process: control (read-only), the reader's page, the bell,
  /// then the slots.
  struct ReaderFds {
    int control, page, bell;
    std::vector<int> slots;
  };
  virtual ReaderFds reader_fds(std::uint32_t reader) const = 0;

  virtual SlotRingStats stats() const = 0;
};

/// A reader's right to one published slot. Movable; released once, in any thread, without any lock of the
/// loader, also after the reader, the ring or the engine is gone. In a forked child the release does nothing.
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

/// A reader's side. In the owner's process `attach` works too (embedded mode uses the same layout and the
/// same code). Threads: next() by one thread at a time; leases are released from any.
class RingReader {
 public:
  /// Maps what the owner passed; everything in it is checked (magic, version, sizes, seals). Takes duplicates
  /// of the descriptors: the caller still closes its own. Errors: kCorrupt, kExhausted.
  static Result<std::unique_ptr<RingReader>> attach(const SlotRing::ReaderFds& fds, std::uint32_t reader);
  ~RingReader();

  /// The next published slot for this reader, in order of publication. No system call when one is ready; else
  /// sleeps on its futex, at most 200 ms at a time and timeout_ms in all (0: do not wait). A signal ends the
  /// wait early with kTimeout and sys_errno EINTR. After kClosed or kCorrupt the same comes again; leases
  /// stay good. Errors: kTimeout, kClosed (detached; or the ring has ended and all it published was taken),
  /// kCorrupt, kForked.
  Result<Lease> next(int timeout_ms);
  /// Leases not yet released.
  std::uint32_t held() const;
  /// Published for this reader and not taken yet. By the thread that calls next(). Costs one load.
  std::uint32_t pending() const;
  const SlotLayout& layout() const;

 private:
  struct Impl;
  explicit RingReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Whether this process is a fork()ed child of one that used rings (leases then do nothing, next() is
/// kForked).
bool in_forked_child();

}  // namespace carya::shm
