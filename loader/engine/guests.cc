#include "loader/engine/guests.h"

#include <algorithm>

namespace carya::loader {

/// The number of guests for one that is not known.
std::size_t Guests::find(std::uint64_t guest) const {
  return static_cast<std::size_t>(std::ranges::find(guests_, guest, &Guest::number) - guests_.begin());
}

std::size_t Guests::hear(std::uint64_t guest, const GuestReport& report, std::uint32_t cores,
                         std::int64_t now_ns) {
  const std::size_t place = find(guest);
  if (place == guests_.size()) {
    guests_.reserve(place + 1);
    turns_.add_guest(report.weight);
    guests_.push_back({.number = guest});
  }
  Guest& known = guests_[place];
  // What it was lent it has had, whether it used it or not; and where there are guests only, to whom nothing is lent, who
  // says that it wants threads and uses none would keep them from others for ever. Beside streams many share the cores, and
  // what one gets of them says nothing.
  const auto lent = static_cast<double>(known.lent_ns);
  const auto passed = static_cast<double>(std::min(now_ns - known.heard_ns, kSilentNs));
  const double used = std::min(static_cast<double>(report.used_ns), cores * passed);
  const bool among_guests = now_ns - others_ns_ > kApartNs;
  const double least = known.waits || !among_guests ? 0 : kUsedMin * std::min(known.wants, cores) * passed;
  turns_.charge(index_of(place), std::max({used, least, lent}) - lent, report.weight);
  known.wants = report.wants;
  known.lent_ns = 0;
  known.heard_ns = now_ns;
  return place;
}

void Guests::leave(std::uint64_t guest) {
  const std::size_t place = find(guest);
  if (place == guests_.size()) return;
  turns_.remove(index_of(place));
  guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(place));
}

std::uint32_t Guests::wants(std::size_t place, std::int64_t now_ns) const {
  const Guest& guest = guests_[place];
  return now_ns - guest.heard_ns < kSilentNs ? guest.wants : 0;
}

GuestTurn Guests::turn_of(std::size_t place, std::uint32_t cores, std::int64_t now_ns, bool is_due,
                          bool others_wait) {
  std::uint64_t others = 0;
  for (std::size_t i = 0; i < guests_.size(); ++i)
    if (i != place) others += wants(i, now_ns);
  GuestTurn turn{.threads = kThreadsMax, .alone = others == 0 && now_ns - others_ns_ > kApartNs};
  if (!is_due) turn.threads = others_wait || others >= cores ? 0 : cores - static_cast<std::uint32_t>(others);
  guests_[place].waits = turn.threads == 0;
  return turn;
}

Guests::Loan Guests::lend(std::size_t place) {
  Guest& guest = guests_[place];
  ++guest.lent;
  return {guest.number, turns_.begin(index_of(place))};
}

void Guests::take_back(const Loan& loan, std::int64_t lasted_ns) {
  const std::size_t place = find(loan.guest);
  if (place == guests_.size()) return;
  Guest& guest = guests_[place];
  if (guest.lent > 0) --guest.lent;  // it may have left and come again
  guest.lent_ns += static_cast<std::uint64_t>(lasted_ns);
  turns_.end(index_of(place), loan.expected_ns, static_cast<double>(lasted_ns));
}

}  // namespace carya::loader
