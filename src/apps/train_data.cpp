#include "apps/train_data.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/number.h"
#include "core/print_stderr.h"
#include "core/seconds_since.h"
#include "core/thread_pool.h"
#include "data/chat/conversations.h"
#include "data/tokenizers/tokenizer_files.h"
#include "data/tokenizers/training/bpe_trainer.h"
#include "train/report/ngram.h"
#include "train/run/trainer_state.h"

namespace folio::apps {
namespace {

namespace fs = std::filesystem;

// The file's, or one whose merges are learned from the part of the text that is trained on.
std::unique_ptr<data::Tokenizer> chosen_tokenizer(const std::string& name, const TrainData& data,
                                                  const train::TrainConfig& config) {
  constexpr std::string_view kBpe = "bpe:";
  if (!name.starts_with(kBpe)) return data::load_tokenizer(name, 0);
  data::BpeTrainerOptions options;
  const auto size = core::number_of<decltype(options.vocab_size)>(std::string_view(name).substr(kBpe.size()));
  if (!size) {
    throw core::UsageError(fmt::format("--tokenizer {}: N of bpe:N is a number of tokens", core::printable(name)));
  }
  options.vocab_size = *size;
  const double share = data.eval ? 0.0 : config.validation_fraction;
  const double part = std::clamp(1.0 - share - config.test_fraction, 0.0, 1.0);
  const auto n_bytes = static_cast<uint64_t>(static_cast<double>(data.summary.n_bytes) * part);
  core::ThreadPool pool;
  const data::WordCounts counts =
      data::count_words(data.texts.documents, n_bytes, data::WordCounts(options.pre_tokenizer), pool);
  return std::make_unique<data::BpeTokenizer>(data::train_bpe(counts, options), data.texts.paths.front());
}

// The tokenizer of the model or the run that this one goes on from, or the one that was asked for; null for the
// characters of the text.
std::unique_ptr<data::Tokenizer> given_tokenizer(const TrainOptions& o, const TrainData& data) {
  if (o.init) return data::load_tokenizer(*o.init, o.config.model.vocab_size);
  if (o.tokenizer) return chosen_tokenizer(*o.tokenizer, data, o.config);
  if (!o.resume) return nullptr;
  const fs::path last = o.choice->path / "checkpoints" / "last";
  auto saved = data::tokenizer_from_hf(last);
  if (data.is_chat) return saved;
  // The characters of a text that was changed are not the saved ones, and resume() says which they are.
  const bool changed = train::read_trainer_state(last).corpus_digest != data.summary.digest;
  return changed && saved->kind() == "character" ? nullptr : std::move(saved);
}

std::unique_ptr<train::Dataset> make_chat_dataset(const TrainOptions& o, const TrainData& data) {
  if (!o.init && !o.resume && (!o.tokenizer || o.tokenizer->starts_with("bpe:"))) {
    throw core::UsageError(
        fmt::format("{} has conversations, which need a tokenizer that knows a chat's marks; take --init MODEL, or "
                    "--tokenizer FILE",
                    data.texts.paths.front()));
  }
  std::unique_ptr<data::Tokenizer> tokenizer = given_tokenizer(o, data);
  const std::string where = o.init ? *o.init : o.tokenizer ? *o.tokenizer : "the run's checkpoint";
  data::ChatTemplate chat = o.chat_template.empty() ? data::chat_template_of(*tokenizer, where)
                                                    : data::chat_template_named(o.chat_template, tokenizer.get());
  // The checkpoints and the exported model are to have it.
  if (!o.chat_template.empty()) tokenizer->set_chat_template(chat.source());
  if (!data::ChatRenderer(*tokenizer, chat).learns_to_stop()) {
    core::print_stderr(
        "warning: {}: its chat template ends answers with nothing that generation stops at, so the model will not "
        "learn "
        "to stop; take another one with --chat-template\n",
        where);
  }
  return std::make_unique<train::ChatDataset>(data.texts, data.eval ? &*data.eval : nullptr, o.config,
                                              std::move(tokenizer), std::move(chat));
}

void print_packed(const train::ChatDataset& dataset, train::Split split, const char* name) {
  const data::PackedExamples& packed = dataset.packed(split);
  fmt::print("{}: {} conversations, {} tokens, {} of them answers; {} windows, {:.0f} % full\n", name,
             dataset.n_conversations(split), packed.n_inputs(), packed.n_learned(), packed.n_windows(),
             100.0 * packed.fullness());
  if (packed.n_cut() == 0) return;
  core::print_stderr(
      "note: {}: {} conversations are longer than a window and were cut, {} tokens of answers with them; a "
      "larger --window keeps them\n",
      name, packed.n_cut(), packed.n_lost());
}

}  // namespace

TrainData read_data(const TrainOptions& o) {
  TrainData data{.texts = data::find_texts(o.datasets, o.field)};
  data.is_chat = data::are_conversations(data.texts.documents, o.field);
  if (!o.eval.empty()) data.eval = data::find_texts({o.eval}, o.field);
  if (!data.is_chat) {
    if (!o.chat_template.empty()) {
      throw core::UsageError(
          fmt::format("--chat-template is for conversations, and the first line of {} has no \"messages\"",
                      data.texts.paths.front()));
    }
    data.summary = data::summarize(data.texts.documents);
    return data;
  }
  if (!o.tokens_cache.empty() || !o.config.across_documents) {
    throw core::UsageError(fmt::format("{} is for texts, and {} has conversations; leave it out",
                                       o.tokens_cache.empty() ? "--across-documents false" : "--tokens-cache",
                                       data.texts.paths.front()));
  }
  return data;
}

std::unique_ptr<train::Dataset> make_dataset(const TrainOptions& o, const TrainData& data) {
  if (data.is_chat) return make_chat_dataset(o, data);
  data::DocumentTokens::Options options{.progress = isatty(STDERR_FILENO) != 0};
  if (o.choice) options.folder = o.choice->path;
  if (!o.tokens_cache.empty()) {
    options.folder = o.tokens_cache;
    options.in_memory = 0;
  }
  return std::make_unique<train::TextDataset>(data.texts, data.summary, o.config, given_tokenizer(o, data), options,
                                              data.eval ? &*data.eval : nullptr);
}

const train::TextDataset* as_text(const train::Dataset& dataset) {
  return dynamic_cast<const train::TextDataset*>(&dataset);
}

void print_dataset(const train::Dataset& dataset) {
  if (const train::TextDataset* text = as_text(dataset)) {
    fmt::print("{}: {} training, {} validation tokens, vocabulary {}\n", dataset.source().name,
               text->splits().train.size(), text->splits().validation.size(), dataset.tokenizer().vocab_size());
    return;
  }
  const auto& chat = dynamic_cast<const train::ChatDataset&>(dataset);
  print_packed(chat, train::Split::Train, "training");
  print_packed(chat, train::Split::Validation, "validation");
}

double count_baseline(const train::TextDataset& dataset, bool several_documents) {
  constexpr int kOrder = 5;
  constexpr size_t kMost = size_t{1} << 23U;  // tokens: a table of more grows beyond a gigabyte
  const auto& [train, validation, test] = dataset.splits();
  const auto start = std::chrono::steady_clock::now();
  int32_t tokens = dataset.tokenizer().vocab_size();
  if (!several_documents && dataset.tokenizer().end_of_text() == tokens - 1) --tokens;  // it stands in no text
  const train::NgramCounts counts(train.first(std::min(kMost, train.size())).to_vector(), tokens, kOrder);
  const double loss = counts.witten_bell_loss(validation.first(std::min(kMost, validation.size())).to_vector(), kOrder);
  const double seconds = core::seconds_since(start);
  fmt::print("a smoothed {}-gram by counting scores {:.4f} on the validation split ({:.1f} s): the loss to beat\n",
             kOrder, loss, seconds);
  return loss;
}

double bytes_per_token(const train::TextDataset& dataset) {
  const data::TokenView tokens = dataset.splits().validation;
  size_t bytes = 0;
  for (const int32_t token : tokens) bytes += dataset.tokenizer().token_bytes(token).size();
  return static_cast<double>(bytes) / static_cast<double>(tokens.size());
}

}  // namespace folio::apps
