// Implements Llama::forward(). A call checks all of its tensors before it computes or writes anything.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "infer/engine/generate.h"
#include "infer/engine/perplexity.h"
#include "infer/interfaces/faster_transformer.h"
#include "infer/interfaces/faster_transformer_tensors.h"

namespace folio::infer::faster_transformer {
namespace {

using core::require;

template <typename T>
T value_of(const std::vector<T>& values, size_t i, T otherwise) {
  return values.empty() ? otherwise : values[i];
}

}  // namespace

class Call {
 public:
  /// Reads and checks the request. Throws core::Error if a tensor is missing, unknown or invalid.
  Call(Llama& model, TensorMap& outputs, const TensorMap& inputs)
      : model_(model), outputs_(outputs), inputs_(inputs), file_(model.weights_.file()) {
    read_output_sizes();
    read_sequences();
    read_sampler();
    read_words();
    check_outputs();
  }

  /// Computes and writes the outputs, and updates the session.
  void run() {
    if (!continues_) {
      model_.session_.reset();
      model_.allocateBuffer(n_sequences_, width_, session_length_.value_or(length_), std::max<size_t>(max_input_, 1));
    }
    compute();
    write();
    keep_session();
  }

 private:
  struct Sequence {
    std::vector<int32_t> tokens{};  ///< prompt: the session's tokens if continue_gen is set, then input_ids
    size_t n_hidden = 0;            ///< 1 if tokens[0] is a start_id, which the output omits; otherwise 0
    size_t most = 0;                ///< output_seq_len: the maximum length, including the prompt
    int32_t end_id = 0;             ///< token that fills output_ids after the sequence's end
    GenerateOptions options{};

    [[nodiscard]] size_t n_shown() const { return tokens.size() - n_hidden; }
    [[nodiscard]] size_t n_new() const { return most - n_shown(); }
  };

  struct Beam {
    std::vector<int32_t> tokens{};  ///< generated tokens
    double cum_log_prob = 0.0;
    std::vector<double> log_probs{};  ///< one per generated token, if requested
  };

  const Tensor* output(std::string_view name) const {
    const auto found = outputs_.find(name);
    return found == outputs_.end() ? nullptr : &found->second;
  }

  const Tensor& required_output(std::string_view name) const {
    const Tensor* tensor = output(name);
    require(tensor != nullptr, "output tensor {} is missing", name);
    return *tensor;
  }

  void read_output_sizes() {
    check_output_names(outputs_);
    const Tensor& ids = inputs_.required("input_ids", 2, "[batch_size, max_input_length]");
    n_sequences_ = ids.shape[0];
    max_input_ = ids.shape[1];
    require(n_sequences_ > 0, "input_ids has shape {}, expected at least one sequence", shape_text(ids.shape));
    const Tensor& output_ids = required_output("output_ids");
    require(output_ids.shape.size() == 3 && output_ids.shape[0] == n_sequences_ && output_ids.shape[1] > 0,
            "output_ids has shape {}, expected [{}, beam_width, output_seq_len]", shape_text(output_ids.shape),
            n_sequences_);
    width_ = output_ids.shape[1];
    const int64_t vocab_size = file_.config.vocab_size;
    const auto most = static_cast<size_t>(std::min(kMostBeams, vocab_size));
    require(width_ <= most, "output_ids has shape {} with {} beams, expected at most {}", shape_text(output_ids.shape),
            width_, most);
    wants_cum_log_probs_ = output("cum_log_probs") != nullptr;
    wants_log_probs_ = output("output_log_probs") != nullptr;

    continues_ = inputs_.flag("continue_gen");
    const auto session = inputs_.of_each<int64_t>("session_len", 1, 1, file_.config.context_length);
    if (!session.empty()) session_length_ = static_cast<size_t>(session.front());
    if (!continues_) return;
    require(model_.session_.has_value(),
            "continue_gen needs an earlier call with session_len, whose buffer was not freed");
    const Llama::Session& earlier = *model_.session_;
    require(n_sequences_ == earlier.sequences.size(),
            "input_ids has shape {}, but the session of continue_gen needs [{}, max_input_length]",
            shape_text(ids.shape), earlier.sequences.size());
    require(width_ == earlier.beam_width,
            "output_ids has shape {}, but the session of continue_gen needs [{}, {}, output_seq_len]",
            shape_text(output_ids.shape), n_sequences_, earlier.beam_width);
    require(session_length_.value_or(earlier.length) == earlier.length,
            "session_len is {}, but the session was started with {}", session_length_.value_or(0), earlier.length);
    session_length_ = earlier.length;
  }

