#include "loader/daemon/closer.h"

#include <sys/socket.h>

#include <chrono>
#include <thread>
#include <utility>

namespace carya::loader {

Closer::Closer() : state_(std::make_shared<State>()) {
  std::thread([state = state_] { run(*state); }).detach();
}

Closer::~Closer() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, std::chrono::seconds(1), [this] { return state_->ended; });
}

void Closer::take(UniqueFd fd) {
  if (!fd) return;
  const std::lock_guard lock(state_->mutex);
  state_->waiting.push_back(std::move(fd));
  state_->changed.notify_all();
}

void Closer::take(std::vector<UniqueFd>& fds) {
  for (UniqueFd& fd : fds) take(std::move(fd));
  fds.clear();
}

void Closer::run(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.changed.wait(lock, [&state] { return state.stopping || !state.waiting.empty(); });
    if (state.waiting.empty()) break;
    UniqueFd fd = std::move(state.waiting.front());
    state.waiting.pop_front();
    lock.unlock();
    // Hours of lingering would keep all others waiting: whoever sends its own socket here may lose its rest.
    const linger none{};
    setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    fd.reset();
    lock.lock();
  }
  state.ended = true;
  state.changed.notify_all();
}

}  // namespace carya::loader
