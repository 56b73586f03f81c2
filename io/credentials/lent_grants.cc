#include "io/credentials/lent_grants.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/escape.h"
#include "io/credentials/sigv4.h"

namespace carya::io {
namespace {

constexpr std::int64_t kWishAgainNs = 1'000'000'000;
constexpr std::size_t kGrantsMax = 64, kAccountMax = 64, kWhyMax = 1 << 10;

}  // namespace

bool LentGrants::Kept::is_good() const {
  return !lent.for_now && (lent.grant.expires_s == 0 || unix_s() < good_until_s);
}

Status LentGrants::lend(std::vector<LentGrant> grants) {
  std::vector<Kept> kept;
  if (grants.size() > kGrantsMax)
    return fail(Code::kInvalidArgument, "credentials: those of " + std::to_string(grants.size()) +
                                            " accounts; read at most 64 in one job");
  for (LentGrant& one : grants) {
    if (one.account.size() > kAccountMax)
      return fail(Code::kInvalidArgument, "credentials: an account with a name of " +
                                              std::to_string(one.account.size()) +
                                              " bytes; give one of at most 64");
    one.why = escaped(one.why.substr(0, kWhyMax));
    if (!is_sendable(one.grant))
      return fail(Code::kInvalidArgument,
                  "credentials: they hold characters that no header may; give them anew");
    const GrantTimes times = times_of(one.grant, unix_s());
    kept.push_back({.lent = std::move(one), .due_s = times.renew_s, .good_until_s = times.good_until_s});
  }
  const MutexLock lock(mutex_);
  if (!ask_) return {};  // it has gone
  kept_ = std::move(kept);
  return {};
}

void LentGrants::take_back() {
  const MutexLock lock(mutex_);
  kept_.clear();
  ask_ = nullptr;
  wish_.reset();
}

const LentGrants::Kept* LentGrants::find(std::string_view account) const {
  const auto found = std::ranges::find(kept_, account, [](const Kept& one) { return one.lent.account; });
  return found == kept_.end() ? nullptr : &*found;
}

/// Once a second at most.
void LentGrants::wish(bool refused) {
  const std::int64_t now = monotonic_ns();
  if (!ask_ || (wished_ns_ != 0 && now - wished_ns_ < kWishAgainNs)) return;
  wished_ns_ = now;
  wish_ = Wish{.refused = refused || (wish_ && wish_->refused)};
  ask_();
}

Grant LentGrants::current(std::string_view account) {
  const MutexLock lock(mutex_);
  const Kept* const found = find(account);
  if (found == nullptr) return {};
  if (!found->is_good() || (found->due_s != 0 && unix_s() >= found->due_s)) wish(false);
  return found->is_good() ? found->lent.grant : Grant{};
}

bool LentGrants::waits(std::string_view account) {
  const MutexLock lock(mutex_);
  const Kept* const found = find(account);
  if (found == nullptr || found->is_good()) return false;
  wish(false);
  return true;
}

void LentGrants::refused() {
  const MutexLock lock(mutex_);
  wish(true);
}

std::optional<Error> LentGrants::failure(std::string_view account) const {
  const MutexLock lock(mutex_);
  if (!ask_) return Error{Code::kIo, "the process that lent its credentials has ended; start it again", 0};
  const Kept* const found = find(account);
  if (found == nullptr || (found->is_good() && found->lent.why.empty())) return std::nullopt;
  if (!found->lent.why.empty())
    return Error{found->lent.for_now ? Code::kIo : Code::kPermission, found->lent.why, 0};
  return Error{
      Code::kIo,
      "those that the loader's process lent have expired, and it gave no others; let it run (it renews "
      "them), and see that it can reach who gives them",
      0};
}

bool LentGrants::is_gone() const {
  const MutexLock lock(mutex_);
  return !ask_;
}

std::optional<std::string> LentGrants::rights() const {
  std::string all;
  {
    const MutexLock lock(mutex_);
    const auto proves = [](const Kept& one) { return one.is_good() && !one.lent.grant.empty(); };
    if (!ask_ || !std::ranges::all_of(kept_, proves)) return std::nullopt;
    for (const Kept& one : kept_) {
      all += one.lent.grant.in_query ? 'q' : 'h';
      for (const std::string* text :
           {&one.lent.account, &one.lent.grant.access_key, &one.lent.grant.secret_key, &one.lent.grant.token})
        all += std::to_string(text->size()) + ":" + *text;
    }
  }
  std::string digest = sha256_hex(all);
  wipe(all);
  return digest;
}

std::optional<LentGrants::Wish> LentGrants::take_wish() {
  const MutexLock lock(mutex_);
  return std::exchange(wish_, std::nullopt);
}

}  // namespace carya::io
