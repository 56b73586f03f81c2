#include "bpe.h"

#include <fmt/core.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
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
#include "transforms/text/bpe.h"

namespace carya::python {
namespace {

namespace py = pybind11;

using Ids = py::array_t<std::uint32_t, py::array::c_style | py::array::forcecast>;
using Ends = py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>;

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
    if (!rules.empty()) std::memcpy(rules.data(), merges.data(), rules.size() * sizeof(text::BpeMerge));
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
    std::vector<std::uint32_t> ids;
    std::vector<std::int64_t> ends;
    unwrap([&]() -> Status {
      const WithoutGil unlocked;
      const std::lock_guard lock(mutex_);
      if (!encoder_) encoder_.emplace(bpe_);
      return encode_parts(parts, most, before, behind, ids, ends);
    }());
    py::array_t<std::int32_t> all(static_cast<py::ssize_t>(ids.size()));
    if (!ids.empty()) std::memcpy(all.mutable_data(), ids.data(), ids.size() * sizeof(std::uint32_t));
    py::array_t<std::int64_t> bounds(static_cast<py::ssize_t>(ends.size()));
    if (!ends.empty()) std::memcpy(bounds.mutable_data(), ends.data(), ends.size() * sizeof(std::int64_t));
    return py::make_tuple(all, bounds);
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

}  // namespace

void bind_bpe(py::module_& module) {
  py::class_<PyBpe>(module, "Bpe")
      .def(py::init<const std::string&, const Ids&, const Ids&, std::string_view, const Ends&, const Ids&>(),
           py::kw_only(), py::arg("pretokens"), py::arg("byte_ids"), py::arg("merges"), py::arg("whole"),
           py::arg("whole_ends"), py::arg("whole_ids"))
      .def("encode", &PyBpe::encode, py::arg("texts"), py::arg("most"), py::arg("before"), py::arg("behind"));
  module.attr("unicode_source") = std::string(text::kUnicodeSource);
}

}  // namespace carya::python
