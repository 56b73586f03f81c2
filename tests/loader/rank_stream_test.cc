#include "loader/job/local_stream.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "base/clock.h"
#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

/// Hash of the slots of an epoch. Three leases are held at any time; `before_each` is called before each wait
/// for a batch, and again while none comes.
template <typename BeforeEach>
std::vector<std::uint64_t> read_epoch(const Opened& opened, BeforeEach before_each) {
  auto stream = LocalStream::create(opened.pipeline, opened.dataset, {.epochs = 1, .threads = 2, .slots = 8});
  EXPECT_TRUE(stream) << (stream ? "" : stream.error().message);
  const auto index = (*stream)->attach_reader();
  EXPECT_TRUE(index);
  auto reader = shm::RingReader::attach((*stream)->reader_fds(*index), *index);
  EXPECT_TRUE(reader && (*stream)->start());
  std::vector<std::uint64_t> hashes;
  std::deque<shm::Lease> held;
  for (int tries = 0; hashes.size() < 20 && tries < 4000; ++tries) {
    before_each(**stream, hashes.size());
    auto lease = (*reader)->next(20);
    if (!lease) continue;
    std::uint64_t hash = 0;
    for (const shm::SlotTensor& tensor : (*reader)->layout().tensors())
      hash = hash64(std::span(lease->data() + tensor.offset, tensor.bytes()), hash);
    hashes.push_back(hash);
    held.push_back(std::move(*lease));
    if (held.size() > 3) held.pop_front();
  }
  return hashes;
}

TEST(LocalStream, WithLessMemoryTheStreamIsTheSameAndGoesOn) {
  const PhotoFolder folder(80);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = read_epoch(opened, [](LocalStream&, std::size_t) {});
  ASSERT_EQ(expected.size(), 20u);
  std::uint64_t least = UINT64_MAX, all = 0;
  const auto hashes = read_epoch(opened, [&](LocalStream& stream, std::size_t batch) {
    const double share = batch < 4 || batch >= 14 ? 1 : 1.0 / 64;
    stream.set_memory_share(share, share);
    all = stream.ring_bytes();
    least = std::min(least, stream.figures().ring.bytes);
  });
  EXPECT_EQ(hashes, expected);
  EXPECT_LT(least, all) << "memory went back meanwhile";
}

// Batches that lie ready were made under the policy of before: nobody who comes under another one is given
// them.
TEST(LocalStream, WhatWasMadeUnderAnotherPolicyIsNoPlaceToGoOnFrom) {
  const PhotoFolder folder(40);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto stream = LocalStream::create(opened.pipeline, opened.dataset, {.threads = 1, .slots = 4});
  ASSERT_TRUE(stream);
  ASSERT_TRUE((*stream)->attach_reader());
  ASSERT_TRUE((*stream)->start());
  while ((*stream)->figures().ring.ready < 4) std::this_thread::yield();
  EXPECT_EQ((*stream)->sequence_at(0, 4), 2u);
  EXPECT_FALSE(*(*stream)->set_on_error(transforms::OnError::kRaise)) << "the same as before";
  EXPECT_EQ((*stream)->sequence_at(0, 4), 2u);
  EXPECT_TRUE(*(*stream)->set_on_error(transforms::OnError::kMask));
  EXPECT_EQ((*stream)->sequence_at(0, 4), std::nullopt);
  ASSERT_TRUE((*stream)->seek(0, 8));
  EXPECT_NE((*stream)->sequence_at(0, 8), std::nullopt) << "made under the new one";
  (*stream)->close();
}

// A look takes in what the reader released, and with it the bell that the engine sleeps on.
TEST(LocalStream, GoesOnWhoeverIsFirstToSeeARelease) {
  const PhotoFolder folder(40);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto stream = LocalStream::create(opened.pipeline, opened.dataset, {.threads = 1, .slots = 2});
  ASSERT_TRUE(stream);
  const auto index = (*stream)->attach_reader();
  ASSERT_TRUE(index);
  const auto reader = shm::RingReader::attach((*stream)->reader_fds(*index), *index);
  ASSERT_TRUE(reader && (*stream)->start());
  const auto look = [&](int batch) {
    if (batch % 3 == 0) (*stream)->owed_by(*index);
    if (batch % 3 == 1) (*stream)->held_by_retired();
    if (batch % 3 == 2) (*stream)->is_done(*index);
  };
  for (int batch = 0; batch < 300; ++batch) {
    auto lease = (*reader)->next(20'000);
    ASSERT_TRUE(lease) << "batch " << batch << ": " << lease.error().message;
    // With this one held and the other one ready, the engine sleeps until a release.
    const auto asleep = [&] { return (*stream)->figures().ring.ready == 1; };
    const std::int64_t give_up_ns = monotonic_ns() + 20'000'000'000;
    while (!asleep() && monotonic_ns() < give_up_ns) std::this_thread::yield();
    ASSERT_TRUE(asleep()) << "batch " << batch << ": the engine did not hear of the last release";
    lease->release();
    look(batch);
  }
  (*stream)->close();
}

}  // namespace
}  // namespace carya::loader
