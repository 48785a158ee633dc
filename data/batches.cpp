#include "data/batches.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "core/random.h"

namespace folio::data {
namespace {

void append_window(Batch& batch, TokenView tokens, size_t start, DocumentEnd document_end) {
  const auto length = static_cast<size_t>(batch.length);
  const TokenView inputs = tokens.subspan(start, length);
  const TokenView targets = tokens.subspan(start + 1, length);
  inputs.append_to(batch.inputs);
  targets.append_to(batch.targets);
  if (!document_end.token) return;
  if (document_end.masked) {
    int32_t start = 0;
    for (size_t i = 0; i < length; ++i) {
      if (inputs[i] == *document_end.token) start = static_cast<int32_t>(i);
      batch.starts.push_back(start);
    }
    return;
  }
  const auto row = batch.targets.end() - batch.length;
  auto end = std::find(row, batch.targets.end(), *document_end.token);
  if (end == batch.targets.end()) return;
  ++end;  // the token that ends the document is still a target; padding begins after it
  std::fill(batch.inputs.begin() + (end - batch.targets.begin()), batch.inputs.end(), *document_end.token);
  std::fill(end, batch.targets.end(), Batch::kIgnored);
}

void require_window(TokenView tokens, int64_t length) {
  core::require(
      length >= 1 && static_cast<uint64_t>(length) < tokens.size(),
      "a context of {} tokens and its target do not fit in a split of {}; use a shorter context or a longer text",
      length, tokens.size());
}

}  // namespace

int64_t Batch::n_counted() const { return std::ssize(targets) - std::count(targets.begin(), targets.end(), kIgnored); }

Batches in_batches(int64_t n_windows, int64_t length, std::function<Batch(int64_t first, int64_t rows)> batch) {
  constexpr int64_t kTokensAtOnce = 4096;
  const int64_t at_once = std::max<int64_t>(1, kTokensAtOnce / length);
  return {.n = static_cast<uint64_t>((n_windows + at_once - 1) / at_once), .batch = [=](uint64_t number) {
            const int64_t first = static_cast<int64_t>(number) * at_once;
            return batch(first, std::min(at_once, n_windows - first));
          }};
}

BatchSampler::BatchSampler(TokenView tokens, int64_t rows, int64_t length, uint64_t seed, DocumentEnd document_end)
    : tokens_(tokens), rows_(rows), length_(length), seed_(seed), document_end_(document_end) {
  core::require(rows >= 1, "the batch size is {}, but must be at least 1", rows);
  require_window(tokens, length);
}

Batch BatchSampler::batch(uint64_t number) const {
  Batch batch{.rows = rows_, .length = length_};
  const size_t starts = tokens_.size() - static_cast<size_t>(length_);
  for (int64_t row = 0; row < rows_; ++row) {
    const uint64_t counter = number * static_cast<uint64_t>(rows_) + static_cast<uint64_t>(row);
    append_window(batch, tokens_, core::random_below(seed_, counter, starts), document_end_);
  }
  return batch;
}

int64_t consecutive_windows(TokenView tokens, int64_t length) {
  require_window(tokens, length);
  return (static_cast<int64_t>(tokens.size()) - 1) / length;
}

Batch consecutive_batch(TokenView tokens, int64_t first, int64_t rows, int64_t length, DocumentEnd document_end) {
  core::require(first >= 0 && rows >= 0 && first + rows <= consecutive_windows(tokens, length),
                "windows {} to {} of length {} do not fit in {} tokens", first, first + rows, length, tokens.size());
  Batch batch{.rows = rows, .length = length};
  for (int64_t row = first; row < first + rows; ++row)
    append_window(batch, tokens, static_cast<size_t>(row * length), document_end);
  return batch;
}

Batches consecutive_batches(TokenView tokens, int64_t length, DocumentEnd document_end) {
  return in_batches(consecutive_windows(tokens, length), length, [=](int64_t first, int64_t rows) {
    return consecutive_batch(tokens, first, rows, length, document_end);
  });
}

}  // namespace folio::data
