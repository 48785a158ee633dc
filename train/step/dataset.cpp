#include "train/step/dataset.h"

#include <fmt/ranges.h>

#include "data/tokenizers/char_tokenizer.h"

namespace folio::train {
namespace {

// Returns the splits of the tokens, with `eval` as the validation split if it is given. Throws core::Error, before the
// model is built, if a split is shorter than a window.
data::SplitsOf<data::TokenView> splits_of(data::TokenView tokens, const TrainConfig& config,
                                          const data::TokenView* eval = nullptr) {
  data::SplitsOf<data::TokenView> splits{.train = tokens, .validation = {}, .test = {}};
  if (eval == nullptr) {
    splits = data::split_view(tokens, config.validation_fraction, config.test_fraction);
  } else if (config.test_fraction > 0.0) {
    splits = data::split_view(tokens, config.test_fraction, 0.0);
    splits.test = splits.validation;
  }
  if (eval != nullptr) splits.validation = *eval;
  static_cast<void>(data::consecutive_windows(splits.train, config.window));
  static_cast<void>(data::consecutive_windows(splits.validation, config.window));
  return splits;
}

}  // namespace

std::string paths_of(const data::TextFiles& texts) { return fmt::format("{}", fmt::join(texts.paths, "\n")); }

TextDataset::TextDataset(const data::TextFiles& texts, const data::DocumentsSummary& summary, const TrainConfig& config,
                         std::unique_ptr<const data::Tokenizer> tokenizer, const data::DocumentTokens::Options& options,
                         const data::TextFiles* eval)
    : Dataset({.name = texts.name,
               .path = paths_of(texts),
               .field = texts.field,
               .bytes = static_cast<int64_t>(summary.n_bytes),
               .digest = summary.digest},
              tokenizer ? std::move(tokenizer)
                        : std::make_unique<data::CharTokenizer>(summary.characters, texts.paths.front())),
      tokens_(texts.documents, summary, *tokenizer_, options) {
  if (eval == nullptr) {
    splits_ = splits_of(tokens_.view(), config);
    return;
  }
  const data::DocumentsSummary eval_summary = data::summarize(eval->documents);
  eval_tokens_.emplace(eval->documents, eval_summary, *tokenizer_, options);
  const data::TokenView validation = eval_tokens_->view();
  splits_ = splits_of(tokens_.view(), config, &validation);
  source_.eval_path = paths_of(*eval);
  source_.bytes += static_cast<int64_t>(eval_summary.n_bytes);
  data::Digest digest;
  digest.add(source_.digest + eval_summary.digest);
  source_.digest = digest.hex();
}

SamplePrompt TextDataset::sample_prompt() const {
  SamplePrompt sample{.tokens = tokenizer_->default_prompt()};
  sample.options.slide = true;  // slide the context window if the sample exceeds it
  sample.options.sampler.seed = 1;
  return sample;
}

data::DocumentEnd TextDataset::document_end(const TrainConfig& config) const {
  if (config.across_documents == AcrossDocuments::True) return {};
  return {.token = tokenizer_->end_of_text(), .masked = config.across_documents == AcrossDocuments::Mask};
}

data::BatchOf TextDataset::random_batches(Split split, const TrainConfig& c, uint64_t seed) const {
  const data::TokenView tokens = split == Split::Train ? splits_.train : splits_.validation;
  return [sampler = data::BatchSampler(tokens, c.batch_size, c.window, seed, document_end(c))](uint64_t number) {
    return sampler.batch(number);
  };
}

data::Batches TextDataset::validation_batches(const TrainConfig& c) const {
  return data::consecutive_batches(splits_.validation, c.window, document_end(c));
}

}  // namespace folio::train
