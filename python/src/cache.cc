#include "cache.h"

#include <fcntl.h>
#include <pybind11/stl.h>

#include <cerrno>
#include <memory>

#include "base/unique_fd.h"
#include "dataset.h"
#include "errors.h"
#include "gil.h"
#include "io/files/manifest_file.h"
#include "io/index/index_file.h"
#include "io/rights/readers.h"
#include "io/segments/segment_folder.h"
#include "io/store/store_list.h"
#include "job_options.h"
#include "job_stats.h"
#include "loader/data/index_builder.h"
#include "text.h"

namespace carya::python {
namespace {

py::dict complete_index(const PyDataset& dataset, const std::string& decode_index,
                        const std::string& cache_dir, std::uint32_t threads, py::object progress) {
  auto call = std::make_shared<ProgressCall>(std::move(progress));
  const loader::IndexCompletionOptions options{
      .index = decode_index_from_name(decode_index, cache_dir),
      .threads = threads,
      .progress = [call](std::uint64_t done) { return (*call)(done); }};
  auto made = [&] {
    const WithoutGil unlocked;
    return loader::complete_index(*dataset.dataset, options);
  }();
  call->rethrow();
  const loader::IndexCompletionReport report = unwrap(std::move(made));
  py::dict line;
  line["files"] = report.files;
  line["complete"] = report.complete;
  line["made"] = report.made;
  line["unsuited"] = report.unsuited;
  line["unreadable"] = report.unreadable;
  line["decode_index"] = index_figures(report.index);
  return line;
}

py::list list_stores(const std::string& folder) {
  py::list lines;
  for (const io::StoreInfo& store : unwrap(io::list_stores(folder))) {
    py::dict line;
    line["path"] = path_text(store.path);
    line["kind"] = io::store_kind_name(store.identity.kind);
    line["fingerprint"] = store.identity.dataset.hex();
    line["records"] = store.identity.record_count;
    line["bytes"] = store.file_bytes;
    line["valid"] = store.header_valid;
    lines.append(line);
  }
  return lines;
}

py::dict verify_store(const std::string& path) {
  const io::StoreCheck check = unwrap([&] {
    const WithoutGil unlocked;
    return io::verify_store(path);
  }());
  py::dict line;
  line["entries"] = check.entries_valid;
  line["records"] = check.records;
  line["damaged_count"] = check.damaged_count;
  line["damaged_bytes"] = check.damaged_bytes;
  return line;
}

py::list list_places(const std::string& folder) {
  auto listed = [&] {
    const WithoutGil unlocked;
    return io::list_places(folder);
  }();
  py::list lines;
  for (const io::PlaceInfo& place : unwrap(std::move(listed))) {
    py::dict line;
    line["path"] = path_text(place.path);
    line["about"] = py::bytes(place.about);
    line["segments"] = place.segments;
    line["bytes"] = place.bytes;
    line["disk_bytes"] = place.disk_bytes;
    line["used_s"] = place.used_s;
    lines.append(line);
  }
  return lines;
}

py::dict verify_place(const std::string& path) {
  ProgressCall signals{py::none()};
  auto checked = [&] {
    const WithoutGil unlocked;
    return io::verify_place(path, [&](std::uint64_t bytes) { return signals(bytes); });
  }();
  signals.rethrow();
  const io::PlaceCheck check = unwrap(std::move(checked));
  py::dict line;
  line["entries"] = check.entries;
  line["entry_bytes"] = check.entry_bytes;
  line["damaged_count"] = check.damaged;
  line["others_count"] = check.others;
  return line;
}

py::dict read_manifest(const std::string& path) {
  const auto manifest = unwrap([&] {
    const WithoutGil unlocked;
    return io::load_manifest(path);
  }());
  py::dict line;
  line["fingerprint"] = manifest->fingerprint().hex();
  line["records"] = manifest->count();
  line["root"] = path_text(std::string(manifest->root()));
  return line;
}

std::uint64_t read_record_index(const std::string& path) {
  return unwrap([&] {
    const WithoutGil unlocked;
    return io::check_index_file(path);
  }());
}

bool is_for_everybody(const std::string& path) {
  return io::readers_of(path) == io::Readers::everybody();
}

void let_read(const std::string& path, const std::string& source) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) unwrap(Status(fail_errno("open " + path, errno)));
  unwrap(io::let_read(fd.get(), io::readers_of(source), path));
}

}  // namespace

void bind_cache(py::module_& module) {
  module.def("complete_index", &complete_index, py::arg("dataset"), py::kw_only(), py::arg("decode_index"),
             py::arg("cache_dir"), py::arg("threads"), py::arg("progress") = py::none());
  module.def("list_stores", &list_stores, py::arg("folder"));
  module.def("verify_store", &verify_store, py::arg("path"));
  module.def(
      "remove_store", [](const std::string& path) { unwrap(io::remove_store(path)); }, py::arg("path"));
  module.def("list_places", &list_places, py::arg("folder"));
  module.def("verify_place", &verify_place, py::arg("path"));
  module.def(
      "remove_place", [](const std::string& path) { unwrap(io::remove_place(path)); }, py::arg("path"));
  module.def("read_manifest", &read_manifest, py::arg("path"));
  module.def("is_for_everybody", &is_for_everybody, py::arg("path"));
  module.def("let_read", &let_read, py::arg("path"), py::arg("source"));
  module.def("read_record_index", &read_record_index, py::arg("path"));
}

}  // namespace carya::python