  void read_sequences() {
    const int64_t context = file_.config.context_length;
    const int64_t vocab_size = file_.config.vocab_size;
    const Tensor& ids = inputs_.required("input_ids", 2, "[batch_size, max_input_length]");
    require_data("input_ids", ids, {TYPE_INT32});
    const Tensor& lengths = inputs_.required("input_lengths", 1, "[batch_size]");
    require_shape("input_lengths", lengths, {n_sequences_}, "the length of each sequence of input_ids");
    const auto most = inputs_.of_each<int64_t>("output_seq_len", n_sequences_, 1, context);
    require(!most.empty(), "input tensor output_seq_len is missing, expected shape [1] or [batch_size]");
    const int32_t otherwise = model_.options_.start_id.value_or(model_.weights_.tokenizer().begin_of_text());
    const auto starts = inputs_.of_each<int64_t>("start_id", n_sequences_, 0, vocab_size - 1);
    for (size_t i = 0; i < n_sequences_; ++i) {
      const int64_t length = integer_at(lengths, i);
      require(length >= 0 && static_cast<size_t>(length) <= max_input_,
              "input_lengths is {} for sequence {}, but input_ids has shape {}", length, i,
              [&] { return shape_text(ids.shape); });
      Sequence sequence{.most = static_cast<size_t>(most[i])};
      if (continues_) {
        sequence.tokens = model_.session_->sequences[i];
        sequence.n_hidden = model_.session_->n_hidden[i];
      } else if (length == 0) {
        sequence.tokens = {static_cast<int32_t>(value_of<int64_t>(starts, i, otherwise))};
        sequence.n_hidden = 1;
      }
      const int32_t* row = static_cast<const int32_t*>(ids.data) + i * max_input_;
      for (int64_t t = 0; t < length; ++t) {
        require(row[t] >= 0 && row[t] < vocab_size, "input_ids has token {} at [{}, {}], outside the vocabulary of {}",
                row[t], i, t, vocab_size);
        sequence.tokens.push_back(row[t]);
      }
      require(sequence.n_shown() <= sequence.most, "output_seq_len is {} for sequence {}, which already has {} tokens",
              sequence.most, i, sequence.n_shown());
      require(sequence.most + sequence.n_hidden <= static_cast<size_t>(context),
              "output_seq_len is {} for sequence {}, which with its start_id exceeds the context of {}", sequence.most,
              i, context);
      sequence.options.max_tokens = static_cast<int64_t>(sequence.n_new());
      sequence.options.remember_tail = session_length_.has_value();
      length_ = std::max(length_, sequence.most);
      most_new_ = std::max(most_new_, sequence.n_new());
      sequences_.push_back(std::move(sequence));
    }
    require(!session_length_ || length_ <= *session_length_, "output_seq_len is {}, more than the session_len of {}",
            length_, session_length_.value_or(0));
  }

  // Follows FasterTransformer's rules: without top-k and top-p, decoding is greedy; with only top-k, top-p is off.
  void read_sampler() {
    const auto top_k = inputs_.of_each<int64_t>("runtime_top_k", n_sequences_, 0, std::numeric_limits<int32_t>::max());
    const auto top_p = inputs_.of_each("runtime_top_p", n_sequences_, 0.0F, 1.0F);
    const auto temperature = inputs_.of_each("temperature", n_sequences_, 0.0F, 100.0F);
    const auto repetition = inputs_.of_each("repetition_penalty", n_sequences_, 1e-3F, 100.0F);
    const auto length = inputs_.of_each("len_penalty", n_sequences_, -10.0F, 10.0F);
    const auto seeds = inputs_.of_each<uint64_t>("random_seed", n_sequences_, 0, UINT64_MAX);
    for (size_t i = 0; i < n_sequences_; ++i) {
      GenerateOptions& o = sequences_[i].options;
      SamplerOptions& s = o.sampler;
      s.temperature = value_of(temperature, i, 1.0F);
      s.repetition_penalty = value_of(repetition, i, 1.0F);
      s.repeat_last_n = std::numeric_limits<int32_t>::max();
      s.top_k = static_cast<int32_t>(value_of<int64_t>(top_k, i, 0));
      s.top_p = value_of(top_p, i, 0.0F);
      s.seed = value_of<uint64_t>(seeds, i, 0);
      if (s.top_p == 0.0F && s.top_k == 0) s.temperature = 0.0F;
      if (s.top_p == 0.0F) s.top_p = 1.0F;
      if (width_ == 1) continue;
      require(value_of(temperature, i, 1.0F) == 1.0F && s.repetition_penalty == 1.0F,
              "temperature and repetition_penalty must be 1 for sequence {}: beam search uses the model's "
              "probabilities",
              i);
      o.beams = {.width = static_cast<int64_t>(width_), .length_penalty = value_of(length, i, 0.0F)};
      o.n = static_cast<int64_t>(width_);
    }
  }

