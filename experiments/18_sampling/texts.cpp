#include "experiments/18_sampling/texts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/random.h"
#include "experiments/common/readers_model.h"

namespace folio::experiments {

std::vector<Text> continued(infer::Engine& engine, const data::Tokenizer& tokenizer, std::span<const Text> prompts,
                            int64_t n_tokens, infer::SamplerOptions options) {
  std::vector<Text> texts(prompts.begin(), prompts.end());
  std::vector<infer::Request> requests;
  for (Text& text : texts) {
    text.seed = options.seed;
    requests.push_back(
        {.prompt = text.prompt, .options = {.max_tokens = n_tokens, .sampler = options}, .tokenizer = &tokenizer});
    ++options.seed;
  }
  const auto results = completed(engine, std::move(requests));
  for (size_t i = 0; i < texts.size(); ++i) texts[i].tokens = results[i].tokens;
  return texts;
}

double distinct_share(std::span<const int32_t> tokens, size_t n) {
  if (tokens.size() < n) return 1.0;
  std::set<std::vector<int32_t>> seen;
  for (size_t i = 0; i + n <= tokens.size(); ++i) seen.insert({&tokens[i], &tokens[i] + n});
  return ratio(seen.size(), tokens.size() + 1 - n);
}

std::vector<Counted> counted(infer::Engine& engine, std::span<const Text> texts, std::span<const int32_t> suppressed,
                             const infer::SamplerOptions& options) {
  const auto vocab = static_cast<size_t>(engine.config().vocab_size);
  std::vector<Counted> all;
  for (const Text& text : texts) {
    std::vector<int32_t> tokens = text.prompt;
    tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
    const std::vector<float> logits = logits_of(engine, tokens);
    Counted& c = all.emplace_back();
    for (size_t at = text.prompt.size(); at < tokens.size(); ++at) {
      const auto model = ranked(std::span(logits).subspan((at - 1) * vocab, vocab), suppressed);
      const auto kept = std::span(model).first(n_kept(model, options));
      const auto distribution = drawn_from(model, options);
      const double h = entropy(model);
      c.entropy += entropy(distribution);
      c.kept += static_cast<double>(distribution.size());
      c.kept_mass += mass(kept);
      c.least_mass = std::min(c.least_mass, mass(kept));
      for (const Candidate& candidate : model) {
        if (candidate.token == tokens[at]) c.surprise -= std::log(candidate.p);
        c.surprise_variance += candidate.p > 0.0 ? candidate.p * std::pow(-std::log(candidate.p) - h, 2) : 0.0;
      }
      c.other += token_at(distribution, core::random_uniform(text.seed, at)) == tokens[at] ? 0.0 : 1.0;
    }
    const auto n = static_cast<double>(text.tokens.size());
    for (double* sum : {&c.entropy, &c.surprise, &c.surprise_variance, &c.kept, &c.kept_mass}) *sum /= n;
    c.distinct = distinct_share(text.tokens, 4);
    c.repeated = 1.0 - distinct_share(text.tokens, 8);
  }
  return all;
}

}  // namespace folio::experiments
