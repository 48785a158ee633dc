#include "experiments/28_forms/walks.h"

#include <algorithm>
#include <cmath>

#include "experiments/common/readers_model.h"

namespace folio::experiments {

using infer::forms::Form;

Tokens allowed_tokens(Form& form, Form::Place place) {
  Tokens tokens;
  const auto by_rank = form.tokens().tokens();
  for (const auto& [first, second] : form.allowed(place)) {
    tokens.insert(tokens.end(), by_rank.begin() + first, by_rank.begin() + second);
  }
  return tokens;
}

std::vector<Step> walk(infer::Engine& engine, const data::Tokenizer& tokenizer, Form& form, const Tokens& prompt,
                       std::span<const int32_t> text) {
  Tokens tokens = prompt;
  tokens.insert(tokens.end(), text.begin(), text.end());
  const std::vector<float> logits = logits_of(engine, tokens);
  const auto vocab = static_cast<size_t>(engine.config().vocab_size);
  std::vector<Step> steps;
  Form::Place place = form.start();
  for (size_t t = 0; t < text.size() && place != Form::kDead; ++t) {
    const Tokens allowed = allowed_tokens(form, place);
    if (allowed.empty()) break;
    const std::span<const float> row(logits.data() + (prompt.size() - 1 + t) * vocab, vocab);
    const float most = *std::ranges::max_element(row);
    double sum = 0.0;
    for (const float z : row) sum += std::exp(static_cast<double>(z) - most);
    const auto p = [&](int32_t token) {
      return std::exp(static_cast<double>(row[static_cast<size_t>(token)]) - most) / sum;
    };
    Step step{.token = text[t], .p = p(text[t]), .mass = 0.0, .n_allowed = allowed.size()};
    for (const int32_t token : allowed) step.mass += p(token);
    steps.push_back(step);
    place = form.after(place, tokenizer.token_bytes(text[t]));
  }
  return steps;
}

double log_product(std::span<const Step> steps, double Step::*factor) {
  double sum = 0.0;
  for (const Step& step : steps) sum += std::log(step.*factor);
  return sum;
}

std::vector<infer::GenerateResult> drawn(infer::Engine& engine, const data::Tokenizer& tokenizer,
                                         std::span<const Tokens> prompts, const Drawing& drawing) {
  std::vector<infer::Request> requests;
  uint64_t seed = drawing.seed;
  for (const Tokens& prompt : prompts) {
    infer::Request request{.prompt = prompt, .options = {.max_tokens = drawing.max_tokens}, .tokenizer = &tokenizer};
    request.options.sampler = {.temperature = 1.0F, .top_p = 1.0F, .seed = seed++};
    request.options.stops = drawing.stops;
    request.options.speculate = drawing.speculate;
    request.options.form = drawing.form;
    requests.push_back(std::move(request));
  }
  return completed(engine, std::move(requests));
}

}  // namespace folio::experiments
