// Requests for the tests that compare outputs with and without draft tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "infer/engine/request.h"

namespace folio::infer::test {

/// Returns nine requests for up to 40 tokens: three for each of greedy decoding, sampling, and sampling with penalties.
/// The first of these three has the prompt `sliding`, `n` choices and a context of 56. The second and third have the
/// prompt `ending`: the second ends at an end token, the third at a stop string.
inline std::vector<Request> varied_requests(const std::vector<int32_t>& sliding, int64_t n,
                                            const std::vector<int32_t>& ending, const data::Tokenizer& tokenizer) {
  const SamplerOptions options[] = {
      {.temperature = 0.0F},
      {.temperature = 1.0F, .top_p = 1.0F, .seed = 3},
      {.temperature = 0.7F, .repetition_penalty = 1.3F, .frequency_penalty = 0.2F, .seed = 5}};
  std::vector<Request> requests;
  for (const SamplerOptions& o : options) {
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

}  // namespace folio::infer::test
