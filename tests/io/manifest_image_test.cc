#include "io/manifest/manifest_image.h"

#include <algorithm>

#include "io/files/manifest_file.h"
#include "io/manifest/manifest_builder.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

std::vector<std::byte> members() {
  ManifestBuilder builder;
  builder.root = "/data";
  builder.containers = {"0.tar", "1.tar"};
  builder.class_names = {"cat", "dog"};
  builder.skipped_examples = {"readme"};
  builder.skipped_count = 12;
  builder.keep_times = true;
  builder.add_source("0.tar", {.mtime_ns = 1, .ctime_ns = 2, .inode = 3, .bytes = 4});
  for (int i = 0; i < 9; ++i) {
    const std::string name = std::string("m") + std::to_string(i);
    builder.add({.name = name,
                 .bytes = 100u + static_cast<unsigned>(i),
                 .label = i % 2,
                 .mtime_ns = -i,
                 .offset = 512u * static_cast<unsigned>(i),
                 .container = static_cast<std::uint32_t>(i / 5)});
  }
  return builder.build();
}

/// Opens a copy whose size is exactly the image's, so that a sanitizer sees any read beyond it.
Code open_code(const std::vector<std::byte>& image) {
  const auto copy = std::make_shared<std::vector<std::byte>>(image);
  const auto opened = ManifestImage::open(*copy, copy);
  if (!opened) return opened.error().code;
  for (std::uint64_t i = 0; i < (*opened)->count(); ++i) (*opened)->record(i);
  return Code::kClosed;  // stands for "it was taken"
}

TEST(ManifestImage, GivesBackWhatWasBuilt) {
  const auto manifest = ManifestImage::from(members());
  ASSERT_EQ(manifest->count(), 9u);
  EXPECT_EQ(manifest->root(), "/data");
  EXPECT_EQ(manifest->class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(manifest->skipped_count(), 12u);
  EXPECT_EQ(manifest->skipped_examples(), (std::vector<std::string>{"readme"}));
  EXPECT_EQ(manifest->source_paths(), (std::vector<std::string>{"0.tar"}));
  EXPECT_EQ(manifest->source_stamps()[0], (SourceStamp{1, 2, 3, 4}));
  const RecordAddress record = manifest->record(7);
  EXPECT_EQ(record.path, "1.tar");
  EXPECT_EQ(record.member, "m7");
  EXPECT_EQ(record.bytes, 107u);
  EXPECT_EQ(record.offset, 512u * 7);
  EXPECT_EQ(record.label, 1);
  EXPECT_EQ(manifest->mtime_ns(7), -7);
}

TEST(ManifestImage, AnEmptyOneIsOne) {
  const auto manifest = ManifestImage::from(ManifestBuilder().build());
  EXPECT_EQ(manifest->count(), 0u);
  EXPECT_EQ(open_code(ManifestBuilder().build()), Code::kClosed);
}

TEST(ManifestImage, EveryFlippedBitIsSeen) {
  const auto image = members();
  ASSERT_EQ(open_code(image), Code::kClosed);
  for (std::size_t at = 0; at < image.size(); ++at) {
    auto wrong = image;
    wrong[at] ^= std::byte{1};
    EXPECT_EQ(open_code(wrong), Code::kCorrupt) << at;
  }
  for (std::size_t length = 0; length < image.size(); ++length) {
    EXPECT_EQ(open_code({image.begin(), image.begin() + static_cast<std::ptrdiff_t>(length)}),
              Code::kCorrupt);
  }
}

TEST(ManifestImage, LiesWithRightHashesAreSeenOrHarmless) {
  // Whoever makes the hashes fit can make a manifest that says other things, but none that leads outside.
  const auto image = members();
  std::size_t refused = 0;
  for (std::size_t at = 0; at < image.size(); ++at) {
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      auto wrong = image;
      wrong[at] = static_cast<std::byte>(value);
      seal_manifest(wrong);
      refused += open_code(wrong) == Code::kCorrupt;
    }
  }
  EXPECT_GT(refused, image.size());
}

