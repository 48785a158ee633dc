// FastLLM's C++ interface (github.com/ztxz16/fastllm, include/models/basellm.h) on Folio's engine, with FastLLM's
// names; docs/fast_llm.md lists all calls and the differences. All calls are thread-safe. Requests share the engine's
// batch, and an output does not depend on other requests.
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

/// Options of a request: FastLLM's fields with its defaults, plus `seed`, which FastLLM doesn't have.
struct GenerationConfig {
  int output_token_limit = -1;  ///< maximum number of tokens to generate; 0 or less: up to the end of the context
  int last_n = 64;              ///< number of most recent tokens that repeat_penalty applies to; 0 or less: all
  float repeat_penalty = 1.0F;  ///< 1: no penalty
  int top_k = 1;                ///< sample from the top_k likeliest tokens; 1 or less: use the likeliest
  float top_p = 1.0F;
  float temperature = 1.0F;
  std::multiset<int> stop_token_ids{};
  uint64_t seed = 0;
};

/// Called for each token with its `index`, from 0, and its text. The last call has index -1 and the whole output.
using RuntimeResult = std::function<void(int index, const char* content)>;
/// RuntimeResult for a batch: `contents` has one text per input, in input order. The texts of an output that has ended
/// are empty, except in the last call.
using RuntimeResultBatch = std::function<void(int index, std::vector<std::string>& contents)>;

/// The model's chat template; nullopt if it has none, so that messages are only concatenated.
using Chat = std::optional<data::ChatTemplate>;

/// Returns the text of a conversation: `history` (ignored in round 0), the user's `input`, and the answer `output`. If
/// `output` is nullopt, the text ends where the answer begins. The chat template formats the messages; without a
/// template they are concatenated. Throws core::Error if the template cannot format them.
[[nodiscard]] std::string with_turn(const data::Tokenizer& tokenizer, const Chat& chat, const std::string& history,
                                    int round, const std::string& input, const std::optional<std::string>& output = {});

/// Returns the tokens of `text`, with the prefix that the model expects, such as a begin-of-text token. If `chat` has a
/// template, texts of special tokens become these tokens, since the template inserts them as text.
[[nodiscard]] std::vector<int32_t> encode(const data::Tokenizer& tokenizer, const Chat& chat, std::string_view text);

class Model {
 public:
  /// Reads the model and loads its weights. Throws core::Error if a file cannot be read or a machine cannot run the
  /// model, and core::UsageError if the options exceed what the model supports or set `draft` or `draft_model`.
  explicit Model(const std::string& path, const LoadOptions& options = {});
  /// Cancels requests that have not ended. Must not be called while another thread uses the model.
  ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Starts a request and returns its handle. Handles are not reused. Throws core::Error if an option is out of range.
  /// If the prompt cannot run, for example because it is too long, the first FetchResponseTokens() throws.
  [[nodiscard]] int LaunchResponseTokens(const std::vector<int>& inputTokens, const GenerationConfig& config = {});

  /// Waits for a request's next token and returns it. After the last token, closes the handle and returns -1, as all
  /// later calls do. If the request failed, closes the handle and throws. Throws core::Error for an unknown handle.
  [[nodiscard]] int FetchResponseTokens(int handle);

  /// Cancels a request before the engine's next step and closes its handle. In a thread that waits for the request's
  /// tokens, FetchResponseTokens() returns -1. Does nothing if the handle is closed. Throws core::Error
  /// for an unknown handle.
  void AbortResponse(int handle);

  /// Returns the completion of `input`. `callback`, if set, is called on this thread for each token. The text that
  /// it receives consists of whole UTF-8 characters; it may be empty, for example while a character is incomplete.
  std::string Response(const std::string& input, const RuntimeResult& callback, const GenerationConfig& config = {});

  /// Generates completions of several inputs in one batch and stores them in `outputs`, in input order. Call i of
  /// `callback`, if set, receives the text of the i-th token of each output.
  void ResponseBatch(const std::vector<std::string>& inputs, std::vector<std::string>& outputs,
                     const RuntimeResultBatch& callback = {}, const GenerationConfig& config = {});

  /// MakeInput() returns the prompt for `input` after `history`. MakeHistory() returns the conversation that also
  /// includes the answer `output`. See with_turn().
  [[nodiscard]] std::string MakeInput(const std::string& history, int round, const std::string& input) const;
  [[nodiscard]] std::string MakeHistory(const std::string& history, int round, const std::string& input,
                                        const std::string& output) const;

  /// Generates one token, so that the first request doesn't wait for weights to be read into memory.
  void WarmUp();

  /// Returns the tokens that Response() uses for the input `text`: see encode().
  [[nodiscard]] std::vector<int> Encode(const std::string& text) const;
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return model_.tokenizer(); }

 private:
  struct Open;

  [[nodiscard]] Request request_of(std::vector<int32_t> prompt, const GenerationConfig& config);
  [[nodiscard]] std::shared_ptr<Open> take_open(int handle, bool close);

  LoadedModel model_;
  Chat chat_;
  std::shared_ptr<AsyncEngine> engine_;

  std::mutex mutex_;  ///< guards the members below
  int n_handles_ = 0;
  std::map<int, std::shared_ptr<Open>> open_;
};

}  // namespace folio::infer::fast_llm
