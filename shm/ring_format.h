#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shm/slot_ring.h"

/// The bytes that owner and readers share, version 1 (FORMAT.md). Little-endian machines only. They are fixed-width
/// integers and lock-free atomics of those, no pointers. A side loads what the other side wrote once, and checks it
/// before use.
namespace carya::shm::format {

inline constexpr std::uint64_t kControlMagic = 0x3154'4341'5952'4143;  // "CARYACT1", first byte lowest
inline constexpr std::uint64_t kPageMagic = 0x3150'5241'5952'4143;     // "CARYARP1"
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kFlagReadOnly =
    1;  ///< readers map slots read-only; the slots are write-sealed

/// The entries of a delivery queue and of a release ring. A slot is in each at most once, so that neither can overflow.
inline constexpr std::uint32_t kQueueEntries = kSlotsMax;

/// An entry of either one: the generation in the high half, the slot in the low half.
constexpr std::uint64_t pack(std::uint32_t slot, std::uint32_t generation) {
  return static_cast<std::uint64_t>(generation) << 32 | slot;
}
constexpr std::uint32_t slot_of(std::uint64_t entry) {
  return static_cast<std::uint32_t>(entry);
}
constexpr std::uint32_t generation_of(std::uint64_t entry) {
  return static_cast<std::uint32_t>(entry >> 32);
}

using Word32 = std::atomic<std::uint32_t>;
using Word64 = std::atomic<std::uint64_t>;
static_assert(Word32::is_always_lock_free && Word64::is_always_lock_free);
static_assert(sizeof(Word32) == 4 && sizeof(Word64) == 8);

enum class SlotState : std::uint32_t { kFree = 0, kFilling = 1, kReady = 2 };

/// The start of the control segment. Only the owner writes it.
struct ControlHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t flags;
  std::uint64_t control_bytes;
  std::uint64_t slot_bytes;
  std::uint64_t slots_offset;
  std::uint64_t readers_offset;
  std::uint32_t slots;
  std::uint32_t readers;
  alignas(64) Word32 closed;         ///< 1: the ring is gone; nothing will be published or rewritten
  alignas(64) Word32 owner_waiting;  ///< 1: ring the bell after a release
};

/// One slot, in the control segment. Only the owner writes it.
struct alignas(64) SlotEntry {
  Word32 state;
  Word32 generation;  ///< counts the slot's fillings
  Word64 sequence;
  Word32 holders;  ///< bit r: reader r has not released the slot
  std::uint32_t reserved;
  std::uint64_t reserved_2;
  Word64 meta[kMetaWords];
};

/// One reader, in the control segment. Only the owner writes it.
struct alignas(64) ReaderEntry {
  Word32 attach_id;  ///< 0: detached; else the number of the attachment
  alignas(
      64) Word32 wake_word;  ///< the futex; changes with every publication and when the reader must look up
  std::uint32_t reserved;
  Word64 tail;  ///< deliveries so far
  alignas(64) Word64 queue[kQueueEntries];
};

/// A reader's own page. After the owner has made it, only that reader writes it.
struct alignas(64) ReaderPage {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reader;
  std::uint32_t attach_id;
  std::uint32_t entries;
  Word32 claimed;  ///< 1: a RingReader uses this attachment; a second one would corrupt its releases
  alignas(64) Word32 waiting;  ///< 1: wake the futex after a publication
  std::uint32_t reserved;
  Word64 waited_ns;          ///< nanoseconds that the reader has slept for batches so far
  alignas(64) Word64 taken;  ///< deliveries that the reader has taken
  alignas(64) Word64 tail;   ///< releases so far
  alignas(64) Word64 releases[kQueueEntries];
};

inline constexpr std::uint64_t kSlotsOffset = 4096;
inline constexpr std::uint64_t kReadersOffset = kSlotsOffset + kSlotsMax * sizeof(SlotEntry);
inline constexpr std::uint64_t kControlBytes = kReadersOffset + kReadersMax * sizeof(ReaderEntry);
inline constexpr std::uint64_t kPageBytes = 4096;

template <typename T>
inline constexpr bool kSharable = std::is_standard_layout_v<T> && std::is_trivially_destructible_v<T>;
static_assert(kSharable<ControlHeader> && kSharable<SlotEntry> && kSharable<ReaderEntry> &&
              kSharable<ReaderPage>);
static_assert(sizeof(ControlHeader) == 192 && offsetof(ControlHeader, control_bytes) == 16);
static_assert(offsetof(ControlHeader, slots) == 48 && offsetof(ControlHeader, closed) == 64);
static_assert(offsetof(ControlHeader, owner_waiting) == 128);
static_assert(sizeof(SlotEntry) == 128 && offsetof(SlotEntry, sequence) == 8 &&
              offsetof(SlotEntry, meta) == 32);
static_assert(sizeof(ReaderEntry) == 2176 && offsetof(ReaderEntry, wake_word) == 64);
static_assert(offsetof(ReaderEntry, tail) == 72 && offsetof(ReaderEntry, queue) == 128);
static_assert(sizeof(ReaderPage) == 2304 && sizeof(ReaderPage) <= kPageBytes);
static_assert(offsetof(ReaderPage, claimed) == 24);
static_assert(offsetof(ReaderPage, waiting) == 64 && offsetof(ReaderPage, waited_ns) == 72);
static_assert(offsetof(ReaderPage, taken) == 128);
static_assert(offsetof(ReaderPage, tail) == 192 && offsetof(ReaderPage, releases) == 256);
static_assert(kReadersOffset == 36864 && kControlBytes == 106496 && kControlBytes % 4096 == 0);
static_assert((kQueueEntries & (kQueueEntries - 1)) == 0, "positions wrap by masking");

}  // namespace carya::shm::format
