// Requests for the tests that compare outputs with and without draft tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tests/infer/engine/texts.h"

namespace folio::infer::test {

/// Greedy decoding, sampling, and sampling with penalties.
inline const SamplerOptions kVariedOptions[] = {
    {.temperature = 0.0F},
    {.temperature = 1.0F, .top_p = 1.0F, .seed = 3},
    {.temperature = 0.7F, .repetition_penalty = 1.3F, .frequency_penalty = 0.2F, .seed = 5}};

/// Returns nine requests for up to 40 tokens: three for each of kVariedOptions.
/// The first of these three has the prompt `sliding`, `n` choices and a context of 56. The second and third have the
/// prompt `ending`: the second ends at an end token, the third at a stop string.
inline std::vector<Request> varied_requests(const std::vector<int32_t>& sliding, int64_t n,
                                            const std::vector<int32_t>& ending, const data::Tokenizer& tokenizer) {
  std::vector<Request> requests;
  for (const SamplerOptions& o : kVariedOptions) {
    Request r{.prompt = sliding,
              .options = {.max_tokens = 40, .sampler = o, .context = 56, .slide = o.temperature > 0.0F, .n = n}};
    requests.push_back(r);
    r.prompt = ending;
    r.options.n = 1;
    r.tokenizer = &tokenizer;
    r.options.end_tokens = {11};
    requests.push_back(r);
    r.options.end_tokens = {};
    r.options.stops = {"M", "3B"};
    r.options.context = 0;
    r.options.slide = false;
    requests.push_back(r);
  }
  return requests;
}

class DraftTexts : public Texts {
 protected:
  /// Runs all requests together, and calls after_step() after each step. Expects the results `expected`, at least one
  /// draft token, and that no KV block of the engine or of the drafter's runner stays in use.
  static void expect_with_drafts(
      Engine& engine, Runner& drafter, std::span<const Request> requests,
      std::span<const std::vector<GenerateResult>> expected, const std::function<void()>& after_step = [] {}) {
    std::vector<RequestId> ids;
    for (const Request& r : requests) ids.push_back(engine.add(r));
    while (engine.step()) after_step();
    size_t n_drafts = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      SCOPED_TRACE(i);
      const auto results = engine.take_all(ids[i]);
      expect_same(results, expected[i]);
      for (const GenerateResult& result : results) n_drafts += result.n_drafts;
    }
    EXPECT_GT(n_drafts, 0U);
    EXPECT_EQ(drafter.cache().blocks_in_use(), 0);
    EXPECT_EQ(engine.cache().blocks_in_use(), 0);
  }
};

}  // namespace folio::infer::test
