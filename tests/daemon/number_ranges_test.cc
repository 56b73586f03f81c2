#include "loader/wire/number_ranges.h"

#include <gmock/gmock.h>

#include <limits>

#include "loader/control/documents.h"
#include "loader/wire/chunk_message.h"

namespace carya::loader {
namespace {

TEST(NumberRanges, AreThoseOfTheDocumentsFields) {
  std::vector<std::string> fields = client_number_fields();
  for (std::string& field : host_number_fields()) fields.push_back(std::move(field));
  std::vector<std::string> ranges;
  for (const NumberRange& range : number_ranges()) ranges.emplace_back(range.field);
  EXPECT_THAT(fields, testing::UnorderedElementsAreArray(ranges))
      << "a number of a client's or a host's document has no range, or a range has no field";
}

TEST(NumberRanges, RefuseWhatLiesOutsideByItsName) {
  const std::string field = "Attach.options.threads";
  EXPECT_TRUE(check_number(field, 0));
  EXPECT_TRUE(check_number(field, kThreadsMax));
  for (const double wrong : {-1.0, kThreadsMax + 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const Status status = check_number(field, wrong);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_NE(status.error().message.find("options.threads: got"), std::string::npos);
    EXPECT_NE(status.error().message.find("give 0 to 1024"), std::string::npos) << status.error().message;
  }
  EXPECT_FALSE(check_number("Attach.options.unheard_of", 0)) << "a field without a range is refused";
}

TEST(NumberRanges, HoldForWhatIsRead) {
  AttachRequest request{.job = "a"};
  EXPECT_TRUE(decode<AttachRequest>(encode(request)));
  request.arrays = {{"x", 6, 30}, {"y", 1ULL << 50, 1}};
  const auto read = decode<AttachRequest>(encode(request));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kInvalidArgument);
  EXPECT_NE(read.error().message.find("arrays[].row_bytes"), std::string::npos) << read.error().message;
  RemotePlan plan{.order = {0}, .cut = 0};
  const std::string body = encode_remote(plan);
  EXPECT_FALSE(decode_remote<RemotePlan>(std::as_bytes(std::span(body))));
}

}  // namespace
}  // namespace carya::loader
