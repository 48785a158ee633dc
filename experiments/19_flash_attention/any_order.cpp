#include <fmt/format.h>

#include <numeric>
#include <set>

#include "core/random.h"
#include "experiments/19_flash_attention/exactness.h"
#include "experiments/19_flash_attention/online_softmax.h"

namespace folio::experiments {
namespace {

// Computes Σ p v (probabilities p, values v) with higher precision than T, and Σ p |v|, which scales the error bound.
template <typename T>
struct Exact {
  std::vector<long double> out, absolute;

  Exact(const std::vector<T>& scores, const std::vector<T>& values, size_t head_dim)
      : out(head_dim, 0), absolute(head_dim, 0) {
    const long double m = *std::max_element(scores.begin(), scores.end());
    long double l = 0;
    for (const T s : scores) l += std::exp(s - m);
    for (size_t j = 0; j < scores.size(); ++j) {
      const long double p = std::exp(scores[j] - m) / l;
      for (size_t d = 0; d < head_dim; ++d) {
        out[d] += p * values[j * head_dim + d];
        absolute[d] += p * std::abs(values[j * head_dim + d]);
      }
    }
  }
};

// The largest error of an output's elements.
struct Error {
  double relative = 0.0;  ///< |error| / Σ p |v|, with softmax weights p and values v
  double share = 0.0;     ///< `relative` / error_bound()

  void include(const Error& other) {
    relative = larger(relative, other.relative);
    share = larger(share, other.share);
  }
};

// One row of attention, split into blocks that can be merged in any order.
template <typename T>
class Row {
 public:
  Row(size_t n, double range, uint64_t seed)
      : scores_(random_numbers<T>(n, range / 2, seed)),
        values_(random_numbers<T>(n * kHeadDim, 1.0, seed + 1)),
        range_(range),
        exact_(scores_, values_, kHeadDim) {}

  void cut(size_t block) {
    block_ = block;
    parts_.clear();
    for (size_t first = 0; first < scores_.size(); first += block) {
      const auto scores = std::span(scores_).subspan(first, std::min(block, scores_.size() - first));
      parts_.push_back(experiments::of_block<T>(scores, values_.data() + first * kHeadDim, kHeadDim));
    }
  }

  // Returns the error after merging the blocks in `order`. If `rescaled` is false, omits the rescaling, to show that it
  // is needed.
  Error error(const std::vector<size_t>& order, bool rescaled = true) {
    Partial<T> total = parts_[order[0]];
    for (size_t i = 1; i < order.size(); ++i) {
      if (!rescaled) total.m = std::max(total.m, parts_[order[i]].m);  // join() then doesn't rescale `total`
      join(total, parts_[order[i]]);
    }
    const std::vector<T> out = finished(total);
    results_.insert(out);
    long double worst = 0;
    for (size_t d = 0; d < kHeadDim; ++d) worst = larger(worst, std::abs(out[d] - exact_.out[d]) / exact_.absolute[d]);
    return {static_cast<double>(worst), static_cast<double>(worst / error_bound<T>(scores_.size(), block_, range_))};
  }

  [[nodiscard]] std::vector<size_t> in_order() const {
    std::vector<size_t> order(parts_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
  }
  [[nodiscard]] size_t n_different() const { return results_.size(); }

 private:
  static constexpr size_t kHeadDim = 4;
  std::vector<T> scores_, values_;
  double range_;
  Exact<T> exact_;
  size_t block_ = 0;
  std::vector<Partial<T>> parts_;
  std::set<std::vector<T>> results_;  ///< distinct outputs of all orders tried
};

template <typename T>
Error worst_of_every_order(Row<T>& row, bool rescaled, int64_t& n_orders) {
  Error worst;
  std::vector<size_t> order = row.in_order();
  do {
    worst.include(row.error(order, rescaled));
    ++n_orders;
  } while (std::next_permutation(order.begin(), order.end()));
  return worst;
}

// Measures the error of a softmax over `n` positions, merged from blocks of every size in every order.
template <typename T>
void every_order(Report& report, const std::string& type, size_t n, Report::Rows& rows) {
  std::vector<double> shares, mistaken;
  for (const double range : {1.0, 10.0, 60.0}) {
    Row<T> row(n, range, report.seed());
    int64_t n_orders = 0;
    Error worst;
    for (size_t block = 1; block <= n; ++block) {
      row.cut(block);
      worst.include(worst_of_every_order(row, true, n_orders));
    }
    const auto n_different = static_cast<int64_t>(row.n_different());
    row.cut(1);
    int64_t ignored = 0;
    const Error wrong = worst_of_every_order(row, false, ignored);
    rows.push_back({fmt::format("{}, scores within {:g}", type, range), n_orders, n_different, worst.relative,
                    worst.share, wrong.relative});
    shares.push_back(worst.share);
    mistaken.push_back(wrong.share);
  }
  report.check_below(type + ": the largest error of any order, as a share of its bound",
                     *std::max_element(shares.begin(), shares.end()), 1.0);
  report.check_above(type + ": without the rescaling", *std::min_element(mistaken.begin(), mistaken.end()), 100.0);
}

// Measures the error of a softmax over 1000 positions, merged from blocks in random orders.
template <typename T>
void long_row(Report& report, const std::string& type) {
  Error worst;
  Row<T> row(1000, 60.0, report.seed());
  for (const size_t block : {1, 7, 32, 100, 999}) {
    row.cut(block);
    for (uint64_t draw = 0; draw < (report.short_form() ? 10 : 200); ++draw) {
      std::vector<size_t> order = row.in_order();
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[core::random_below(draw, i, i)]);
      worst.include(row.error(order));
    }
  }
  report.check_below(type + ": the same for 1000 positions in orders drawn by chance", worst.share, 1.0);
}

}  // namespace

void check_any_order(Report& report) {
  const size_t n = report.short_form() ? 6 : 8;
  Report::Rows rows;
  every_order<float>(report, "float", n, rows);
  every_order<double>(report, "double", n, rows);
  report.table(
      fmt::format("Every order of every cut of {} positions", n),
      {"numbers", "orders", "different results", "largest error", "share of its bound", "error if not rescaled"}, rows);
  long_row<float>(report, "float");
  long_row<double>(report, "double");
}

}  // namespace folio::experiments
