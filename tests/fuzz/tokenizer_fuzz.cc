// Any text and any vocabulary: no crash, no read outside of the text, ids of the vocabulary only, and the same ids when
// pretokens are remembered. The first byte chooses the pre-tokenizer, the next ones rules over the bytes of the text.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "transforms/text/bpe.h"

namespace {

using namespace carya;
using text::BpeMerge;

constexpr std::size_t kRules = 24;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 + 2 * kRules) return 0;
  text::BpeVocabulary vocabulary{.pretokens = static_cast<text::Pretokens>(data[0] % 4)};
  std::iota(vocabulary.byte_ids.begin(), vocabulary.byte_ids.end(), 0);
  std::vector<BpeMerge> rules;
  for (std::uint32_t i = 0; i < kRules; ++i) {
    const auto token = [&](std::uint8_t byte) {  // those below 0x20 are the results of earlier rules
      return byte < 0x20 && byte < i ? 256u + byte : std::uint32_t{byte};
    };
    rules.push_back({token(data[1 + 2 * i]), token(data[2 + 2 * i]), i, 256 + i});
  }
  vocabulary.merges = rules;
  const auto bpe = text::Bpe::create(vocabulary);
  if (!bpe) return 0;                                                 // two rules of one pair
  const std::vector<char> exact(data + 1 + 2 * kRules, data + size);  // no byte behind it that may be read
  text::BpeEncoder encoder(*bpe, 2);  // so few places that pretokens take them from others
  const auto first = encoder.encode({exact.data(), exact.size()});
  if (!first) return 0;
  const std::vector<std::uint32_t> ids(first->begin(), first->end());
  CHECK(ids.size() <= exact.size());
  CHECK(std::ranges::all_of(ids, [](std::uint32_t id) { return id < 256 + kRules; }));
  const auto again = encoder.encode({exact.data(), exact.size()});
  CHECK(again && std::ranges::equal(*again, ids));
  return 0;
}
