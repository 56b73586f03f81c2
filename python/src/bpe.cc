#include "bpe.h"

#include <fmt/core.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "errors.h"
#include "gil.h"
#include "io/store/store_file.h"
#include "transforms/text/bpe.h"

namespace carya::python {
namespace {

namespace py = pybind11;

using Ids = py::array_t<std::uint32_t, py::array::c_style | py::array::forcecast>;
using Ends = py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>;
using Places = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

constexpr std::int64_t kLinesBytesMax = 1 << 30;

std::span<const std::int64_t> span_of(const Places& places) {
  return {places.data(), static_cast<std::size_t>(places.size())};
}

py::array_t<std::int64_t> array_of(std::span<const std::int64_t> places) {
  return py::array_t<std::int64_t>(static_cast<py::ssize_t>(places.size()), places.data());
}

Result<text::Pretokens> pretokens_from_name(const std::string& name) {
  if (name == "gpt2") return text::Pretokens::kGpt2;
  if (name == "llama3") return text::Pretokens::kLlama3;
  if (name == "qwen2") return text::Pretokens::kQwen2;
  if (name == "gpt4o") return text::Pretokens::kGpt4o;
  return fail(Code::kInvalidArgument,
              fmt::format("pretokens: got \"{}\"; give gpt2, llama3, qwen2 or gpt4o", name));
}

/// Threads take turns.
class PyBpe {
 public:
  PyBpe(const std::string& pretokens, const Ids& byte_ids, const Ids& merges, std::string_view whole,
        const Ends& whole_ends, const Ids& whole_ids) {
    text::BpeVocabulary vocabulary{.pretokens = unwrap(pretokens_from_name(pretokens))};
    if (byte_ids.size() != 256 || merges.ndim() != 2 || merges.shape(1) != 4)
      raise(Error{Code::kInvalidArgument,
                  "byte_ids, merges: give 256 ids, and rows of left, right, rank, result"});
    std::memcpy(vocabulary.byte_ids.data(), byte_ids.data(), sizeof(vocabulary.byte_ids));
    std::vector<text::BpeMerge> rules(static_cast<std::size_t>(merges.shape(0)));
    static_assert(sizeof(text::BpeMerge) == 4 * sizeof(std::uint32_t));
    if (!rules.empty())
      std::memcpy(static_cast<void*>(rules.data()), merges.data(), rules.size() * sizeof(text::BpeMerge));
    vocabulary.merges = rules;
    vocabulary.whole = whole;
    vocabulary.whole_ends = {whole_ends.data(), static_cast<std::size_t>(whole_ends.size())};
    vocabulary.whole_ids = {whole_ids.data(), static_cast<std::size_t>(whole_ids.size())};
    bpe_ = unwrap(text::Bpe::create(vocabulary));
  }

  /// The ids of all texts one behind the other (int32), and where those of each end (int64). A text is a str, or a list of
  /// what it is cut into: str, and ids. Of each at most `most` ids, between `before` and `behind`.
  /// Errors: UnicodeEncodeError: half of a surrogate pair.
  py::tuple encode(const py::sequence& texts, std::size_t most, const std::vector<std::uint32_t>& before,
                   const std::vector<std::uint32_t>& behind) {
    std::vector<Part> parts;
    std::vector<py::object> held;  // what the parts point into
    for (const py::handle text : texts) {
      if (PyUnicode_Check(text.ptr())) {
        parts.push_back(part_of(text, held));
      } else {
        for (const py::handle piece : py::reinterpret_borrow<py::sequence>(text))
          parts.push_back(PyUnicode_Check(piece.ptr()) ? part_of(piece, held)
                                                       : Part{.id = piece.cast<std::uint32_t>()});
        if (parts.empty() || parts.back().ends) parts.push_back({.text = "", .is_text = true});
      }
      parts.back().ends = true;
    }
    return encoded(parts, most, before, behind);
  }

