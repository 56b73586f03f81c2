#include "bpe.h"

#include <fmt/core.h>
#include <pybind11/numpy.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
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

  Ids encode(std::string_view text) {
    std::unique_lock lock(mutex_, std::defer_lock);
    const auto ids = unwrap([&] {
      const WithoutGil unlocked;
      lock.lock();
      if (!encoder_) encoder_.emplace(bpe_);
      return encoder_->encode(text);
    }());
    Ids result(static_cast<py::ssize_t>(ids.size()));
    if (!ids.empty()) std::memcpy(result.mutable_data(), ids.data(), ids.size_bytes());
    return result;
  }

 private:
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
      .def("encode", &PyBpe::encode, py::arg("text"));
  module.attr("unicode_source") = std::string(text::kUnicodeSource);
}

}  // namespace carya::python
