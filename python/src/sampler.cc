#include "sampler.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>

#include "base/permutation.h"
#include "base/philox.h"
#include "dataset.h"
#include "errors.h"
#include "gil.h"
#include "loader/data/mix_order.h"
#include "loader/data/record_error.h"
#include "loader/data/sample.h"
#include "loader/host/host.h"
#include "loader/stream/stream_shape.h"
#include "shm/memory_limit.h"
#include "transforms/pipeline/unchanged_fields.h"
#include "transforms/plan/plan.h"

namespace carya::python {
namespace {

namespace py = pybind11;
using loader::MixOrder;
using loader::StreamShape;
using transforms::OwnedTensor;
using transforms::TensorSpec;

/// One call may ask for this many positions: 2^24 int64 are 128 MiB.
constexpr std::uint64_t kSliceMax = 1u << 24;

/// The records at positions [first, first + count).
py::array_t<std::int64_t> permuted(const Permutation& self, std::uint64_t first, std::uint64_t count) {
  if (count > kSliceMax || first > self.count() || count > self.count() - first)
    throw py::index_error("positions " + std::to_string(first) + " and " + std::to_string(count) +
                          " more of " + std::to_string(self.count()));
  py::array_t<std::int64_t> records(static_cast<py::ssize_t>(count));
  std::int64_t* out = records.mutable_data();
  for (std::uint64_t i = 0; i < count; ++i) out[i] = static_cast<std::int64_t>(self(first + i));
  return records;
}

std::uint64_t permuted_one(const Permutation& self, std::uint64_t position) {
  if (position >= self.count())
    throw py::index_error("position " + std::to_string(position) + " of " + std::to_string(self.count()));
  return self(position);
}

std::uint64_t key_of(std::uint64_t seed, const std::string& name, std::uint32_t occurrence) {
  const Philox4x32::Key key = op_key(seed, name, occurrence);
  return key[0] | (std::uint64_t{key[1]} << 32);
}

/// A seed for generators that are nobody's own: the first two draws of the sample's numbers under `key`.
std::uint64_t sample_seed(std::uint64_t key, std::uint64_t epoch, std::uint64_t record,
                          std::uint64_t occurrence) {
  SampleRng rng({static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}, epoch, record,
                occurrence);
  const std::uint64_t low = rng.next_u32();
  return low | (std::uint64_t{rng.next_u32()} << 32);
}

/// numpy's state of a Mersenne Twister, in its own memory (numpy/random/src/mt19937/mt19937.h): who calls has
/// checked that it is so.
struct TwisterState {
  std::uint32_t key[624];
  int next;
};

/// `sample_seed`, and the state that follows from it at `address`. True where the former state was used: then a
/// cached Gaussian may be left, which is the caller's to drop.
py::tuple seed_twister(std::uintptr_t address, std::uint64_t key, std::uint64_t epoch, std::uint64_t record,
                       std::uint64_t occurrence) {
  auto* const state = reinterpret_cast<TwisterState*>(address);  // NOLINT(performance-no-int-to-ptr)
  const bool used = state->next != 624;
  const std::uint64_t seed = sample_seed(key, epoch, record, occurrence);
  std::uint64_t at = seed;
  for (std::size_t i = 0; i < 624; i += 2) {
    // Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (SplitMix64).
    std::uint64_t word = at += 0x9E3779B97F4A7C15;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    word ^= word >> 31;
    state->key[i] = static_cast<std::uint32_t>(word);
    state->key[i + 1] = static_cast<std::uint32_t>(word >> 32);
  }
  state->key[0] |= 0x80000000;  // never all zeros
  state->next = 624;
  return py::make_tuple(seed, used);
}

/// Draw `draw` (from 0) of the substitutes of a position; as loader/stream/broken_rows draws them.
std::uint64_t substitute(std::uint64_t seed, std::uint64_t epoch, std::uint64_t position, std::uint32_t draw,
                         std::uint64_t count) {
  if (count == 0 || draw >= 1024) throw py::value_error("no record to draw");
  SampleRng rng(op_key(seed, "carya.replace", 0), epoch, position, 1 + position);
  std::uint64_t record = 0;
  for (std::uint32_t k = 0; k <= draw; ++k) record = rng.next_below(count);
  return record;
}

/// Arrays for what a plan of known shapes writes, and where they are.
py::dict arrays_for(const std::vector<TensorSpec>& specs, std::vector<std::byte*>& memory) {
  py::dict made;
  for (const TensorSpec& spec : specs) {
    py::array array(numpy_dtype(spec.dtype), std::vector<py::ssize_t>(spec.shape.begin(), spec.shape.end()));
    memory.push_back(static_cast<std::byte*>(array.mutable_data()));
    made[py::str(spec.name)] = std::move(array);
  }
  return made;
}

/// Arrays over tensors of their own.
py::dict arrays_of(std::vector<OwnedTensor>& tensors) {
  py::dict made;
  for (OwnedTensor& tensor : tensors) {
    using Data = decltype(tensor.data);
    auto kept = std::make_unique<Data>(std::move(tensor.data));
    std::byte* const bytes = kept->data();
    const py::capsule owner(kept.get(), [](void* held) { delete static_cast<Data*>(held); });
    static_cast<void>(kept.release());
    made[py::str(tensor.spec.name)] =
        py::array(numpy_dtype(tensor.spec.dtype),
                  std::vector<py::ssize_t>(tensor.spec.shape.begin(), tensor.spec.shape.end()), bytes, owner);
  }
  return made;
}

bool all_fixed(const transforms::Plan& plan) {
  return std::ranges::all_of(plan.outputs(), [](const TensorSpec& spec) { return spec.bytes() >= 0; });
}

/// Single samples of a native pipeline, one after the other, with what can be kept between them. Threads: one at a
/// time.
class Sampler {
 public:
  Sampler(const PyPipeline& pipeline, py::object dataset, std::uint64_t seed,
          const std::vector<std::size_t>& order)
      : plan_(unwrap(transforms::Plan::compile(pipeline.pipeline, {.seed = seed, .order = order}))),
        dataset_(dataset.cast<const PyDataset&>().dataset),
        owner_(std::move(dataset)),
        fixed_(all_fixed(*plan_)) {
    const std::vector<std::string> unchanged = transforms::unchanged_fields(*pipeline.pipeline);
    const auto& fields = pipeline.pipeline->fields();
    for (std::size_t f = 0; f < fields.size(); ++f)
      if (fields[f].kind != Kind::kEncoded &&
          std::ranges::find(unchanged, fields[f].spec.name) != unchanged.end())
        in_memory_.emplace(fields[f].spec.name, Fact{f, fields[f].spec});
  }

