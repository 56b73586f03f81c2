#include <fcntl.h>
#include <gtest/gtest.h>

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <cstring>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "shm/memfd.h"
#include "shm/ring_format.h"
#include "tests/shm/ring_fixture.h"

// What a reader's descriptors do not allow, tried with the system calls of a hostile reader; and what a
// reader refuses to map.

namespace carya::shm {
namespace {

/// errno of an attempt to map the file for writing, 0 if it worked.
int map_for_writing(int fd) {
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return errno;
  munmap(memory, 4096);
  return 0;
}

/// errno of an attempt to make a read-only mapping writable, 0 if it worked.
int make_mapping_writable(int fd) {
  void* memory = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  EXPECT_NE(memory, MAP_FAILED);
  const int error = mprotect(memory, 4096, PROT_READ | PROT_WRITE) == 0 ? 0 : errno;
  munmap(memory, 4096);
  return error;
}

void expect_unwritable(int fd) {
  EXPECT_EQ(map_for_writing(fd), EPERM);
  EXPECT_EQ(make_mapping_writable(fd), EACCES);
  EXPECT_EQ(pwrite(fd, "x", 1, 0), -1);
  EXPECT_NE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);  // a fresh description of the same file
  const UniqueFd again(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (again) {
    EXPECT_EQ(map_for_writing(again.get()), EPERM);
  }
}

void expect_size_fixed(int fd) {
  EXPECT_NE(ftruncate(fd, 0), 0);
  EXPECT_NE(ftruncate(fd, 1 << 30), 0);
  EXPECT_NE(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0) << "the set of seals is closed";
}

TEST(RingSeals, ControlIsReadOnlyForReaders) {
  auto ring = make_ring();
  auto [index, reader] = attach(*ring);
  const auto fds = ring->reader_fds(index);
  expect_unwritable(fds.control);
  expect_size_fixed(fds.control);
  publish_value(*ring, 1, 1);  // while the owner's own mapping still writes
  EXPECT_TRUE(reader->next(0).has_value());
}

TEST(RingSeals, SizesOfPageAndSlotsAreFixed) {
  auto ring = make_ring();
  auto [index, reader] = attach(*ring);
  const auto fds = ring->reader_fds(index);
  expect_size_fixed(fds.page);
  for (const int slot : fds.slots) expect_size_fixed(slot);
}

TEST(RingSeals, SlotsOfReadersThatMayWriteAreWritable) {
  auto ring = make_ring({.readers_may_write = true});
  auto [index, reader] = attach(*ring);
  publish_value(*ring, 1, 1);
  auto lease = reader->next(0);
  ASSERT_TRUE(lease.has_value());
  ASSERT_EQ(lease->writable_data(), lease->data());
  lease->writable_data()[4096] = std::byte{9};
}

TEST(RingSeals, SharedSlotsAreReadOnly) {
  auto ring = make_ring({.readers_may_write = false});
  auto [index, reader] = attach(*ring);
  for (const int slot : ring->reader_fds(index).slots) {
    expect_unwritable(slot);
    expect_size_fixed(slot);
  }
  publish_value(*ring, 1, 5);
  auto lease = reader->next(0);
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(lease->writable_data(), nullptr);
  EXPECT_TRUE(all_bytes_are(reader->layout(), lease->data(), 5));
}

TEST(RingSeals, WritesIntoASharedSlotStayInTheProcessAndEndWithTheBatch) {
  auto ring = make_ring({.readers = 2, .readers_may_write = false});
  auto [index, reader] = attach(*ring);
  auto [other_index, other] = attach(*ring);
  for (std::uint8_t value = 1; value <= 6; ++value) {  // more than there are slots
    publish_value(*ring, value, value);
    auto lease = reader->next(0);
    auto others = other->next(0);
    ASSERT_TRUE(lease.has_value() && others.has_value());
    EXPECT_TRUE(all_bytes_are(reader->layout(), lease->data(), value));
    // A trainer that works in place, as torch's operations do whatever the array's flags say.
    for (const SlotTensor& tensor : reader->layout().tensors())
      std::memset(const_cast<std::byte*>(lease->data()) + tensor.offset, 99, tensor.bytes());
    EXPECT_TRUE(all_bytes_are(other->layout(), others->data(), value));
  }
}

/// A memfd of `bytes` whose first bytes are copied from `like`, sealed with `seals`.
UniqueFd forged(int like, std::uint64_t bytes, unsigned seals) {
  auto fd = create_memfd("carya-forged", bytes, false);
  CHECK(fd.has_value());
  std::vector<char> copy(bytes);
  const ssize_t got = pread(like, copy.data(), copy.size(), 0);
  CHECK(got >= 0 && pwrite(fd->get(), copy.data(), copy.size(), 0) == static_cast<ssize_t>(copy.size()));
  CHECK(seals == 0 || seal_memfd(fd->get(), seals).has_value());
  return std::move(*fd);
}

class ForgedRing : public ::testing::Test {
 protected:
  Code attach_with(const SlotRing::ReaderFds& changed, std::uint32_t reader = 0) {
    const auto attached = RingReader::attach(changed, reader);
    return attached ? Code::kIo : attached.error().code;  // kIo stands for "was accepted"
  }
  /// Attach to a copy of the control segment with one byte changed.
  Code attach_with_control_byte(std::size_t offset, char value) {
    auto control = forged(fds.control, format::kControlBytes, 0);
    CHECK(pwrite(control.get(), &value, 1, static_cast<off_t>(offset)) == 1);
    CHECK(seal_memfd(control.get(), kSealReadOnly).has_value());
    SlotRing::ReaderFds changed = fds;
    changed.control = control.get();
    return attach_with(changed);
  }

