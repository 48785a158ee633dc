// FastLLM's C++ interface (github.com/ztxz16/fastllm, include/models/basellm.h) on Folio's engine. Names and their
// meanings are FastLLM's; docs/interfaces.md lists all calls and the differences. All calls are thread-safe. Requests
// share the engine's batch, and an output does not depend on other requests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_template.h"
#include "infer/engine/loaded_model.h"
#include "infer/engine/text_stream.h"

namespace folio::infer::fast_llm {

/// FastLLM's fields and defaults, plus `seed`: FastLLM's sampling is not reproducible.
struct GenerationConfig {
  int output_token_limit = -1;  ///< maximum number of tokens to generate; 0 or less: up to the end of the context
  int last_n = 64;              ///< last tokens that the penalty applies to; 0 or less: all
  float repeat_penalty = 1.0F;  ///< 1: off
  int top_k = 1;                ///< 1 or less: the most likely token
  float top_p = 1.0F;
  float temperature = 1.0F;
  std::multiset<int> stop_token_ids{};
  uint64_t seed = 0;
};

/// Called for each token with its text; `index` counts from 0. The last call has index -1 and the whole output.
using RuntimeResult = std::function<void(int index, const char* content)>;
/// RuntimeResult for a batch, with one text per input; empty for inputs that have ended.
using RuntimeResultBatch = std::function<void(int index, std::vector<std::string>& contents)>;

/// The model's chat template, if it has one.
using Chat = std::optional<data::ChatTemplate>;

/// Returns `history` (ignored in round 0), then `input`, then the start of an answer or, if given, `output` up to the
/// start of the next user message. The template formats the messages; without one they are concatenated. Throws
/// core::Error if the template cannot format them.
[[nodiscard]] std::string with_turn(const data::Tokenizer& tokenizer, const Chat& chat, const std::string& history,
                                    int round, const std::string& input, const std::optional<std::string>& output = {});

/// Returns the tokens of `text`, with the prefix that the model expects. With a template, special tokens are parsed in
/// all of `text`, since the template inserts them.
[[nodiscard]] std::vector<int32_t> encode(const data::Tokenizer& tokenizer, const Chat& chat, std::string_view text);

class Model {
 public:
  /// Reads the model and loads its weights. Throws core::Error and core::UsageError as LoadedModel does.
  explicit Model(const std::string& path, const LoadOptions& options = {});
  /// Cancels requests that have not ended. No other thread may be in a call.
  ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Starts a request and returns its handle. Handles are never reused. Throws core::Error if an option is out of
  /// range. If the prompt cannot run, for example because it is too long, the first fetch throws.
  [[nodiscard]] int LaunchResponseTokens(const std::vector<int>& inputTokens, const GenerationConfig& config = {});

  /// Waits for the next token of a request. Returns -1 after the last one and closes the handle; a closed handle always
  /// returns -1. If the request failed, throws its error once and closes the handle. Throws core::Error if the handle
  /// was never returned.
  [[nodiscard]] int FetchResponseTokens(int handle);

  /// Ends a request within a step and closes its handle. A thread that waits for its tokens gets -1. Does nothing if
  /// the handle is closed. Throws core::Error if it was never returned.
  void AbortResponse(int handle);

  /// Returns the completion of `input`. `callback` may be empty; it is called on this thread for each token with the
  /// new text. That is whole UTF-8 characters, so it may be empty.
  std::string Response(const std::string& input, const RuntimeResult& callback, const GenerationConfig& config = {});

  /// Response() for several inputs as one batch. The i-th call of `callback` has the text of each output's i-th token.
  void ResponseBatch(const std::vector<std::string>& inputs, std::vector<std::string>& outputs,
                     const RuntimeResultBatch& callback = {}, const GenerationConfig& config = {});

  /// See with_turn().
  [[nodiscard]] std::string MakeInput(const std::string& history, int round, const std::string& input) const;
  [[nodiscard]] std::string MakeHistory(const std::string& history, int round, const std::string& input,
                                        const std::string& output) const;

  /// Generates one token, so that all weights are in memory.
  void WarmUp();

  /// Returns the tokens of `text` as Response() uses them: see encode().
  [[nodiscard]] std::vector<int> Encode(const std::string& text) const;
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return model_.tokenizer(); }

 private:
  struct Open;

  [[nodiscard]] Request request_of(std::vector<int32_t> prompt, const GenerationConfig& config) const;
  [[nodiscard]] std::shared_ptr<Open> take_open(int handle, bool close);

  LoadedModel model_;
  Chat chat_;
  std::shared_ptr<AsyncEngine> engine_;

  std::mutex mutex_;  ///< guards the members below
  int n_handles_ = 0;
  std::map<int, std::shared_ptr<Open>> open_;
};

}  // namespace folio::infer::fast_llm
