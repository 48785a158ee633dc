#include "experiments/18_sampling/two_positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "experiments/common/readers_model.h"
#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace svg = train::svg;

// The layout of the picture, in pixels.
constexpr double kTop = 112;
constexpr double kRow = 17;
constexpr double kNames = 40;
constexpr double kBars = 150;
constexpr double kNumbers = 56;
constexpr double kCut = 74;
constexpr double kGap = 36;

// A position's next-token distribution.
struct Panel {
  std::string title{};               // heading, with the text before the position
  std::vector<Candidate> model{};    // all candidates with the model's probabilities, most likely first
  std::vector<std::string> names{};  // texts of the most likely candidates, one per bar
};

std::string percent(double p) { return fmt::format("{:.{}f} %", 100.0 * p, p < 0.01 ? 2 : 1); }

std::string bars(const Panel& panel, double left) {
  std::string body;
  for (size_t i = 0; i < panel.names.size(); ++i) {
    const double y = kTop + kRow * static_cast<double>(i);
    body += svg::text_at(left + kNames - 8, y + 12, panel.names[i], "end", "strong");
    const double width = std::max(1.0, kBars * panel.model[i].p / panel.model[0].p);
    body += svg::bar(0, left + kNames, y + 2, width, kRow - 4);
    body += svg::text_at(left + kNames + kBars + kNumbers - 6, y + 12, percent(panel.model[i].p), "end");
  }
  return body;
}

std::string cut_line(const Panel& panel, const Setting& cut, size_t colour, double x) {
  const size_t n = n_kept(panel.model, cut.options);
  const size_t shown = std::min(n, panel.names.size());
  const double bottom = kTop + kRow * static_cast<double>(shown);
  const std::string style = svg::colour(colour);
  std::string body = svg::text_at(x, kTop - 10, cut.name, "middle", style + " fill");
  body += fmt::format("<path class=\"line {}\" d=\"M{:.1f} {:.1f}h12m-6 0V{:.1f}m-6 0h12\"/>\n", style, x - 6, kTop + 2,
                      bottom - 2);
  const double below = bottom + 12;
  body += svg::text_at(x, below, n == 1 ? "1 token" : fmt::format("{} tokens", n), "middle", style + " fill");
  body += svg::text_at(x, below + 15, percent(mass(std::span(panel.model).first(n))), "middle", style + " fill");
  return body;
}

// Returns an SVG document. A panel has a bar for each of its names, and for each of `cuts` a line that spans the kept
// tokens and is labeled with their total probability.
std::string picture(std::span<const Panel> panels, const std::vector<Setting>& cuts) {
  const double width = kNames + kBars + kNumbers + kCut * static_cast<double>(cuts.size());
  std::string body;
  double left = 16;
  size_t most = 0;
  for (const Panel& panel : panels) {
    body += svg::text_at(left, kTop - 36, panel.title, "start", "strong");
    body += bars(panel, left);
    for (size_t c = 0; c < cuts.size(); ++c) {
      body += cut_line(panel, cuts[c], c + 1, left + kNames + kBars + kNumbers + kCut * (static_cast<double>(c) + 0.5));
    }
    most = std::max(most, panel.names.size());
    left += width + kGap;
  }
  return svg::document(left - kGap + 16, kTop + kRow * static_cast<double>(most) + 44,
                       "The next token: two real distributions, and where they are cut",
                       "each panel's longest bar is its likeliest token; below each cut is what it keeps", body);
}

}  // namespace

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

  std::vector<Panel> panels;
  Report::Rows rows;
  std::map<bool, std::map<std::string, int64_t>> kept;     // [sure][setting]: number of kept tokens
  std::map<bool, std::map<std::string, double>> last_one;  // [sure][setting]: p of the last kept token
  for (const bool sure : {true, false}) {
    const size_t at = sure ? by_entropy[by_entropy.size() / 8].second : by_entropy.back().second;
    const auto end = tokens.begin() + static_cast<ptrdiff_t>(at + 1);
    Panel panel{.title = (sure ? "sure, after …" : "unsure, after …") +
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
    panels.push_back(std::move(panel));
  }
  report.table("Two positions", {"cut", "tokens kept", "probability kept", "probability of the last one"}, rows);
  report.picture("cuts.svg", picture(panels, cuts));
  report.check_below("sure: the least likely token that top-k 5 keeps", last_one[true]["top-k 5"], 0.02);
  for (const char* cut : {"top-p 0.9", "min-p 0.1"}) {
    report.check_above(fmt::format("{}: tokens kept where unsure more than where sure", cut),
                       static_cast<double>(kept[false][cut] - kept[true][cut]), 5.0);
  }
  const auto last = after(by_entropy.back().second);
  return {last.begin(), last.end()};
}

}  // namespace folio::experiments
