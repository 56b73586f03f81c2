#include "store.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "gil.h"
#include "io/http/store_client.h"

namespace carya::python {
namespace {

namespace py = pybind11;

using Query = std::vector<std::pair<std::string, std::string>>;

Result<std::string> read_head(const std::string& url, std::size_t bytes_max) {
  ASSIGN(const auto client, io::StoreClient::shared());
  ASSIGN(const io::StoreObject object, client->look_up(url));
  std::string head(std::min<std::uint64_t>(bytes_max, object.bytes), '\0');
  TRY(client->read(object, 0, std::as_writable_bytes(std::span(head))));
  return head;
}

Result<std::string> list_page(const std::string& url, const Query& query, std::size_t bytes_max) {
  ASSIGN(const auto client, io::StoreClient::shared());
  return client->get(url, query, bytes_max);
}

/// call(arguments...) without the GIL.
template <auto call, typename... Arguments>
py::bytes waited_for(const Arguments&... arguments) {
  return unwrap([&] {
    const WithoutGil unlocked;
    return call(arguments...);
  }());
}

}  // namespace

void bind_store(py::module_& module) {
  module.def("store_head", &waited_for<&read_head, std::string, std::size_t>, py::arg("url"),
             py::arg("bytes_max"));
  module.def("store_page", &waited_for<&list_page, std::string, Query, std::size_t>, py::arg("url"),
             py::arg("query"), py::arg("bytes_max"));
}

}  // namespace carya::python
