#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "shm/fork_watch.h"
#include "shm/region.h"
#include "shm/ring_format.h"
#include "shm/ring_memory.h"
#include "shm/slot_ledger.h"
#include "shm/slot_ring.h"

namespace carya::shm {

/// The owner of a ring; slot_ring.cc has the protocol and all functions. Threads: as SlotRing says.
class OwnedRing final : public SlotRing {
 public:
  OwnedRing(const SlotLayout& layout, const SlotRingOptions& options)
      : layout_(layout), options_(options), ledger_(options.slots), readers_(options.readers) {}
  ~OwnedRing() override;
  Status open();

  const SlotLayout& layout() const override { return layout_; }
  std::uint32_t slots() const override { return options_.slots; }
  void set_limit(std::uint32_t slots) override;
  std::optional<std::uint32_t> acquire() override;
  std::byte* data(std::uint32_t slot) override;
  void publish(std::uint32_t slot, std::uint64_t sequence, const Meta& meta,
               std::uint32_t readers_mask) override;
  void abandon(std::uint32_t slot) override;
  std::uint32_t collect() override;
  int event_fd() const override { return epoll_.get(); }
  void set_waiting(bool waiting) override;
  Result<std::uint32_t> attach_reader(std::uint64_t from_sequence) override;
  void retire_reader(std::uint32_t reader, const std::string& reason) override;
  void keep_untaken(std::uint32_t reader) override;
  void drop_kept(std::uint64_t before_sequence) override;
  void stop_keeping() override;
  void detach_reader(std::uint32_t reader, const std::string& reason) override;
  std::string detach_reason(std::uint32_t reader) const override;
  std::uint32_t held_by(std::uint32_t reader) const override;
  std::uint32_t owed_by(std::uint32_t reader) const override {
    return static_cast<std::uint32_t>(slots_of(reader).count());
  }
  std::uint32_t held_by_retired() const override;
  std::uint64_t waited_ns(std::uint32_t reader) const override;
  std::uint64_t least_waited_ns() const override;
  ReaderFds reader_fds(std::uint32_t reader) const override;
  SlotRingStats stats() const override;

 private:
  /// The owner's record of one reader.
  struct Reader {
    UniqueFd page_fd;
    UniqueFd bell;
    Region page;             // read-only: the reader alone writes it
    std::uint64_t head = 0;  // releases taken in
    std::string reason = "never attached";

    const format::ReaderPage& shared() const {
      return *reinterpret_cast<const format::ReaderPage*>(page.data());
    }
  };

  bool forked() const { return epoch_ != fork_epoch(); }
  format::SlotEntry& slot_entry(std::uint32_t slot) { return memory_.slot_entry(slot); }
  format::ReaderEntry& reader_entry(std::uint32_t reader) { return memory_.reader_entry(reader); }
  Status open_reader(Reader& reader, std::uint32_t index, std::uint32_t attach_id);
  void mirror(std::uint32_t slot);
  void mirror_all(const std::bitset<kSlotsMax>& slots);
  void wake(std::uint32_t readers_mask);
  void hand_over(std::uint32_t slot, std::uint32_t reader);
  Status collect_reader(std::uint32_t reader, std::uint32_t& freed);
  Status listen_last(std::uint32_t reader);
  std::bitset<kSlotsMax> slots_of(std::uint32_t reader) const;
  std::uint32_t take_back(std::uint32_t reader, const std::string& reason);
  bool has_memory(std::uint32_t slot);
  void give_back();

  const SlotLayout layout_;
  const SlotRingOptions options_;
  const std::uint32_t epoch_ = fork_epoch();
  UniqueFd epoll_;
  RingMemory memory_;

  // The truth. The control segment is a copy of it for readers; the owner never reads that copy back.
  SlotLedger ledger_;
  std::vector<Reader> readers_;
  std::uint32_t attachments_ = 0;
  std::uint32_t limit_ = options_.slots;
  std::vector<bool> emptied_ = std::vector<bool>(options_.slots);  // FREE slots whose memory was given back
  std::optional<std::uint64_t> last_sequence_;
  bool waiting_ = false;
};

}  // namespace carya::shm
