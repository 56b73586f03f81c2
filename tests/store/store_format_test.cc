// The worked example of io/store/FORMAT.md.
#include "tests/store/store_fixture.h"

namespace carya::io {
namespace {

constexpr char kExample[] =
    "4341 5259 4153 544f 0100 0000 0100 0000\n"
    "0807 0605 0403 0201 100f 0e0d 0c0b 0a09\n"
    "e803 0000 0000 0000 8877 6655 4433 2211\n"
    "0000 0000 0000 0000 fe01 7e72 6fc4 dac8\n"
    "6374 7279 0500 0000 0700 0000 0000 0000\n"
    "bdc8 3f6f 8794 9b4f 6865 6c6c 6f00 0000\n";

std::string hex_of(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto b = static_cast<unsigned char>(bytes[i]);
    text += kDigits[b >> 4];
    text += kDigits[b & 15];
    if (i % 16 == 15) {
      text += '\n';
    } else if (i % 2 == 1) {
      text += ' ';
    }
  }
  return text;
}

std::string example_file() {
  const StoreIdentity identity{
      .dataset = {0x0102030405060708, 0x090a0b0c0d0e0f10}, .kind = 1, .record_count = 1000};
  const StoreHeader header = make_store_header(identity, 0x1122334455667788);
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  const std::string_view payload = "hello";
  EntryHead head{.mark = kEntryMark, .bytes = 5, .record = 7, .hash = 0};
  head.hash = entry_hash(head, std::as_bytes(std::span(payload)), header.salt);
  file.append(reinterpret_cast<const char*>(&head), sizeof head);
  file.append(payload);
  file.resize(sizeof header + entry_span(payload.size()));
  return file;
}

TEST(StoreFormat, BytesOfTheDocument) {
  EXPECT_EQ(hex_of(example_file()), kExample);
}

TEST(StoreFormat, TheDocumentsFileIsAStore) {
  TempDir dir;
  const std::string path = dir.write("a.store", example_file());
  const StoreIdentity identity{
      .dataset = {0x0102030405060708, 0x090a0b0c0d0e0f10}, .kind = 1, .record_count = 1000};
  const auto store = RecordStore::open(path, identity, {.replace_mismatch = false});
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const auto bytes = get(**store, 7);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size()), "hello");
}

}  // namespace
}  // namespace carya::io