  /// Name -> array of its own memory. Same bits as a stream's row.
  py::dict compute(std::uint64_t record, std::uint64_t epoch, std::uint64_t occurrence) {
    const transforms::SampleId id{.epoch = epoch, .record = record, .occurrence = occurrence};
    return fixed_ ? run(id) : sample(id);
  }

  /// The fields of a sample that are in memory and that no operation takes.
  std::vector<std::string> in_memory() const {
    const auto names = in_memory_ | std::views::keys;
    return {names.begin(), names.end()};
  }

  /// Name -> array of its own memory, of some fields of in_memory(). The record's bytes are not read.
  py::dict facts(std::uint64_t record, const std::vector<std::string>& names) const {
    if (record >= dataset_->count()) throw py::index_error("record " + std::to_string(record));
    if (const Status checked = dataset_->check_record(record); !checked)
      refuse(checked.error(), {.epoch = 0, .record = record});
    py::dict made;
    for (const std::string& name : names) {
      const auto found = in_memory_.find(name);
      if (found == in_memory_.end()) throw py::key_error(name);
      const auto& [index, spec] = found->second;
      const loader::Dataset::Field& field = dataset_->fields()[index];
      const std::int64_t label = field.kind == Kind::kLabel ? dataset_->label(record) : 0;
      const auto bytes = field.kind == Kind::kLabel ? std::as_bytes(std::span(&label, 1))
                                                    : field.array.of(dataset_->source_index(record));
      std::vector<py::ssize_t> shape(spec.shape.begin(), spec.shape.end());
      auto row = static_cast<py::ssize_t>(dtype_bytes(spec.dtype));
      for (std::size_t d = 1; d < shape.size(); ++d) row *= shape[d];
      if (!shape.empty() && shape[0] < 0)
        shape[0] = row == 0 ? 0 : static_cast<py::ssize_t>(bytes.size()) / row;
      py::array array(numpy_dtype(spec.dtype), shape);
      CHECK(static_cast<std::size_t>(array.nbytes()) == bytes.size());
      std::ranges::copy(bytes, static_cast<std::byte*>(array.mutable_data()));
      made[py::str(name)] = std::move(array);
    }
    return made;
  }

 private:
  using Kind = transforms::SourceField::Kind;
  struct Fact {
    std::size_t field;
    TensorSpec spec;
  };

  py::dict run(const transforms::SampleId& id) {
    std::vector<std::byte*> outputs;
    py::dict made = arrays_for(plan_->outputs(), outputs);
    const Status done = [&]() -> Status {
      const WithoutGil unlocked;
      ASSIGN(const loader::SampleInputs inputs, loader::read_inputs(*dataset_, id.record));
      const Status ran = plan_->run(scratch_, id, inputs.spans, outputs);
      if (!ran && ran.error().code == Code::kCorrupt) TRY(dataset_->check_as_listed(id.record));
      return ran;
    }();
    if (!done) refuse(done.error(), id);
    return made;
  }

