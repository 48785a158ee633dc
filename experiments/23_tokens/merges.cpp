#include <fmt/format.h>

#include <algorithm>

#include "experiments/23_tokens/parts.h"

namespace folio::experiments {
namespace {

double bytes_per_token(std::string_view text, size_t n_tokens) { return ratio(text.size(), n_tokens); }

void first_merges(Report& report, const data::BpeVocabulary& all, const Text& text) {
  Report::Rows rows;
  size_t n_before = text.training.size();
  for (int64_t merge = 1; merge <= 16; ++merge) {
    const data::BpeTokenizer tokenizer(beginning(all, 257 + merge), "merges");
    const size_t n = tokenizer.encode(text.training).size();
    const auto [left, right, joined] = all.merges[static_cast<size_t>(merge - 1)];
    rows.push_back({merge, visible(all.pieces[static_cast<size_t>(left)]),
                    visible(all.pieces[static_cast<size_t>(right)]), visible(all.pieces[static_cast<size_t>(joined)]),
                    static_cast<int64_t>(n_before - n), bytes_per_token(text.training, n)});
    n_before = n;
  }
  report.table("the first merges of the training text",
               {"merge", "left", "right", "token", "occurrences", "bytes a token"}, rows);
}

}  // namespace

void merges(Report& report, const Text& text) {
  const int64_t most = report.short_form() ? 1024 : 16384;
  const data::BpeVocabulary all = learned(text.training, most);
  first_merges(report, all, text);

  train::LineChart::Series seen{.name = "training text", .points = {}};
  train::LineChart::Series unseen{.name = "validation text", .points = {}};
  train::LineChart use{.title = "How often the tokens of a vocabulary are used",
                       .x_label = "token made by a merge, the most frequent first",
                       .y_label = "occurrences in the training text",
                       .log_x = true,
                       .log_y = true};
  Report::Rows rows, used;
  std::vector<double> of_unseen;
  int64_t n_changed = 0;
  for (int64_t n_tokens = 257; n_tokens <= most; n_tokens = n_tokens == 257 ? 512 : 2 * n_tokens) {
    const data::BpeTokenizer tokenizer(beginning(all, n_tokens), "merges");
    const auto tokens = tokenizer.encode(text.training);
    const auto others = tokenizer.encode(text.validation);
    n_changed += tokenizer.decode(others) != text.validation ? 1 : 0;
    const double in_training = bytes_per_token(text.training, tokens.size());
    of_unseen.push_back(bytes_per_token(text.validation, others.size()));
    rows.push_back({n_tokens, n_tokens - 257, in_training, of_unseen.back()});
    seen.points.push_back({static_cast<double>(n_tokens), in_training});
    unseen.points.push_back({static_cast<double>(n_tokens), of_unseen.back()});

    std::vector<int64_t> places(static_cast<size_t>(n_tokens));
    for (const int32_t token : tokens) ++places[static_cast<size_t>(token)];
    const auto merged = std::span(places).subspan(257);
    const auto fewer = [&](int64_t n) { return std::ranges::count_if(merged, [&](int64_t p) { return p < n; }); };
    if (n_tokens > 257) used.push_back({n_tokens, n_tokens - 257, fewer(1), fewer(10), fewer(100)});
    if (n_tokens != 512 && n_tokens != 2048 && n_tokens != 8192) continue;
    std::ranges::sort(merged, std::greater());
    train::LineChart::Series series{.name = fmt::format("{} tokens", n_tokens), .points = {}};
    for (size_t i = 0; i < merged.size() && merged[i] > 0; ++i) {
      series.points.push_back({static_cast<double>(i + 1), static_cast<double>(merged[i])});
    }
    use.series.push_back(std::move(series));
  }
  report.table("what merges buy: bytes a token", {"tokens", "merges", "training text", "validation text"}, rows);
  report.picture("merges.svg", train::LineChart{.title = "What merges buy",
                                                .x_label = "tokens in the vocabulary: 257 and the merges",
                                                .y_label = "bytes a token",
                                                .series = {seen, unseen},
                                                .log_x = true});
  report.table("tokens made by merges, by their occurrences in the training text",
               {"tokens", "merges", "none", "fewer than 10", "fewer than 100"}, used);
  report.picture("use.svg", use);
  report.check_equal("vocabularies that change the validation text", n_changed, 0);
  for (size_t i = 1; i < of_unseen.size(); ++i) {
    report.check_above(
        fmt::format("bytes a token of the validation text that the merges up to {} tokens add", 256 << i),
        of_unseen[i] - of_unseen[i - 1], 0.0);
  }
  report.check_equal("512 tokens are the first 512 of a larger vocabulary",
                     beginning(all, 512) == learned(text.training, 512) ? 1 : 0, 1);

  Report::Rows cuts;
  for (const std::string word : {" the", " king", " Gloucester", " unnatural", " shipwreck", " Llama"}) {
    std::vector<Report::Json> row{visible(word)};
    for (int64_t n_tokens = 512; n_tokens <= std::min<int64_t>(most, 8192); n_tokens *= 4) {
      const data::BpeTokenizer tokenizer(beginning(all, n_tokens), "merges");
      row.push_back(shown(tokenizer, tokenizer.encode(word)));
    }
    size_t n = 0;
    for (size_t at = text.training.find(word); at != std::string::npos; at = text.training.find(word, at + 1)) ++n;
    row.push_back(static_cast<int64_t>(n));
    cuts.push_back(std::move(row));
  }
  std::vector<std::string> columns{"word", "512 tokens"};
  if (most >= 8192) columns.insert(columns.end(), {"2,048", "8,192"});
  columns.push_back("in the training text");
  report.table("words, cut", columns, cuts);
}

}  // namespace folio::experiments
