#include "infer/sampling/sampler.h"

#include <cmath>
#include <map>

#include "core/error.h"
#include "core/random.h"

namespace folio::infer {
namespace {

// Returns true if `history` ends with all tokens of `word` except its last one. Returns false for words of one token.
bool comes_next(std::span<const int32_t> word, std::span<const int32_t> history) {
  const auto before = word.first(word.size() - 1);
  return !before.empty() && before.size() <= history.size() && std::ranges::equal(before, history.last(before.size()));
}

}  // namespace

bool ends_with_word(std::span<const int32_t> history, int32_t token, std::span<const std::vector<int32_t>> words) {
  return std::ranges::any_of(words, [&](const std::vector<int32_t>& word) {
    return word.back() == token && (word.size() == 1 || comes_next(word, history));
  });
}

Sampler::Sampler(const SamplerOptions& options, std::vector<int32_t> never, size_t n_prompt,
                 std::optional<FormMask> form)
    : options_(options), never_(std::move(never)), n_prompt_(n_prompt), form_(std::move(form)) {
  using core::require;
  SamplerOptions::visit_fields([&](const char* name, auto member, double low, double high, double, const char*) {
    const auto value = static_cast<double>(options.*member);
    // `low` is rounded to float, the type of the option. A NaN fails the comparison and is rejected.
    require(value >= static_cast<float>(low) && value <= high, "{} is {}, but must be in [{}, {}]", name,
            options.*member, low, high);
  });
  if (options_.top_p == 0.0F) options_.top_p = 1e-6F;  // keeps only the likeliest token
  options_.top_k = std::max(options_.top_k, 0);
  for (const SamplerOptions::Bias& b : options.logit_bias) {
    require(b.bias >= -100.0F && b.bias <= 100.0F, "the logit bias of token {} is {}, but must be in [-100, 100]",
            b.token, b.bias);
  }
  for (const std::vector<int32_t>& word : options.bad_words) {
    require(!word.empty(), "a bad word is empty");
    if (word.size() == 1) never_.push_back(word.front());
  }
}

bool Sampler::forbids(int32_t token, std::span<const int32_t> history) const {
  return std::ranges::find(never_, token) != never_.end() || ends_with_word(history, token, options_.bad_words);
}

SamplerOptions with_config(SamplerOptions base, const core::GenerationConfig& config) {
  SamplerOptions::visit_fields([&](const char* name, auto member, double low, double high, auto&&...) {
    const auto found = config.sampling.find(name);
    if (found == config.sampling.end()) return;
    const double value = found->second;
    core::require(value >= low && value <= high,
                  "{}: {} is {}, but must be in [{}, {}]; correct it, or remove it from the file", config.where, name,
                  value, low, high);
    using Number = std::remove_reference_t<decltype(std::declval<SamplerOptions&>().*member)>;
    base.*member = static_cast<Number>(value);
  });
  return base;
}

int32_t token_of(int32_t drawn, int64_t position) {
  core::require(drawn != kNotFinite, "the logits at position {} are not finite; the model's weights are corrupt",
                position);
  core::require(drawn != kNothingLeft, "no token can be sampled: all are forbidden");
  return drawn;
}

int32_t Sampler::draw(std::span<float> logits, std::span<const int32_t> history, int64_t position) {
  if (!all_finite(logits)) return kNotFinite;
  if (form_ && !form_->keep_allowed(logits, history)) return kNothingLeft;
  penalize(logits, history);
  for (const int32_t id : never_) logit_of(id, logits) = kForbidden;
  for (const std::vector<int32_t>& word : options_.bad_words) {
    if (comes_next(word, history)) logit_of(word.back(), logits) = kForbidden;
  }
  const float largest = largest_of(logits);
  if (largest == kForbidden) return kNothingLeft;
  if (options_.temperature == 0.0F) {
    return static_cast<int32_t>(std::find(logits.begin(), logits.end(), largest) - logits.begin());
  }
  const double uniform = core::random_uniform(options_.seed, static_cast<uint64_t>(position));
  const auto top_k = static_cast<size_t>(options_.top_k);
  if (options_.top_p >= 1.0F && options_.min_p == 0.0F) {
    ranking_.reset(logits, largest, options_.temperature, top_k);
    return sample_all(uniform);
  }
  ranking_.reset(logits, largest, 1.0, top_k);
  keep_min_p(n_in_top_p());
  return sample_kept(largest, uniform);
}

float& Sampler::logit_of(int32_t id, std::span<float> logits) {
  core::require(id >= 0 && static_cast<size_t>(id) < logits.size(),
                "token {} is outside the model's vocabulary of {}; use the model's own tokenizer", id, logits.size());
  return logits[static_cast<size_t>(id)];
}

void Sampler::penalize(std::span<float> logits, std::span<const int32_t> history) const {
  for (const SamplerOptions::Bias& b : options_.logit_bias) logit_of(b.token, logits) += b.bias;
  if (options_.repetition_penalty != 1.0F) {
    const auto n = std::min(history.size(), static_cast<size_t>(options_.repeat_last_n));
    std::vector<int32_t> recent(history.end() - static_cast<std::ptrdiff_t>(n), history.end());
    std::sort(recent.begin(), recent.end());
    recent.erase(std::unique(recent.begin(), recent.end()), recent.end());
    for (const int32_t id : recent) {
      float& logit = logit_of(id, logits);
      logit = logit > 0.0F ? logit / options_.repetition_penalty : logit * options_.repetition_penalty;
    }
  }
  if (options_.presence_penalty == 0.0F && options_.frequency_penalty == 0.0F) return;
  std::map<int32_t, float> counts;
  for (const int32_t id : history.subspan(std::min(n_prompt_, history.size()))) counts[id] += 1.0F;
  for (const auto& [id, count] : counts) {
    logit_of(id, logits) -= options_.presence_penalty + options_.frequency_penalty * count;
  }
}

// Returns f(total of all weights) for a monotone `f`. The total requires a full sort, so it is computed only if `f`
// differs between the total's lower and upper bound. The sampled tokens are the same as with a full sort.
template <typename F>
size_t Sampler::at_total(F f) {
  const auto [low, high] = ranking_.total_bounds();
  const size_t value = f(low);
  return low == high || f(high) == value ? value : f(ranking_.total());
}

size_t Sampler::n_in_top_p() {
  if (options_.top_p >= 1.0F) return ranking_.size();
  return at_total([&](double total) {
    double sum = 0.0;
    size_t n = 0;
    while (n < ranking_.size() && sum < options_.top_p) sum += ranking_[n++].weight / total;
    return n;
  });
}

void Sampler::keep_min_p(size_t n) {
  constexpr double kNearly = 1e-12;  // relative tolerance, larger than two rounding errors
  const double least = options_.min_p;
  kept_.clear();
  for (size_t i = 0; i < n; ++i) {
    const Ranking::Candidate& c = ranking_[i];
    if (c.weight < least * (1.0 - kNearly)) return;
    if (c.weight < least * (1.0 + kNearly) && c.weight < 1.0) {  // within the rounding error: compare probabilities
      const double total = ranking_.total();
      if (c.weight / total < least * (1.0 / total)) continue;
    }
    kept_.push_back(c);
  }
}

int32_t Sampler::sample_kept(double largest, double uniform) {
  double sum = 0.0;
  for (Ranking::Candidate& c : kept_) sum += c.weight = std::exp((c.logit - largest) / options_.temperature);
  double left = uniform;
  for (const Ranking::Candidate& c : kept_) {
    left -= c.weight / sum;
    if (left < 0.0) return c.id;
  }
  return kept_.back().id;  // reached only if, due to rounding, the probabilities add up to at most `uniform`
}

int32_t Sampler::sample_all(double uniform) {
  const size_t sampled = at_total([&](double total) {
    double left = uniform;
    size_t i = 0;
    while (i < ranking_.size() && (left -= ranking_[i].weight / total) >= 0.0) ++i;
    return std::min(i, ranking_.size() - 1);
  });
  return ranking_[sampled].id;
}

}  // namespace folio::infer