  /// The same for texts of UTF-8 that lie one behind the other, nothing of which is to be cut out.
  /// Errors: InvalidArgument: ends that fall or lie outside; SampleError: one is no UTF-8.
  py::tuple encode_joined(const py::bytes& texts, const Places& ends, std::size_t most,
                          const std::vector<std::uint32_t>& before,
                          const std::vector<std::uint32_t>& behind) {
    const auto all = static_cast<std::string_view>(texts);
    std::vector<Part> parts;
    std::size_t begin = 0;
    for (const std::int64_t end : span_of(ends)) {
      if (end < 0 || static_cast<std::size_t>(end) < begin || static_cast<std::size_t>(end) > all.size())
        raise(Error{Code::kInvalidArgument, "ends: give where each text ends, in ascending order"});
      const auto behind_it = static_cast<std::size_t>(end);
      parts.push_back({.text = all.substr(begin, behind_it - begin), .is_text = true, .ends = true});
      begin = behind_it;
    }
    return encoded(parts, most, before, behind);
  }

 private:
  /// A piece of a text, or an id that stands in its place.
  struct Part {
    std::string_view text{};
    std::uint32_t id = 0;
    bool is_text = false, ends = false;  ///< `ends`: it is the last one of its text
  };

  static Part part_of(py::handle text, std::vector<py::object>& held) {
    Py_ssize_t size = 0;
    const char* const data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (!data) throw py::error_already_set();
    held.push_back(py::reinterpret_borrow<py::object>(text));
    return {.text = {data, static_cast<std::size_t>(size)}, .is_text = true};
  }

  py::tuple encoded(std::span<const Part> parts, std::size_t most, std::span<const std::uint32_t> before,
                    std::span<const std::uint32_t> behind) {
    std::size_t bytes = 0;
    for (const Part& part : parts) bytes += part.text.size();
    std::vector<std::uint32_t> ids;
    ids.reserve(bytes / 4);  // as many as English has
    std::vector<std::int64_t> ends;
    unwrap([&]() -> Status {
      const WithoutGil unlocked;
      const std::lock_guard lock(mutex_);
      if (!encoder_) encoder_.emplace(bpe_);
      return encode_parts(parts, most, before, behind, ids, ends);
    }());
    py::array_t<std::int32_t> all(static_cast<py::ssize_t>(ids.size()));
    if (!ids.empty()) std::memcpy(all.mutable_data(), ids.data(), ids.size() * sizeof(std::uint32_t));
    return py::make_tuple(all, array_of(ends));
  }

  Status encode_parts(std::span<const Part> parts, std::size_t most, std::span<const std::uint32_t> before,
                      std::span<const std::uint32_t> behind, std::vector<std::uint32_t>& ids,
                      std::vector<std::int64_t>& ends) {
    bool begins = true;
    std::size_t left = most;
    for (const Part& part : parts) {
      if (begins) {
        ids.insert(ids.end(), before.begin(), before.end());
        left = most;
      }
      std::span<const std::uint32_t> found{&part.id, std::min<std::size_t>(1, left)};
      if (part.is_text) {
        auto made = encoder_->encode(part.text, left);
        if (!made) return std::unexpected(made.error());
        found = *made;
      }
      ids.insert(ids.end(), found.begin(), found.end());
      left -= found.size();
      begins = part.ends;
      if (!part.ends) continue;
      ids.insert(ids.end(), behind.begin(), behind.end());
      ends.push_back(static_cast<std::int64_t>(ids.size()));
    }
    return {};
  }

  std::shared_ptr<const text::Bpe> bpe_;
  std::mutex mutex_;
  std::optional<text::BpeEncoder> encoder_;
};

/// The line that each record of text begins with, one behind the other without their ends (LF or CR LF), and where each
/// of them ends. Record i is the bytes from begins[i] to ends[i] of the open file files[i].
/// None, where one by one has to tell what is wrong: a record that is not there as a whole, or that is no UTF-8.
py::object read_lines(const Places& files, const Places& begins, const Places& ends) {
  const auto from = span_of(begins), until = span_of(ends), fds = span_of(files);
  if (from.size() != fds.size() || until.size() != fds.size())
    raise(Error{Code::kInvalidArgument, "files, begins, ends: give as many of each"});
  std::int64_t room = 0;
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (from[i] < 0 || until[i] < from[i] || until[i] - from[i] > kLinesBytesMax - room) return py::none();
    room += until[i] - from[i];
  }
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(room));
  if (made == nullptr) throw py::error_already_set();
  char* const first = PyBytes_AS_STRING(made);
  std::vector<std::int64_t> lines;
  lines.reserve(fds.size());
  const bool sound = [&] {
    const WithoutGil unlocked;
    char* at = first;
    for (std::size_t i = 0; i < fds.size(); ++i) {
      const std::string_view record(at, static_cast<std::size_t>(until[i] - from[i]));
      const auto out = std::as_writable_bytes(std::span(at, record.size()));
      if (!io::read_whole(static_cast<int>(fds[i]), out, static_cast<std::uint64_t>(from[i]))) return false;
      if (text::valid_utf8_bytes(record) != record.size()) return false;
      std::string_view line = record.substr(0, record.find('\n'));
      if (line.ends_with('\r')) line.remove_suffix(1);
      at += line.size();
      lines.push_back(at - first);
    }
    return true;
  }();
  if (!sound) {
    Py_DECREF(made);
    return py::none();
  }
  if (_PyBytes_Resize(&made, lines.empty() ? 0 : lines.back()) != 0) throw py::error_already_set();
  return py::make_tuple(py::reinterpret_steal<py::bytes>(made), array_of(lines));
}