  // Treats an end_id as a stop word, as FasterTransformer does: unlike an end token, it is part of the output.
  void read_words() {
    const int64_t vocab_size = file_.config.vocab_size;
    const std::vector<Words> stops = inputs_.words_of_each("stop_words_list", n_sequences_, vocab_size);
    const std::vector<Words> bad = inputs_.words_of_each("bad_words_list", n_sequences_, vocab_size);
    const auto ends =
        inputs_.of_each<int64_t>("end_id", n_sequences_, std::numeric_limits<int32_t>::min(), vocab_size - 1);
    const data::Tokenizer& tokenizer = model_.weights_.tokenizer();
    for (size_t i = 0; i < n_sequences_; ++i) {
      Sequence& sequence = sequences_[i];
      sequence.options.stop_words = value_of(stops, i, {});
      sequence.options.sampler.bad_words = value_of(bad, i, {});
      for (const int32_t token : tokenizer.suppressed_tokens()) sequence.options.sampler.bad_words.push_back({token});
      std::vector<int32_t> own = model_.weights_.end_tokens();
      if (!ends.empty()) {
        own = {static_cast<int32_t>(ends[i])};
      } else if (model_.options_.end_id) {
        own = {*model_.options_.end_id};
      }
      sequence.end_id = std::max(own.front(), 0);
      for (const int32_t token : own) {
        if (token >= 0) sequence.options.stop_words.push_back({token});
      }
    }
  }

  void check_outputs() {
    const auto check = [this](std::string_view name, std::initializer_list<size_t> shape, DataType type,
                              std::string_view why = "") {
      const Tensor* tensor = output(name);
      if (tensor == nullptr) return;
      require_shape(name, *tensor, shape, why);
      require_data(name, *tensor, {type});
    };
    static_cast<void>(required_output("sequence_length"));
    check("output_ids", {n_sequences_, width_, length_}, TYPE_INT32,
          "the last dimension is the largest output_seq_len");
    check("sequence_length", {n_sequences_, width_}, TYPE_INT32);
    check("cum_log_probs", {n_sequences_, width_}, TYPE_FP32);
    check("output_log_probs", {n_sequences_, width_, most_new_}, TYPE_FP32,
          "the last dimension is the most new tokens of a sequence");
  }

  void compute() {
    results_.assign(n_sequences_, {});
    {
      ScopedRequests requests(*model_.engine_);
      std::vector<RequestId> ids(n_sequences_, -1);
      for (size_t i = 0; i < n_sequences_; ++i) {
        if (sequences_[i].n_new() == 0) {
          results_[i].resize(width_);
          continue;
        }
        Request request{.prompt = sequences_[i].tokens, .options = sequences_[i].options};
        if (width_ == 1) {
          results_[i].resize(1);
          request.wants_token_logits = wants_cum_log_probs_ || wants_log_probs_;
          request.on_token = [&beam = results_[i].front()](size_t, int32_t token, std::span<const float> logits) {
            beam.tokens.push_back(token);
            if (logits.empty()) return;
            beam.log_probs.push_back(-negative_log_likelihood(logits, token));
            beam.cum_log_prob += beam.log_probs.back();
          };
        }
        ids[i] = requests.add(std::move(request));
      }
      infer::run(*model_.engine_, requests.ids());
      for (size_t i = 0; i < n_sequences_ && width_ > 1; ++i) {
        if (ids[i] >= 0) read_beams(i, model_.engine_->take_all(ids[i]));
      }
    }
    if (width_ == 1 || !wants_log_probs_) return;
    for (size_t i = 0; i < n_sequences_; ++i) {
      for (Beam& beam : results_[i]) score(sequences_[i], beam);
    }
  }

