#include "experiments/18_sampling/two_positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "experiments/18_sampling/cut_picture.h"
#include "experiments/common/readers_model.h"

namespace folio::experiments {

std::vector<float> cut_two_positions(Report& report, infer::Engine& engine, const data::Tokenizer& tokenizer,
                                     const Text& text, const std::vector<Setting>& cuts) {
  constexpr size_t kShown = 20;  // tokens of context in a panel's title
  std::vector<int32_t> tokens = text.prompt;
  tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
  const std::vector<int32_t> never = tokenizer.suppressed_tokens();
  const auto vocab = static_cast<size_t>(engine.config().vocab_size);
  const std::vector<float> logits = logits_of(engine, tokens);
  const auto after = [&](size_t at) { return std::span(logits).subspan(at * vocab, vocab); };
  std::vector<std::pair<double, size_t>> by_entropy;
  for (size_t at = kShown; at < tokens.size(); ++at) {
    by_entropy.emplace_back(entropy(ranked(after(at), never)), at);
  }
  std::sort(by_entropy.begin(), by_entropy.end());

  CutPicture picture{.title = "The next token: two real distributions, and where they are cut",
                     .subtitle = "each panel's longest bar is its likeliest token; below each cut is what it keeps",
                     .cuts = cuts,
                     .panels = {}};
  Report::Rows rows;
  std::map<bool, std::map<std::string, int64_t>> kept;     // [sure][setting]: number of kept tokens
  std::map<bool, std::map<std::string, double>> last_one;  // [sure][setting]: p of the last kept token
  for (const bool sure : {true, false}) {
    const size_t at = sure ? by_entropy[by_entropy.size() / 8].second : by_entropy.back().second;
    const auto end = tokens.begin() + static_cast<ptrdiff_t>(at + 1);
    CutPicture::Panel panel{.title = (sure ? "sure, after …" : "unsure, after …") +
                                     visible(tokenizer.decode({end - static_cast<ptrdiff_t>(kShown), end})),
                            .model = ranked(after(at), never)};
    size_t most = 8;
    for (const Setting& cut : cuts) {
      const size_t n = n_kept(panel.model, cut.options);
      most = std::min(panel.model.size(), std::max(most, n + 2));
      kept[sure][cut.name] = static_cast<int64_t>(n);
      last_one[sure][cut.name] = panel.model[n - 1].p;
      rows.push_back({fmt::format("{}, {}", sure ? "sure" : "unsure", cut.name), static_cast<int64_t>(n),
                      mass(std::span(panel.model).first(n)), panel.model[n - 1].p});
    }
    for (size_t i = 0; i < most; ++i) panel.names.push_back(visible(tokenizer.token_bytes(panel.model[i].token)));
    picture.panels.push_back(std::move(panel));
  }
  report.table("Two positions", {"cut", "tokens kept", "probability kept", "probability of the last one"}, rows);
  report.picture("cuts.svg", picture.svg());
  report.check_below("sure: the least likely token that top-k 5 keeps", last_one[true]["top-k 5"], 0.02);
  for (const char* cut : {"top-p 0.9", "min-p 0.1"}) {
    report.check_above(fmt::format("{}: tokens kept where unsure more than where sure", cut),
                       static_cast<double>(kept[false][cut] - kept[true][cut]), 5.0);
  }
  const auto last = after(by_entropy.back().second);
  return {last.begin(), last.end()};
}

}  // namespace folio::experiments
