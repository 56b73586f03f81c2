#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "loader/cache/file_tier.h"

namespace carya::loader {

/// A sample that a tier has: where, and in which tier.
struct FoundSample {
  std::size_t tier = 0;
  io::SegmentEntry entry{};
  explicit operator bool() const { return static_cast<bool>(entry); }
  std::uint64_t bytes() const { return entry.row.bytes; }
};

/// The file tiers of one place, nearest first. Threads: thread-safe; nothing waits for storage.
class KeptFiles {
 public:
  KeptFiles() = default;
  KeptFiles(std::vector<std::shared_ptr<FileTier>> tiers, RecordFacts facts)
      : tiers_(std::move(tiers)), facts_(std::make_shared<const RecordFacts>(std::move(facts))) {}

  bool empty() const { return tiers_.empty(); }
  const std::vector<std::shared_ptr<FileTier>>& tiers() const { return tiers_; }

  /// The record's sample in the nearest tier that has it; empty if none does.
  FoundSample find(std::uint64_t source) const {
    if (tiers_.empty()) return {};
    const auto identity = facts_->identity(source);
    for (std::size_t i = 0; identity && i < tiers_.size(); ++i)
      if (io::SegmentEntry entry = tiers_[i]->find(*identity)) return {i, std::move(entry)};
    return {};
  }
  /// Read a sample that was found into `dest`. May throw std::bad_alloc before anything was begun.
  void fetch(const FoundSample& found, std::uint64_t source, std::byte* dest,
             std::shared_ptr<const void> lent, std::shared_ptr<FetchGroup> group, std::size_t index) const {
    tiers_[found.tier]->fetch({.source = source,
                               .entry = found.entry,
                               .dest = dest,
                               .lent = std::move(lent),
                               .group = std::move(group),
                               .index = index,
                               .facts = facts_});
  }
  /// Whether some tier would write a sample that is made now.
  bool wants(std::uint64_t source) const {
    if (tiers_.empty()) return false;
    const auto identity = facts_->identity(source);
    return identity &&
           std::ranges::any_of(tiers_, [&](const auto& tier) { return tier->wants(source, *identity); });
  }
  /// Memory for a sample that is made for the files alone; null if there is none.
  std::shared_ptr<std::byte> room(std::uint64_t bytes) const {
    return tiers_.empty() ? nullptr : tiers_.front()->room(bytes);
  }
  /// Write a sample, some time, into the tiers that want it. `owner` keeps its bytes.
  void offer(std::uint64_t source, const std::shared_ptr<const void>& owner,
             std::span<const std::byte> bytes) const {
    if (tiers_.empty()) return;
    const auto identity = facts_->identity(source);
    for (std::size_t i = 0; identity && i < tiers_.size(); ++i)
      tiers_[i]->offer(
          {.source = source, .identity = *identity, .owner = owner, .bytes = bytes, .facts = facts_});
  }
  void look() const {
    for (const auto& tier : tiers_) tier->look();
  }

 private:
  const std::vector<std::shared_ptr<FileTier>> tiers_{};
  const std::shared_ptr<const RecordFacts> facts_{};
};

}  // namespace carya::loader
