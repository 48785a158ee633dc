#include "data/chat/packing.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/random.h"

namespace folio::data {
namespace {

size_t inputs_in(const ChatExample& example) { return example.tokens.size() - 1; }

// Returns the number of learned targets. The first token is never a target.
int64_t targets_in(const ChatExample& example) {
  return std::count(example.is_learned.begin() + 1, example.is_learned.end(), true);
}

// Shuffles `numbers` (Fisher-Yates). Advances `counter`, so that several draws from one seed differ.
void shuffle(std::span<size_t> numbers, uint64_t seed, uint64_t& counter) {
  for (size_t n = numbers.size(); n > 1; --n)
    std::swap(numbers[n - 1], numbers[core::random_below(seed, counter++, n)]);
}

// Packs examples of the given sizes, sorted in descending order, into windows of `room` tokens by best fit. Returns the
// indices of each window's examples.
std::vector<std::vector<size_t>> best_fit(const std::vector<size_t>& sizes, size_t room) {
  std::vector<std::vector<size_t>> windows;
  std::multimap<size_t, size_t> by_free_space;  // maps the number of free tokens to the index of a window
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    auto fullest = by_free_space.lower_bound(sizes[rank]);
    size_t window = windows.size();
    size_t left = room;
    if (fullest == by_free_space.end()) {
      windows.emplace_back();
    } else {
      left = fullest->first;
      window = fullest->second;
      by_free_space.erase(fullest);
    }
    windows[window].push_back(rank);
    by_free_space.emplace(left - sizes[rank], window);
  }
  return windows;
}

}  // namespace

PackedExamples::PackedExamples(std::vector<ChatExample> examples, int64_t length, int32_t padding)
    : examples_(std::move(examples)), length_(length), padding_(padding) {
  core::require(length >= 1, "the window length is {}, but must be at least 1", length);
  const auto most = static_cast<size_t>(length) + 1;
  for (ChatExample& example : examples_) {
    if (example.tokens.size() <= most) continue;
    const int64_t before = targets_in(example);
    example.tokens.resize(most);
    example.is_learned.resize(most);
    ++n_cut_;
    n_lost_ += before - targets_in(example);
  }
  std::erase_if(examples_,
                [](const ChatExample& example) { return example.tokens.empty() || targets_in(example) == 0; });
  core::require(!examples_.empty(),
                "no answer begins within the first {} tokens of its conversation; use a larger --window", length);
  std::stable_sort(examples_.begin(), examples_.end(),
                   [](const ChatExample& a, const ChatExample& b) { return a.tokens.size() > b.tokens.size(); });
  std::vector<size_t> sizes;
  for (const ChatExample& example : examples_) {
    sizes.push_back(inputs_in(example));
    n_inputs_ += static_cast<int64_t>(sizes.back());
    n_learned_ += targets_in(example);
  }
  windows_ = best_fit(sizes, static_cast<size_t>(length));
}

double PackedExamples::fullness() const {
  return static_cast<double>(n_inputs_) / (static_cast<double>(n_windows()) * static_cast<double>(length_));
}

// Returns the order of epoch `number`: windows are shuffled, and examples of equal length are exchanged, which keeps
// the number of tokens in each window.
PackedExamples::Epoch PackedExamples::epoch(uint64_t seed, uint64_t number) const {
  Epoch epoch{.windows = std::vector<size_t>(windows_.size()), .examples = std::vector<size_t>(examples_.size())};
  std::iota(epoch.windows.begin(), epoch.windows.end(), size_t{0});
  std::iota(epoch.examples.begin(), epoch.examples.end(), size_t{0});
  const uint64_t own_seed = core::random_bits(seed, number);
  uint64_t counter = 0;
  shuffle(epoch.windows, own_seed, counter);
  for (size_t from = 0, to = 0; from < examples_.size(); from = to) {
    while (to < examples_.size() && examples_[to].tokens.size() == examples_[from].tokens.size()) ++to;
    shuffle(std::span(epoch.examples).subspan(from, to - from), own_seed, counter);
  }
  return epoch;
}

void PackedExamples::append_window(Batch& batch, const std::vector<size_t>& ranks,
                                   const std::vector<size_t>& example_of_rank) const {
  const size_t end = batch.inputs.size() + static_cast<size_t>(length_);
  const size_t row = batch.inputs.size();
  const auto begin_sequence = [&](size_t n) {
    batch.starts.insert(batch.starts.end(), n, static_cast<int32_t>(batch.inputs.size() - row));
  };
  for (const size_t rank : ranks) {
    const ChatExample& example = examples_[example_of_rank[rank]];
    begin_sequence(inputs_in(example));
    batch.inputs.insert(batch.inputs.end(), example.tokens.begin(), example.tokens.end() - 1);
    for (size_t i = 1; i < example.tokens.size(); ++i) {
      batch.targets.push_back(example.is_learned[i] ? example.tokens[i] : Batch::kIgnored);
    }
  }
  begin_sequence(end - batch.inputs.size());
  batch.inputs.resize(end, padding_);
  batch.targets.resize(end, Batch::kIgnored);
}

BatchOf PackedExamples::shuffled(int64_t rows, uint64_t seed) const {
  struct Last {
    uint64_t number = 0;
    std::optional<Epoch> epoch{};
  };
  const auto last = std::make_shared<Last>();  // cache: the most recent epoch, which the next batch usually needs, too
  return [this, rows, seed, last](uint64_t number) {
    Batch batch{.rows = rows, .length = length_};
    for (int64_t row = 0; row < rows; ++row) {
      const uint64_t turn = number * static_cast<uint64_t>(rows) + static_cast<uint64_t>(row);
      const uint64_t of = turn / windows_.size();
      if (!last->epoch || last->number != of) *last = {.number = of, .epoch = epoch(seed, of)};
      append_window(batch, windows_[last->epoch->windows[turn % windows_.size()]], last->epoch->examples);
    }
    return batch;
  };
}

Batches PackedExamples::in_order() const {
  return in_batches(n_windows(), length_, [this](int64_t first, int64_t rows) {
    Batch batch{.rows = rows, .length = length_};
    std::vector<size_t> same(examples_.size());
    std::iota(same.begin(), same.end(), size_t{0});
    for (int64_t row = first; row < first + rows; ++row) append_window(batch, windows_[static_cast<size_t>(row)], same);
    return batch;
  });
}

}  // namespace folio::data