TEST(ManifestImage, EachLieIsNamed) {
  const auto image = members();
  ManifestHeader header;
  std::memcpy(&header, image.data(), sizeof header);
  const ManifestSections at = *manifest_sections(header);
  const auto with = [&](std::uint64_t offset, auto value) {
    auto wrong = image;
    std::memcpy(wrong.data() + offset, &value, sizeof value);
    seal_manifest(wrong);
    return open_code(wrong);
  };
  EXPECT_EQ(with(offsetof(ManifestHeader, record_count), std::uint64_t{1} << 61), Code::kCorrupt);
  EXPECT_EQ(with(offsetof(ManifestHeader, record_count), ~std::uint64_t{0}), Code::kCorrupt);
  EXPECT_EQ(with(offsetof(ManifestHeader, names_bytes), ~std::uint64_t{0}), Code::kCorrupt);
  EXPECT_EQ(with(offsetof(ManifestHeader, class_count), std::uint64_t{1}), Code::kCorrupt);
  EXPECT_EQ(with(offsetof(ManifestHeader, class_count), std::uint64_t{1} << 60), Code::kCorrupt);
  EXPECT_EQ(with(offsetof(ManifestHeader, example_count), ~std::uint64_t{0}), Code::kCorrupt);
  EXPECT_EQ(with(offsetof(ManifestHeader, version), std::uint32_t{2}), Code::kCorrupt);
  EXPECT_EQ(with(at.name_at + 8, std::uint64_t{1} << 40), Code::kCorrupt);
  EXPECT_EQ(with(at.name_at + 8, std::uint64_t{0}), Code::kCorrupt);
  EXPECT_EQ(with(at.bytes, ~std::uint64_t{0}), Code::kCorrupt);
  EXPECT_EQ(with(at.offset + 8, std::uint64_t{1} << 62), Code::kCorrupt);
  EXPECT_EQ(with(at.container, std::uint32_t{2}), Code::kCorrupt);
  EXPECT_EQ(with(at.label, std::int64_t{2}), Code::kCorrupt);
  EXPECT_EQ(with(at.label, std::int64_t{-1}), Code::kCorrupt);
  EXPECT_EQ(with(at.names, std::uint8_t{0}), Code::kCorrupt);
  EXPECT_EQ(with(at.strings, std::uint8_t{0}), Code::kCorrupt);
}

TEST(ManifestImage, FormatOfTheDocument) {
  // The worked example of io/FORMAT.md, hashes and all.
  ManifestBuilder builder;
  builder.root = "/d";
  builder.class_names = {"a"};
  builder.add({.name = "a/1.jpg", .bytes = 3, .label = 0});
  std::string hex;
  for (const std::byte byte : builder.build()) {
    hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15];
  }
  EXPECT_EQ(hex,
            "43415259414d414e0100000001000000b0000000000000000100000000000000"
            "d4b3af02bfa49aa938e15e94fc50885b00000000000000000100000000000000"
            "0000000000000000000000000000000000000000000000000800000000000000"
            "050000000000000004c005691f25028e00000000000000007a1dc4f023a734de"
            "0000000000000000080000000000000003000000000000000000000000000000"
            "612f312e6a7067002f64006100000000");
}

TEST(ManifestFile, IsStoredWholeAndLoaded) {
  const TempDir dir;
  const std::string path = dir.path("new/folder/x.manifest");
  const auto image = members();
  ASSERT_TRUE(store_manifest(path, image, Readers::everybody()));
  const auto loaded = load_manifest(path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(std::ranges::equal((*loaded)->bytes(), image));
  // Replacing it does not touch what was read.
  ASSERT_TRUE(store_manifest(path, ManifestBuilder().build(), {}));
  EXPECT_EQ((*loaded)->record(8).member, "m8");
  EXPECT_EQ((*load_manifest(path))->count(), 0u);
  const std::filesystem::directory_iterator files(dir.path("new/folder"));
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  EXPECT_EQ(load_manifest(dir.path("none")).error().code, Code::kNotFound);
  EXPECT_EQ(load_manifest(dir.path()).error().code, Code::kCorrupt);
}

TEST(ManifestFile, IsReadByThoseItIsFor) {
  const TempDir dir;
  const mode_t before = ::umask(022);
  for (const auto& [readers, mode] : {std::pair{Readers::everybody(), 0644u}, std::pair{Readers(), 0600u}}) {
    ASSERT_TRUE(store_manifest(dir.path("x.manifest"), members(), readers));
    EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(dir.path("x.manifest")).permissions()), mode);
  }
  ::umask(before);
}

TEST(ManifestFile, OneThatIsCutWhileItIsUsedStaysWhatItWas) {
  TempDir dir;
  const std::string path = dir.path("kept.manifest");
  ManifestBuilder builder;
  for (int i = 0; i < 10'000; ++i) builder.add({.name = std::to_string(i), .bytes = 1, .label = 2});
  ASSERT_TRUE(store_manifest(path, builder.build(), {}));
  const auto loaded = load_manifest(path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  std::filesystem::resize_file(path, 0);
  for (std::uint64_t i = 0; i < 10'000; ++i) ASSERT_EQ((*loaded)->record(i).path, std::to_string(i));
}

}  // namespace
}  // namespace carya::io
