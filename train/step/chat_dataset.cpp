#include "train/step/chat_dataset.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "core/thread_pool.h"
#include "data/chat/conversations.h"
#include "infer/engine/conversation.h"

namespace folio::train {
namespace {

using data::ChatExample;
using ChatSplits = data::SplitsOf<std::vector<data::StoredConversation>>;

// Splits conversations at random, since neighboring conversations in a file are often similar.
ChatSplits drawn_splits(std::vector<data::StoredConversation> all, double validation_fraction, double test_fraction) {
  const auto n = static_cast<double>(all.size());
  const auto share = [&](double fraction) {  // at least one, unless the fraction is 0
    return fraction > 0.0 ? std::max<size_t>(1, static_cast<size_t>(std::ceil(n * fraction - 1e-6))) : 0;
  };
  const size_t n_validation = share(validation_fraction);
  const size_t n_test = share(test_fraction);
  core::require(n_validation + n_test < all.size(),
                "{} conversations leave none for training with --validation-fraction {:g} and --test-fraction {:g}; "
                "add more or validate on others with --eval",
                all.size(), validation_fraction, test_fraction);
  constexpr uint64_t kSeed = 1;
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [](size_t a, size_t b) { return core::random_bits(kSeed, a) < core::random_bits(kSeed, b); });
  ChatSplits splits;
  for (size_t i = 0; i < order.size(); ++i) {
    auto& split = i < n_validation ? splits.validation : i < n_validation + n_test ? splits.test : splits.train;
    split.push_back(std::move(all[order[i]]));
  }
  return splits;
}

std::vector<ChatExample> examples_of(const std::vector<data::StoredConversation>& conversations,
                                     const data::ChatRenderer& renderer) {
  std::vector<std::vector<ChatExample>> of_each(conversations.size());
  constexpr size_t kMicroseconds = 500;  // estimated time per conversation
  core::ThreadPool pool;
  pool.parallel_for(conversations.size(), 1, kMicroseconds * conversations.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) of_each[i] = renderer.examples(conversations[i]);
  });
  std::vector<ChatExample> examples;
  for (auto& some : of_each) std::move(some.begin(), some.end(), std::back_inserter(examples));
  return examples;
}

// Adds tokens and loss masks to a digest, which thus depends on the data, the template and the tokenizer.
void add(data::Digest& digest, const std::vector<ChatExample>& examples) {
  for (const ChatExample& example : examples) {
    digest.add({reinterpret_cast<const char*>(example.tokens.data()), example.tokens.size() * sizeof(int32_t)});
    std::string learned;
    for (const bool is_learned : example.is_learned) learned += is_learned ? '1' : '0';
    digest.add(learned + "\n");
  }
}

// Returns as prompt the messages before the first answer, of the first conversation in which they fit in a window.
// Returns an empty prompt if there is no such conversation.
SamplePrompt sample_of(const std::vector<data::StoredConversation>& conversations, const data::Tokenizer& tokenizer,
                       const data::ChatTemplate& chat, const data::ChatRenderer& renderer, int64_t window) {
  SamplePrompt sample;
  sample.options.sampler.temperature = 0.0F;
  infer::end_at_turn(tokenizer, chat, sample.options);
  for (const data::StoredConversation& conversation : conversations) {
    const auto answer = std::ranges::find(conversation.messages, data::ChatRole::Assistant, &data::ChatMessage::role);
    const std::vector<data::ChatMessage> asked(conversation.messages.begin(), answer);
    sample.tokens = renderer.prompt({.messages = asked, .tools = conversation.tools, .where = conversation.where});
    if (std::ssize(sample.tokens) >= window) continue;
    for (const data::ChatMessage& message : asked) {
      sample.before += fmt::format("{}: {}\n", data::chat_role_name(message.role), message.content);
    }
    sample.before += "assistant: ";
    return sample;
  }
  return {};
}

}  // namespace

ChatDataset::ChatDataset(const data::TextFiles& texts, const data::TextFiles* eval, const TrainConfig& config,
                         std::unique_ptr<const data::Tokenizer> tokenizer, data::ChatTemplate chat)
    : Dataset({.name = texts.name, .path = paths_of(texts), .field = "messages"}, std::move(tokenizer)) {
  source_.bytes = static_cast<int64_t>(texts.documents.n_bytes() + (eval == nullptr ? 0 : eval->documents.n_bytes()));
  if (eval != nullptr) source_.eval_path = paths_of(*eval);
  std::vector<data::StoredConversation> all = data::read_conversations(texts.documents);
  core::require(!all.empty(), "{} has no conversations", texts.paths.front());
  ChatSplits splits;
  if (eval == nullptr || config.test_fraction > 0.0) {
    splits = drawn_splits(std::move(all), eval == nullptr ? config.validation_fraction : 0.0, config.test_fraction);
  } else {
    splits.train = std::move(all);  // in the order of the file
  }
  if (eval != nullptr) {
    splits.validation = data::read_conversations(eval->documents);
    core::require(!splits.validation.empty(), "{} has no conversations", eval->paths.front());
  }
  const data::ChatRenderer renderer(*tokenizer_, chat);
  sample_ = sample_of(splits.validation, *tokenizer_, chat, renderer, config.window);
  data::Digest digest;
  const auto packed = [&](const std::vector<data::StoredConversation>& conversations) {
    std::vector<ChatExample> examples = examples_of(conversations, renderer);
    add(digest, examples);
    return Part{.n_conversations = std::ssize(conversations),
                .packed = std::make_unique<const data::PackedExamples>(std::move(examples), config.window,
                                                                       tokenizer_->end_of_text())};
  };
  train_ = packed(splits.train);
  validation_ = packed(splits.validation);
  source_.digest = digest.hex();
}

}  // namespace folio::train
