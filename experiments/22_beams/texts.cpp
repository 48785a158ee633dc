#include "experiments/22_beams/texts.h"

#include <set>

#include "experiments/common/readers_model.h"

namespace folio::experiments {

std::vector<infer::GenerateResult> continued(infer::Engine& engine, const data::Tokenizer& tokenizer,
                                             std::span<const Tokens> prompts, int64_t n_tokens, int64_t width,
                                             uint64_t seed) {
  std::vector<infer::Request> requests;
  for (const Tokens& prompt : prompts) {
    infer::Request request{.prompt = prompt, .options = {.max_tokens = n_tokens}, .tokenizer = &tokenizer};
    request.options.sampler = {.temperature = 1.0F, .top_p = 1.0F, .seed = seed++};
    request.options.beams.width = width;
    requests.push_back(std::move(request));
  }
  return completed(engine, std::move(requests));
}

std::vector<double> log_probs(infer::Engine& engine, const Tokens& prompt, std::span<const int32_t> text) {
  std::vector<double> all;
  infer::Request request{.prompt = prompt};
  request.prompt.insert(request.prompt.end(), text.begin(), text.end());
  request.on_log_probs = [&](std::span<const double> some) { all.insert(all.end(), some.begin(), some.end()); };
  const infer::RequestId id = engine.add(std::move(request));
  while (engine.step()) continue;
  engine.drop(id);
  return {all.end() - static_cast<std::ptrdiff_t>(text.size()), all.end()};
}

std::vector<bool> repeats(std::span<const int32_t> text) {
  constexpr size_t n = 8;
  std::set<Tokens> seen;
  std::vector<bool> repeated(text.size(), false);
  for (size_t end = n; end <= text.size(); ++end) {
    const auto gram = text.subspan(end - n, n);
    repeated[end - 1] = !seen.insert({gram.begin(), gram.end()}).second;
  }
  return repeated;
}

std::vector<SearchStep> search_steps(infer::Engine& engine, const data::Tokenizer& tokenizer, const Tokens& prompt,
                                     int64_t n_tokens, int64_t width) {
  const infer::RequestId id = engine.add(
      {.prompt = prompt, .options = {.max_tokens = n_tokens, .beams = {.width = width}}, .tokenizer = &tokenizer});
  std::vector<SearchStep> steps;
  while (engine.step()) {
    SearchStep step;
    for (const infer::SequenceView& b : engine.sequences()) {
      step.beams.push_back({.index = b.id.index, .blocks = {b.blocks.begin(), b.blocks.end()}});
    }
    if (!step.beams.empty()) steps.push_back(std::move(step));
  }
  engine.drop(id);
  return steps;
}

}  // namespace folio::experiments
