#include "infer/interfaces/faster_transformer.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/formats/model_files.h"
#include "data/tokenizers/tokenizer_files.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace folio::infer::faster_transformer {
namespace {

using core::require;

std::vector<int32_t> end_tokens_of(const data::Tokenizer& tokenizer) {
  std::vector<int32_t> ends = {tokenizer.end_of_text()};
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (id != ends.front() && tokenizer.ends_text(id)) ends.push_back(id);
  }
  return ends;
}

}  // namespace

LlamaWeight::LlamaWeight(const std::string& path, const std::string& tokenizer) : file_(core::read_model(path)) {
  tokenizer_ = data::load_tokenizer(file_, tokenizer);
  end_tokens_ = end_tokens_of(*tokenizer_);
}

LlamaWeight::LlamaWeight(core::StoredModel file, std::unique_ptr<data::Tokenizer> tokenizer)
    : file_(std::move(file)), tokenizer_(std::move(tokenizer)), end_tokens_(end_tokens_of(*tokenizer_)) {}

Llama::Llama(const LlamaWeight& weights, const LlamaOptions& options) : weights_(weights), options_(options) {}

void Llama::initialize() {
  if (!machines_) machines_ = make_machines(options_.machines, weights_.file().config);
}

void Llama::allocateBuffer(size_t batch_size, size_t beam_width, size_t max_seq_len, size_t max_input_len) {
  const auto context = static_cast<size_t>(weights_.file().config.context_length);
  require(batch_size > 0 && beam_width > 0 && max_input_len > 0,
          "batch_size is {}, beam_width {} and max_input_len {}, but all must be positive", batch_size, beam_width,
          max_input_len);
  require(max_seq_len > 0 && max_seq_len <= context, "max_seq_len is {}, but must be in [1, {}], the model's context",
          max_seq_len, context);
  constexpr size_t kMost = 1U << 20U;
  require(batch_size <= kMost && beam_width <= static_cast<size_t>(kMostBeams),
          "batch_size is {} and beam_width {}, but the maximum is {} and {}", batch_size, beam_width, kMost,
          kMostBeams);
  if (engine_ && batch_size <= size_.batch_size && beam_width <= size_.beam_width && max_seq_len <= size_.max_seq_len) {
    return;
  }
  initialize();
  freeBuffer();
  // A beam that forks within a block holds both the parent's block and its own copy, so it needs one block more.
  const auto each = static_cast<size_t>(blocks_for(static_cast<int64_t>(max_seq_len))) + (beam_width > 1 ? 1 : 0);
  const size_t blocks = batch_size * beam_width * each;
  engine_ =
      std::make_unique<Engine>(weights_.file(), machines_->placements,
                               CacheOptions{.max_positions = static_cast<int64_t>(blocks) * kBlockPositions,
                                            .type = options_.cache_type.value_or(default_cache_type(weights_.file()))},
                               SchedulerLimits{.max_rows = batch_size * std::max(max_input_len, beam_width),
                                               .max_sequences = batch_size * beam_width});
  size_ = {.batch_size = batch_size, .beam_width = beam_width, .max_seq_len = max_seq_len};
}

void Llama::freeBuffer() {
  session_.reset();
  if (!engine_) return;
  engine_.reset();
  size_ = {};
#ifdef __GLIBC__
  malloc_trim(0);  // otherwise malloc keeps the memory of the many small cache blocks
#endif
}

}  // namespace folio::infer::faster_transformer