  std::shared_ptr<SlotRing> ring = make_ring({.slots = 2});
  std::uint32_t index = *ring->attach_reader();
  SlotRing::ReaderFds fds = ring->reader_fds(index);
};

TEST_F(ForgedRing, AnExactCopyIsAcceptedSoTheOthersMeanSomething) {
  const auto control = forged(fds.control, format::kControlBytes, kSealReadOnly);
  SlotRing::ReaderFds changed = fds;
  changed.control = control.get();
  EXPECT_EQ(attach_with(changed), Code::kIo);
}

TEST_F(ForgedRing, UnsealedFilesAreRefused) {
  const auto control = forged(fds.control, format::kControlBytes, kSealSize);
  const auto page = forged(fds.page, format::kPageBytes, 0);
  const auto slot = forged(fds.slots[0], ring->layout().slot_bytes(), 0);
  SlotRing::ReaderFds changed = fds;
  changed.control = control.get();
  EXPECT_EQ(attach_with(changed), Code::kCorrupt);
  changed = fds;
  changed.page = page.get();
  EXPECT_EQ(attach_with(changed), Code::kCorrupt);
  changed = fds;
  changed.slots[1] = slot.get();
  EXPECT_EQ(attach_with(changed), Code::kCorrupt);
}

TEST_F(ForgedRing, WrongSizesAndThingsThatAreNoMemfdsAreRefused) {
  SlotRing::ReaderFds changed = fds;
  for (const std::uint64_t bytes : {std::uint64_t{4096}, ring->layout().slot_bytes() + 4096}) {
    const auto slot = forged(fds.slots[0], bytes, kSealSize);
    changed.slots[1] = slot.get();
    EXPECT_EQ(attach_with(changed), Code::kCorrupt) << bytes;
  }
  changed = fds;
  changed.control = fds.slots[0];
  EXPECT_EQ(attach_with(changed), Code::kCorrupt);
  changed = fds;
  changed.page = fds.bell;
  EXPECT_EQ(attach_with(changed), Code::kCorrupt);
  changed = fds;
  changed.control = -1;
  EXPECT_EQ(attach_with(changed), Code::kCorrupt);
  changed = fds;
  changed.slots.pop_back();
  EXPECT_EQ(attach_with(changed), Code::kCorrupt);
  changed = fds;
  changed.slots.clear();
  EXPECT_EQ(attach_with(changed), Code::kCorrupt);
}

TEST_F(ForgedRing, ABellThatCouldBlockAReleaseIsRefused) {
  const UniqueFd blocking(eventfd(0, EFD_CLOEXEC));
  SlotRing::ReaderFds changed = fds;
  changed.bell = blocking.get();
  EXPECT_EQ(attach_with(changed), Code::kCorrupt);
}

TEST_F(ForgedRing, HeadersAreChecked) {
  EXPECT_EQ(attach_with_control_byte(0, 'X'), Code::kCorrupt) << "magic";
  EXPECT_EQ(attach_with_control_byte(8, 2), Code::kCorrupt) << "version";
  EXPECT_EQ(attach_with_control_byte(16, 1), Code::kCorrupt) << "control bytes";
  EXPECT_EQ(attach_with_control_byte(24, 1), Code::kCorrupt) << "slot bytes";
  EXPECT_EQ(attach_with_control_byte(32, 1), Code::kCorrupt) << "slots offset";
  EXPECT_EQ(attach_with_control_byte(40, 1), Code::kCorrupt) << "readers offset";
  EXPECT_EQ(attach_with_control_byte(48, 3), Code::kCorrupt) << "slots";
  EXPECT_EQ(attach_with_control_byte(52, 0), Code::kCorrupt) << "readers";
  EXPECT_EQ(attach_with_control_byte(53, 1), Code::kCorrupt) << "readers";
  EXPECT_EQ(attach_with_control_byte(12, 1), Code::kCorrupt) << "says read-only, the slots are not sealed so";
  EXPECT_EQ(attach_with_control_byte(64, 1), Code::kClosed) << "closed";
  EXPECT_EQ(attach_with(fds, 1), Code::kCorrupt) << "another reader's number";
  EXPECT_EQ(attach_with(fds, ~0u), Code::kCorrupt) << "no reader's number";
}

TEST_F(ForgedRing, ALyingOwnerIsAnErrorAndNoCrash) {
  // A copy of the control segment that this test may write, sealed the way readers want it.
  auto control = create_memfd("carya-forged", format::kControlBytes, false);
  ASSERT_TRUE(control.has_value());
  void* memory = mmap(nullptr, format::kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, control->get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(pread(fds.control, memory, format::kControlBytes, 0),
            static_cast<ssize_t>(format::kControlBytes));
  ASSERT_TRUE(seal_memfd(control->get(), kSealReadOnly).has_value());
  SlotRing::ReaderFds changed = fds;
  changed.control = control->get();
  auto reader = RingReader::attach(changed, index);
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  auto& entry =
      *reinterpret_cast<format::ReaderEntry*>(static_cast<std::byte*>(memory) + format::kReadersOffset);
  entry.tail = 1;
  entry.queue[0] = format::pack(1'000'000, 1);
  EXPECT_EQ((*reader)->next(0).error().code, Code::kCorrupt) << "no such slot";
  entry.queue[0] = format::pack(1, 7);
  EXPECT_EQ((*reader)->next(0).error().code, Code::kCorrupt) << "a slot that is not ready";
  entry.tail = 1ull << 50;
  EXPECT_EQ((*reader)->next(0).error().code, Code::kCorrupt) << "more than there are slots";
  munmap(memory, format::kControlBytes);
}

}  // namespace
}  // namespace carya::shm
