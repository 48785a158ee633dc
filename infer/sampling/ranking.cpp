#include "infer/sampling/ranking.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/exp_constants.h"

namespace folio::infer {
namespace {

// Logits at most kNear * temperature below the largest are gathered first, with weights in double precision. All other
// logits together have little probability, so floats are precise enough for the sum of their weights.
constexpr float kNear = 10.0F;
// One call of sort_next() sorts those unsorted logits that are at most kStep * temperature below their largest.
constexpr float kStep = 1.0F;
// An upper bound of far_weight()'s relative error: three roundings of an argument of at most 88 (1.6e-5), the
// polynomial's error (2e-7), and 16 additions of floats (1e-6).
constexpr double kFarError = 2e-5;

bool likelier(const Ranking::Candidate& a, const Ranking::Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Returns e^x for x <= 0, like reference::exp(), but without fused multiply-adds or calls, so that it is vectorized.
inline float fast_exp(float x) {
  using namespace core::exp_constants;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding and subtracting it rounds to an integer
  x = x > kLow ? x : kLow;
  const float n = (x * kLog2E + kRound) - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = kPolynomial[0];
  for (int i = 1; i < 6; ++i) p = p * r + kPolynomial[i];
  return (p * (r * r) + r + 1.0F) * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

// Returns the sum of exp((logit - largest) * scale) over all logits < near, with a relative error <= kFarError.
double far_weight(std::span<const float> logits, float largest, float near, float scale) {
  constexpr size_t kLanes = 16;
  constexpr size_t kChunk = 16 * kLanes;  // a lane adds 16 floats before they are added as doubles
  const auto weight = [&](float logit) { return logit < near ? fast_exp((logit - largest) * scale) : 0.0F; };
  double sum = 0.0;
  size_t i = 0;
  for (; i + kChunk <= logits.size(); i += kChunk) {
    float lanes[kLanes] = {};
    for (size_t j = i; j < i + kChunk; j += kLanes) {
      for (size_t l = 0; l < kLanes; ++l) lanes[l] += weight(logits[j + l]);
    }
    for (const float lane : lanes) sum += static_cast<double>(lane);
  }
  for (; i < logits.size(); ++i) sum += static_cast<double>(weight(logits[i]));
  return sum;
}

// Reduces `values` with step(result, value), starting at `first`. Uses sixteen lanes, so that compilers vectorize it.
template <typename Step>
float fold(std::span<const float> values, float first, Step step) {
  std::array<float, 16> lanes;
  lanes.fill(first);
  size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size()) {
    for (size_t l = 0; l < lanes.size(); ++l) lanes[l] = step(lanes[l], values[i + l]);
  }
  for (; i < values.size(); ++i) lanes[0] = step(lanes[0], values[i]);
  float result = first;
  for (const float lane : lanes) result = step(result, lane);
  return result;
}

}  // namespace

bool all_finite(std::span<const float> values) {
  return fold(values, 0.0F, [](float sum, float v) { return sum + v * 0.0F; }) == 0.0F;  // infinity * 0 is NaN
}

float largest_of(std::span<const float> values) {
  return fold(values, kForbidden, [](float most, float v) { return most > v ? most : v; });
}

void Ranking::reset(std::span<const float> logits, float largest, double temperature, size_t top_k) {
  logits_ = logits;
  largest_ = largest;
  temperature_ = temperature;
  constexpr double kCold = 1e-30;  // below this, 1 / temperature could overflow a float, so gather all logits
  near_ =
      temperature < kCold ? std::numeric_limits<float>::lowest() : largest - kNear * static_cast<float>(temperature);
  int32_t n_allowed = 0;  // 32 bits, so that the sum is vectorized
  for (const float logit : logits) n_allowed += logit != kForbidden ? 1 : 0;
  size_ = static_cast<size_t>(n_allowed);
  n_gathered_ = n_sorted_ = 0;
  candidates_.resize(logits.size() + 1);  // gather() writes one past the end
  gather(near_, largest);
  if (top_k == 0 || top_k >= size_) return;
  if (n_gathered_ < top_k) gather_rest();
  std::partial_sort(at(0), at(top_k), at(n_gathered_), likelier);
  size_ = n_sorted_ = top_k;
}

void Ranking::gather(float from, float to) {
  size_t n = n_gathered_;
  for (size_t id = 0; id < logits_.size(); ++id) {  // without a branch, which the CPU could not predict
    candidates_[n].id = static_cast<int32_t>(id);
    candidates_[n].logit = logits_[id];
    n += static_cast<size_t>(logits_[id] >= from) & static_cast<size_t>(logits_[id] <= to);
  }
  const double largest = largest_;
  for (size_t i = n_gathered_; i < n; ++i) {
    candidates_[i].weight = std::exp((candidates_[i].logit - largest) / temperature_);
  }
  n_gathered_ = n;
  near_ = from;
}

void Ranking::gather_rest() { gather(std::numeric_limits<float>::lowest(), std::nextafter(near_, kForbidden)); }

void Ranking::sort_next() {
  if (n_sorted_ == n_gathered_) gather_rest();
  const auto smaller = [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; };
  const float top = std::max_element(at(n_sorted_), at(n_gathered_), smaller)->logit;
  const float from = top - kStep * static_cast<float>(temperature_);
  const auto part = std::partition(at(n_sorted_), at(n_gathered_), [&](const Candidate& c) { return c.logit >= from; });
  std::sort(at(n_sorted_), part, likelier);
  n_sorted_ = static_cast<size_t>(part - at(0));
}

Ranking::Bounds Ranking::total_bounds() const {
  double near = 0.0;
  for (size_t i = 0; i < (n_sorted_ == size_ ? size_ : n_gathered_); ++i) near += candidates_[i].weight;
  if (n_sorted_ == size_) return {near, near};
  const auto scale = static_cast<float>(std::min(1.0 / temperature_, 1e30));
  const double far = far_weight(logits_, largest_, near_, scale);
  // near + far and total() each differ from the exact sum by at most size_ roundings.
  const double roundings = 4.0 * static_cast<double>(size_) * std::numeric_limits<double>::epsilon();
  const double error = far * kFarError + (near + far) * roundings;
  return {near + far - error, near + far + error};
}

double Ranking::total() {
  if (n_sorted_ < size_) {
    if (n_gathered_ < size_) gather_rest();
    std::sort(at(n_sorted_), at(n_gathered_), likelier);
    n_sorted_ = size_;
  }
  double sum = 0.0;
  for (size_t i = 0; i < size_; ++i) sum += candidates_[i].weight;
  return sum;
}

}  // namespace folio::infer
