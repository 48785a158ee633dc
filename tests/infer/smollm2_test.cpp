// Tests the engine on a published model of 135 million parameters in 4-bit blocks, which `make smollm2` fetches.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/infer/support.h"

namespace folio::infer {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr size_t kPrompts = 10;  // AddressSanitizer is ten times slower
#else
constexpr size_t kPrompts = 60;
#endif

// Decodes four greedy tokens after each prompt of 1 to 12 tokens, one at a time with the KV cache. The logits have the
// same bits as those of a new sequence in which all tokens are computed again.
TEST(SmolLm2, CachedDecodingEqualsRecomputation) {
  const std::filesystem::path file = FOLIO_SMOLLM2;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there: make smollm2 fetches it";
  const core::StoredModel model = core::read_model(file);
  Cpu cpu;
  Runner engine(model, cpu, {.max_positions = 64, .n_sequences = 2});
  for (size_t i = 0; i < kPrompts; ++i) {
    const auto prompt = test::random_tokens(1 + i % 12, i, model.config.vocab_size);
    const SequenceId cached = engine.cache().add_sequence();
    std::vector<Row> rows;
    for (const int32_t token : prompt) {
      rows.push_back({token, cached, static_cast<int64_t>(rows.size()), rows.size() + 1 == prompt.size()});
    }
    std::vector<float> decoded;
    std::vector<int32_t> text = prompt;
    for (int step = 0; step < 5; ++step) {
      const auto logits = engine.forward(rows).logits;
      decoded.insert(decoded.end(), logits.begin(), logits.end());
      const auto likeliest = std::max_element(logits.begin(), logits.end()) - logits.begin();
      rows = {{static_cast<int32_t>(likeliest), cached, static_cast<int64_t>(text.size())}};
      text.push_back(rows[0].token);
    }
    engine.cache().release(cached);

    text.pop_back();  // the last token was selected, but not run through the model
    const SequenceId anew = engine.cache().add_sequence();
    rows.clear();
    for (const int32_t token : text) {
      rows.push_back({token, anew, static_cast<int64_t>(rows.size()), rows.size() + 1 >= prompt.size()});
    }
    const auto recomputed = test::run(engine, rows);
    engine.cache().release(anew);
    ASSERT_TRUE(test::same_bits(decoded, recomputed)) << "prompt " << i << " of " << prompt.size() << " tokens";
  }
}

}  // namespace
}  // namespace folio::infer
