// FastLLM's C++ interface (github.com/ztxz16/fastllm, include/models/basellm.h) over this engine. Names and their
// meanings are that project's; docs/interfaces.md lists each, and what differs. Any thread may call anything: requests
// share the engine's batch, and a text is the one that it is alone.
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

/// The fields and defaults are the original's, but for `seed`: its draws can't be repeated.
struct GenerationConfig {
  int output_token_limit = -1;  ///< tokens to generate at most; 0 or less: up to the end of the context
  int last_n = 64;              ///< tokens that the penalty looks at; 0 or less: all
  float repeat_penalty = 1.0F;  ///< 1: off
  int top_k = 1;                ///< 1 or less: the likeliest token
  float top_p = 1.0F;
  float temperature = 1.0F;
  std::multiset<int> stop_token_ids{};
  uint64_t seed = 0;
};

/// `index` counts the calls of a text, from 0; the last call has -1 and the whole text.
using RuntimeResult = std::function<void(int index, const char* content)>;
/// The same with a text for each input; empty for those that have ended.
using RuntimeResultBatch = std::function<void(int index, std::vector<std::string>& contents)>;

/// The model's chat template, if it has one.
using Chat = std::optional<data::ChatTemplate>;

/// Returns `history`, which is not used in round 0, then `input` and, as the template writes them, the beginning of an
/// answer, or `output` up to where the user's next message begins. Without a template: one text after the other. Throws
/// core::Error if the template can't write it.
[[nodiscard]] std::string with_turn(const data::Tokenizer& tokenizer, const Chat& chat, const std::string& history,
                                    int round, const std::string& input, const std::optional<std::string>& output = {});

/// With the tokens that the model expects before a text. Special tokens are looked for in all of it if there is a
/// template, since it is those that the template writes.
[[nodiscard]] std::vector<int32_t> encode(const data::Tokenizer& tokenizer, const Chat& chat, std::string_view text);

class Model {
 public:
  /// Reads the model and loads its weights. Throws core::Error and core::UsageError as LoadedModel does.
  explicit Model(const std::string& path, const LoadOptions& options = {});
  /// Requests that have not ended are cancelled. No other thread may be in a call.
  ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// A number for a request that runs from now on; none is given twice. Throws core::Error if an option is out of its
  /// range. A prompt that can't be run, such as one that is too long, is an error of the first fetch.
  [[nodiscard]] int LaunchResponseTokens(const std::vector<int>& inputTokens, const GenerationConfig& config = {});

  /// The next token of a request, or -1 where there is none, and then the handle is closed: -1 from then on. Sleeps
  /// until it is there. Throws the request's error, once, which closes the handle too, and core::Error if the handle
  /// was never given.
  [[nodiscard]] int FetchResponseTokens(int handle);

  /// Ends a request within a step and closes its handle. Who waits for a token of it gets -1. Of a handle that is
  /// closed nothing is done. Throws core::Error if it was never given.
  void AbortResponse(int handle);

  /// How `input` goes on. `callback`, which may be empty, is called from this thread for each token with the text that
  /// came with it: whole UTF-8 characters, so it may be empty.
  std::string Response(const std::string& input, const RuntimeResult& callback, const GenerationConfig& config = {});

  /// The same for several inputs, which run together; `callback` has the i-th token of each in its i-th call.
  void ResponseBatch(const std::vector<std::string>& inputs, std::vector<std::string>& outputs,
                     const RuntimeResultBatch& callback = {}, const GenerationConfig& config = {});

  /// See with_turn().
  [[nodiscard]] std::string MakeInput(const std::string& history, int round, const std::string& input) const;
  [[nodiscard]] std::string MakeHistory(const std::string& history, int round, const std::string& input,
                                        const std::string& output) const;

  /// Generates a token, so that all weights are in memory.
  void WarmUp();

  /// A text as Response() reads it: see encode().
  [[nodiscard]] std::vector<int> Encode(const std::string& text) const;
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return model_.tokenizer(); }

 private:
  struct Open;

  [[nodiscard]] Request request_of(std::vector<int32_t> prompt, const GenerationConfig& config) const;
  [[nodiscard]] std::shared_ptr<Open> take_open(int handle, bool close);

  LoadedModel model_;
  Chat chat_;
  std::shared_ptr<AsyncEngine> engine_;

  std::mutex mutex_;  ///< of what follows
  int n_handles_ = 0;
  std::map<int, std::shared_ptr<Open>> open_;
};

}  // namespace folio::infer::fast_llm
