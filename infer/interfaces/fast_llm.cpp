#include "infer/interfaces/fast_llm.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <deque>
#include <span>
#include <utility>

#include "core/error.h"
#include "infer/engine/conversation.h"
#include "infer/sampling/sampler.h"
#include "infer/sampling/stop_filter.h"

namespace folio::infer::fast_llm {
namespace {

// Timeout of one call of TextStream::next(). Callers repeat the call until there are events.
constexpr std::chrono::hours kUntilItComes{1};

LoadOptions for_many(LoadOptions options) {
  if (options.draft || !options.draft_model.empty()) {
    throw core::UsageError("FastLLM's interface does not use drafts; leave out draft and draft_model");
  }
  if (options.cache_positions == 0) options.n_contexts = std::max<int64_t>(options.n_contexts, 4);
  return options;
}

// Texts of tokens that have not been passed to the callback yet. When the output ends, any text that the stop filter
// has held back is added as the last one.
struct TokenTexts {
  StopFilter filter;
  std::deque<std::string> texts{};
  bool ended = false;

  void add(const TextPiece& piece, const data::Tokenizer& tokenizer) {
    for (const int32_t token : piece.tokens) texts.push_back(filter.push(tokenizer.token_bytes(token)));
    ended = piece.ended;
    if (std::string rest = ended ? filter.finish() : ""; !rest.empty()) texts.push_back(std::move(rest));
  }
  std::string take() {
    if (texts.empty()) return "";
    std::string text = std::move(texts.front());
    texts.pop_front();
    return text;
  }
};

using data::ChatMessage;
using data::ChatRole;

std::string rendered(const data::Tokenizer& tokenizer, const Chat& chat, std::span<const ChatMessage> messages,
                     bool begins_answer) {
  std::string text;
  for (const data::ChatPiece& piece :
       data::render_chat(tokenizer, *chat, messages, {.add_generation_prompt = begins_answer}))
    text += piece.text;
  return text;
}

}  // namespace

// A template renders whole conversations, but `history` is plain text. So the new messages are rendered after a
// placeholder turn, and the part of the result after that turn is appended to `history`.
std::string with_turn(const data::Tokenizer& tokenizer, const Chat& chat, const std::string& history, int round,
                      const std::string& input, const std::optional<std::string>& output) {
  if (!chat) return (round == 0 ? "" : history) + input + output.value_or("");
  std::vector<ChatMessage> messages;
  std::string before;
  if (round != 0) {
    messages = {{.role = ChatRole::User, .content = "question"}, {.role = ChatRole::Assistant, .content = "answer"}};
    before = rendered(tokenizer, chat, messages, false);
  }
  messages.push_back({.role = ChatRole::User, .content = input});
  if (output) messages.push_back({.role = ChatRole::Assistant, .content = *output});
  const std::string whole = rendered(tokenizer, chat, messages, !output);
  core::require(whole.starts_with(before),
                "the chat template renders a turn differently once others follow, so a text history cannot be "
                "extended; render the whole conversation");
  return (round == 0 ? "" : history) + whole.substr(before.size());
}

std::vector<int32_t> encode(const data::Tokenizer& tokenizer, const Chat& chat, std::string_view text) {
  if (text.empty()) return tokenizer.default_prompt();
  const std::vector<data::PromptPiece> pieces{{.text = text, .parse_special = chat.has_value()}};
  return tokenizer.with_prefix(tokenizer.encode_pieces(pieces));
}

// A request whose tokens are fetched one at a time. `tokens` are those delivered by the stream but not fetched yet.
struct Model::Open {
  std::mutex mutex{};  ///< held during a fetch
  std::shared_ptr<TextStream> stream{};
  std::deque<int32_t> tokens{};
};

Model::Model(const std::string& path, const LoadOptions& options)
    : model_(LoadedModel::open(path, for_many(options))),
      chat_(data::find_chat_template(model_.tokenizer(), model_.file().path, "")),
      engine_(std::make_shared<AsyncEngine>(model_.engine())) {}

Request Model::request_of(std::vector<int32_t> prompt, const GenerationConfig& config) {
  core::require(config.repeat_penalty >= 1e-3F && config.repeat_penalty <= 100.0F,
                "repeat_penalty is {}, but must be in [0.001, 100]", config.repeat_penalty);
  const int64_t all = model_.context();
  Request request{.prompt = std::move(prompt),
                  .options = {.max_tokens = config.output_token_limit > 0 ? config.output_token_limit : all,
                              .sampler = {.temperature = config.temperature,
                                          .top_k = std::max(config.top_k, 1),
                                          .top_p = config.top_p,
                                          .repetition_penalty = config.repeat_penalty,
                                          .repeat_last_n = config.last_n > 0 ? config.last_n : INT32_MAX,
                                          .seed = config.seed},
                              .end_tokens{config.stop_token_ids.begin(), config.stop_token_ids.end()},
                              .context = all,
                              .adapter = model_.adapter()},
                  .tokenizer = &model_.tokenizer()};
  static_cast<void>(Sampler(request.options.sampler, {}));  // throws if top_p or temperature is out of range
  if (chat_) end_at_turn(model_.tokenizer(), *chat_, request.options);
  return request;
}

int Model::LaunchResponseTokens(const std::vector<int>& inputTokens, const GenerationConfig& config) {
  std::vector<Request> requests;
  requests.push_back(request_of({inputTokens.begin(), inputTokens.end()}, config));
  auto open = std::make_shared<Open>();
  open->stream = TextStream::submit(engine_, std::move(requests), true);
  const std::lock_guard lock(mutex_);
  core::require(n_handles_ < INT_MAX, "all {} handles are used; reload the model", INT_MAX);
  open_.emplace(n_handles_, std::move(open));
  return n_handles_++;
}

// Returns the request of a handle, or null if the handle is closed. If `close` is true, closes the handle.
std::shared_ptr<Model::Open> Model::take_open(int handle, bool close) {
  const std::lock_guard lock(mutex_);
  core::require(handle >= 0 && handle < n_handles_, "unknown handle {}: launch has returned {} so far", handle,
                n_handles_);
  const auto found = open_.find(handle);
  if (found == open_.end()) return nullptr;
  std::shared_ptr<Open> open = found->second;
  if (close) open_.erase(found);
  return open;
}

int Model::FetchResponseTokens(int handle) {
  const std::shared_ptr<Open> open = take_open(handle, false);
  if (open == nullptr) return -1;
  const std::lock_guard lock(open->mutex);
  try {
    while (open->tokens.empty() && !open->stream->ended()) {
      for (const TextPiece& piece : open->stream->next(kUntilItComes)) {
        open->tokens.insert(open->tokens.end(), piece.tokens.begin(), piece.tokens.end());
      }
    }
  } catch (...) {
    static_cast<void>(take_open(handle, true));
    throw;
  }
  if (open->tokens.empty()) {
    static_cast<void>(take_open(handle, true));
    return -1;
  }
  const int token = open->tokens.front();
  open->tokens.pop_front();
  return token;
}

void Model::AbortResponse(int handle) {
  if (const auto open = take_open(handle, true)) open->stream->cancel();
}

std::string Model::Response(const std::string& input, const RuntimeResult& callback, const GenerationConfig& config) {
  std::vector<std::string> outputs;
  RuntimeResultBatch one{};
  if (callback) {
    one = [&](int index, std::vector<std::string>& contents) { callback(index, contents[0].c_str()); };
  }
  ResponseBatch({input}, outputs, one, config);
  return std::move(outputs[0]);
}

void Model::ResponseBatch(const std::vector<std::string>& inputs, std::vector<std::string>& outputs,
                          const RuntimeResultBatch& callback, const GenerationConfig& config) {
  outputs.clear();
  if (inputs.empty()) return;
  std::vector<Request> requests;
  std::vector<TokenTexts> texts;
  for (const std::string& input : inputs) {
    requests.push_back(request_of(Encode(input), config));
    texts.push_back({.filter = StopFilter(requests.back().options.stops)});
  }
  const auto stream = TextStream::submit(engine_, std::move(requests), static_cast<bool>(callback));
  const auto has_none = [](const TokenTexts& t) { return t.texts.empty(); };
  const auto waits = [](const TokenTexts& t) { return t.texts.empty() && !t.ended; };
  int index = 0;
  while (!stream->ended()) {
    for (const TextPiece& piece : stream->next(kUntilItComes)) texts[piece.choice].add(piece, model_.tokenizer());
    while (callback && std::ranges::none_of(texts, waits) && !std::ranges::all_of(texts, has_none)) {
      std::vector<std::string> contents;
      for (TokenTexts& t : texts) contents.push_back(t.take());
      callback(index++, contents);
    }
  }
  for (GenerateResult& result : stream->take_results()) outputs.push_back(std::move(result.text));
  if (callback) callback(-1, outputs);
}

std::string Model::MakeInput(const std::string& history, int round, const std::string& input) const {
  return with_turn(tokenizer(), chat_, history, round, input);
}

std::string Model::MakeHistory(const std::string& history, int round, const std::string& input,
                               const std::string& output) const {
  return with_turn(tokenizer(), chat_, history, round, input, output);
}

void Model::WarmUp() {
  const int handle = LaunchResponseTokens(Encode(""), {.output_token_limit = 1});
  while (FetchResponseTokens(handle) >= 0) continue;
}

std::vector<int> Model::Encode(const std::string& text) const { return encode(tokenizer(), chat_, text); }

}  // namespace folio::infer::fast_llm