  void read_beams(size_t sequence, std::vector<GenerateResult> results) {
    for (GenerateResult& result : results) {
      const auto n = static_cast<double>(result.tokens.size());
      const double log_prob = *result.score * std::pow(n, sequences_[sequence].options.beams.length_penalty);
      results_[sequence].push_back({.tokens = std::move(result.tokens), .cum_log_prob = log_prob});
    }
  }

  // Computes the log-probabilities of a beam's tokens with another prefill. Beam search returns only their sum.
  void score(const Sequence& sequence, Beam& beam) {
    if (beam.tokens.empty()) return;
    Request request{.prompt = sequence.tokens};
    request.prompt.insert(request.prompt.end(), beam.tokens.begin(), beam.tokens.end());
    std::vector<double> all;
    request.on_log_probs = [&](std::span<const double> more) { all.insert(all.end(), more.begin(), more.end()); };
    ScopedRequests requests(*model_.engine_);
    requests.add(std::move(request));
    infer::run(*model_.engine_, requests.ids());
    beam.log_probs.assign(all.end() - std::ssize(beam.tokens), all.end());
  }

  void write() const {
    auto* ids = static_cast<int32_t*>(required_output("output_ids").data);
    auto* lengths = static_cast<int32_t*>(required_output("sequence_length").data);
    auto* sums = wants_cum_log_probs_ ? static_cast<float*>(output("cum_log_probs")->data) : nullptr;
    auto* each = wants_log_probs_ ? static_cast<float*>(output("output_log_probs")->data) : nullptr;
    for (size_t i = 0; i < n_sequences_; ++i) {
      const Sequence& sequence = sequences_[i];
      for (size_t b = 0; b < width_; ++b) {
        const size_t at = i * width_ + b;
        const bool there = b < results_[i].size();  // there are fewer beams if bad words forbid too many tokens
        const Beam beam = there ? results_[i][b] : Beam{.cum_log_prob = -std::numeric_limits<double>::infinity()};
        const auto row = std::span(ids + at * length_, length_);
        std::ranges::fill(row, sequence.end_id);
        const auto shown = std::span(sequence.tokens).subspan(sequence.n_hidden);
        std::ranges::copy(shown, row.begin());
        std::ranges::copy(beam.tokens, row.begin() + std::ssize(shown));
        lengths[at] = static_cast<int32_t>(shown.size() + beam.tokens.size());
        if (sums != nullptr) sums[at] = static_cast<float>(beam.cum_log_prob);
        if (each == nullptr) continue;
        const auto own = std::span(each + at * most_new_, most_new_);
        std::ranges::fill(own, 0.0F);
        std::ranges::transform(beam.log_probs, own.begin(), [](double p) { return static_cast<float>(p); });
      }
    }
  }

  void keep_session() {
    if (!session_length_) return;
    Llama::Session session{.length = *session_length_, .beam_width = width_};
    for (size_t i = 0; i < n_sequences_; ++i) {
      session.sequences.push_back(std::move(sequences_[i].tokens));
      session.n_hidden.push_back(sequences_[i].n_hidden);
      if (results_[i].empty()) continue;
      const std::vector<int32_t>& best = results_[i].front().tokens;
      session.sequences[i].insert(session.sequences[i].end(), best.begin(), best.end());
    }
    model_.session_ = std::move(session);
  }

  Llama& model_;
  TensorMap& outputs_;
  Inputs inputs_;
  const core::StoredModel& file_;
  size_t n_sequences_ = 0;
  size_t width_ = 0;
  size_t max_input_ = 0;  ///< max_input_length, the last dimension of input_ids
  size_t length_ = 0;     ///< last dimension of output_ids: the largest output_seq_len
  size_t most_new_ = 0;   ///< maximum number of new tokens of a sequence
  bool continues_ = false;
  std::optional<size_t> session_length_{};
  bool wants_cum_log_probs_ = false;
  bool wants_log_probs_ = false;
  std::vector<Sequence> sequences_;
  std::vector<std::vector<Beam>> results_;  ///< the beams of each sequence, best first
};

void Llama::forward(TensorMap* output_tensors, const TensorMap* input_tensors, const LlamaWeight* weights) {
  require(output_tensors != nullptr && input_tensors != nullptr,
          "forward: output_tensors and input_tensors must not be null");
  require(weights == &weights_, "forward: weights must be those that the model was created with");
  Call(*this, *output_tensors, *input_tensors).run();
  if (options_.is_free_buffer_after_forward) freeBuffer();
}

}  // namespace folio::infer::faster_transformer
