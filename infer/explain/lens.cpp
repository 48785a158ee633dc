// Computes the logit lens (nostalgebraist, "interpreting GPT: the logit lens", 2020), candidates for the next token,
// and the effects of interventions on their probabilities.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "infer/explain/analysis.h"
#include "infer/sampling/ranking.h"

namespace folio::infer::explain {
namespace {

constexpr size_t kLensTokens = 5;   // likeliest tokens listed per row: at each level; before and after interventions
constexpr size_t kCandidates = 20;  // number of likeliest tokens listed per row
// Limits of top-k, top-p and min-p. The lens shows how many tokens each of them alone keeps at temperature 1.
constexpr size_t kTopK = 40;
constexpr double kTopP = 0.95;
constexpr double kMinP = 0.05;

// The softmax of a row of logits (vocab_size). The logits must outlive this object.
class NextToken {
 public:
  explicit NextToken(std::span<const float> logits) : logits_(logits), largest_(largest_of(logits)) {
    core::require(all_finite(logits), "a logit is not finite; check the model's weights");
    ranking_.reset(logits, largest_, 1.0, 0);
    const Ranking::Bounds bounds = ranking_.total_bounds();
    total_ = (bounds.low + bounds.high) / 2.0;
    log_total_ = std::log(total_);
  }

  [[nodiscard]] double log_p(int32_t token) const { return double{logit(token)} - largest_ - log_total_; }
  [[nodiscard]] double p(int32_t token) const { return std::exp(log_p(token)); }
  [[nodiscard]] float logit(int32_t token) const { return logits_[static_cast<size_t>(token)]; }
  // Returns a token's rank, 1 for the likeliest. Among equal logits, the smaller token id is first.
  [[nodiscard]] int64_t rank(int32_t token) const {
    const float own = logit(token);
    return 1 + std::ranges::count_if(logits_, [=](float l) { return l > own; }) +
           std::ranges::count(logits_.first(static_cast<size_t>(token)), own);
  }
  // Returns the n likeliest tokens as lists [token, probability], or [token, logit, probability] if `with_logits`.
  [[nodiscard]] Json top(size_t n, bool with_logits = false) {
    Json all = Json::array();
    for (size_t i = 0; i < std::min(n, ranking_.size()); ++i) {
      const int32_t token = ranking_[i].id;
      all.push_back(with_logits ? Json{token, logit(token), p(token)} : Json{token, p(token)});
    }
    return all;
  }
  [[nodiscard]] size_t n_in_top_p() {
    size_t n = 0;
    for (double sum = 0.0; n < ranking_.size() && sum < kTopP; ++n) sum += ranking_[n].weight / total_;
    return n;
  }
  [[nodiscard]] size_t n_in_min_p() {
    size_t n = 0;
    while (n < ranking_.size() && ranking_[n].weight >= kMinP) ++n;
    return n;
  }

 private:
  std::span<const float> logits_;
  float largest_;
  double total_ = 0.0;  // Σ exp(logit - largest)
  double log_total_ = 0.0;
  Ranking ranking_;
};

}  // namespace

Json logit_lens(Runner& runner, const Trace& trace, std::span<const int32_t> targets) {
  Json lens;
  for (int64_t level = 0; level <= runner.config().n_layers; ++level) {
    const std::vector<float> logits = runner.logits_of(trace.level(level));
    Json& rows = lens.emplace_back();
    for (size_t i = 0; i < targets.size(); ++i) {
      NextToken next(trace.row(logits, i));
      rows.push_back({{"top", next.top(kLensTokens)}, {"rank", next.rank(targets[i])}, {"p", next.p(targets[i])}});
    }
  }
  return lens;
}

Json candidates_of(const Trace& trace) {
  Json rows;
  for (size_t i = 0; i < trace.tokens.size(); ++i) {
    const std::span<const float> logits = trace.row(trace.at("logits"), i);
    NextToken next(logits);
    rows.push_back({{"list", next.top(kCandidates, true)},
                    {"top_k", std::min(kTopK, logits.size())},
                    {"top_p", next.n_in_top_p()},
                    {"min_p", next.n_in_min_p()}});
  }
  return rows;
}

Json effects_of(const Trace& before, const Trace& after, const Options& options) {
  Json effects;
  const auto describe = [&](const std::vector<std::string>& places, const char* by) {
    for (const std::string& place : places) effects["description"].push_back(fmt::format("{}: {}", place, by));
  };
  describe(options.experiment.ablate, "zero");
  describe(options.experiment.mean, options.experiment.mean_over.empty() ? "mean" : "mean from another text");
  describe(options.experiment.patch, "patch from another text");
  for (size_t row = 0; row < before.tokens.size(); ++row) {
    const std::span<const float> logits = before.row(before.at("logits"), row);
    NextToken was(logits);
    NextToken is(after.row(after.at("logits"), row));
    Json one{{"before", was.top(kLensTokens)}, {"after", is.top(kLensTokens)}};
    const auto change = [&](int32_t token) { return is.log_p(token) - was.log_p(token); };
    one["top_change"] = change(one["before"][0][0]);
    if (options.token) one["token_change"] = change(*options.token);
    effects["rows"].push_back(std::move(one));
    double divergence = 0.0;  // Kullback-Leibler divergence D(before ‖ after) in nats
    for (int32_t t = 0; t < static_cast<int32_t>(logits.size()); ++t) divergence -= was.p(t) * change(t);
    effects["kl"].push_back(divergence);
  }
  return effects;
}

}  // namespace folio::infer::explain