  py::dict sample(const transforms::SampleId& id) const {
    auto computed = [&]() -> Result<std::vector<OwnedTensor>> {
      const WithoutGil unlocked;
      ASSIGN(const loader::SampleInputs inputs, loader::read_inputs(*dataset_, id.record));
      auto tensors = plan_->sample(id, inputs.spans);
      if (!tensors && tensors.error().code == Code::kCorrupt) TRY(dataset_->check_as_listed(id.record));
      return tensors;
    }();
    if (!computed) refuse(computed.error(), id);
    return arrays_of(*computed);
  }

  [[noreturn]] void refuse(const Error& error, const transforms::SampleId& id) const {
    if (error.code == Code::kCorrupt) raise(loader::make_failure(*dataset_, error, id.epoch, 0, id.record));
    raise(error);
  }

  std::shared_ptr<const transforms::Plan> plan_;
  std::shared_ptr<const loader::Dataset> dataset_;
  py::object owner_;  // of memory that the dataset reads
  bool fixed_;        // all shapes are known: the fused plan runs
  std::map<std::string, Fact> in_memory_;
  transforms::Scratch scratch_;
};

/// Native operations behind a user's function: what they are given is no record but the function's arrays. Threads: one
/// at a time.
class Part {
 public:
  Part(const PyPipeline& pipeline, std::uint64_t seed)
      : plan_(unwrap(transforms::Plan::compile(pipeline.pipeline, {.seed = seed}))),
        fixed_(all_fixed(*plan_)) {}

  /// Name -> array of its own memory. `inputs`: contiguous arrays with the bytes of plan_->inputs(), in their order.
  py::dict compute(const std::vector<py::array>& inputs, std::uint64_t record, std::uint64_t epoch,
                   std::uint64_t occurrence) {
    const transforms::SampleId id{.epoch = epoch, .record = record, .occurrence = occurrence};
    const std::vector<std::span<const std::byte>> spans = spans_of(inputs);
    if (!fixed_) {
      auto tensors = [&] {
        const WithoutGil unlocked;
        return plan_->sample(id, spans);
      }();
      if (!tensors) raise(tensors.error());
      return arrays_of(*tensors);
    }
    std::vector<std::byte*> outputs;
    py::dict made = arrays_for(plan_->outputs(), outputs);
    const Status done = [&] {
      const WithoutGil unlocked;
      return plan_->run(scratch_, id, spans, outputs);
    }();
    if (!done) raise(done.error());
    return made;
  }

 private:
  [[nodiscard]] std::vector<std::span<const std::byte>> spans_of(const std::vector<py::array>& inputs) const {
    if (inputs.size() != plan_->inputs().size())
      throw py::value_error("as many arrays as the part has inputs");
    std::vector<std::span<const std::byte>> spans;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool whole = (inputs[i].flags() & py::array::c_style) != 0;
      if (!whole || inputs[i].nbytes() != plan_->inputs()[i].spec.bytes())
        throw py::value_error("arrays with the bytes of the part's inputs");
      spans.emplace_back(static_cast<const std::byte*>(inputs[i].data()),
                         static_cast<std::size_t>(inputs[i].nbytes()));
    }
    return spans;
  }

