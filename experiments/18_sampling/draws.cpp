#include "experiments/18_sampling/draws.h"

#include <cmath>

#include "core/random.h"
#include "experiments/18_sampling/cuts.h"
#include "experiments/18_sampling/results.h"

namespace folio::experiments {
namespace {

using infer::Sampler;
using infer::SamplerOptions;

int32_t drawn(Sampler& sampler, std::span<const float> logits, uint64_t position) {
  std::vector<float> scratch(logits.begin(), logits.end());
  return sampler.sample(scratch, {}, static_cast<int64_t>(position));
}

// Computes Pearson's χ² = Σ (observed - expected)² / expected, and returns its ratio to a bound that a correct sampler
// exceeds in one of 3.5 million tests. Returns infinity if a truncated token was drawn. Merges tokens with an expected
// count below 5.
double chi_square_over_bound(std::span<const Candidate> distribution, std::span<const int64_t> counts, double n) {
  double sum = 0.0;
  double expected = 0.0;
  double observed = 0.0;
  double seen = 0.0;
  int n_classes = 0;
  const auto close = [&] {
    sum += (observed - expected) * (observed - expected) / expected;
    expected = observed = 0.0;
    ++n_classes;
  };
  double left = n;
  for (const Candidate& c : distribution) {
    expected += c.p * n;
    left -= c.p * n;
    observed += static_cast<double>(counts[static_cast<size_t>(c.token)]);
    seen += static_cast<double>(counts[static_cast<size_t>(c.token)]);
    if (expected >= 5.0 && left >= 5.0) close();
  }
  if (expected > 0.0) close();
  if (seen != n) return std::numeric_limits<double>::infinity();
  const double degrees = n_classes - 1;
  const double spread = 2.0 / (9.0 * degrees);  // normal approximation of χ² (Wilson & Hilferty, 1931)
  return sum / (degrees * std::pow(1.0 - spread + 5.0 * std::sqrt(spread), 3));
}

}  // namespace

void check_draws(Report& report, std::span<const float> logits) {
  const uint64_t n = report.short_form() ? 20'000 : 200'000;
  const std::vector<Candidate> model = ranked(logits, {});
  const std::vector<Setting> settings{{"T = 1", {.temperature = 1.0F, .top_p = 1.0F}},
                                      {"T = 0.7", {.temperature = 0.7F, .top_p = 1.0F}},
                                      {"top-k 5", {.temperature = 1.0F, .top_k = 5, .top_p = 1.0F}},
                                      {"top-p 0.9", {.temperature = 1.0F, .top_p = 0.9F}},
                                      {"min-p 0.1", {.temperature = 1.0F, .top_p = 1.0F, .min_p = 0.1F}}};
  std::vector<double> worst, power;  // by seed: largest χ² / bound, and χ² / bound for a wrong temperature
  std::vector<int64_t> other;
  std::vector<double> agreement;
  for (const uint64_t seed : report.seeds()) {
    worst.push_back(0.0);
    for (Setting setting : settings) {
      setting.options.seed = seed;
      Sampler sampler(setting.options, {});
      std::vector<int64_t> counts(logits.size());
      for (uint64_t i = 0; i < n; ++i) ++counts[static_cast<size_t>(drawn(sampler, logits, i))];
      const auto fits = [&](const SamplerOptions& options) {
        return chi_square_over_bound(drawn_from(model, options), counts, static_cast<double>(n));
      };
      worst.back() = std::max(worst.back(), fits(setting.options));
      if (power.size() < worst.size()) {  // once per seed, with the first setting
        setting.options.temperature = 1.1F;
        power.push_back(fits(setting.options));
      }
    }
    // Checks that a draw depends only on the seed and the position: repeats all draws in reverse order, each with a new
    // sampler. Also draws with another seed, for comparison.
    SamplerOptions options = settings[0].options;
    options.seed = seed;
    std::vector<int32_t> forwards;
    Sampler sampler(options, {});
    for (uint64_t i = 0; i < n; ++i) forwards.push_back(drawn(sampler, logits, i));
    SamplerOptions of_another = options;
    of_another.seed = seed + 1000;
    other.push_back(0);
    double same = 0.0;
    for (uint64_t i = n; i-- > 0;) {
      Sampler fresh(options, {});
      Sampler elsewhere(of_another, {});
      other.back() += drawn(fresh, logits, i) == forwards[i] ? 0 : 1;
      same += drawn(elsewhere, logits, i) == forwards[i] ? 1.0 : 0.0;
    }
    double collision = 0.0;  // probability that two independent draws are equal, Σ p²
    for (const Candidate& c : model) collision += c.p * c.p;
    agreement.push_back(std::abs(same / static_cast<double>(n) - collision) /
                        std::sqrt(collision * (1.0 - collision) / static_cast<double>(n)));
  }
  report.check_below("draws: the largest χ² of five settings, as a share of its bound", worst, 1.0);
  report.check_above("draws at T = 1 against the distribution of T = 1.1: likewise", power, 1.0);
  report.check_equal("draws that differ backwards, each by a sampler of its own", other, 0);
  report.check_below("agreement with another seed against chance, in standard errors", agreement, 5.0);
}

}  // namespace folio::experiments
