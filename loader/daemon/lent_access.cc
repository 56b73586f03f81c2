#include "loader/daemon/lent_access.h"

#include <utility>

#include "loader/control/documents.h"

namespace carya::loader {

LentAccess::~LentAccess() {
  if (lent_) lent_->take_back();
}

Status LentAccess::take(Message& message, const std::function<void()>& wake) {
  Result<LendRequest> request = decode<LendRequest>(message.body);
  io::wipe(message.body);
  if (!request) return std::unexpected(std::move(request.error()));
  TRY(request->terms.check());
  if (lent_ && access_->terms() != request->terms)
    return fail(Code::kInvalidArgument,
                "credentials: they come with another endpoint or proxy than before; make a new Loader");
  if (!lent_) {
    lent_ = std::make_shared<io::LentGrants>(wake);
    access_ = std::make_shared<io::StoreAccess>(std::move(request->terms), std::vector{lent_});
  }
  return lent_->lend(std::move(request->grants));
}

void LentAccess::tell(Channel& channel) const {
  if (!lent_) return;
  if (const auto wish = lent_->take_wish())  // where the client does not read, it is asked again
    static_cast<void>(channel.send(
        {.type = MessageType::kWantGrants, .body = encode(WantGrants{.refused = wish->refused})}, 0));
}

}  // namespace carya::loader