/// Arrays that lie one behind the other in `values`, of which each ends at `ends`, as the rows of one array with `filling`
/// behind them, and their lengths there. Rows have `to` elements, and what is longer is cut; 0: as many as the longest
/// array, at least one, rounded up to a multiple.
py::tuple pad_rows(const py::array& values, const Places& ends, std::int64_t to, std::int64_t multiple_of,
                   const py::array& filling) {
  const auto until = span_of(ends);
  const std::int64_t item = values.itemsize();
  if (values.ndim() != 1 || (values.flags() & py::array::c_style) == 0 || values.dtype().kind() == 'O' ||
      filling.size() != 1 || filling.itemsize() != item || to < 0 || multiple_of < 1)
    raise(Error{Code::kInvalidArgument, "values, filling: give an array of numbers, and one of them"});
  std::vector<std::int64_t> lengths;
  lengths.reserve(until.size());
  std::int64_t begin = 0, longest = 1;
  for (const std::int64_t end : until) {
    if (end < begin || end > values.shape(0))
      raise(Error{Code::kInvalidArgument, "ends: give where each array ends, in ascending order"});
    lengths.push_back(to == 0 ? end - begin : std::min(end - begin, to));
    longest = std::max(longest, end - begin);
    begin = end;
  }
  const std::int64_t width = to == 0 ? (longest + multiple_of - 1) / multiple_of * multiple_of : to;
  py::array rows(values.dtype(), {static_cast<std::int64_t>(until.size()), width});
  const auto* const from = static_cast<const std::byte*>(values.data());
  auto* row = static_cast<std::byte*>(rows.mutable_data());
  begin = 0;
  for (std::size_t i = 0; i < until.size(); ++i) {
    const std::int64_t used = lengths[i] * item, all = width * item;
    if (used != 0) std::memcpy(row, from + begin * item, static_cast<std::size_t>(used));
    if (used != all) std::memcpy(row + used, filling.data(), static_cast<std::size_t>(item));
    for (std::int64_t have = item; used + have < all; have *= 2)  // as much again as is there
      std::memcpy(row + used + have, row + used, static_cast<std::size_t>(std::min(have, all - used - have)));
    row += all;
    begin = until[i];
  }
  return py::make_tuple(rows, array_of(lengths));
}

}  // namespace

void bind_bpe(py::module_& module) {
  py::class_<PyBpe>(module, "Bpe")
      .def(py::init<const std::string&, const Ids&, const Ids&, std::string_view, const Ends&, const Ids&>(),
           py::kw_only(), py::arg("pretokens"), py::arg("byte_ids"), py::arg("merges"), py::arg("whole"),
           py::arg("whole_ends"), py::arg("whole_ids"))
      .def("encode", &PyBpe::encode, py::arg("texts"), py::arg("most"), py::arg("before"), py::arg("behind"))
      .def("encode_joined", &PyBpe::encode_joined, py::arg("texts"), py::arg("ends"), py::arg("most"),
           py::arg("before"), py::arg("behind"));
  module.def("read_lines", &read_lines, py::arg("files"), py::arg("begins"), py::arg("ends"));
  module.def("pad_rows", &pad_rows, py::arg("values"), py::arg("ends"), py::arg("to"), py::arg("multiple_of"),
             py::arg("filling"));
  module.attr("unicode_source") = std::string(text::kUnicodeSource);
}

}  // namespace carya::python