  std::shared_ptr<const transforms::Plan> plan_;
  bool fixed_;  // all shapes are known: the fused plan runs
  transforms::Scratch scratch_;
};

void bind_shape(py::module_& module) {
  py::class_<StreamShape>(module, "StreamShape")
      .def(py::init([](std::uint64_t records, std::uint64_t batch_size, std::uint64_t global_size,
                       std::uint64_t world_size, std::uint64_t rank, bool drop_last, bool pad_last) {
             return unwrap(StreamShape::create(records, batch_size, global_size, world_size, rank, drop_last,
                                               pad_last));
           }),
           py::kw_only(), py::arg("records"), py::arg("batch_size"), py::arg("global_size"),
           py::arg("world_size"), py::arg("rank"), py::arg("drop_last"), py::arg("pad_last"))
      .def_readonly("records", &StreamShape::records)
      .def_readonly("global_size", &StreamShape::global_size)
      .def_property_readonly("rank_rows_max", &StreamShape::rank_rows_max)
      .def("steps_from", &StreamShape::steps_from, py::arg("position"))
      .def("step_positions", &StreamShape::step_positions, py::arg("position"))
      .def(
          "part",
          [](const StreamShape& self, std::uint64_t position) {
            const loader::RankPart part = self.part(position);
            return py::make_tuple(part.first, part.count, part.rows, part.repeated);
          },
          py::arg("position"));
}

using Stretches = std::vector<std::pair<std::uint64_t, std::vector<std::uint64_t>>>;
using Sources = std::vector<std::pair<std::uint64_t, std::optional<std::uint64_t>>>;

MixOrder mix_order(const Sources& sources, const Stretches& table, std::uint64_t length,
                   std::optional<std::uint64_t> seed, bool in_turn) {
  MixOrder::Options options{.sources = {}, .table = {}, .length = length, .seed = seed, .in_turn = in_turn};
  for (const auto& [count, shuffle_seed] : sources) options.sources.push_back({count, shuffle_seed});
  for (const auto& [at, weights] : table) options.table.push_back({at, weights});
  return unwrap(MixOrder::create(std::move(options)));
}

/// Arrays for so many positions.
template <std::size_t kCount>
std::array<py::array_t<std::int64_t>, kCount> columns(std::uint64_t count) {
  if (count > kSliceMax) throw py::index_error(std::to_string(count) + " positions at once");
  std::array<py::array_t<std::int64_t>, kCount> made;
  for (auto& column : made) column = py::array_t<std::int64_t>(static_cast<py::ssize_t>(count));
  return made;
}

std::span<std::int64_t> cells(py::array_t<std::int64_t>& column) {
  return {column.mutable_data(), static_cast<std::size_t>(column.size())};
}

void bind_mix(py::module_& module) {
  py::class_<MixOrder>(module, "MixOrder")
      .def(py::init(&mix_order), py::kw_only(), py::arg("sources"), py::arg("table"), py::arg("length"),
           py::arg("seed"), py::arg("in_turn"))
      .def("given", &MixOrder::given, py::arg("position"))
      .def(
          "places",
          [](MixOrder& self, std::uint64_t epoch, std::uint64_t first, std::uint64_t count) {
            auto [sources, numbers] = columns<2>(count);
            unwrap(self.places(epoch, first, cells(sources), cells(numbers)));
            return py::make_tuple(sources, numbers);
          },
          py::arg("epoch"), py::arg("first"), py::arg("count"))
      .def(
          "rows",
          [](MixOrder& self, std::uint64_t epoch, std::uint64_t first, std::uint64_t count) {
            auto [sources, epochs, indices] = columns<3>(count);
            unwrap(self.rows(epoch, first, {cells(sources), cells(epochs), cells(indices)}));
            return py::make_tuple(sources, epochs, indices);
          },
          py::arg("epoch"), py::arg("first"), py::arg("count"));
}

}  // namespace

void bind_sampler(py::module_& module) {
  bind_shape(module);
  bind_mix(module);
  py::class_<Permutation>(module, "Permutation")
      .def(py::init([](std::uint64_t seed, std::uint64_t epoch, std::uint64_t count) {
             if (count > Permutation::kCountMax) throw py::value_error("more than 2^48 records");
             return Permutation(seed, epoch, count);
           }),
           py::arg("seed"), py::arg("epoch"), py::arg("count"))
      .def("record", &permuted_one, py::arg("position"))
      .def("records", &permuted, py::arg("first"), py::arg("count"));
  py::class_<Sampler>(module, "Sampler")
      .def(py::init<const PyPipeline&, py::object, std::uint64_t, const std::vector<std::size_t>&>(),
           py::arg("pipeline"), py::arg("dataset"), py::arg("seed"),
           py::arg("order") = std::vector<std::size_t>{})
      .def("compute", &Sampler::compute, py::arg("record"), py::arg("epoch"), py::arg("occurrence"))
      .def_property_readonly("in_memory", &Sampler::in_memory)
      .def("facts", &Sampler::facts, py::arg("record"), py::arg("names"));
  py::class_<Part>(module, "Part")
      .def(py::init<const PyPipeline&, std::uint64_t>(), py::arg("pipeline"), py::arg("seed"))
      .def("compute", &Part::compute, py::arg("inputs"), py::arg("record"), py::arg("epoch"),
           py::arg("occurrence"));
  module.def("op_key", &key_of, py::arg("seed"), py::arg("name"), py::arg("occurrence"));
  module.def("sample_seed", &sample_seed, py::arg("key"), py::arg("epoch"), py::arg("record"),
             py::arg("occurrence"));
  module.def("seed_twister", &seed_twister, py::arg("address"), py::arg("key"), py::arg("epoch"),
             py::arg("record"), py::arg("occurrence"));
  module.def("substitute", &substitute, py::arg("seed"), py::arg("epoch"), py::arg("position"),
             py::arg("draw"), py::arg("count"));
  module.def("available_slot_bytes", [] { return shm::available_slot_bytes(); });
  module.def("auto_threads", [] { return loader::auto_threads(loader::read_host_info()); });
}

}  // namespace carya::python
