#include "io/formats/tfrecord.h"

#include <gtest/gtest.h>

#include "io/formats/example.h"
#include "tests/io/example_writer.h"

namespace carya::io {
namespace {

using Kind = RecordField::Kind;

const RecordField kImage{.name = "image", .key = "img"};
const RecordField kLabel{.kind = Kind::kLabel, .name = "label", .key = "cls"};
const RecordField kBox{
    .kind = Kind::kTensor, .name = "box", .key = "box", .dtype = DType::kFloat32, .values = 2};
const RecordField kIds{
    .kind = Kind::kTensor, .name = "ids", .key = "ids", .dtype = DType::kInt64, .values = 3};
const RecordField kRaw{
    .kind = Kind::kTensor, .name = "raw", .key = "raw", .dtype = DType::kUint16, .values = 2};
const RecordField kWhole{.name = "record", .key = std::nullopt};

Result<RecordIndex> index_of(const std::string& file, std::vector<RecordField> fields,
                             bool check_data = true) {
  const RecordSpec spec{.check_data = check_data, .fields = std::move(fields)};
  FileWindow window(file.size(), [&file](std::uint64_t offset, std::span<std::byte> out) -> Status {
    CHECK(offset <= file.size() && out.size() <= file.size() - offset);
    std::memcpy(out.data(), file.data() + offset, out.size());
    return {};
  });
  ListingProgress progress({});
  return index_tfrecord("f.tfrecord", window, spec, progress);
}

/// Index of a file of these records, which must be one.
RecordIndex indexed(const std::vector<std::string>& records, std::vector<RecordField> fields) {
  std::string file;
  for (const std::string& record : records) file += framed(record);
  auto index = index_of(file, std::move(fields));
  CHECK(index);
  return std::move(*index);
}

std::string at(const std::string& file, RecordIndex::Range range) {
  return file.substr(range.offset, range.bytes);
}

template <typename T>
std::vector<T> values(const RecordIndex& index, std::size_t field) {
  std::vector<T> found(index.column(field).size() / sizeof(T));
  std::memcpy(found.data(), index.column(field).data(), index.column(field).size());
  return found;
}

std::vector<Fault> faults(const RecordIndex& index) {
  std::vector<Fault> found;
  for (const RecordFault& fault : index.faults()) found.push_back(fault.what);
  return found;
}

TEST(Tfrecord, FieldsAreRangesLabelsAndTensors) {
  const std::string record =
      example(entry("cls", int64_feature({-5})) + entry("img", bytes_feature({"JPEG"})) +
              entry("box", float_feature({0.5f, -2})) + entry("ids", int64_feature({1, -1, INT64_MIN})) +
              entry("raw", bytes_feature({little(0x01020304, 4)})));
  const std::string file = framed(record) + framed(record);
  const auto index = index_of(file, {kImage, kLabel, kBox, kIds, kRaw, kWhole});
  ASSERT_TRUE(index) << index.error().message;
  ASSERT_EQ(index->count(), 2u);
  EXPECT_TRUE(index->faults().empty());
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(at(file, index->ranges(0)[i]), "JPEG");
    EXPECT_EQ(index->labels()[i], -5);
    EXPECT_EQ(at(file, index->ranges(5)[i]), record);
  }
  EXPECT_EQ(values<float>(*index, 2), (std::vector<float>{0.5f, -2, 0.5f, -2}));
  EXPECT_EQ(values<std::int64_t>(*index, 3), (std::vector<std::int64_t>{1, -1, INT64_MIN, 1, -1, INT64_MIN}));
  EXPECT_EQ(values<std::uint16_t>(*index, 4), (std::vector<std::uint16_t>{0x0304, 0x0102, 0x0304, 0x0102}));
}

TEST(Tfrecord, ValuesMayBeUnpackedOrInParts) {
  const std::string mixed =
      bytes_field(3, varint(1 << 3) + varint(7) + bytes_field(1, varint(8) + varint(9)));
  const std::string parts =
      bytes_field(2, varint(1 << 3 | 5) + float_bytes(1)) + bytes_field(2, bytes_field(1, float_bytes(2)));
  const RecordIndex index = indexed(
      {example(entry("ids", int64_feature({7, 8, 9}, false)) + entry("box", float_feature({1, 2}, false))),
       example(entry("ids", mixed) + entry("box", parts))},
      {kIds, kBox});
  EXPECT_TRUE(index.faults().empty());
  EXPECT_EQ(values<std::int64_t>(index, 0), (std::vector<std::int64_t>{7, 8, 9, 7, 8, 9}));
  EXPECT_EQ(values<float>(index, 1), (std::vector<float>{1, 2, 1, 2}));
}

TEST(Tfrecord, TheLastEntryOfAKeyAndTheLastKindOfAFeatureCount) {
  const std::string kinds = float_feature({3}) + int64_feature({4});
  const std::string split = bytes_field(1, bytes_field(1, "cls") + bytes_field(2, int64_feature({1})));
  const RecordIndex index = indexed(
      {example(entry("cls", int64_feature({1})) + entry("cls", int64_feature({2}))),
       example(entry("cls", kinds)),
       // Features in two parts; a value before its key.
       example(split) + example(bytes_field(1, bytes_field(2, int64_feature({3})) + bytes_field(1, "cls")))},
      {kLabel});
  EXPECT_TRUE(index.faults().empty());
  EXPECT_EQ(index.labels(), (std::vector<std::int64_t>{2, 4, 3}));
}

TEST(Tfrecord, UnknownFieldsArePassedOver) {
  const std::string unknown = varint(9 << 3) + varint(1) + varint(10 << 3 | 1) + little(0, 8) +
                              varint(11 << 3 | 3) + bytes_field(1, "in a group") + varint(11 << 3 | 4) +
                              varint(12 << 3 | 5) + little(0, 4) + bytes_field(13, "x");
  const std::string feature = unknown + bytes_field(3, unknown + varint(1 << 3) + varint(6));
  const std::string one = bytes_field(1, unknown + bytes_field(1, "cls") + bytes_field(2, feature));
  const RecordIndex index = indexed({unknown + example(unknown + one) + unknown}, {kLabel});
  EXPECT_TRUE(index.faults().empty()) << fault_text({.fields = {kLabel}}, index.faults()[0]);
  EXPECT_EQ(index.labels(), (std::vector<std::int64_t>{6}));
}

TEST(Tfrecord, AFeatureThatIsNotAsAskedBreaksItsRecord) {
  const std::string good = entry("cls", int64_feature({1})) + entry("img", bytes_feature({"x"}));
  const RecordIndex index = indexed(
      {example(good), example(entry("cls", int64_feature({1}))),
       example(good + entry("img", bytes_feature({}))), example(good + entry("img", "")),
       example(good + entry("img", bytes_feature({"a", "b"}))),
       example(good + entry("img", int64_feature({1}))), example(good + entry("cls", int64_feature({}))),
       example(good + entry("cls", int64_feature({1, 2}))), example(good + entry("cls", float_feature({1}))),
       "", example(good)},
      {kImage, kLabel});
  ASSERT_EQ(index.count(), 11u);
  EXPECT_EQ(faults(index), (std::vector<Fault>{Fault::kMissing, Fault::kOtherCount, Fault::kOtherCount,
                                               Fault::kOtherCount, Fault::kOtherKind, Fault::kOtherCount,
                                               Fault::kOtherCount, Fault::kOtherKind, Fault::kMissing}));
  for (std::size_t i = 0; i < index.faults().size(); ++i) {
    EXPECT_EQ(index.faults()[i].record, i + 1);
    EXPECT_EQ(index.ranges(0)[i + 1].bytes, 0u);
    EXPECT_EQ(index.labels()[i + 1], -1);
  }
  EXPECT_EQ(
      fault_text({.fields = {kImage, kLabel}}, index.faults()[0]),
      "tfrecord: the record has no img; give the record one value of bytes in it, or leave the field out");
  const RecordIndex box = indexed(
      {example(entry("box", float_feature({1, 2, 3}))), example(entry("raw", bytes_feature({"abc"})))},
      {kBox});
  EXPECT_EQ(faults(box), (std::vector<Fault>{Fault::kOtherCount, Fault::kMissing}));
  EXPECT_EQ(fault_text({.fields = {kBox}}, box.faults()[0]),
            "tfrecord: box has 3 values; give the record 2 of float32, 8 B in it, or leave the field out");
}

TEST(Tfrecord, MessagesThatLieAreBroken) {
  const std::string feature = int64_feature({1});
  const auto label = [](const std::string& list) { return example(entry("cls", bytes_field(3, list))); };
  const std::string long_varint(9, '\xff');
  const std::vector<std::string> bad = {
      "\x0a\x05zz",
      "\x0a",
      std::string("\x00\x01", 2),
      "\x0e\x01",
      "\x0b",
      "\x0c",
      "\x0b\x14",
      label(varint(1 << 3) + std::string(10, '\xff') + "\x01"),  // eleven bytes
      label(varint(1 << 3) + long_varint + "\x02"),              // the 65th bit
      label(bytes_field(1, "\x80")),
      example(entry("cls", "\x1a\x7f")),
      example("\x0a\x7f"),
      std::string(300, '\x0b')};
  for (const std::string& message : bad) {
    const RecordIndex index = indexed({example(entry("cls", feature)), message}, {kLabel});
    EXPECT_EQ(faults(index), (std::vector<Fault>{Fault::kMalformed})) << testing::PrintToString(message);
  }
  const RecordIndex last = indexed({label(varint(1 << 3) + long_varint + "\x01")}, {kLabel});
  EXPECT_EQ(last.labels(), (std::vector<std::int64_t>{-1}));
  EXPECT_TRUE(last.faults().empty());
}

TEST(Tfrecord, AWrongDataSumBreaksItsRecordAlone) {
  const std::string record = example(entry("cls", int64_feature({1})));
  std::string file = framed(record) + framed(record) + framed(record);
  file[framed(record).size() + 14] ^= 1;
  auto index = index_of(file, {kLabel, kWhole});
  ASSERT_TRUE(index);
  EXPECT_EQ(faults(*index), (std::vector<Fault>{Fault::kDataSum}));
  EXPECT_EQ(index->faults()[0].record, 1u);
  EXPECT_EQ(index->places()[1].offset, framed(record).size() + 12);
  EXPECT_EQ(index->labels(), (std::vector<std::int64_t>{1, -1, 1}));
  index = index_of(file, {kWhole}, false);
  ASSERT_TRUE(index);
  EXPECT_TRUE(index->faults().empty());
  EXPECT_EQ(at(file, index->ranges(0)[2]), record);
}

TEST(Tfrecord, AWrongLengthSumHidesTheRest) {
  std::string file = framed("aaa") + framed("bbb") + framed("ccc");
  file[framed("aaa").size() + 9] ^= 1;
  const auto index = index_of(file, {kWhole});
  ASSERT_TRUE(index);
  ASSERT_EQ(index->count(), 2u);
  EXPECT_EQ(faults(*index), (std::vector<Fault>{Fault::kLengthSum}));
  EXPECT_EQ(index->faults()[0].got, 2 * framed("aaa").size());
}

TEST(Tfrecord, CutOffAnywhereIsOneBrokenRecordAtTheEnd) {
  const std::string file = framed("aaa") + framed("bb");
  for (std::size_t size = 0; size <= file.size(); ++size) {
    const auto index = index_of(file.substr(0, size), {kWhole});
    const std::size_t first = framed("aaa").size();
    ASSERT_TRUE(index) << size;
    const bool whole = size == 0 || size == first || size == file.size();
    EXPECT_EQ(index->faults().size(), whole ? 0u : 1u) << size;
    EXPECT_EQ(index->count(), size == 0 ? 0u : size <= first ? 1u : 2u) << size;
    if (!whole) EXPECT_EQ(index->faults()[0].what, Fault::kCutOff);
  }
}

TEST(Tfrecord, AGiganticLengthIsCutOff) {
  for (const std::uint64_t length :
       {UINT64_MAX, UINT64_MAX - 3, std::uint64_t{1} << 62, std::uint64_t{100}}) {
    const std::string head = little(length, 8);
    const auto index = index_of(framed("x") + head + little(masked_of(head), 4) + "some data", {kWhole});
    ASSERT_TRUE(index);
    EXPECT_EQ(faults(*index), (std::vector<Fault>{Fault::kCutOff}));
  }
}

TEST(Tfrecord, OtherFilesAreNamed) {
  const auto code = [](const std::string& file) { return index_of(file, {kWhole}).error(); };
  EXPECT_EQ(code(std::string("\x1f\x8b\x08") + std::string(20, '\0')).code, Code::kUnsupported);
  EXPECT_NE(code(std::string("\x1f\x8b\x08") + std::string(20, '\0')).message.find("gzip -dc f.tfrecord"),
            std::string::npos);
  EXPECT_EQ(code("\x78\x9c" + std::string(20, '\1')).code, Code::kUnsupported);
  EXPECT_EQ(code("{\"no\": \"tfrecord\"}").code, Code::kCorrupt);
}

TEST(Tfrecord, TheFirstRecordIsDescribed) {
  const RecordIndex index =
      indexed({example(entry("a", bytes_feature({"x"})) + entry("b\n", float_feature({1, 2})) +
                       entry("c", int64_feature({})) + entry("d", "")) +
               bytes_field(2, entry("frames", "x"))},
              {kLabel});
  EXPECT_EQ(index.description(),
            "a (1 bytes), b\\x0a (2 float), c (0 int64), d (empty), frames (a list of a SequenceExample, not "
            "read)");
  EXPECT_FALSE(index.found(0));
}

TEST(Tfrecord, AnIndexIsWhatItWasWhenItWasStored) {
  const RecordIndex index =
      indexed({example(entry("cls", int64_feature({4})) + entry("img", bytes_feature({"JPEG"})) +
                       entry("box", float_feature({1, 2}))),
               "junk", example(entry("cls", int64_feature({4})))},
              {kImage, kLabel, kBox});
  const RecordSpec spec{.fields = {kImage, kLabel, kBox}};
  const auto image = index.store(1000, 77);
  const auto again = RecordIndex::load(image, spec, 1000, 77);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->count(), 3u);
  EXPECT_EQ(again->ranges(0)[0].offset, index.ranges(0)[0].offset);
  EXPECT_EQ(again->labels(), index.labels());
  EXPECT_EQ(again->column(2), index.column(2));
  EXPECT_EQ(faults(*again), faults(index));
  EXPECT_TRUE(again->found(2));
  EXPECT_EQ(again->description(), index.description());
  EXPECT_EQ(*check_stored_index(image), 3u);
  EXPECT_FALSE(RecordIndex::load(image, spec, 1001, 77));
  EXPECT_FALSE(RecordIndex::load(image, spec, 1000, 78));
  EXPECT_FALSE(RecordIndex::load(image, {.fields = {kImage, kLabel}}, 1000, 77));
  EXPECT_FALSE(RecordIndex::load(image, {.check_data = false, .fields = spec.fields}, 1000, 77));
  for (std::size_t i = 0; i < image.size(); ++i) {
    auto wrong = image;
    wrong[i] ^= std::byte{0x20};
    EXPECT_FALSE(RecordIndex::load(wrong, spec, 1000, 77)) << i;
    EXPECT_FALSE(RecordIndex::load(std::span(image).first(i), spec, 1000, 77)) << i;
  }
}

TEST(Tfrecord, AStoredIndexOfASmallerFileIsRefused) {
  const RecordIndex index = indexed({"12345"}, {kWhole});
  const auto image = index.store(10, 1);  // its record lies at 12
  EXPECT_EQ(RecordIndex::load(image, {.fields = {kWhole}}, 10, 1).error().code, Code::kCorrupt);
  const RecordIndex labels = indexed({example(entry("cls", int64_feature({1})))}, {kLabel});
  EXPECT_EQ(RecordIndex::load(labels.store(10, 1), {.fields = {kLabel}}, 10, 1).error().code, Code::kCorrupt);
}

TEST(Tfrecord, TensorsOfMoreThanTheirMemoryAreRefused) {
  RecordField large = kRaw;
  large.values = kColumnBytesMax;
  const auto index = index_of(framed("x"), {large});
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().code, Code::kExhausted);
}

}  // namespace
}  // namespace carya::io
