#include "apps/train_data.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/formats/model_files.h"
#include "core/number.h"
#include "core/print_stderr.h"
#include "core/thread_pool.h"
#include "data/chat/conversations.h"
#include "data/document_tokens.h"
#include "data/documents.h"
#include "data/tokenizers/tokenizer_files.h"
#include "data/tokenizers/training/bpe_trainer.h"

namespace folio::apps {
namespace {

constexpr std::string_view kLearned = "bpe:";  // prefix in --tokenizer bpe:N

struct Texts {
  data::TextFiles training;
  std::unique_ptr<const data::TextFiles> eval{};  // texts of --eval, if given
  data::DocumentsSummary summary{};               // empty for conversations
};

// Returns the tokenizer that --tokenizer names: read from a file, or for bpe:N trained on the training split.
std::unique_ptr<data::Tokenizer> chosen_tokenizer(const std::string& name, const Texts& texts,
                                                  const train::TrainConfig& config) {
  if (!name.starts_with(kLearned)) return data::load_tokenizer(name, 0);
  data::BpeTrainerOptions options;
  const auto size = core::number_of<decltype(options.vocab_size)>(std::string_view(name).substr(kLearned.size()));
  if (!size) {
    throw core::UsageError(fmt::format("--tokenizer: \"{}\", expected bpe:N, N tokens", core::printable(name)));
  }
  options.vocab_size = *size;
  const double share = texts.eval ? 0.0 : config.validation_fraction;
  const double part = std::clamp(1.0 - share - config.test_fraction, 0.0, 1.0);
  const auto n_bytes = static_cast<uint64_t>(static_cast<double>(texts.summary.n_bytes) * part);
  core::ThreadPool pool;
  const data::WordCounts counts =
      data::count_words(texts.training.documents, n_bytes, data::WordCounts(options.pre_tokenizer), pool);
  return std::make_unique<data::BpeTokenizer>(data::train_bpe(counts, options), texts.training.paths.front());
}

// Returns the tokenizer of --init, --tokenizer or the resumed run, or null if a character tokenizer must be made.
std::unique_ptr<data::Tokenizer> given_tokenizer(const TrainOptions& o, const Texts& texts, bool is_chat) {
  const auto model_at = [](const std::filesystem::path& path) {
    core::StoredModel model = core::read_model(path);
    model.generation = core::read_generation_config(model);
    return model;
  };
  if (o.init && !o.resume) return data::load_tokenizer(model_at(*o.init), "");
  if (o.tokenizer) return chosen_tokenizer(*o.tokenizer, texts, o.config);
  if (!o.resume) return nullptr;
  const std::filesystem::path last = o.choice->path / "checkpoints" / "last";
  auto saved = data::tokenizer_from_hf(last, o.config.model.vocab_size);
  saved->end_at(
      model_at(o.init ? std::filesystem::path(*o.init) : last).generation.end_tokens);  // adapters: their base model's
  if (is_chat || o.init || saved->kind() != "character") return saved;
  // A saved character tokenizer may lack characters of a text that has changed, so null requests a new one. resume()
  // reports the change.
  std::set<std::string> known;
  for (int32_t id = 0; id < saved->vocab_size(); ++id) known.insert(saved->token_bytes(id));
  const bool has_all = std::ranges::all_of(texts.summary.characters, [&](const auto& c) { return known.contains(c); });
  return has_all ? std::move(saved) : nullptr;
}

std::unique_ptr<train::Dataset> make_chat_dataset(const TrainOptions& o, const Texts& texts) {
  std::unique_ptr<data::Tokenizer> tokenizer = given_tokenizer(o, texts, true);
  const std::string where = o.init && !o.resume ? *o.init : o.tokenizer ? *o.tokenizer : "the run's checkpoint";
  data::ChatTemplate chat = o.chat_template.empty() ? data::chat_template_of(*tokenizer, where)
                                                    : data::chat_template_named(o.chat_template, tokenizer.get());
  // The checkpoints and the exported model store this template.
  if (!o.chat_template.empty()) tokenizer->set_chat_template(chat.source());
  if (o.session->is_first() && !data::ChatRenderer(*tokenizer, chat).learns_to_stop()) {
    core::print_stderr(
        "warning: {}: its chat template does not end answers with an end token, so the model will not learn to stop; "
        "select another with --chat-template\n",
        where);
  }
  return std::make_unique<train::ChatDataset>(texts.training, texts.eval.get(), o.config, std::move(tokenizer),
                                              std::move(chat));
}

std::unique_ptr<train::TextDataset> make_text_dataset(const TrainOptions& o, const Texts& texts) {
  data::DocumentTokens::Options options{.progress = o.session->is_first()};
  if (o.choice) options.folder = o.choice->path;
  if (!o.tokens_cache.empty()) {
    options.folder = o.tokens_cache;
    options.in_memory = 0;
  }
  return std::make_unique<train::TextDataset>(texts.training, texts.summary, o.config, given_tokenizer(o, texts, false),
                                              options, texts.eval.get());
}

}  // namespace

TrainData read_data(TrainOptions& o) {
  Texts texts{.training = data::find_texts(o.datasets, o.field)};
  const bool is_chat = data::are_conversations(texts.training.documents, o.field);
  (is_chat ? o.request.conversations : o.request.text) = texts.training.paths.front();
  o.request.learns_tokenizer = !o.request.has_model && (!o.tokenizer || o.tokenizer->starts_with(kLearned));
  train::validate(o.config, o.request);
  if (!o.eval.empty()) texts.eval = std::make_unique<data::TextFiles>(data::find_texts({o.eval}, o.field));
  if (!is_chat) texts.summary = data::summarize(texts.training.documents);

  TrainData data{.several_documents = texts.summary.n_documents > 1};
  if (is_chat) {
    data.dataset = make_chat_dataset(o, texts);
  } else {
    auto made = make_text_dataset(o, texts);
    data.text = made.get();
    data.dataset = std::move(made);
  }
  if (o.config.epochs > 0.0) {  // sets `steps` so that each window is used `epochs` times
    const double windows = o.config.epochs * static_cast<double>(data.dataset->windows_per_epoch(o.config));
    const auto per_step = static_cast<double>(o.config.batch_size * o.config.accumulation);
    o.config.steps = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(windows / per_step - 1e-9)));
  }
  return data;
}

}  // namespace folio::apps
