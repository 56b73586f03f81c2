#include "store.h"

#include <pybind11/stl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "errors.h"
#include "gil.h"
#include "io/credentials/environment.h"
#include "io/files/listing.h"
#include "io/http/store_client.h"

namespace carya::python {
namespace {

namespace py = pybind11;

using Query = std::vector<std::pair<std::string, std::string>>;

/// What ends the questions of other threads: set by who waits for them. Threads: thread-safe.
class StoreStop {
 public:
  void set() { set_.store(true, std::memory_order_relaxed); }
  bool is_set() const { return set_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> set_ = false;
};

/// Null: nobody ends it.
using Stop = std::shared_ptr<StoreStop>;

/// ask(goes_on) without the GIL. Ctrl-C ends it, which the main thread alone takes notice of; in others `stop` does.
template <typename Ask>
auto waited_for(const Ask& ask, const Stop& stop = nullptr) {
  ProgressCall call{py::none()};
  const io::Progress told = [&call](std::uint64_t seen) { return call(seen); };
  io::ListingProgress progress(told);
  io::GoesOn goes_on;
  const bool is_main = ::gettid() == ::getpid();
  if (is_main || stop) goes_on = [&] { return !(stop && stop->is_set()) && (!is_main || progress.add(0)); };
  auto answer = [&] {
    const WithoutGil unlocked;
    return ask(goes_on);
  }();
  call.rethrow();
  return unwrap(std::move(answer));
}

Result<std::string> read_head(const std::string& url, std::size_t bytes_max, const io::GoesOn& goes_on) {
  ASSIGN(const auto client, io::StoreClient::shared());
  ASSIGN(const io::StoreObject object, client->look_up(url, goes_on));
  std::string head(std::min<std::uint64_t>(bytes_max, object.bytes), '\0');
  TRY(client->read(object, 0, std::as_writable_bytes(std::span(head)), goes_on));
  return head;
}

Result<std::string> list_page(const std::string& url, const Query& query, std::size_t bytes_max,
                              const io::GoesOn& goes_on) {
  ASSIGN(const auto client, io::StoreClient::shared());
  return client->get(url, query, bytes_max, goes_on);
}

Result<std::string> read_range(const std::string& url, std::uint64_t size, const std::string& version,
                               std::uint64_t offset, std::uint64_t count, const io::GoesOn& goes_on) {
  if (offset > size || count > size - offset)
    return fail(Code::kInvalidArgument, "range of an object: it ends behind its end; give one inside of it");
  ASSIGN(const auto client, io::StoreClient::shared());
  ASSIGN(const io::StoreObject object, client->listed(url, size, version));
  std::string bytes(count, '\0');
  TRY(client->read(object, offset, std::as_writable_bytes(std::span(bytes)), goes_on));
  return bytes;
}

/// Size and version of an object.
std::pair<std::uint64_t, std::string> look_up(const std::string& url, const Stop& stop) {
  const auto ask = [&](const io::GoesOn& goes_on) -> Result<io::StoreObject> {
    ASSIGN(const auto client, io::StoreClient::shared());
    return client->look_up(url, goes_on);
  };
  const io::StoreObject object = waited_for(ask, stop);
  return {object.bytes, object.pin};
}

py::bytes read(const std::string& url, std::uint64_t size, const std::string& version, std::uint64_t offset,
               std::uint64_t count, const Stop& stop) {
  return waited_for(
      [&](const io::GoesOn& goes_on) { return read_range(url, size, version, offset, count, goes_on); },
      stop);
}

/// Objects of a listing: URL, size, version.
void remember(const std::vector<std::tuple<std::string, std::uint64_t, std::string>>& listed) {
  std::vector<io::ListedObject> objects;
  for (const auto& [url, bytes, pin] : listed) objects.push_back({.url = url, .bytes = bytes, .pin = pin});
  unwrap([&]() -> Status {
    const WithoutGil unlocked;
    ASSIGN(const auto client, io::StoreClient::shared());
    client->remember(objects);
    return {};
  }());
}

template <auto call, typename... Arguments>
py::bytes bytes_of(const Arguments&... arguments) {
  return waited_for([&](const io::GoesOn& goes_on) { return call(arguments..., goes_on); });
}

}  // namespace

void bind_store(py::module_& module) {
  py::class_<StoreStop, Stop>(module, "StoreStop").def(py::init<>()).def("set", &StoreStop::set);
  module.def("store_head", &bytes_of<&read_head, std::string, std::size_t>, py::arg("url"),
             py::arg("bytes_max"));
  module.def("says_how_stores_are_asked", &io::says_how_stores_are_asked, py::arg("name"));
  module.def("store_look_up", &look_up, py::arg("url"), py::arg("stop") = Stop());
  module.def("store_remember", &remember, py::arg("listed"));
  module.def("store_read", &read, py::arg("url"), py::arg("size"), py::arg("version"), py::arg("offset"),
             py::arg("count"), py::arg("stop") = Stop());
  module.def("store_page", &bytes_of<&list_page, std::string, Query, std::size_t>, py::arg("url"),
             py::arg("query"), py::arg("bytes_max"));
}

}  // namespace carya::python
