#include "loader/control/closer.h"

#include <sys/socket.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace carya::loader {

Closer::Closer() : state_(std::make_shared<State>()) {
  std::thread([state = state_] { run(*state); }).detach();
}

Closer::~Closer() {
  MutexLock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!state_->ended && state_->changed.wait_until(lock, limit)) {
  }
}

void Closer::take(UniqueFd fd) {
  if (!fd) return;
  const MutexLock lock(state_->mutex);
  state_->waiting.push_back(std::move(fd));
  state_->changed.notify_all();
}

void Closer::take(std::vector<UniqueFd>& fds) {
  for (UniqueFd& fd : fds) take(std::move(fd));
  fds.clear();
}

void Closer::run(State& state) {
  MutexLock lock(state.mutex);
  while (true) {
    while (!state.stopping && state.waiting.empty()) state.changed.wait(lock);
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
