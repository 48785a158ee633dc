#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "experiments/23_tokens/parts.h"

namespace folio::experiments {
namespace {

constexpr std::string_view kText = "she sells sea shells";
constexpr size_t kRounds = 6;

using Pair = std::pair<int32_t, int32_t>;

}  // namespace

void on_paper(Report& report) {
  // `trained` is the result of data::train_bpe(). Naive BPE, which recounts all pairs in every iteration, must find the
  // same merges.
  const data::BpeVocabulary trained = learned(kText, 257 + kRounds);
  const data::BpeTokenizer tokenizer(trained, "the text");
  const data::BpeTokenizer bytes(beginning(trained, 257), "the text");
  std::vector<std::vector<int32_t>> words;
  for (size_t at = 0; at < kText.size();) {
    const size_t end = data::word_end(data::PreTokenizer::Gpt2, kText, at);
    words.push_back(bytes.encode(kText.substr(at, end - at)));
    at = end;
  }
  const auto text = [&] {
    std::string line;
    for (const auto& word : words) line += (line.empty() ? "" : "   ") + shown(tokenizer, word);
    return line;
  };

  Report::Rows rows{{0, nullptr, nullptr, text()}};
  int64_t n_equal = 0;
  for (size_t round = 0; round < kRounds && round < trained.merges.size(); ++round) {
    std::map<Pair, int64_t> counts;
    for (const auto& word : words) {
      for (size_t i = 1; i < word.size(); ++i) ++counts[{word[i - 1], word[i]}];
    }
    std::vector<std::pair<Pair, int64_t>> order(counts.begin(), counts.end());
    std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string first;
    for (size_t i = 0; i < std::min<size_t>(order.size(), 4); ++i) {
      const auto& [pair, n] = order[i];
      first += fmt::format("{}{} {}: {}", i == 0 ? "" : ", ", visible(tokenizer.token_bytes(pair.first)),
                           visible(tokenizer.token_bytes(pair.second)), n);
    }
    const Pair best = order.front().first;
    const auto joined = static_cast<int32_t>(257 + round);
    n_equal += trained.merges[round] == data::BpeVocabulary::Merge{best.first, best.second, joined} ? 1 : 0;
    for (auto& word : words) {
      for (size_t i = 1; i < word.size(); ++i) {
        if (Pair{word[i - 1], word[i]} != best) continue;
        word[i - 1] = joined;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    rows.push_back({static_cast<int64_t>(round + 1), first, visible(tokenizer.token_bytes(joined)), text()});
  }
  report.table("merges on paper; of equally frequent pairs the one with older tokens comes first",
               {"round", "most frequent pairs", "new token", "the text"}, rows);
  report.check_equal("merges on paper that the trainer makes, too", n_equal, kRounds);
}

}  // namespace folio::experiments
