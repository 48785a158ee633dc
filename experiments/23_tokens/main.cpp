// Study: how much do BPE merges shorten a text, and how can the losses of models with different vocabularies be
// compared? The results are explained in README.md.
#include <algorithm>

#include "data/corpus.h"
#include "data/tokenizers/training/bpe_trainer.h"
#include "experiments/23_tokens/parts.h"

namespace folio::experiments {

data::BpeVocabulary learned(std::string_view text, int64_t n_tokens) {
  core::ThreadPool pool(1);
  data::WordCounts counts(data::PreTokenizer::Gpt2);
  counts.add({&text, 1}, pool, "the text");
  return data::train_bpe(counts, {.vocab_size = n_tokens});
}

data::BpeVocabulary beginning(const data::BpeVocabulary& vocabulary, int64_t n_tokens) {
  data::BpeVocabulary first = vocabulary;
  const auto n = static_cast<size_t>(n_tokens);
  first.pieces.resize(std::min(n, first.pieces.size()));
  first.types.resize(first.pieces.size());
  const auto later = std::ranges::find_if(first.merges, [&](const auto& merge) { return merge.joined >= n_tokens; });
  first.merges.erase(later, first.merges.end());
  return first;
}

std::string shown(const data::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) {
    if (!text.empty()) text += " ";
    text += visible(tokenizer.token_bytes(token));
  }
  return text;
}

namespace {

void study(Report& report) {
  std::string all = data::load_corpus("tinyshakespeare").text;
  if (report.short_form()) all.resize(100'000);
  const auto border = static_cast<size_t>(0.9 * static_cast<double>(all.size()));
  const Text text{.training = all.substr(0, border), .validation = all.substr(border)};
  on_paper(report);
  merges(report, text);
  models(report, text);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  return folio::experiments::run_study(argc, argv, "23_tokens", folio::experiments::study);
}
