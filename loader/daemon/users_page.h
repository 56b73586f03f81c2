#pragma once

#include "base/error.h"

namespace carya::loader {

/// The pages of all users (caryad --all-users): /metrics joins what each user's daemon says of itself, /healthz and /readyz
/// are those of the daemon of all users. `socket` is the one to it (loader/users/page_process); serves until that ends.
///
/// All daemons are asked at once, and have kUsersPageMs together: one that is late costs its own rows. What comes from them
/// is hostile until checked, so that this runs in a process with no rights. Errors: kClosed, those of HttpPage::create().
Status serve_users_page(int socket);

inline constexpr int kUsersPageMs = 2000;

}  // namespace carya::loader
